"""Every member killed at every round of every kind of study: asked for again, it ends as if nothing had happened, paid once.

A member dies when the others have taken the round and it has not, or when it has taken it and its reply is lost. A coordinator
dies when half of the members have taken the round, or all of them.
"""

import collections
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import colonnade as cn
from colonnade.coordinator.protocols.newton_steps import RoundReader
from colonnade.errors import ColonnadeError, ReleaseLost
from colonnade.protocol import messages
from colonnade.steps import kind as joint_module
from tests.conversations.sites import Site
from tests.conversations.test_tiles import in_tiles
from tests.service import every_study
from tests.service.every_study import COUNTED, NUMBERS, PRICE

NODE = "notary"
POLICY = cn.Policy(
    nonprivate=["Coreset", "align"], alignments=("cohort", "intersection", "union"), max_alignments=10_000, capacity=64
)
IDS = [7 * number + 3 for number in range(0, 40, 2)]

Run = Callable[[cn.Federation, int], Any]


def fits(make: Callable[[], Any]) -> Run:
    return lambda federation, repeat: every_study.figures(make().fit(federation, repeat=repeat))


def aligns(mode: str, **options: Any) -> Run:
    def align(federation: cn.Federation, repeat: int) -> list[float]:
        opened = cn.Federation(federation._driver.transport, parties=federation.parties)
        order = opened.align(mode, repeat=repeat, **options)
        return [order.people, int(order._driver.alignment[:12], 16)]

    return align


def splits(federation: cn.Federation, repeat: int) -> list[float]:
    return [part.people for part in federation.split(test=0.5, repeat=repeat)]


def evaluates(federation: cn.Federation, repeat: int) -> list[float]:
    model = cn.LogisticRegression("bank.default", columns=NUMBERS, method="secure", **PRICE).fit(federation)
    return [model.evaluate(federation, repeat=repeat, **PRICE)["accuracy"].value]


KINDS: dict[str, Run] = {
    "pair tables": fits(lambda: cn.PatternCount(COUNTED, epsilon=30.0)),
    "gram": fits(lambda: cn.PCA(1, columns=NUMBERS, **PRICE)),
    "tiles": fits(lambda: cn.PCA(1, columns=NUMBERS, **PRICE)),
    "coefficients": fits(
        lambda: cn.LinearRegression("telco.bill", columns=["bank.age"], method="functional", epsilon=30.0)
    ),
    "groups of three": fits(lambda: cn.GroupBy([*COUNTED, "insurer.product"], ["telco.bill"], **PRICE)),
    "clusters": fits(lambda: cn.KMeans(2, columns=NUMBERS, n_local_clusters=2, **PRICE)),
    "newton": fits(
        lambda: cn.LogisticRegression("bank.default", columns=NUMBERS, method=cn.methods.Newton(steps=2), **PRICE)
    ),
    "gradient": fits(
        lambda: cn.LogisticRegression(
            "bank.default", columns=["telco.bill"], method=cn.methods.Gradient(steps=3, rate=0.5), **PRICE
        )
    ),
    "sketches under a key": fits(lambda: cn.KMeans(2, columns=NUMBERS, method="sketch", n_local_clusters=2, **PRICE)),
    "releases of each party": fits(lambda: cn.Describe([*NUMBERS, *COUNTED], epsilon=30.0)),
    "sums": fits(lambda: cn.Coreset(20, target="telco.bill", columns=["bank.age"], allow_nonprivate=True)),
    "scores": evaluates,
    "a division": splits,
    "a matching": aligns("intersection", epsilon=30.0),
    "a union": aligns("union", size="public"),
    "a cohort": aligns("cohort", ids=IDS),
}


class Disturbed(Site):
    """A federation in which somebody dies in one round of a study."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.taken, self.at, self.victim, self.late, self.weighted = 0, -1, "", False, 0
        super().__init__(*args, **options)

    def prepare(self, at: int, victim: str, *, late: bool) -> None:
        self.taken, self.at, self.victim, self.late = 0, at, victim, late

    def exchange(self, requests):
        self.taken += 1
        if any(getattr(messages.decode_request(data), "inputs", None) for data in requests.values()):
            self.weighted = self.taken - 1
        if self.taken - 1 != self.at:
            return super().exchange(requests)
        names = sorted(requests)
        if self.victim == "coordinator":
            some = names if self.late else names[: max(1, len(names) // 2)]
            super().exchange({name: requests[name] for name in some})
            raise KeyboardInterrupt
        reached = names if self.late else [name for name in names if name != self.victim]
        replies = super().exchange({name: requests[name] for name in reached})
        self.kill(self.victim)
        return {name: reply for name, reply in replies.items() if name != self.victim}


@pytest.fixture
def disturbed(tmp_path, monkeypatch, request):
    if "tiles" in request.node.callspec.params.values():
        in_tiles(monkeypatch, 2)
    parties = ("bank", "telco", "insurer")[: 2 if "a union" in request.node.callspec.params.values() else 3]
    site = Disturbed(
        tmp_path, parties=parties, nodes=(NODE,), epsilon=10_000.0, policies=dict.fromkeys(parties, POLICY)
    )
    yield site
    site.close()
    joint_module._read.cache_clear()


def rows(site: Site) -> dict[str, list]:
    charged = ("debit", "reserve", "nonprivate")
    return {party: [row for row in site.ledger(party).entries() if row.kind in charged] for party in site.parties}


def killed(site: Disturbed, run: Run, at: int, victim: str, repeat: int, *, late: bool) -> Any:
    """Have somebody die in a round of a study, and ask for the study again."""
    site.prepare(at, victim, late=late)
    try:
        return run(site.federation, repeat)
    except KeyboardInterrupt:
        site.federation = cn.Federation(site, parties=site.parties, compute_nodes=site.nodes)
    except ReleaseLost:
        raise
    except ColonnadeError:
        pass
    site.at = -1
    return run(site.federation, repeat)


ROLES = ("bank", "telco", NODE, "coordinator")
CASES = [
    pytest.param(kind, victim, marks=[] if number % len(ROLES) == place else [pytest.mark.full])
    for number, kind in enumerate(KINDS)
    for place, victim in enumerate(ROLES)
]


@pytest.mark.every(3)
@pytest.mark.parametrize(("kind", "victim"), CASES)
def test_whoever_dies_at_any_round_nothing_is_lost_and_nothing_is_paid_twice(kind, victim, disturbed, request):
    """One round, another for every role, before or after the member has taken it; all of them, both ways, under --full."""
    site, run, full = disturbed, KINDS[kind], request.config.getoption("--full")
    run(site.federation, 1)  # what a study rests on is fitted by then
    draws = []
    for repeat in range(
        2, 8 if "sketches" in kind else 4
    ):  # few sketches: counts move by steps, and two draws may agree
        site.prepare(-1, "", late=False)
        draws.append(run(site.federation, repeat))
    last, spread = site.taken, max(np.abs(np.subtract(*pair)).max() for pair in itertools.combinations(draws, 2))
    role, repeat = ROLES.index(victim), 3
    for at in range(last) if full else [(role + 1) * last // 5]:
        for late in (False, True) if full else (role % 2 == 0,):
            repeat += 1
            before = {party: len(found) for party, found in rows(site).items()}
            found = killed(site, run, at, victim, repeat, late=late)
            assert run(site.federation, repeat) == found, "asked again, the same answer"
            if kind.startswith("a "):  # how many people there are, and a name that is another in every draw
                assert kind == "a division" or found[0] == draws[0][0]
            else:
                np.testing.assert_allclose(found, draws[0], atol=20 * spread + 0.05 * np.abs(draws[0]).max())
            for party, paid in rows(site).items():
                labels = collections.Counter(row.label for row in paid[before[party] :])
                assert max(labels.values(), default=0) <= 1, (at, late)


def test_a_round_that_was_begun_is_not_run_again_at_other_weights(tmp_path):
    """The same noise at other weights would show the difference."""
    site = Disturbed(tmp_path, nodes=(NODE,), epsilon=10_000.0)
    run, weights = KINDS["newton"], RoundReader.weights
    run(site.federation, 1)
    site.prepare(-1, "", late=False)
    run(site.federation, 2)
    site.prepare(site.weighted, "telco", late=True)
    with pytest.raises(ColonnadeError):
        run(site.federation, 3)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ReleaseLost, match="Something else"):
        patch.setattr(RoundReader, "weights", lambda self: weights(self) + 0.25)
        run(site.federation, 3)
    run(site.federation, 3)
    site.close()
