"""What a call has cost each party, and how that is said."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["NOTHING_SPENT", "Cost"]


@dataclass(frozen=True)
class Cost:
    """What a call has cost, by the parties' own accounts.

    Parameters
    ----------
    spent
        What was debited, by party, as ε at the δ of the party's cap: the figure that its ledger shows.
    unknown
        The parties whose accounts could not be read. Of them no figure is ever given.
    disclosed
        The parties whose ledgers have recorded a release without differential privacy.

    Examples
    --------
    >>> Cost({"bank": 0.5}, unknown=("telco",)).words
    'bank ε=0.5; unknown for telco until it is back'
    """

    spent: Mapping[str, float] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    disclosed: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The figures in words; ``"nothing"`` if every account was read and none has changed."""
        parts = [", ".join(f"{party} ε={epsilon:.6g}" for party, epsilon in self.spent.items())]
        if self.disclosed:
            parts.append(f"a release that is not private is recorded by {', '.join(self.disclosed)}")
        if self.unknown:
            parts.append(
                f"unknown for {', '.join(self.unknown)} until {'it is' if len(self.unknown) == 1 else 'they are'} back"
            )
        return "; ".join(part for part in parts if part) or "nothing"


NOTHING_SPENT = Cost()
"""The cost of a call after which every ledger that it could have changed is as it was."""
