"""Every arithmetic of the library, for tests that must hold in each."""

import pytest

from colonnade.secure.residues import PRIME_SETS, Arithmetic

SMALL = [Arithmetic((251, 241, 239, 233, 229, 227, 223)[:count]) for count in (5, 6, 7)]
"""No plan chooses these, but nothing may depend on how many primes there are, or how large."""
ALL = [*(Arithmetic(moduli) for moduli in PRIME_SETS), *SMALL]


SLICE = {0, len(PRIME_SETS) // 2, len(PRIME_SETS) - 1, len(PRIME_SETS)}
"""Which of them `make test` runs: the fewest primes, some, the most, and small ones."""


def name(arithmetic: Arithmetic) -> str:
    return f"{len(arithmetic.moduli)}-primes"


every_arithmetic = pytest.mark.parametrize(
    "arithmetic",
    [pytest.param(one, marks=[] if place in SLICE else [pytest.mark.full]) for place, one in enumerate(ALL)],
    ids=name,
)
