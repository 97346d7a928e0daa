"""The families that Newton steps can fit: an allow-list, by the names that plans use.

Parties read a family's name from a plan. A name that is not listed here is refused, so no plan can bring code with it.
"""

from colonnade.families.family import Family
from colonnade.families.logistic import Logistic

LOGISTIC = Logistic()
FAMILIES: dict[str, Family] = {family.name: family for family in (LOGISTIC,)}
DEFAULT = LOGISTIC
"""What a plan means that names no family."""
WINDOW = 12
"""The largest score, by default, for which a link is what its family says. Every family has it."""
WINDOWS = range(
    min(min(family.links) for family in FAMILIES.values()), 1 + max(max(family.links) for family in FAMILIES.values())
)
