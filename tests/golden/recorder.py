"""What a coordinator sees of a study, reduced to released values; every import of an internal module of this folder is here.

A redesign may change how messages look, where modules are and what a plan's hash is. Then `said` and `told` (how a frame is
read), `frozen` (where choices follow from a plan's hash), `seeded` (where seeds come from) and `disturbed` are adapted, and
nothing else: what is compared is values only, never frames, hashes, request ids, letters, shares or times.

Shares and sealed letters are left out on purpose. What is opened from shares shows where the coordinator sends it on: in the
values that it has parties keep (`Conclude`), in the inputs of the next turn, or in what the estimator learned.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from colonnade.conversations import matching as union_run
from colonnade.coordinator import driver as relay
from colonnade.papers import steps as coreset
from colonnade.party.gate import AdmittedStep, Gate, Reservation
from colonnade.party.steps.agreements import MatchingPart
from colonnade.party.steps.participants import PrivateStep
from colonnade.privacy.samplers import ExactSampler
from colonnade.protocol import messages, public_choice
from colonnade.protocol.messages import Ask, Conclude, Described, Opened, Post, Propose, Released, unpack
from colonnade.secure.keys import GroupSecret, Secret
from colonnade.steps.alignment import MatchingStep
from colonnade.steps.local import Membership
from colonnade.steps.products import ScoreHistogram
from tests.golden.summary import Sequences

_WORD = 2**64 - 1

Values = Iterator[tuple[str, str, np.ndarray]]
"""A step, the name of a value in it, and the value."""


def said(data: bytes, step: str) -> Values:
    """Read a party's reply, to a request about a step."""
    reply = messages.decode_reply(data)
    if isinstance(reply, Released):
        for name, array in reply.values.items():
            yield reply.step, f"released {name}", unpack(array)
    if isinstance(reply, Opened) and reply.own is not None:
        yield step, "opened own", unpack(reply.own)
    if isinstance(reply, Described):
        yield step, "people", np.array([reply.people], dtype=np.int64)


def told(data: bytes) -> tuple[str, list[tuple[str, np.ndarray]], list[tuple[str, str]]]:
    """Read a coordinator's request: the step, the public values that come with it, and the kinds of step of a proposed plan."""
    request = messages.decode_request(data)
    values: dict[str, Any] = {}
    if isinstance(request, Ask | Post):
        values = {f"input {name}": array for name, array in request.inputs.items()}
    if isinstance(request, Conclude):
        values = {f"concluded {name}": array for name, array in request.values.items()}
    kinds = []
    if isinstance(request, Propose):
        kinds = [(step.kind, request.plan.unit) for step in request.plan.steps]
    return getattr(request, "step", ""), [(name, unpack(array)) for name, array in values.items()], kinds


class Watching:
    """A transport that notes every value that passes the coordinator, by party and step.

    Parameters
    ----------
    transport
        What carries the bytes.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.sequences = Sequences()
        self.kinds: set[str] = set()
        self.units: set[str] = set()

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver one round."""
        steps = {}
        for party, data in sorted(requests.items()):
            steps[party], values, kinds = told(data)
            for name, value in values:
                self.sequences.add(f"to {party}/{steps[party]}/{name}", value)
            self.kinds |= {kind for kind, _ in kinds}
            self.units |= {unit for _, unit in kinds}
        replies = self._transport.exchange(requests)
        for party, data in sorted(replies.items()):
            if isinstance(messages.decode_request(requests[party]), Conclude) and isinstance(
                messages.decode_reply(data), Described
            ):
                continue  # what was said before, word for word
            for step, name, value in said(data, steps[party]):
                self.sequences.add(f"{party}/{step}/{name}", value)
        return replies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def watch(federation: Any) -> Watching:
    """Note what passes this federation's coordinator from now on."""
    federation._driver.transport = watching = Watching(federation._driver.transport)
    return watching


def _public(admitted: AdmittedStep) -> Any:
    """The step of its kind; one that computes itself is its own."""
    return admitted.private.step if isinstance(admitted.private, PrivateStep) else admitted.private


def _of_columns(table: Any, admitted: AdmittedStep, key: bytes) -> bytes:
    """Hash the columns of a step with Horner's rule modulo 2⁶⁴ in eight lanes, as reservations once did."""
    odd, total = int.from_bytes(hashlib.sha256(key).digest()[:8], "big") | 1, table.people
    names, half = admitted.step.columns, _public(admitted)
    words = [np.ascontiguousarray(table._column(name)).view(np.uint32) for name in names]
    if isinstance(half, ScoreHistogram) or isinstance(getattr(half, "category", None), Membership):
        words.append(table.present(names).astype(np.uint32))
    for column in words:
        total = _folded(column, odd, total)
    return total.to_bytes(8, "big")


def _folded(words: np.ndarray, odd: int, total: int) -> int:
    lanes, whole = [total] * 8, len(words) // 8 * 8
    for start in range(0, whole, 8):
        lanes = [lane * odd + int(word) & _WORD for lane, word in zip(lanes, words[start : start + 8], strict=True)]
    for word in (*lanes, *map(int, words[whole:])):
        total = total * odd + word & _WORD
    return total


@contextmanager
def seeded() -> Iterator[None]:
    """Have reserved steps draw their noise from the seeds of the recording, whose last eight bytes were a hash of the columns."""
    reserve, noise, stream = Gate.reserve, Reservation.noise, Reservation.stream
    own: dict[bytes, Any] = {}  # seeds of steps that drew from their party's randomness itself, and that

    def reserved(self: Gate, admitted: AdmittedStep, loss: Any) -> Reservation:
        randomness = self._randomness

        def drawn(_: int) -> bytes:
            key = randomness.bytes(24)
            return key + _of_columns(self._table, admitted, key)

        alone = not _public(admitted).conversation
        joint = randomness if isinstance(_public(admitted), MatchingStep) else SimpleNamespace(bytes=drawn)
        with mock.patch.object(self, "_randomness", SimpleNamespace(bytes=os.urandom) if alone else joint):
            found = reserve(self, admitted, loss)
        own[found.seed] = randomness
        return found

    def streamed(self: Reservation, label: str) -> ExactSampler:
        return ExactSampler(own[self.seed]) if label == "release" else stream(self, label)

    def noised(self: Reservation, label: str) -> ExactSampler:
        steps = label.startswith(("round", "step"))
        return ExactSampler(own[self.seed]) if steps else noise(self, label)

    def begin(self: MatchingPart) -> list[bytes]:
        """Have a matching draw a name for its run, as it once did."""
        self._admitted._gate.random_bytes(16)
        return begun(self)

    begun = MatchingPart.begin
    with (
        mock.patch.object(MatchingPart, "begin", begin),
        mock.patch.object(Gate, "reserve", reserved),
        mock.patch.object(Reservation, "stream", streamed),
        mock.patch.object(Reservation, "noise", noised),
    ):
        yield


@contextmanager
def frozen(name: str) -> Iterator[None]:
    """Have everything that follows from a plan's hash, or from the name of a run, follow from a study's name instead.

    There are four such things: public choices; the seed of a coreset's draws; how ids are hashed for a union, whose order is that
    of the hashes before it is shuffled; and keys that parties agree on, whose handshake is over the plan and the run. Commitments
    to those keys are still exchanged and checked; only the key is replaced.
    """

    def fixed(*fields: object) -> bytes:
        return hashlib.sha256("\0".join(["golden", name, *map(str, fields)]).encode()).digest()

    settle, hash_ids = GroupSecret.settle, union_run.hash_ids

    def settled(self: GroupSecret, reveals: Mapping[str, bytes]) -> Secret:
        settle(self, reveals)
        return Secret(fixed("key", self._purpose))

    public = SimpleNamespace(digest=lambda plan: fixed("plan", plan.repeat))
    drawing = SimpleNamespace(
        digest=messages.digest, request_identity=lambda plan, party, step: fixed("request", plan.repeat, party, step)
    )
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(public_choice, "messages", public))
        patches.enter_context(mock.patch.object(coreset, "messages", drawing))
        patches.enter_context(mock.patch.object(union_run, "hash_ids", lambda ids, _: hash_ids(ids, fixed("ids"))))
        patches.enter_context(mock.patch.object(GroupSecret, "settle", settled))
        yield


@contextmanager
def disturbed(*, plan: bytes = b"", run: bytes = bytes(16)) -> Iterator[None]:
    """Give every plan another hash, and every run this name: whatever changes depends on them."""

    def other(data: bytes) -> bytes:
        return hashlib.sha256(b"colonnade/plan/1" + plan + data).digest()

    with (
        mock.patch.object(messages, "plan_digest", other),
        mock.patch.object(relay, "os", SimpleNamespace(urandom=lambda count: run[:count])),
    ):
        yield
