"""What statistical tests share: one false-alarm rate for the whole family, and one way to get randomness.

The suite as a whole may raise a false alarm with probability at most 1e-6. It makes at most `LARGEST_FAMILY` statistical
decisions, so each is made at `ALPHA`. On CI the randomness is derived from the test's name (deterministic). With
COLONNADE_FRESH=1 it is derived from a seed of this run too, which the run prints: COLONNADE_FRESH=that seed repeats it. A name
stands for one stream within a run, so a test may ask for its table twice.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from colonnade.estimation.table_model import has_library
from colonnade.party.party import Party
from colonnade.plan import Plan, Step
from colonnade.privacy.randomness import KeyedRandomness, Randomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.secure.shamir import default_threshold
from colonnade.steps.kind import KINDS, nothing_earlier

FAMILY = 1e-6
LARGEST_FAMILY = 2_000
ALPHA = FAMILY / LARGEST_FAMILY

needs_mbi = pytest.mark.skipif(not has_library(), reason="mbi is not installed: pip install 'colonnade[synthetic]'")
"""Of a test that fits a synthetic table."""


def fresh() -> bool:
    return bool(os.environ.get("COLONNADE_FRESH"))


def digest(name: str) -> bytes:
    """What the randomness of a name follows from."""
    return hashlib.sha256(f"{os.environ.get('COLONNADE_FRESH', '')}{name}".encode()).digest()


def source(name: str) -> Randomness:
    """Randomness for one test: a keyed stream."""
    return KeyedRandomness(digest(name))


def sampler(name: str) -> ExactSampler:
    """Draws for one test, from `source`."""
    return ExactSampler(source(name))


def generator(name: str) -> np.random.Generator:
    """A generator for making test inputs (never for noise)."""
    return np.random.default_rng(int.from_bytes(digest(name)[:8], "big"))


@contextmanager
def zeroed_out() -> Iterator[None]:
    """Open tables whose schemas have no rule for missing values, as no owner can.

    A record without a single value is then coded as a null record is. So a person zeroed out is a row whose cells are emptied,
    and a neighbouring table is made where it is needed.
    """
    with mock.patch.object(Party, "validate", return_value=None):
        yield


def chi_square_p(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """p-value of observed counts against cell probabilities; cells with a small expectation are merged."""
    observed = np.asarray(observed, dtype=float)
    expected = np.asarray(probabilities, dtype=float) / np.sum(probabilities) * observed.sum()
    order = np.argsort(expected)
    cells_o, cells_e, run_o, run_e = [], [], 0.0, 0.0
    for o, e in zip(observed[order], expected[order], strict=True):
        run_o, run_e = run_o + o, run_e + e
        if run_e >= 10:
            cells_o.append(run_o)
            cells_e.append(run_e)
            run_o = run_e = 0.0
    if run_e and cells_e:
        cells_o[-1] += run_o
        cells_e[-1] += run_e
    statistic = sum((o - e) ** 2 / e for o, e in zip(cells_o, cells_e, strict=True))
    return float(stats.chi2.sf(statistic, max(len(cells_e) - 1, 1)))


def written(*steps: Step, **fields: Any) -> Plan:
    """A plan by hand: what a test does not say follows from its steps, or is as here."""
    nodes = fields.get("compute_nodes", ())
    usual: dict[str, Any] = {
        "task": "moments",
        "method": "secure",
        "parameters": {},
        "unit": "person",
        "price": steps[0].price if steps else None,
        "federation": "0" * 64,
        "alignment": "0" * 64,
        "people": 10,
        "parties": tuple(dict.fromkeys(step.party for step in steps)),
        "threshold": default_threshold(len(nodes)) if nodes else 0,
        "collusion": 1 if nodes else 0,
    }
    return Plan(steps=steps, **usual | fields)


def private(made, plan, step, schema, earlier=nothing_earlier):
    """A step of a plan as a party computes it."""
    kind = KINDS[step.kind] if KINDS[step.kind] in made.kinds else made.kinds[0]
    return made(kind(plan, step, schema, earlier))
