"""Every arithmetic of the library, for tests that must hold in each; int8 ones are skipped where torch is missing."""

import importlib.util

import pytest

from colonnade.secure.residues import FAST, PORTABLE, Arithmetic

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="the extra colonnade[fast] (torch) is not installed")

ALL = [Arithmetic(moduli) for moduli in PORTABLE] + [Arithmetic(moduli, "int8") for moduli in FAST]


def name(arithmetic: Arithmetic) -> str:
    return f"{arithmetic.unit}-{len(arithmetic.moduli)}"


every_ring = pytest.mark.parametrize("arithmetic", ALL, ids=name)
"""Rings alone: nothing is multiplied, so that torch is not needed."""

every_arithmetic = pytest.mark.parametrize(
    "arithmetic",
    [pytest.param(a, id=name(a), marks=[needs_torch] if a.unit == "int8" else []) for a in ALL],
)
