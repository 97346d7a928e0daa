"""kill -9 of every process at a step of the protocol: the study completes or aborts, is paid once and released once."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import colonnade as cn
from colonnade.cli import studies as coordinator_command
from colonnade.errors import ColonnadeError, Cost, PartyAway, ProtocolError
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.privacy.accounting import total
from colonnade.protocol import messages
from colonnade.protocol.messages import Post
from tests.service.lines import Started, until
from tests.service.served import Site

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

EPSILON = 0.125
TURNS = 5
WITHIN = 60.0
COLUMNS = ["bank.segment", "telco.plan", "insurer.product"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("n"), test_key=None)
    made.start()
    try:
        yield made
    finally:
        made.stop()


_draw = iter(range(1, 1000))


@pytest.fixture
def repeat() -> int:
    """Every test is a draw of its own: a study that none before it has paid for."""
    return next(_draw)


def study() -> cn.PatternCount:
    return cn.PatternCount(COLUMNS, epsilon=EPSILON)


def turn_of(requests) -> int | None:
    first = messages.decode_request(next(iter(requests.values())))
    return first.turn if isinstance(first, Post) else None


class At:
    """A transport that does something at one turn of a conversation, once: just before it is sent, or just after."""

    def __init__(self, inner, turn: int, act, *, after: bool = False) -> None:
        self.inner, self.turn, self.act, self.after = inner, turn, act, after

    def exchange(self, requests):
        hit = self.act is not None and turn_of(requests) == self.turn
        act, self.act = (self.act, None) if hit else (None, self.act)
        if act is not None and not self.after:
            act()
        replies = self.inner.exchange(requests)
        if act is not None and self.after:
            act()
        return replies

    def close(self) -> None:
        self.inner.close()


def rows(site: Site, party: str, repeat_plan: bytes) -> dict[str, int]:
    """How many rows of each kind a party's ledger holds of one plan."""
    with SqliteLedger.open(site.members[party].path / "ledger.sqlite") as ledger:
        found = [entry for entry in ledger.entries() if repeat_plan.hex()[:12] in entry.label]
    return {kind: sum(entry.kind == kind for entry in found) for kind in ("reserve",)}


def check_once(site: Site, federation: cn.Federation, repeat: int, before) -> None:
    """Paid once or not at all, opened at most once, and if it was released, the same bytes for whoever asks again."""
    plan = messages.digest(study().prepared(federation, repeat)[1])
    after = federation.budget().spent
    for party in site.parties:
        counts = rows(site, party, plan)
        assert counts["reserve"] <= 1
        assert after[party] - before[party] <= EPSILON * (1 + 1e-6)
    again = [fit_and_say(site, federation, repeat).counts_ for _ in range(2)]
    np.testing.assert_array_equal(again[0], again[1])
    assert federation.budget().spent.equals(after)
    assert all(rows(site, party, plan) == {"reserve": 1} for party in site.parties)


def paid(site: Site, plan: bytes) -> dict[str, float]:
    """What the parties' ledgers themselves have been charged for one plan, at the δ of their caps."""
    found = {}
    for party in site.parties:
        with SqliteLedger.open(site.members[party].path / "ledger.sqlite") as ledger:
            rows = [entry for entry in ledger.entries() if entry.plan == plan and entry.loss is not None]
            if rows:
                found[party] = total(row.loss for row in rows).epsilon(ledger.budget.delta)
    return found


def fit_and_say(site: Site, federation: cn.Federation, repeat: int) -> cn.PatternCount:
    """Fit a study. Whether it ends or fails, the cost in its words is what the ledgers have been charged since."""
    plan = messages.digest(study().prepared(federation, repeat)[1])
    before = paid(site, plan)
    failure = None
    try:
        fitted = study().fit(federation, repeat=repeat)
    except ColonnadeError as error:
        failure = error
    unknown = () if failure is None else failure.cost.unknown
    after = {party: spent for party, spent in paid(site, plan).items() if party not in (*before, *unknown)}
    cost = Cost(after, unknown)
    if failure is not None:
        assert (f"Spent: {cost.words}." if cost != Cost() else "Nothing was spent.") in str(failure)
        raise failure
    assert (f"paid: {cost.words}" if after else "already paid, nothing spent") in fitted.receipt_
    return fitted


def matrix(turns, slice_):
    """All turns, most of them under --full."""
    return [turn if turn in slice_ else pytest.param(turn, marks=pytest.mark.full) for turn in turns]


@pytest.mark.every(3)
@pytest.mark.parametrize("process", ["guard", "relay"])
@pytest.mark.parametrize("turn", matrix(range(TURNS), (1,)))
@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.parametrize("party", ["bank", pytest.param("telco", marks=pytest.mark.full)])
def test_a_party_whose_process_is_killed_comes_back_and_the_study_is_paid_once(
    site, process, turn, after, party, repeat
):
    """Its cost is in the words of the receipt or of the error, as the ledgers have it; asking again says the rest."""
    with site.connect() as federation:
        before = federation.budget().spent
        federation._driver.transport = At(
            federation._driver.transport, turn, lambda: site.kill(party, process), after=after
        )
        start = time.monotonic()
        try:
            fit_and_say(site, federation, repeat)
        except ProtocolError:
            if process == "relay":
                raise
        assert time.monotonic() - start < WITHIN
        check_once(site, federation, repeat, before)


def test_a_guard_killed_between_the_others_openings_and_its_own_opens_too_when_it_is_back(site, repeat):
    """Paid for, opened by the others, not opened by the one that died: everybody says the same again."""
    with site.connect() as federation:
        before = federation.budget().spent
        inner = federation._driver.transport

        class Staggered:
            close, killed = inner.close, False

            def exchange(self, requests):
                if turn_of(requests) != TURNS - 1 or self.killed:
                    return inner.exchange(requests)
                self.killed = True
                for party in ("telco", "insurer"):
                    inner.exchange({party: requests[party]})
                site.kill("bank", "guard")
                return inner.exchange(requests)

        federation._driver.transport = Staggered()
        fit_and_say(site, federation, repeat)
        federation._driver.transport = inner
        check_once(site, federation, repeat, before)


COORDINATOR = """
import os, signal, sys
from pathlib import Path
from colonnade.cli import studies
from colonnade.protocol.messages import Post, decode_request
from colonnade.transport import flare

turn, after, partial = int(sys.argv[2]), sys.argv[3] == "after", sys.argv[3] == "partial"
carry = flare.FlareTransport.exchange

def exchange(self, requests):
    first = decode_request(bytes(next(iter(requests.values())))) if requests else None
    mine = isinstance(first, Post) and first.turn == turn
    if mine and partial:
        carry(self, {"telco": requests["telco"]})
    if mine and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    replies = carry(self, requests)
    if mine:
        os.kill(os.getpid(), signal.SIGKILL)
    return replies

flare.FlareTransport.exchange = exchange
studies.run_connected(Path(sys.argv[1]), output=None, patience=None)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("turn", "when"), [(4, "partial"), *((turn, when) for turn in range(TURNS) for when in ("before", "after"))]
)
def test_a_killed_coordinator_takes_the_study_up_again_without_new_noise(site, turn, when, repeat, tmp_path):
    """The hardest case comes first: one party has opened, the others have not been told, and only the dead one knew."""
    path = tmp_path / "study.toml"
    path.write_text(
        f'federation = "{site.papers_path}"\nstate = "{tmp_path / "state"}"\n'
        f'[[study]]\nestimator = "PatternCount"\ncolumns = {COLUMNS}\nepsilon = {EPSILON}\nrepeat = {repeat}\n'
    )
    with site.connect() as federation:
        before = federation.budget()
    dead = Started([sys.executable, "-c", COORDINATOR, str(path), str(turn), when], tmp_path / "dead.log")
    try:
        assert until(dead.process.poll, 120, what="the coordinator being killed") == -signal.SIGKILL
    finally:
        dead.stop()
    coordinator_command.resume(tmp_path / "state", output=tmp_path / "out.json", patience=None)
    with site.connect() as federation:
        assert (federation.budget().releases == before.releases + 1).all()
        check_once(site, federation, repeat, before.spent)
    assert '"failure": null' in (tmp_path / "out.json").read_text()
    coordinator_command.resume(tmp_path / "state", output=None, patience=None)  # there is nothing left to take up


@pytest.mark.full
def test_a_party_that_is_away_for_a_while_is_waited_for(site, repeat):
    """Its supervisor is stopped with everything under it, and started again while the study waits."""
    with site.connect() as federation:
        before = federation.budget().spent
        guard, relay = site.pid("telco", "guard"), site.pid("telco", "relay")

        def pause() -> None:
            for pid in (relay, guard):
                os.kill(pid, signal.SIGSTOP)
            threading.Timer(1.5, lambda: [os.kill(pid, signal.SIGCONT) for pid in (relay, guard)]).start()

        federation._driver.transport = At(federation._driver.transport, 1, pause)
        study().fit(federation, repeat=repeat)
        check_once(site, federation, repeat, before)


@pytest.mark.full
def test_a_party_that_stays_away_ends_the_study_in_time_and_the_study_is_taken_up_when_it_is_back(site, repeat):
    with site.connect(patience=3.0) as federation:
        before = federation.budget().spent
        inner = federation._driver.transport
        relay = site.pid("telco", "relay")
        federation._driver.transport = At(inner, 2, lambda: os.kill(relay, signal.SIGSTOP))
        start = time.monotonic()
        try:
            with pytest.raises(PartyAway) as failure:
                fit_and_say(site, federation, repeat)
        finally:
            os.kill(relay, signal.SIGCONT)
        assert time.monotonic() - start < WITHIN
        assert failure.value.cost.unknown == ("telco",)
        assert set(failure.value.cost.spent) == {"bank", "insurer"}
        federation._driver.transport = inner
        fit_and_say(site, federation, repeat)
        check_once(site, federation, repeat, before)
