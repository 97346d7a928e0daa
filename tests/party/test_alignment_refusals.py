"""What a party says about an alignment never depends on its list: attacks that once told, and how attempts are counted.

Each attack is a function that a coordinator could run. Its positive control is a deliberate bug of `tests/seeded/shares.py`: it
switches the behaviour as it was back on. Neighbouring lists are played side by side in `tests/party/test_what_refusals_tell.py`.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.coordinator import alignment as coordinator
from colonnade.errors import BadInput, ColonnadeError, PolicyRefusal, ProtocolError
from colonnade.party import party as opening
from colonnade.party.gate import OrderRecords
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.policy import Policy
from colonnade.party.steps import agreements
from colonnade.party.steps.agreements import CohortPart, MatchingPart
from colonnade.protocol import messages
from colonnade.protocol.messages import Described

SCHEMA = cn.Schema(value=cn.Numeric(0, 1))
MODES = ("intersection", "cohort", "union")
OPEN = cn.Policy(alignments=MODES, capacity=64)
BANK = [f"p{k}" for k in range(40)]
TELCO = [f"p{k}" for k in range(30, 50)]


def simulated(
    bank: Sequence[str],
    telco: Sequence[str] = TELCO,
    *,
    policy: cn.Policy = OPEN,
    version: int = 1,
    folder: Path | None = None,
    key: bytes | None = None,
) -> cn.Federation:
    """Two parties whose policies are the same; the bank's list is the one that is attacked."""
    lists = {"bank": list(bank), "telco": list(telco)}
    return cn.Federation.simulate(
        {
            name: cn.Party(
                pd.DataFrame({"id": pd.Series(ids, dtype="string"), "value": np.linspace(0, 1, len(ids))}),
                schema=SCHEMA,
                version=version if name == "bank" else 1,
            )
            for name, ids in lists.items()
        },
        id="id",
        budget=cn.Budget(epsilon=3.0, delta=1e-6),
        aligned=False,
        policies=dict.fromkeys(lists, policy),
        ledger_dir=folder,
        test_key=key,
    )


def outcome(call: Callable[[], object]) -> str:
    """What a coordinator hears."""
    try:
        call()
    except ColonnadeError as error:
        return f"{error.code}: {error.message} {error.remedy}"
    return "answered"


def rows_of(federation: cn.Federation, party: str = "bank") -> list:
    return federation._driver.transport._endpoints[party]._gate.ledger.entries()


# The behaviour as it was, for deliberate bugs -------------------------------------------------------------------------------


def _capacity_from_the_plan(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Policy, "_check_capacity", lambda self, step, terms: None)
    honest = MatchingPart.begin

    def begin(self: MatchingPart) -> list[bytes]:
        ids = honest(self)
        if len(ids) > self._step.capacity:
            raise BadInput("There are more ids than the capacity that the plan gives its list.")
        return ids

    patch.setattr(MatchingPart, "begin", begin)


def _refuses_a_changed_list(patch: pytest.MonkeyPatch) -> None:
    seen: dict[str, set[bytes]] = {}
    honest = MatchingPart.begin

    def begin(self: MatchingPart) -> list[bytes]:
        ids = honest(self)
        if seen.setdefault(self._admitted.party, set(ids)) != set(ids):
            raise PolicyRefusal("This party's list has changed since it was matched.")
        return ids

    patch.setattr(MatchingPart, "begin", begin)
    patch.setattr(agreements, "check_attempt", lambda *_: None)


def _counting(honest):
    def refuses(ids, rules):
        normal = [one for one in agreements.normal_ids(ids, rules).to_pylist() if one is not None]
        if len(set(normal)) != len(normal):
            raise BadInput(f"{len(normal) - len(set(normal))} repeated ids once they are in their normal form.")
        return honest(ids, rules)

    return refuses


def _intersections_by_default_and_off_the_account(patch: pytest.MonkeyPatch) -> None:
    honest = Policy._check_alignment

    def check(self: Policy, kind, step, terms) -> None:
        honest(dataclasses.replace(self, alignments=MODES), kind, step, terms)

    patch.setattr(Policy, "_check_alignment", check)
    patch.setattr(OrderRecords, "disclose", lambda *_: None)


# How long is the list? ------------------------------------------------------------------------------------------------------


@contextmanager
def undeclared() -> Iterator[None]:
    """As `colonnade party serve` opens a party whose policy declares no capacity; and a coordinator that asks nevertheless."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "_with_capacity", lambda policy, length: policy)
        patch.setattr(coordinator, "_capacities", lambda parties, given, described: dict(given))
        yield


def length_found(bank: Sequence[str], policy: cn.Policy) -> tuple[int, int]:
    """Bisect the length of the bank's list: is it longer than k? Return the bounds that are left."""
    low, high = 0, 64
    with undeclared(), simulated(bank, policy=policy) as federation:
        for attempt in range(1, 11):
            middle = (low + high) // 2
            if high - low <= 1:
                break
            said = outcome(
                lambda k=middle, repeat=attempt: federation.align(
                    size="hidden", capacity={"bank": k, "telco": 64}, repeat=repeat
                )
            )
            low, high = (middle, high) if said.startswith("bad-input") else (low, middle)
    return low, high


@pytest.mark.parametrize("capacity", [None, 64])
def test_no_question_about_the_length_of_a_list_is_answered(capacity):
    policy = cn.Policy(alignments=MODES, capacity=capacity)
    assert len({length_found(bank, policy) for bank in (BANK, [*BANK, "alice"], BANK[:3])}) == 1


# Has anybody come or gone? --------------------------------------------------------------------------------------------------


def heard_after_a_new_version(bank: Sequence[str], folder: Path) -> str:
    """Match the list, wait until the owner declares a new version, and match it again."""
    with simulated(BANK, folder=folder) as federation:
        federation.align(size="hidden")
    with simulated(bank, folder=folder, version=2) as federation:
        return outcome(lambda: federation.align(size="hidden", repeat=2))


def test_a_match_under_a_new_version_is_refused_whether_or_not_anybody_has_come(tmp_path):
    neighbours = {"same": BANK, "came": [*BANK, "alice"], "others": ["x", "y"]}
    heard = {heard_after_a_new_version(bank, tmp_path / name) for name, bank in neighbours.items()}
    assert len(heard) == 1
    assert "another data version, less than 30 days ago" in heard.pop()


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", MODES)
def test_a_new_version_closes_matching_for_the_period_and_leaves_public_lists_open(mode, tmp_path):
    options = {"ids": ["p1"]} if mode == "cohort" else {"size": "hidden"}
    with simulated(BANK, folder=tmp_path) as federation:
        federation.align(size="hidden")
    with simulated(BANK, folder=tmp_path, version=2) as federation:
        said = outcome(lambda: federation.align(mode, **options, repeat=2))
    assert said == "answered" if mode == "cohort" else "another data version" in said
    later = dataclasses.replace(OPEN, alignment_period=0.0)
    with simulated(BANK, folder=tmp_path, version=2, policy=later) as federation:
        assert outcome(lambda: federation.align(mode, **options, repeat=3)) == "answered"


@pytest.mark.parametrize("bank", [BANK, [*BANK, "alice"]], ids=["nobody came", "alice came"])
def test_a_kept_order_is_described_or_not_by_the_declared_version_alone(bank, tmp_path):
    """A kept order vanished when somebody came, which was free to ask. It is an attempt on record, and ends with its version."""
    with simulated(BANK, folder=tmp_path) as federation:
        federation.align("cohort", ids=["x1"])
        name = federation._driver.alignment
        assert [row.kind for row in rows_of(federation)] == ["genesis", "version", "list", "alignment"]
    with simulated(bank, folder=tmp_path, version=2) as federation:
        said = outcome(lambda: cn.Federation(federation._driver.transport, parties=federation.parties, alignment=name))
        assert "knows no alignment of that name" in said
    with simulated(bank, folder=tmp_path, version=2) as federation:
        assert outcome(lambda: federation.align("cohort", ids=["x1"])) == "answered"


# Is there another Ann? ------------------------------------------------------------------------------------------------------


def heard_of_cohorts(bank: Sequence[str]) -> tuple[list[str], int]:
    """Ask five times for an order of people that nobody has; return what was heard and how many attempts the ledger has."""
    with simulated(bank, policy=cn.Policy(max_alignments=2, capacity=64)) as federation:
        heard = [outcome(lambda k=k: federation.align("cohort", ids=["zoe", f"y{k}"], case="fold")) for k in range(5)]
        return heard, [row.kind for row in rows_of(federation)].count("list")


def test_a_public_list_tells_nothing_of_ids_that_repeat_and_every_attempt_counts():
    without, with_ann = heard_of_cohorts(["Ann", *BANK]), heard_of_cohorts(["Ann", "ann", *BANK])
    assert without == with_ann
    heard, attempts = without
    assert heard[:2] == ["answered"] * 2
    assert all("policy allows" in said for said in heard[2:])
    assert attempts == 2


# Whom does the bank have? ---------------------------------------------------------------------------------------------------

CANDIDATES = ["p7", "p8", "zoe", "p39", "nobody"]


def learned_by_telco(policy: cn.Policy) -> tuple[set[str], int]:
    """A telco with an invented list; return whom it knows the bank to have, and what the bank's account shows."""
    with simulated(BANK, CANDIDATES, policy=policy) as federation:
        if outcome(lambda: federation.align(size="hidden")) != "answered":
            return set(), int(federation.budget("bank")["nonprivate"])
        order = federation._driver.transport._endpoints["telco"]._row_orders.order(federation._driver.alignment)
        found = {one for one in order.ids.to_pylist() if one is not None}
        return found, int(federation.budget("bank")["nonprivate"])


def test_nobody_learns_whom_a_bank_has_unless_it_says_so_and_then_its_account_shows_it():
    assert learned_by_telco(cn.Policy(capacity=64)) == (set(), 0)
    named = cn.Policy(capacity=64, alignments=("intersection",))
    assert learned_by_telco(named) == ({"p7", "p8", "p39"}, 1)


# Attempts and runs ----------------------------------------------------------------------------------------------------------

ONE = dataclasses.replace(OPEN, max_alignments=1)


class Cut:
    """A transport that loses everything from one turn on."""

    def __init__(self, inner, turn: int) -> None:
        self.inner, self._turn = inner, turn

    def exchange(self, requests):
        if any(getattr(messages.decode_request(data), "turn", 0) >= self._turn for data in requests.values()):
            raise ProtocolError("The line is cut.")
        return self.inner.exchange(requests)

    def __getattr__(self, name: str):
        return getattr(self.inner, name)


def cut_short(folder: Path, mode: str, turn: int) -> str:
    """Begin an alignment, lose the line in a turn, and restart everybody."""
    with simulated(BANK, folder=folder, policy=ONE) as federation:
        federation._driver.transport = Cut(federation._driver.transport, turn)
        return outcome(lambda: federation.align(mode, size="hidden"))


@pytest.mark.parametrize("mode", ["intersection", pytest.param("union", marks=pytest.mark.full)])
def test_runs_that_were_cut_short_are_one_attempt(mode, tmp_path):
    for turn in (1, 2, 4, 3, 4):
        assert "The line is cut" in cut_short(tmp_path, mode, turn)
    with simulated(BANK, folder=tmp_path, policy=ONE) as federation:
        assert outcome(lambda: federation.align(mode, size="hidden")) == "answered"
        kinds = [row.kind for row in rows_of(federation)]
        assert (kinds.count("list"), kinds.count("nonprivate")) == (1, 1)
        assert "policy allows" in outcome(lambda: federation.align(mode, size="hidden", repeat=2))


def test_a_peer_with_a_new_list_for_another_run_of_one_request_finds_nobody_to_talk_to(tmp_path):
    """The telco starts the same request over and over, each time with other candidates, and ends it before anything is kept."""
    found: set[str] = set()
    honest = MatchingPart.keep

    def spies(self: MatchingPart, identity: str, order: np.ndarray) -> Described:
        if self._admitted.party == "telco":
            found.update(self._own.ids[row].decode() for row in order if row >= 0)
        raise RuntimeError

    policy, tries = dataclasses.replace(OPEN, max_alignments=2), [["p1"], ["p2"], ["p3"], ["p4"]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MatchingPart, "keep", spies)
        for candidates in tries:
            with simulated(BANK, [*candidates, "x"], folder=tmp_path, policy=policy) as federation:
                outcome(lambda f=federation: f.align(size="hidden"))
            for left_behind in tmp_path.glob("telco*"):  # a peer gone bad forgets what it did
                left_behind.unlink() if left_behind.is_file() else left_behind.rmdir()
    assert found == {"p1"}
    assert honest is not spies


def test_a_public_list_that_is_asked_for_again_is_one_attempt(tmp_path, monkeypatch):
    """All that enters stands in the plan, and nothing is told: running it again can show nothing else."""
    honest = CohortPart.keep_cohort
    with simulated(BANK, folder=tmp_path, policy=ONE) as federation:
        monkeypatch.setattr(SqliteLedger, "record_alignment", lambda *_, **__: 1 / 0)
        for _ in range(4):
            assert "failed while answering" in outcome(lambda: federation.align("cohort", ids=["p1"]))
        monkeypatch.undo()
        assert CohortPart.keep_cohort is honest
        assert outcome(lambda: federation.align("cohort", ids=["p1"])) == "answered"
        assert [row.kind for row in rows_of(federation)].count("list") == 1
        assert "policy allows" in outcome(lambda: federation.align("cohort", ids=["p2"]))


def test_a_new_version_with_more_ids_than_declared_is_refused_to_the_owner_of_a_running_party():
    with simulated(BANK) as federation:
        guard = federation._driver.transport._endpoints["bank"]
        before = [row.kind for row in rows_of(federation)]
        with pytest.raises(BadInput, match="more ids than the declared capacity of 64"):
            guard.replace(
                guard._gate._table,
                guard._row_orders.order(guard._gate.terms.alignment),
                version=2,
                ids=pa.array([f"n{k}" for k in range(65)]),
            )
        assert [row.kind for row in rows_of(federation)] == before
        assert guard._gate.terms.version == 1
