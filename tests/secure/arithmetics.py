"""Every arithmetic of the library, for tests that must hold in each."""

import pytest

from colonnade.secure.residues import PRIME_SETS, Arithmetic

SMALL = [Arithmetic((251, 241, 239, 233, 229, 227, 223)[:count]) for count in (5, 6, 7)]
"""No plan chooses these, but nothing may depend on how many primes there are, or how large."""
ALL = [*(Arithmetic(moduli) for moduli in PRIME_SETS), *SMALL]


def name(arithmetic: Arithmetic) -> str:
    return f"{len(arithmetic.moduli)}-primes"


every_arithmetic = pytest.mark.parametrize("arithmetic", ALL, ids=name)
