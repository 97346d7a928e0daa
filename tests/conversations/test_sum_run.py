"""The secure sum as a conversation: exact, uniform to the relay, opened to the right one, and torn by different inputs."""

from collections.abc import Mapping

import numpy as np
import pytest

from colonnade.conversations import sums as sum_run
from colonnade.conversations.sums import SumRun, chunks_of
from colonnade.coordinator.driver import unmasked_sum
from colonnade.errors import PlanMismatch, ProtocolError
from colonnade.plan import Plan, Step
from colonnade.protocol.messages import Array, Blob, Opened, pack, unpack
from colonnade.result import COORDINATOR
from colonnade.steps.sums import SumTerms
from tests import kit
from tests.conversations.stage import FEDERATION, NAMES, members, seed
from tests.kit import ALPHA, chi_square_p, generator


class Vector:
    """A summand in memory; it takes as many values as the public input says."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values
        self.received: dict[int, np.ndarray] = {}

    def begin(self, inputs: Mapping[str, Array]) -> int:
        return int(unpack(inputs["count"])[0])

    def values(self, start: int, stop: int) -> np.ndarray:
        return self._values[start:stop]

    def deliver(self, start: int, sums: np.ndarray) -> None:
        self.received[start] = sums


def a_plan(parties: int = 3, *, bound: int = 2**30, recipient: str | None = None) -> Plan:
    extra = {} if recipient is None else {"recipient": recipient}
    steps = tuple(
        Step(
            name="sum",
            party=name,
            kind="coreset-scores",
            columns=("x",),
            parameters={"bound": bound, **extra},
            price=None,
        )
        for name in NAMES[:parties]
    )
    return kit.written(
        *steps,
        task="coreset",
        method="importance",
        federation=FEDERATION,
        alignment="a" * 64,
    )


def begun(plan: Plan, vectors: Mapping[str, np.ndarray], run: bytes = b"one run of many.") -> dict[str, SumRun]:
    parts = {name: Vector(vector) for name, vector in vectors.items()}
    runs = {}
    for name, member in members(list(vectors)).items():
        runs[name] = SumRun(member, plan, "sum", run, part=parts[name], secret=seed(name, run))
        runs[name].vector = parts[name]  # type: ignore[attr-defined]  # for the test to look at
    return runs


def hellos(runs: Mapping[str, SumRun]) -> dict[str, Blob]:
    return {name: Blob(run.turn(0, {}, {}).hello) for name, run in runs.items()}


def count_of(length: int) -> dict[str, Array]:
    return {"count": pack(np.array([length]))}


def opened_to_the_coordinator(
    plan: Plan, runs: Mapping[str, SumRun], inputs: Mapping[str, dict[str, Array]], length: int
):
    letters, terms, parts, seen = hellos(runs), SumTerms.read(plan, "sum"), [], []
    for number, (start, stop) in enumerate(chunks_of(length), start=1):
        replies = {
            name: run.turn(number, letters if number == 1 else {}, inputs[name] if number == 1 else {})
            for name, run in runs.items()
        }
        seen.append({name: bytes(reply.letters[COORDINATOR].view) for name, reply in replies.items()})
        parts.append(unmasked_sum(terms, replies, stop - start))
    return np.concatenate(parts), seen


def vectors_of(parties: int, length: int, bound: int = 2**30) -> dict[str, np.ndarray]:
    draw = generator(f"sum {parties} {length}")
    return {name: draw.integers(-bound, bound + 1, length) for name in NAMES[:parties]}


@pytest.mark.every(2)
@pytest.mark.parametrize(("parties", "length", "bound"), [(2, 1, 5), (3, 1_000, 2**30), (5, 70_001, 2**40)])
def test_a_sum_opened_to_the_coordinator_is_exact(monkeypatch, parties, length, bound):
    monkeypatch.setattr(sum_run, "CHUNK", 20_000)
    plan, vectors = a_plan(parties, bound=bound), vectors_of(parties, length, bound)
    inputs = dict.fromkeys(vectors, count_of(length))
    found, _ = opened_to_the_coordinator(plan, begun(plan, vectors), inputs, length)
    assert np.array_equal(found, sum(vectors.values()))


@pytest.mark.every(2)
@pytest.mark.parametrize("parties", [2, 3, 4])
def test_a_sum_opened_to_a_party_reaches_it_and_nobody_else(monkeypatch, parties):
    monkeypatch.setattr(sum_run, "CHUNK", 300)
    length, recipient = 1_000, NAMES[1]
    plan, vectors = a_plan(parties, recipient=recipient), vectors_of(parties, length)
    runs = begun(plan, vectors)
    letters: dict[str, dict[str, Blob]] = dict.fromkeys(runs, hellos(runs))
    for number in range(1, len(chunks_of(length)) + 2):
        inputs = count_of(length) if number == 1 else {}
        replies = {name: run.turn(number, letters.get(name, {}), inputs) for name, run in runs.items()}
        if number <= len(chunks_of(length)):
            letters = {}
            for sender, reply in replies.items():
                assert set(reply.letters) == (set() if sender == recipient else {recipient})
                for receiver, letter in reply.letters.items():
                    letters.setdefault(receiver, {})[sender] = letter
    assert all(isinstance(reply, Opened) and reply.own is None for reply in replies.values())
    stretches = runs[recipient].vector.received
    assert np.array_equal(np.concatenate([stretches[start] for start in sorted(stretches)]), sum(vectors.values()))
    assert all(not run.vector.received for name, run in runs.items() if name != recipient)


def test_what_the_coordinator_sees_of_one_party_is_uniform():
    length = 100_000
    plan = a_plan(3, bound=2**40)
    vectors = dict.fromkeys(NAMES[:3], np.zeros(length, dtype=np.int64))
    _, seen = opened_to_the_coordinator(plan, begun(plan, vectors), dict.fromkeys(vectors, count_of(length)), length)
    for sent in seen[0].values():
        octets = np.frombuffer(sent, dtype=np.uint8)
        assert chi_square_p(np.bincount(octets, minlength=256), np.ones(256)) > ALPHA


def test_two_runs_of_one_sum_share_no_mask():
    plan, vectors = a_plan(2), vectors_of(2, 50)
    inputs = dict.fromkeys(vectors, count_of(50))
    first = opened_to_the_coordinator(plan, begun(plan, vectors, b"run number one.."), inputs, 50)
    second = opened_to_the_coordinator(plan, begun(plan, vectors, b"run number two.."), inputs, 50)
    assert np.array_equal(first[0], second[0])
    assert first[1][0]["ana"] != second[1][0]["ana"]


def test_parties_that_were_shown_different_inputs_do_not_add_up():
    """Otherwise a coordinator could add one party's value of one row to another's of another row, and pick them apart."""
    plan, vectors = a_plan(3, bound=2**40), vectors_of(3, 40, 1_000)
    inputs = dict.fromkeys(vectors, count_of(40)) | {"bo": {**count_of(40), "other": pack(np.zeros(1))}}
    with pytest.raises(ProtocolError, match="cancel"):
        opened_to_the_coordinator(plan, begun(plan, vectors), inputs, 40)


def test_a_party_that_agreed_to_another_plan_is_found_out_before_anything_leaves():
    plan, other = a_plan(3), a_plan(3, bound=2**31)
    vectors = vectors_of(3, 10)
    runs = begun(plan, vectors)
    runs["bo"] = begun(other, vectors)["bo"]
    greetings = hellos(runs)
    with pytest.raises(PlanMismatch):
        runs["ana"].turn(1, greetings, count_of(10))
