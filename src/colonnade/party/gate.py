"""The only door out of a party: admit, debit, compute, draw, seal.

The order of the lines in `Gate.answer` is the security argument. A crash between debit and seal loses budget, never privacy;
the same question is never answered twice with fresh noise; nothing is drawn before the debit is durable.

A joint opening takes several turns, so there the debit is a reservation: durable before the first share leaves, it keeps the
seed from which this party's noise follows, and a run that was cut short is taken up again with the same noise (and fresh shares).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PlanMismatch, PolicyRefusal, ProtocolError, ReleaseLost
from colonnade.node.joint import is_joint
from colonnade.node.run import Dealer
from colonnade.party import shards
from colonnade.party.ledger import SqliteLedger
from colonnade.party.policy import Policy, Terms
from colonnade.party.statistics import Earlier, JointStatistic, Statistic, nothing_earlier
from colonnade.party.table import PrivateTable
from colonnade.plan import EVENT, Plan, Step
from colonnade.privacy.loss import Loss, total
from colonnade.privacy.mechanisms import Mechanism
from colonnade.privacy.randomness import KeyedRandomness, Randomness
from colonnade.protocol import codec
from colonnade.protocol.messages import Array, Ask, Released, pack, unpack

__all__ = ["Gate"]


class Gate:
    """One party's table behind its policy and its ledger.

    Parameters
    ----------
    table
        The private data, in the agreed row order.
    policy, terms
        The party's rules, and the public facts that plans are checked against.
    ledger
        Where every release is paid for, durably, before it is drawn.
    randomness
        Where noise comes from. A deterministic source is refused unless the ledger was created for tests.
    """

    def __init__(
        self, table: PrivateTable, policy: Policy, terms: Terms, ledger: SqliteLedger, randomness: Randomness
    ) -> None:
        if randomness.deterministic and not ledger.test:
            raise PolicyRefusal("Only a ledger created for tests accepts deterministic noise.")
        self.table = table
        self.policy = policy
        self.terms = terms
        self.ledger = ledger
        self.randomness = randomness

    def answer(self, ask: Ask) -> bytes:
        """Answer one step of one plan, exactly once."""
        request, body = codec.request_identity(ask.plan, self.terms.party, ask.step), codec.digest(ask)
        stored = self.ledger.answer_to(request, body)
        if stored is not None:
            return stored
        step = ask.plan.step(self.terms.party, ask.step)
        statistic, mechanism = self._admit_local(ask.plan, step)
        shards.load(statistic, self.table, step.columns)  # a source that cannot be read fails here, at no cost
        _prepare(statistic, self.table)
        self.ledger.debit(request, body, mechanism.loss, label=_label(ask.plan, step))
        value = shards.perturbed(statistic, mechanism, self.table, self.randomness)
        return self.ledger.seal(request, codec.encode(self._release(step, {"value": pack(value)}, mechanism)))

    # Joint openings -----------------------------------------------------------------------------------------------------

    def join(self, plan: Plan, name: str) -> Dealer:
        """Return this party's part in a run of a joint step; nothing is paid before the run's first share leaves."""
        step = plan.step(self.terms.party, name)
        return _Part(self, plan, step, self._admit_joint(plan, step))

    def recall(self, plan: Plan, name: str) -> bytes | None:
        """Return the kept answer of a joint step, or what this party opened of it, if there is either."""
        request, body = self.paid_as(plan, name)
        return self.ledger.answer_to(request, body) or self.ledger.opening_of(request)

    def conclude(self, plan: Plan, name: str, values: dict[str, Array]) -> bytes:
        """Keep what was opened as the answer to this step, and forget the seed of its shares."""
        step = plan.step(self.terms.party, name)
        statistic = self._admit_joint(plan, step)
        request, body = self.paid_as(plan, name)
        kept = self.ledger.answer_to(request, body)
        return kept or self.ledger.commit(request, codec.encode(self._release(step, values, statistic)))

    def paid_as(self, plan: Plan, name: str) -> tuple[bytes, bytes]:
        """Return the request id and body hash under which the ledger knows a step."""
        return codec.request_identity(plan, self.terms.party, name), codec.digest(Ask(plan=plan, step=name))

    # Quotes -------------------------------------------------------------------------------------------------------------

    def quote(self, plan: Plan) -> tuple[dict[str, Loss], tuple[str, ...]]:
        """Return what each step costs and which are unpaid, having checked that those together still fit. Spends nothing."""
        losses = {step.name: self._loss(plan, step) for step in plan.steps_of(self.terms.party)}
        if not losses:
            raise PlanMismatch("The plan asks nothing of this party.")
        unpaid = tuple(name for name in losses if not self.ledger.knows(self.paid_as(plan, name)[0]))
        self.ledger.require_room(total(losses[name] for name in unpaid))
        return losses, unpaid

    def _loss(self, plan: Plan, step: Step) -> Loss:
        return self._admit_joint(plan, step).loss if is_joint(step) else self._admit_local(plan, step)[1].loss

    def _admit_local(self, plan: Plan, step: Step) -> tuple[Statistic, Mechanism]:
        statistic: Any = self.policy.admit(plan, step, self.terms, self._earlier(plan))
        if is_joint(step):
            raise ProtocolError("This step is opened together with other parties, in turns.")
        if step.price is None:
            raise PolicyRefusal("This statistic has no release without differential privacy.")
        return statistic, statistic.mechanism(step.price)

    def _admit_joint(self, plan: Plan, step: Step) -> JointStatistic:
        statistic: Any = self.policy.admit(plan, step, self.terms, self._earlier(plan))
        if not is_joint(step) or step.price is None:
            raise ProtocolError("This step is not opened together with other parties.")
        return statistic  # type: ignore[no-any-return]  # the registry has it so

    def _earlier(self, plan: Plan) -> Earlier:
        """Return a look at what this party has kept of a plan's earlier releases: from its own ledger, never from a request."""

        def kept(name: str) -> Mapping[str, NDArray[Any]]:
            answer = self.ledger.answer_to(*self.paid_as(plan, name))
            reply = None if answer is None else codec.decode_reply(answer)
            if not isinstance(reply, Released):
                return nothing_earlier(name)
            return {value: unpack(array) for value, array in reply.values.items()}

        return kept

    def _release(self, step: Step, values: dict[str, Array], mechanism: Mechanism | JointStatistic) -> Released:
        return Released(
            party=self.terms.party,
            step=step.name,
            values=values,
            mechanism=mechanism.name,
            loss=mechanism.loss.to_bytes(),
        )


class _Part:
    """A data party's part in a run: reserve, then share.

    The 32 bytes that the ledger keeps are 24 random ones and a fingerprint of the columns under them. A restart adds the same
    noise; if the columns have changed meanwhile it refuses, because the same masks over other values would
    show the difference.
    """

    def __init__(self, gate: Gate, plan: Plan, step: Step, statistic: JointStatistic) -> None:
        self._gate = gate
        self._plan = plan
        self._step = step
        self._statistic = statistic
        self._noise: KeyedRandomness | None = None

    def begin(self) -> bytes:
        """Pay, durably, and return the seed of this party's shares."""
        gate, (request, body) = self._gate, self._gate.paid_as(self._plan, self._step.name)
        if gate.ledger.answer_to(request, body) is not None or gate.ledger.opening_of(request) is not None:
            raise ReleaseLost(
                "This step was opened before, and is opened once.",
                remedy="Run the study again with the next repeat=; it is a new draw at a new price.",
            )
        gate.table.load(self._step.columns)
        _prepare(self._statistic, gate.table)
        presence = "centres_of" in self._step.parameters
        kept = gate.ledger.seed_of(request)
        if kept is None:
            key = gate.randomness.bytes(24)
            kept = key + gate.table.fingerprint(self._step.columns, key, presence=presence)
            gate.ledger.reserve(request, body, self._statistic.loss, label=_label(self._plan, self._step), seed=kept)
        elif gate.table.fingerprint(self._step.columns, kept[:24], presence=presence) != kept[24:]:
            raise ProtocolError(
                "The data has changed since this step was paid for.",
                remedy="Run the study again with the next repeat=.",
            )
        self._noise = KeyedRandomness(kept).spawn("noise")
        return KeyedRandomness(kept).spawn("shares").bytes(32)

    def rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's integer rows; they leave as shares only."""
        return self._statistic.rows(self._gate.table, start, stop)

    def noise(self, entries: int) -> NDArray[np.int64]:
        """Return this party's share of the noise of the entries between parties."""
        assert self._noise is not None  # the run begins first
        return self._statistic.cross_noise(entries, self._noise.spawn("cross"))

    def own(self) -> NDArray[np.int64] | None:
        """Return this party's own part, noised by it alone."""
        assert self._noise is not None  # the run begins first
        return self._statistic.own(self._gate.table, self._noise.spawn("own"))

    def opening(self, answer: bytes) -> None:
        """Keep, durably, what is about to be opened; a step is opened once."""
        request, _ = self._gate.paid_as(self._plan, self._step.name)
        self._gate.ledger.record_opening(request, answer, label=_label(self._plan, self._step))


def _prepare(statistic: Any, table: PrivateTable) -> None:
    """Let a statistic fail, if it must, before anything is paid."""
    if hasattr(statistic, "prepare"):
        statistic.prepare(table)


def _label(plan: Plan, step: Step) -> str:
    """Public words for the ledger: the study, the step, the first digits of the plan's hash.

    "joint" marks a loss that every party's ledger holds whole, so that a person's total counts it once. Losses of parts (the
    party unit) are added instead, which bounds the whole: Σ_q (T² − (T − R_q²)²) ≥ T² − γ⁴.
    """
    level = " event-level" if plan.relation == EVENT else ""
    name = f"{plan.task}/{plan.method}{level} {step.name} {codec.digest(plan).hex()[:12]}"
    return f"{name} joint" if is_joint(step) and plan.unit == "person" else name
