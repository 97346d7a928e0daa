"""Nobody sees a coefficient between two parties without noise: not the coordinator, not any party (docs/proofs/coefficients.md).

A whole study is recorded with its letters unsealed, so that everything that reaches anybody can be read. The same search finds
the exact coefficients as soon as the noise is left out, and a party's own subtraction finds them as soon as it alone adds noise,
as the paper's Algorithm 1 would have it.
"""

import numpy as np
import pytest

import colonnade as cn
from colonnade.coordinator.protocols import moment_releases as releases
from colonnade.party.steps.products import PrivateCoefficients
from colonnade.secure.shamir import entry_pairs
from colonnade.steps.products import cross_entries
from colonnade.transport.direct import Recorded
from tests.conversations.test_secrecy import unsealed
from tests.federations import SCHEMAS, federation, frames

PEOPLE = 300
STUDIES = {
    "linear": cn.LinearRegression("telco.bill", method="functional", epsilon=1.0),
    "logistic": cn.LogisticRegression("bank.default", method="functional", epsilon=1.0),
    "several classes": cn.LogisticRegression("insurer.product", method="functional", epsilon=1.0),
    "prices of their own": cn.LinearRegression(
        "telco.bill", method=cn.methods.Functional(budgets={"bank": 0.5, "telco": 1.0, "insurer": 0.25})
    ),
}


class Watched:
    """One study: what was opened, each party's noise, each party's rows, and all that anybody received."""

    def __init__(self, study, monkeypatch, *, silent=()):
        unsealed(monkeypatch)
        self.noises: dict[str, np.ndarray] = {}
        self.rows: dict[str, np.ndarray] = {}
        self._watch(monkeypatch, silent)
        with federation(tables=frames(PEOPLE), epsilon=10.0) as f:
            f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
            study = type(study)(**study.get_params(deep=False)).fit(f)
        self.joint, self.opened = self._joint, self._cross
        self.received = {party: [] for party in SCHEMAS}
        self.coordinator: list[bytes] = []
        for requests, replies in recorded.exchanges:
            for party, request in requests.items():
                self.received[party].append(request)
            self.coordinator += list(replies.values())

    def _watch(self, monkeypatch, silent):
        noise, rows, read = PrivateCoefficients.cross_noise, PrivateCoefficients.rows, releases.coefficient_moments

        def cross_noise(one, entries, sampler):
            drawn = noise(one, entries, sampler) * (one.step.party not in silent)
            self.noises[one.step.party] = drawn
            return drawn

        def coded(one, table, start, stop):
            self.rows[one.step.party] = rows(one, table, start, stop)
            return self.rows[one.step.party]

        def result(joint, cross, *rest):
            self._joint, self._cross = joint, cross
            return read(joint, cross, *rest)

        monkeypatch.setattr(PrivateCoefficients, "cross_noise", cross_noise)
        monkeypatch.setattr(PrivateCoefficients, "rows", coded)
        monkeypatch.setattr(releases, "coefficient_moments", result)

    @property
    def exact(self):
        joined = np.vstack([self.rows[owner] for owner in self.joint.owners])
        first, second = entry_pairs(self.joint.widths)
        return (joined @ joined.T)[first, second]

    def seen_by(self, letters):
        """Which exact coefficients stand anywhere in some bytes, as they are or modulo M, at any offset."""
        wanted = np.unique(self.exact[np.abs(self.exact) > 2**24])  # small numbers stand everywhere by chance
        modulus = int(np.prod([int(prime) for prime in self.joint.arithmetic.moduli], dtype=object))
        wanted = np.unique(
            np.concatenate(
                [wanted.astype(np.int64).view(np.uint64), (wanted.astype(object) % modulus).astype(np.uint64)]
            )
        )
        found = 0
        for letter in letters:
            for offset in range(8):
                words = np.frombuffer(letter, dtype="<u8", offset=offset, count=max(0, (len(letter) - offset) // 8))
                found += int(np.isin(words, wanted).sum())
        return found


@pytest.mark.every(2)
@pytest.mark.parametrize("name", STUDIES)
def test_no_letter_that_anybody_receives_holds_an_exact_coefficient(name, monkeypatch):
    seen = Watched(STUDIES[name], monkeypatch)
    assert len(np.unique(seen.exact[np.abs(seen.exact) > 2**24])) > 10
    assert seen.seen_by(seen.coordinator) == 0
    for party, letters in seen.received.items():
        assert seen.seen_by(letters) == 0, party


@pytest.mark.every(2)
@pytest.mark.parametrize("name", STUDIES)
def test_what_is_opened_carries_the_noise_of_every_party_so_that_none_can_take_it_off(name, monkeypatch):
    seen = Watched(STUDIES[name], monkeypatch)
    np.testing.assert_array_equal(seen.opened, seen.exact + sum(seen.noises.values()))
    for party, noise in seen.noises.items():
        left = seen.opened - noise - seen.exact  # what a party cannot subtract
        assert np.all(left != 0), party
        scales = np.empty(len(left))
        for block, slope, places in cross_entries(seen.joint.steps).groups:
            scales[places] = float(seen.joint.noise.scale(block, slope=slope))
        assert 0.5 < np.mean(np.abs(left) / scales) < 2.0, party  # the mean of |Laplace| is its scale


def test_the_search_finds_exact_coefficients_where_nobody_adds_noise(monkeypatch):
    seen = Watched(STUDIES["linear"], monkeypatch, silent=("bank", "telco", "insurer"))
    assert seen.seen_by(seen.coordinator) > 10
