"""The only door out of a party.

Everything that leaves passes one of four methods of `Gate`, and the order of their lines is the security argument:

``release``
    admit, debit (durable), compute, draw, keep, return: a release of this party's own.
``reserve``
    admit, debit (durable, with the seed of the noise), return a handle: a step that members work out together.
``open_once``
    keep durably what is about to be opened: a step is opened once.
``disclose``
    admit by name, record (durable), compute, return: not private, and allowed by the policy by name.

A crash between debit and answer loses budget, never privacy. The same question is never answered twice with fresh noise. Nothing
is drawn before the debit is durable. The table, the ledger and the randomness belong to the gate: nothing else in
`colonnade.party` writes to the ledger, reads rows or draws.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BudgetExceeded, PlanMismatch, PolicyRefusal, ProtocolError, ReleaseLost
from colonnade.party.handles import LedgerView, Reservation
from colonnade.party.ledger.ledger import RowTerms, SqliteLedger
from colonnade.party.policy import Policy, Terms
from colonnade.party.steps import local as shards
from colonnade.party.steps import private_half
from colonnade.party.steps.parts import Disclosed, Joined, Local, prepare
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.row_order import Alignment
from colonnade.plan import EVENT, About, Plan, Step
from colonnade.privacy.accounting import Loss, total
from colonnade.privacy.randomness import Randomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.protocol import codec
from colonnade.protocol.messages import Array, Ask, Described, Released, Settled, pack, unpack
from colonnade.secure.framing import digest
from colonnade.steps.kind import Earlier, StepKind, nothing_earlier
from colonnade.steps.registry import discloses, is_conversation, kind_of

if TYPE_CHECKING:
    from colonnade.party.row_orders import RowOrders

__all__ = ["AdmittedStep", "Gate", "Quoted"]

P = ParamSpec("P")
T = TypeVar("T")

SALT = 24
"""Of the 32 bytes that a reservation keeps, so many are random; the rest is a fingerprint of the columns under them."""


@dataclass(frozen=True)
class Quoted:
    """What a plan would cost one party: losses by step, which are unpaid, and which steps the budget does not cover."""

    losses: Mapping[str, Loss]
    unpaid: tuple[str, ...]
    disclosed: tuple[str, ...]


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
        self._table = table
        self._ledger = ledger
        self._randomness = randomness
        self.policy = policy
        self.terms = terms
        self.row_orders: RowOrders | None = None  # every order of rows before this ledger, once there is a guard

    # The four ways out --------------------------------------------------------------------------------------------------

    def release(self, ask: Ask) -> bytes:
        """Answer one step of one plan with noise, exactly once."""
        request, body = codec.request_identity(ask.plan, self.terms.party, ask.step), codec.digest(ask)
        stored = self._ledger.answer_to(request, body)
        if stored is not None:
            return stored
        step = ask.plan.step(self.terms.party, ask.step)
        half = self._admit_local(ask.plan, step)
        assert step.price is not None  # or it would not have been admitted
        law = half.law(step.price)
        shards.load(half, self._table, step.columns)  # a source that cannot be read fails here, at no cost
        prepare(half, self._table)
        self._ledger.debit(request, body, law.loss, label=label_of(ask.plan, step), **self._row(ask.plan, step))
        value = shards.perturbed(half, law, self._table, ExactSampler(self._randomness))
        released = _released(step, {"value": pack(value)}, law.name, law.loss)
        return self._ledger.seal(request, codec.encode(released))

    def reserve(self, admitted: "AdmittedStep", loss: Loss, *, bind: bool = True) -> Reservation:
        """Pay for a step that members work out together, or find that it was paid; return a handle that gives its noise.

        The 32 bytes that the ledger keeps are random ones and a fingerprint of the columns under them. A restart adds the same
        noise. If the columns have changed meanwhile it refuses, because the same masks over other values would show the
        difference.

        Parameters
        ----------
        admitted
            The step.
        loss
            What it costs.
        bind
            Whether the reservation is for these columns as they are.
        """
        plan, step = admitted.plan, admitted.step
        kept = self._ledger.seed_of(admitted.request)
        if kept is None:
            key = self._randomness.bytes(SALT if bind else 32)
            kept = key + self._fingerprint(admitted, key) if bind else key
            row = self._row(plan, step)
            self._ledger.reserve(admitted.request, admitted.body, loss, label=label_of(plan, step), seed=kept, **row)
        elif bind and self._fingerprint(admitted, kept[:SALT]) != kept[SALT:]:
            raise ProtocolError(
                "The data has changed since this step was paid for.",
                remedy="Run the study again with the next repeat=.",
            )
        return Reservation(kept)

    def open_once(self, admitted: "AdmittedStep", opened: bytes, *, part: bytes | None = None) -> None:
        """Keep, durably, what is about to be opened; refuse a second opening of the step, or of a part of it."""
        label, row = label_of(admitted.plan, admitted.step), self._row(admitted.plan, admitted.step)
        self._ledger.record_opening(admitted.request if part is None else part, opened, label=label, **row)

    def disclose(self, ask: Ask) -> bytes:
        """Answer without differential privacy, because the policy allows it by name: recorded, durably, before it leaves.

        A step that takes the coordinator's inputs may be asked many times in one study and is one line in the ledger; its
        answer follows from the data and the inputs. One that takes none is answered once, and its bytes are kept.
        """
        step = ask.plan.step(self.terms.party, ask.step)
        half = self._admit(ask.plan, step)
        if not isinstance(half, Disclosed):
            raise PolicyRefusal("This step has no release without differential privacy.")
        request, body = self.paid_as(ask.plan, ask.step)
        stored = None if ask.inputs else self._ledger.answer_to(request, body)
        if stored is not None:
            return stored
        if step.columns:
            self._table.load(step.columns)
        prepare(half, self._table)
        if not self._ledger.knows(request):
            row = self._row(ask.plan, step)
            self._ledger.record_nonprivate(request, body, label=label_of(ask.plan, step), **row)
        inputs = {name: unpack(array) for name, array in ask.inputs.items()}
        values = half.disclose(self._table, inputs, self._randomness)
        released = _released(step, {name: pack(value) for name, value in values.items()}, half.title, None)
        answer = codec.encode(released)
        return answer if ask.inputs else self._ledger.seal(request, answer)

    def answer(self, ask: Ask) -> bytes:
        """Answer one step: with noise where it has a price, else by name."""
        private = ask.plan.step(self.terms.party, ask.step).price is not None
        return self.release(ask) if private else self.disclose(ask)

    # Conversations ------------------------------------------------------------------------------------------------------

    def join(self, plan: Plan, name: str) -> object:
        """Return this party's part in a conversation; nothing is paid before the first share leaves."""
        step = plan.step(self.terms.party, name)
        half = self._admit_conversation(plan, step)
        if not isinstance(half, Joined):
            raise ProtocolError("This step is not worked out in a conversation.")
        return half.join(AdmittedStep(self, plan, step, half))

    def recall(self, plan: Plan, name: str) -> bytes | None:
        """Return the kept answer of a conversation, or what this party opened in it, if there is either."""
        kind, (request, body) = kind_of(plan.step(self.terms.party, name)), self.paid_as(plan, name)
        kept = self._ledger.answer_to(request, body)
        if kept is None and kind.opening_is_answer:
            kept = self._ledger.opening_of(request)
        if kept is None and kind.keeps_key and self._ledger.knows(request):
            return codec.encode(Settled(step=name))
        return kept

    def conclude(self, plan: Plan, name: str, values: dict[str, Array]) -> bytes:
        """Keep what was opened as the answer to this step, and forget the seed of its shares, or the key."""
        step = plan.step(self.terms.party, name)
        half = self._admit_conversation(plan, step)
        request, body = self.paid_as(plan, name)
        kept = self._ledger.answer_to(request, body)
        if kept is not None:
            return kept
        loss = None if step.price is None else half.loss
        last = Settled(step=name) if half.keeps_key else _released(step, values, half.title, loss)
        return self._ledger.commit(request, codec.encode(last))

    def paid_as(self, plan: Plan, name: str) -> tuple[bytes, bytes]:
        """Return the request id and body hash under which the ledger knows a step."""
        return codec.request_identity(plan, self.terms.party, name), codec.digest(Ask(plan=plan, step=name))

    def note(self, plan: Plan, about: About) -> None:
        """Keep what is said about a study, with the first row that its plan gets in the ledger."""
        self._ledger.keep_plan(codec.digest(plan), codec.encode(plan), about)

    # Accounts -----------------------------------------------------------------------------------------------------------

    def quote(self, plan: Plan) -> Quoted:
        """Return what each step costs and which are unpaid, having checked that those together still fit. Spends nothing."""
        steps = plan.steps_of(self.terms.party)
        if not steps:
            raise PlanMismatch("The plan asks nothing of this party.")
        self._require_delta(plan)
        losses = {step.name: loss for step in steps if (loss := self._loss(plan, step)) is not None}
        unpaid = tuple(name for name in losses if not self._ledger.knows(self.paid_as(plan, name)[0]))
        self._ledger.require_room(total(losses[name] for name in unpaid))
        disclosed = tuple(step.name for step in steps if discloses(step))
        return Quoted(losses, unpaid, disclosed)

    def reordered(self, order: NDArray[np.int64], terms: Terms) -> "Gate":
        """Return a gate before another order of the same rows, with the same policy, ledger and randomness."""
        return Gate(self._table.reordered(order), self.policy, terms, self._ledger, self._randomness)

    @property
    def ledger(self) -> LedgerView:
        """What may be read of the ledger."""
        return LedgerView(self._ledger)

    @property
    def fresh(self) -> Callable[[int], bytes]:
        """A source of random bytes for this party's conversations."""
        return self._randomness.bytes

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def _require_delta(self, plan: Plan) -> None:
        """A ledger answers at its own δ: a study that states its ε at a larger one would promise less than the cap does."""
        cap = self._ledger.budget.delta
        if plan.price is not None and plan.price.delta > cap:
            raise BudgetExceeded(
                f"The study's delta of {plan.price.delta:g} exceeds the {cap:g} of this party's cap.",
                remedy="Ask for a delta of at most the cap's; federation.budget() shows it.",
            )

    def _loss(self, plan: Plan, step: Step) -> Loss | None:
        """Return what a step costs; ``None`` for one that releases nothing, or is not private and allowed by name."""
        if step.price is None:
            self._admit(plan, step)
            return None
        if is_conversation(step):
            return self._admit_conversation(plan, step).loss
        return self._admit_local(plan, step).law(step.price).loss

    def _admit(self, plan: Plan, step: Step) -> StepKind:
        return self.policy.admit(plan, step, self.terms, private_half, self._earlier(plan))

    def _admit_local(self, plan: Plan, step: Step) -> Local:
        half = self._admit(plan, step)
        if is_conversation(step):
            raise ProtocolError("This step is opened together with other parties, in turns.")
        if step.price is None or not isinstance(half, Local):
            raise PolicyRefusal("This step has no release without differential privacy.")
        return half

    def _admit_conversation(self, plan: Plan, step: Step) -> StepKind:
        if not is_conversation(step):
            raise ProtocolError("This step is not opened together with other parties.")
        return self._admit(plan, step)

    def _earlier(self, plan: Plan) -> Earlier:
        """Return a look at what this party has kept of a plan's earlier steps: from its own ledger, never from a request.

        Of a release these are its values; of a key that the parties agreed on, its bytes (``"key"``).
        """

        def kept(name: str) -> Mapping[str, NDArray[Any]]:
            if kind_of(plan.step(self.terms.party, name)).keeps_key:
                key = self._ledger.seed_of(self.paid_as(plan, name)[0])
                return nothing_earlier(name) if key is None else {"key": np.frombuffer(key, dtype=np.uint8)}
            answer = self._ledger.answer_to(*self.paid_as(plan, name))
            reply = None if answer is None else codec.decode_reply(answer)
            if not isinstance(reply, Released):
                return nothing_earlier(name)
            return {value: unpack(array) for value, array in reply.values.items()}

        return kept

    def _row(self, plan: Plan, step: Step) -> RowTerms:
        """Hand the plan over to the ledger, and return what a row says about its step beside label and loss.

        A loss that every party's ledger holds whole is marked, so that a person's total counts it once. Losses of parts (the
        party unit) are added instead, which bounds the whole: Σ_q (T² − (T − R_q²)²) ≥ T² − γ⁴.
        """
        hashed = codec.digest(plan)
        self._ledger.keep_plan(hashed, codec.encode(plan))
        together = kind_of(step).together and plan.unit == "person"
        return {"together": together, "event_level": plan.relation == EVENT, "plan": hashed}

    def _fingerprint(self, admitted: "AdmittedStep", key: bytes) -> bytes:
        presence = admitted.half.reads_presence or "centres_of" in admitted.step.parameters
        return self._table.fingerprint(admitted.step.columns, key, presence=presence)


class AdmittedStep:
    """One step that the policy admitted, as its part in a conversation sees it: the ways out, bound to this step.

    Parameters
    ----------
    gate
        The party's door.
    plan, step, half
        What is asked, and its private half.
    """

    def __init__(self, gate: Gate, plan: Plan, step: Step, half: StepKind) -> None:
        self._gate = gate
        self.plan = plan
        self.step = step
        self.half = half
        self.request, self.body = gate.paid_as(plan, step.name)

    @property
    def party(self) -> str:
        """This party's name."""
        return self._gate.terms.party

    @property
    def policy(self) -> Policy:
        """This party's rules."""
        return self._gate.policy

    def compute(self, function: "Callable[Concatenate[PrivateTable, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of the private half on the table; what it returns leaves as shares or under masks only."""
        return function(self._gate._table, *args, **kwargs)  # noqa: SLF001  # one module, one door

    def prepare(self) -> None:
        """Read the columns, and let the step fail, if it must, before anything is paid."""
        self._gate._table.load(self.step.columns)  # noqa: SLF001
        prepare(self.half, self._gate._table)  # noqa: SLF001

    def sampler(self) -> ExactSampler:
        """Return a sampler on fresh randomness, for noise that is never drawn twice."""
        return ExactSampler(self._gate._randomness)  # noqa: SLF001

    def reserve(self, *, bind: bool = True) -> Reservation:
        """Pay, durably, or find that this step was paid. See `Gate.reserve`."""
        return self._gate.reserve(self, self.half.loss, bind=bind)

    def open_once(self, opened: bytes, part: bytes | None = None) -> None:
        """Keep, durably, what is about to be opened. See `Gate.open_once`."""
        self._gate.open_once(self, opened, part=part)

    def opened(self, part: bytes | None = None) -> bytes | None:
        """Return what was opened of this step, or of a part of it."""
        return self._ledger.opening_of(self.request if part is None else part)

    def record_exact(self, fixed: dict[str, Array]) -> None:
        """Record a step that the budget does not cover, with what it is over; refuse the same step over anything else."""
        answer = codec.encode(_released(self.step, fixed, self.half.title, None))
        kept = self._ledger.answer_to(self.request, self.body)
        if kept is None:
            self._ledger.record_nonprivate(self.request, self.body, label=self._label, **self._row)
            self._ledger.seal(self.request, answer)
        elif kept != answer:
            raise ProtocolError(
                "This study was carried out over other rows or weights before.",
                remedy="Run the study again with the next repeat=.",
            )

    def refuse_if_answered(self, words: str, remedy: str) -> None:
        """Refuse a step that was answered, opened or settled before."""
        answered = self._ledger.answer_to(self.request, self.body) is not None or self.opened() is not None
        if answered:
            raise ReleaseLost(words, remedy=remedy)

    def is_known(self) -> bool:
        """Return whether the ledger has a row for this step."""
        return self._ledger.knows(self.request)

    def is_paid(self) -> bool:
        """Return whether the step is reserved and not yet concluded."""
        return self._ledger.seed_of(self.request) is not None

    def keep_key(self, key: bytes) -> None:
        """Keep a key that the parties agreed on, durably, once."""
        self._ledger.keep_key(self.request, self.body, key, label=self._label, **self._row)

    def kept_key(self, name: str) -> bytes | None:
        """Return the key that the parties agreed on in another step of this plan."""
        return self._ledger.seed_of(self._gate.paid_as(self.plan, name)[0])

    # Orders of rows -----------------------------------------------------------------------------------------------------

    @property
    def row_orders(self) -> "RowOrders":
        """The orders of rows that this party has agreed to."""
        orders = self._gate.row_orders
        assert orders is not None  # a gate in a conversation stands before a guard
        return orders

    def record_order(self) -> None:
        """Record, durably, that an order of rows is about to be kept for this step: after it no second one is."""
        self._ledger.record_alignment(self.request, self.body, label=self._label, **self._row)

    def settle_order(self) -> None:
        """Keep, as the answer to this step, that its orders are settled."""
        self._ledger.seal(self.request, codec.encode(Settled(step=self.step.name)))

    def record_attempt(self, fingerprint: bytes) -> None:
        """Record one attempt to match this party's list, before its first letter leaves."""
        self._ledger.record_list(self._another_request(), fingerprint, label=self._label, **self._row)

    def attempts(self, since: datetime) -> list[bytes]:
        """Return the fingerprints of the lists that were matched since then."""
        rows = [entry for entry in self._ledger.entries() if entry.kind == "list" and entry.when > since]
        return [entry.body or b"" for entry in rows]

    def record_exact_size(self) -> None:
        """Record that the coordinator is told exactly how many people are common."""
        self._ledger.record_nonprivate(self._another_request(), self.body, label=f"{self._label} size", **self._row)

    def keep_order(self, alignment: Alignment) -> Described:
        """Keep an order of rows, durably, and then say so."""
        self.row_orders.add(alignment)
        terms = self._gate.terms
        described = Described(
            party=terms.party,
            schema=tuple(terms.schema.items()),
            alignment=alignment.identity,
            people=alignment.people,
            capacity=terms.capacity,
            union=alignment.union,
        )
        if self.step.price is not None:
            self._ledger.commit(self.request, codec.encode(described))
        else:
            self.record_order()
            self._ledger.seal(self.request, codec.encode(described))
        return described

    def fresh(self, count: int) -> bytes:
        """Return fresh random bytes."""
        return self._gate.fresh(count)

    def now(self) -> datetime:
        """Return the time by the ledger's clock."""
        return self._ledger.now()

    @property
    def alignment(self) -> str:
        """The name of the order of rows that this step is asked on."""
        return self._gate.terms.alignment

    @property
    def _ledger(self) -> SqliteLedger:
        return self._gate._ledger  # noqa: SLF001  # one module, one door

    @property
    def _label(self) -> str:
        return label_of(self.plan, self.step)

    @property
    def _row(self) -> RowTerms:
        return self._gate._row(self.plan, self.step)  # noqa: SLF001  # one module, one door

    def _another_request(self) -> bytes:
        """A name of its own for each row that stands for a run and not for an answer."""
        return digest("colonnade alignment row v1", self.request, self._ledger.head().sequence)


def label_of(plan: Plan, step: Step) -> str:
    """Public words for the ledger: the study, the step, the first digits of the plan's hash."""
    level = " event-level" if plan.relation == EVENT else ""
    return f"{plan.task}/{plan.method}{level} {step.name} {codec.digest(plan).hex()[:12]}"


def _released(step: Step, values: dict[str, Array], title: str, loss: Loss | None) -> Released:
    return Released(
        party=step.party,
        step=step.name,
        values=values,
        mechanism=title,
        loss=None if loss is None else loss.to_bytes(),
    )
