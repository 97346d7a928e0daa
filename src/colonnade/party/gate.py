"""The only door out of a party.

Everything that leaves passes one of three methods of `Gate`. The order of their lines is the security argument:

``release``
    Admit, debit (durable, with the seed of the noise), compute, draw, keep, return. This is a release of this party's own.
``reserve``
    Admit, debit (durable, with the seed of the noise), return a handle. This is for a step that members work out together.
``disclose``
    Admit by name, record (durable), compute, return. This is not private, and the policy allows it by name.

A part in a conversation gets an `AdmittedStep`: the gate for that one step, with ``reserve`` and ``disclose``.

A crash between debit and answer loses nothing: the same noise is drawn again from its seed, and the same question is never
answered with two noises.
Nothing is drawn before the debit is durable. The table, the ledger and the randomness belong to the gate: nothing else in
`colonnade.party` or `colonnade.papers.private` writes to the ledger, reads rows or draws. Rows are read inside `among_rows` only,
whose failures are not said.

This is the only module at a party that makes samplers. `Gate.reserve` makes a `Reservation`, after the debit.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.endpoint import not_everybody
from colonnade.conversations.memory import LedgerHead, Statement
from colonnade.errors import BadInput, BudgetExceeded, PlanMismatch, PolicyRefusal, ProtocolError, ReleaseLost
from colonnade.party.ledger.chain import LedgerView
from colonnade.party.ledger.decisions import Decision
from colonnade.party.ledger.ledger import Hold, SqliteLedger
from colonnade.party.ledger.rows import LabelledRow
from colonnade.party.policy import Permission, Policy, Terms, requester_of
from colonnade.party.steps import PRIVATE_STEPS, local
from colonnade.party.steps.agreements import Attempt, may_align
from colonnade.party.steps.participants import Disclosed, Joined, LocalStep, PrivateStep, prepare, require_earlier
from colonnade.party.table.private_table import PrivateTable, among_rows
from colonnade.party.table.row_order import RowOrder
from colonnade.plan import EVENT, About, Plan, Step
from colonnade.privacy.accounting import Loss, total
from colonnade.privacy.randomness import KeyedRandomness, Randomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.protocol import messages
from colonnade.protocol.messages import Array, Ask, Described, Released, Settled, pack, unpack
from colonnade.secure.keys import Identity
from colonnade.steps.alignment import AligningStep
from colonnade.steps.kind import Admission, Earlier, discloses, is_conversation, kind_of, nothing_earlier

if TYPE_CHECKING:
    from colonnade.party.guard import RowOrders


def statement_of(ledger: SqliteLedger, since: Iterable[int]) -> Statement:
    """Return where a ledger stands, as peers are told it, and its roots at earlier rows with proofs."""
    head, earlier = ledger.shown(since)
    read = int(ledger.now().timestamp() * 1_000_000)
    return Statement(LedgerHead(head.ledger, head.sequence, head.root, head.nano, head.forfeited, read), earlier)


@dataclass(frozen=True)
class Quoted:
    """What a plan would cost one party."""

    losses: Mapping[str, Loss]
    """The loss of each private step, by its name."""
    unpaid: tuple[str, ...]
    """The steps that the ledger has not paid for yet."""
    disclosed: tuple[str, ...]
    """The steps that are not private, and so not covered by the budget."""


class EarlierSteps:
    """What this party has kept of a plan's earlier steps, by their names; each is read from its ledger once.

    A worker that is sent a step gets what was read of earlier ones, and no way to the ledger.

    Parameters
    ----------
    read
        Reads one; refuses where nothing was kept.
    found
        What was read before.
    """

    def __init__(
        self, read: Earlier = nothing_earlier, found: Mapping[str, Mapping[str, NDArray[Any]]] | None = None
    ) -> None:
        self._read = read
        self._found = dict(found or {})

    def __call__(self, name: str) -> Mapping[str, NDArray[Any]]:
        """Return what was kept of a step."""
        if name not in self._found:
            self._found[name] = self._read(name)
        return self._found[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return EarlierSteps, (nothing_earlier, self._found)


@dataclass(frozen=True)
class Reservation:
    """A step that is paid for. Its noise follows from the seed that the ledger keeps, so a restarted party draws the same."""

    seed: bytes = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("The seed of a step's noise stays with the gate.")

    def secret(self) -> bytes:
        """Return the seed of this party's shares."""
        return KeyedRandomness(self.seed).spawn("shares").bytes(32)

    def noise(self, label: str) -> ExactSampler:
        """Return a sampler on one of the step's own streams."""
        return ExactSampler(KeyedRandomness(self.seed).spawn("noise").spawn(label))

    def stream(self, label: str) -> ExactSampler:
        """Return a sampler on a stream directly under the seed."""
        return ExactSampler(KeyedRandomness(self.seed).spawn(label))


def released(step: Step, values: dict[str, Array], title: str, loss: Loss | None) -> bytes:
    """Encode what leaves for a step."""
    cost = None if loss is None else loss.to_bytes()
    return messages.encode(Released(party=step.party, step=step.name, values=values, mechanism=title, loss=cost))


def released_values(answer: bytes | None) -> Mapping[str, NDArray[Any]] | None:
    """Return the values of a kept answer; ``None`` if there is none, or if it is no release."""
    reply = None if answer is None else messages.decode_reply(answer)
    return {name: unpack(array) for name, array in reply.values.items()} if isinstance(reply, Released) else None


class OrderRecords:
    """What the ledger records about row orders: attempts to align, what they tell, and which orders are kept.

    Parameters
    ----------
    admitted
        The step that makes an order.
    ledger
        The party's ledger.
    """

    def __init__(self, admitted: "AdmittedStep", ledger: SqliteLedger) -> None:
        self._admitted = admitted
        self._ledger = ledger

    def attempts(self) -> list[Attempt]:
        """Return the attempts to align, in any mode, within the policy's period by the ledger's clock."""
        return Attempt.within(self._admitted.policy.alignment_period, self._ledger.now(), self._ledger.entries())

    def record_attempt(self) -> bytes:
        """Record an attempt, durably, before anything of the list is read; return its name."""
        self._admitted.require_begun()
        name = Attempt.named(self._admitted.request, self._ledger.head().sequence)
        self._ledger.record_list(name, self._admitted.body, **self._admitted.row())
        return name

    def disclose(self, request: bytes, what: str) -> None:
        """Record by name, durably and once, what an attempt is about to tell exactly (`Attempt.telling`)."""
        row = self._admitted.row()
        row["label"] += f" {what}"
        if not self._ledger.knows(request):
            self._admitted.require_begun()
            self._ledger.record_nonprivate(request, self._admitted.body, **row)

    def record_order(self) -> None:
        """Record durably that an order is about to be kept for this step. After that, no second one is."""
        if not self._admitted.is_known():
            self._ledger.record_alignment(self._admitted.request, self._admitted.body, **self._admitted.row())

    def kept(self) -> Described | None:
        """Return what this party said when it kept an order for this step, if it did."""
        answer = self._ledger.answer_to(self._admitted.request, self._admitted.body)
        return None if answer is None else messages.decode(answer, Described)

    def settle(self) -> None:
        """Keep, as the answer to this step, that its orders are settled."""
        self._ledger.seal(self._admitted.request, messages.encode(Settled(step=self._admitted.step.name)))

    def keep(self, order: RowOrder) -> Described:
        """Keep an order durably, and then describe it; after a crash it is kept already."""
        with among_rows():
            gate = self._admitted.row_orders.add(order)
        kept = self.kept()
        if kept is not None:
            return kept
        described = gate.terms.described(gate.policy)
        if self._admitted.step.price is not None:
            self._ledger.commit(self._admitted.request, messages.encode(described))
        else:
            self.record_order()
            self._ledger.seal(self._admitted.request, messages.encode(described))
        return described


P = ParamSpec("P")
T = TypeVar("T")
MOST_AGREED = 64
"""Admitted steps that are kept from a party's yes until they are asked for; of older ones the policy is asked again."""


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
        self.row_orders: RowOrders | None = None  # all row orders before this ledger, once there is a guard
        self._agreed: OrderedDict[tuple[bytes, str], PrivateStep[Any]] = OrderedDict()
        """Steps that were admitted when this party agreed to their plan, by its hash. Each is used once: it may keep what a run
        gave it. Policy and terms of a gate never change, and the ledger is asked anew in any case."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("A gate stays where it is.")  # no worker ever gets the ledger, or the randomness

    # The three ways out --------------------------------------------------------------------------------------------------

    def release(self, ask: Ask) -> bytes:
        """Answer one step of one plan with noise, exactly once."""
        self.terms.require_version(ask.plan)
        request, body = messages.request_identity(ask.plan, self.terms.party, ask.step), messages.digest(ask)
        stored = self._ledger.answer_to(request, body)
        if stored is not None:
            return stored
        step = ask.plan.step(self.terms.party, ask.step)
        private = _local(step, self._admitted(ask.plan, step))
        assert step.price is not None  # or it would not have been admitted
        law = private.law(step.price)
        require_earlier(private)
        self.require_begun(ask.plan)  # before a row is read; and again after that, which may take its time
        with among_rows():
            table = self._table.read_as(private.schema)
            local.load(private, table, step.columns)  # a source that cannot be read fails here, at no cost
            prepare(private, table)
        admitted = AdmittedStep(self, ask.plan, step, cast("PrivateStep[Any]", private))
        admitted.body = body
        reservation = self.reserve(admitted, law.loss)
        with among_rows():
            value = local.perturbed(private, law, table, reservation.stream("release"))
        return self._ledger.commit(request, released(step, {"value": pack(value)}, law.name, law.loss))

    def reserve(self, admitted: "AdmittedStep", loss: Loss) -> Reservation:
        """Pay for a step, or find that it was paid; return a handle that gives its noise.

        The ledger keeps 32 random bytes, so that after a restart the same noise is added. The same masks over other values would
        show the difference. Here the values are the same: a step belongs to a plan, which names the data version, and one
        version is one table.
        """
        kept = self._ledger.seed_of(admitted.request)
        if kept is None:
            self.require_begun(admitted.plan)
            kept = self._randomness.bytes(32)
            row = self._row(admitted.plan, admitted.step)
            self._ledger.reserve(admitted.request, admitted.body, loss, seed=kept, **row)
        return Reservation(kept)

    def disclose(self, ask: Ask) -> bytes:
        """Answer without differential privacy, because the policy allows it by name: recorded durably before it leaves.

        A step that takes the coordinator's inputs may be asked many times in one study and is one line in the ledger. Its
        answer follows from the data and the inputs. A step without inputs is answered once, and its bytes are kept.
        """
        step = ask.plan.step(self.terms.party, ask.step)
        private = self._admitted(ask.plan, step)
        if not isinstance(private, Disclosed):
            raise PolicyRefusal("This step has no release without differential privacy.")
        private.accept({name: unpack(array) for name, array in ask.inputs.items()})
        request, body = self.ledger_key(ask.plan, ask.step)
        stored = None if ask.inputs else self._ledger.answer_to(request, body)
        if stored is not None:
            return stored
        if not self._ledger.knows(request):
            self.require_begun(ask.plan)
            self._ledger.record_nonprivate(request, body, **self._row(ask.plan, step))
        with among_rows():
            table = self._table.read_as(private.schema)
            table.load(step.columns)
            values = private.disclose(table)
        answer = released(step, {name: pack(value) for name, value in values.items()}, private.title, None)
        return answer if ask.inputs else self._ledger.seal(request, answer)

    def answer(self, ask: Ask) -> bytes:
        """Answer one step: by `release` where it has a price, else by `disclose`."""
        private = ask.plan.step(self.terms.party, ask.step).price is not None
        return self.release(ask) if private else self.disclose(ask)

    # Conversations ------------------------------------------------------------------------------------------------------

    def join(self, plan: Plan, name: str) -> object:
        """Return this party's part in a conversation; nothing is paid before the first share leaves."""
        step = plan.step(self.terms.party, name)
        _require_conversation(step)
        private = self._admitted(plan, step)
        if not isinstance(private, Joined):
            raise ProtocolError("This step is not worked out in a conversation.")
        if not self._ledger.knows(self.ledger_key(plan, name)[0]):
            self.require_begun(
                plan
            )  # a key or a row order is no debit, and is made for nobody who was not agreed with either
        return private.join(AdmittedStep(self, plan, step, private))

    def recall(self, plan: Plan, name: str) -> bytes | None:
        """Return the kept answer of a conversation, if there is one. What is opened in tiles is kept with them (`RunRecords`)."""
        self.terms.require_version(plan)
        kind, (request, body) = kind_of(plan.step(self.terms.party, name)), self.ledger_key(plan, name)
        if kind.tiles_of(plan, name) > 1:
            return None
        kept = self._ledger.answer_to(request, body)
        if kept is None and kind.keeps_key and self._ledger.knows(request):
            return messages.encode(Settled(step=name))
        return kept

    def conclude(self, plan: Plan, name: str, values: dict[str, Array]) -> bytes:
        """Keep what was opened as the answer to this step, and forget the seed of its shares, or the key."""
        step = plan.step(self.terms.party, name)
        _require_conversation(step)
        private = self._admit(plan, step)
        request, body = self.ledger_key(plan, name)
        kept = self._ledger.answer_to(request, body)
        if kept is not None:
            return kept
        loss = None if step.price is None else private.loss
        settled = messages.encode(Settled(step=name))
        return self._ledger.commit(
            request, settled if private.keeps_key else released(step, values, private.title, loss)
        )

    def was_begun(self, plan: Plan, name: str) -> bool:
        """Return whether the ledger has a row of this party's part in a step, or of an attempt to align."""
        request, body = self.ledger_key(plan, name)
        aligns = any(kind_of(step).admission == Admission.ALIGNMENT for step in plan.steps if step.name == name)
        attempts = self._ledger.entries() if aligns else ()
        return self._ledger.knows(request) or any(row.kind == "list" and row.body == body for row in attempts)

    def ledger_key(self, plan: Plan, name: str) -> tuple[bytes, bytes]:
        """Return the request id and body hash under which the ledger knows a step."""
        return messages.request_identity(plan, self.terms.party, name), messages.digest(Ask(plan=plan, step=name))

    def keep_about(self, plan: Plan, about: About) -> None:
        """Keep title, purpose and requester of a study, with the first row that its plan gets in the ledger."""
        about.require_signed(messages.digest(plan), self.terms.analysts)
        self._ledger.keep_plan(messages.digest(plan), messages.encode(plan), about)

    # Accounts -----------------------------------------------------------------------------------------------------------

    def quote(self, plan: Plan, *, hold: bool = False) -> Quoted:
        """Return what each step costs and which are unpaid, and hold the unpaid ones if asked to. Spends nothing.

        Whatever this party could refuse the plan for, it refuses now: what it says later is said after others have paid.
        """
        steps = plan.steps_of(self.terms.party)
        if not steps:
            raise PlanMismatch("The plan asks nothing of this party.")
        self._require_delta(plan)
        privates = {step.name: self._admit(plan, step) for step in steps}
        losses = {step.name: loss for step in steps if (loss := _loss(step, privates[step.name])) is not None}
        keys = {step.name: self.ledger_key(plan, step.name)[0] for step in steps}
        new = {name for name, key in keys.items() if not self._ledger.knows(key)}
        aligning = self._refuse_alignments(plan, steps, privates)
        disclosed = tuple(step.name for step in steps if discloses(step))
        tells = any(name in new for name in disclosed) or any(one.told for one in aligning)
        hashed, unpaid = messages.digest(plan), tuple(name for name in losses if name in new)
        about = self._ledger.said(hashed)
        held = Hold(
            hashed,
            requester_of(about),
            "" if about is None else about.purpose,
            {key: losses.get(name) for name, key in keys.items()},
            bool(aligning),
        )
        if unpaid or tells:
            cost = total(losses[name] for name in unpaid).of_plan(hashed)
            self._authorise(plan, cost, discloses=tells)
        (self._ledger.hold if hold else self._ledger.require_room)(held)
        if hold:
            self._agreed |= {(hashed, name): private for name, private in privates.items()}
            while len(self._agreed) > MOST_AGREED:
                self._agreed.popitem(last=False)
        return Quoted(losses, unpaid, disclosed)

    def _refuse_alignments(
        self, plan: Plan, steps: Iterable[Step], privates: Mapping[str, PrivateStep[Any]]
    ) -> list[AligningStep]:
        """Refuse rows that may not be aligned again; return the steps that align them. What is held counts as an attempt."""
        aligning = [step for step in steps if issubclass(kind_of(step), AligningStep)]
        found = [AdmittedStep(self, plan, step, privates[step.name]) for step in aligning]
        hashed = messages.digest(plan)
        others = self._ledger.held(hashed, requester_of(self._ledger.said(hashed))) if found else []
        held = [one.plan for one in others if one.aligns]
        begun = {entry.plan for entry in self._ledger.entries() if entry.kind == "list"} if held else set()
        pending = len(set(held) - begun)
        return [one.private.step for one in found if may_align(one, one.private.step, pending)]

    def _authorise(self, plan: Plan, cost: Loss, *, discloses: bool = False) -> None:
        """Refuse what its requester may not have, or what waits for the owner's approval. Only for what is not paid yet."""
        if self.policy.judges_requesters:
            delta, entries, now = self._ledger.budget.delta, self._ledger.entries(), self._ledger.now()
            held = self._ledger.held(but=messages.digest(plan))
            allowed = Permission(self.policy, self.terms.party, delta, entries, now, held)
            allowed.require(plan, self._ledger.said(messages.digest(plan)), cost, discloses=discloses)

    def say_yes(self, plan: bytes) -> None:
        """Hold for as long as anybody may pay who hears the yes that is about to be said."""
        self._ledger.sign_hold(plan)

    def begin(self, plan: bytes, issued: float) -> None:
        """Let a plan be paid for: everybody's yes was checked, over a nonce that was issued at this time."""
        self._ledger.begin_hold(plan, issued)

    def withdraw(self, plan: bytes) -> None:
        """Hold nothing for a plan any more, unless it may be paid for now."""
        self._ledger.end_hold(plan)

    def require_begun(self, plan: Plan) -> None:
        """Refuse to write a step's first row before everybody has said yes, after the deadline, or for another requester."""
        hashed = messages.digest(plan)
        about = self._ledger.said(hashed)
        if not self._ledger.is_payable(hashed, requester_of(about), "" if about is None else about.purpose):
            raise not_everybody()

    def decide(self, decision: Decision, identity: Identity) -> None:
        """Record a decision of the party's owner, signed with the party's key. No request reaches this."""
        self._ledger.decide(decision.signed(self._ledger.identity, identity))

    def reordered(self, order: NDArray[np.int64], terms: Terms) -> "Gate":
        """Return a gate before another order of the same rows, with the same policy, ledger and randomness."""
        return self.before(self._table.reordered(order), terms)

    def before(self, table: PrivateTable, terms: Terms) -> "Gate":
        """Return a gate before another table, with the same policy, ledger and randomness."""
        return Gate(table, self.policy, terms, self._ledger, self._randomness)

    def declare_version(self) -> bool:
        """Declare in the ledger, before anything is answered, which version this table is; return whether it is a new one.

        A version never goes back. The refusal is for the party's owner, who opens the table.
        """
        version, current = self.terms.version, self._ledger.current_version() or 0
        if version < current:
            raise BadInput(
                f"Version {version} of the data of party {self.terms.party!r} is older than version {current}, which was "
                "declared before.",
                remedy=f"Pass version={current} with the same table, or version={current + 1} with another one.",
            )
        if version > current:
            self._ledger.declare_version(version)
        return version > current

    @property
    def ledger(self) -> LedgerView:
        """What may be read of the ledger."""
        return LedgerView(self._ledger)

    def random_bytes(self, count: int) -> bytes:
        """Return fresh random bytes, for this party's conversations."""
        return self._randomness.bytes(count)

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def _require_delta(self, plan: Plan) -> None:
        """Refuse a study with a larger δ than the ledger's: it would promise less than the party's budget does."""
        cap = self._ledger.budget.delta
        if plan.price is not None and plan.price.delta > cap:
            raise BudgetExceeded(
                f"The study's delta of {plan.price.delta:g} exceeds the {cap:g} in the budget of party {self.terms.party!r}.",
                remedy=f"Pass a delta of at most {cap:g}; federation.budget() shows it.",
            )

    def _admit(self, plan: Plan, step: Step) -> PrivateStep[Any]:
        admitted = self.policy.admit(plan, step, self.terms, self._earlier(plan))
        return PRIVATE_STEPS[admitted.name](admitted)

    def _admitted(self, plan: Plan, step: Step) -> PrivateStep[Any]:
        """Return a step as it was admitted when the plan was agreed to, once; admit it now if it was not, or was before."""
        private = self._agreed.pop((messages.digest(plan), step.name), None)
        if private is None:
            return self._admit(plan, step)
        private.step.earlier = self._earlier(plan)  # what earlier steps have kept is read now: a key may be gone
        return private

    def _earlier(self, plan: Plan) -> Earlier:
        """Return a function that reads what this party has kept of a plan's earlier step, by the step's name.

        It reads this party's own ledger, never a request. Of a release it returns the values; of a key that the parties agreed
        on, the bytes (``"key"``).
        """

        def kept(name: str) -> Mapping[str, NDArray[Any]]:
            if kind_of(plan.step(self.terms.party, name)).keeps_key:
                key = self._ledger.seed_of(self.ledger_key(plan, name)[0])
                return nothing_earlier(name) if key is None else {"key": np.frombuffer(key, dtype=np.uint8)}
            values = released_values(self._ledger.answer_to(*self.ledger_key(plan, name)))
            return nothing_earlier(name) if values is None else values

        return EarlierSteps(kept)

    def _row(self, plan: Plan, step: Step) -> LabelledRow:
        """Hand the plan over to the ledger, and return what a row says about its step, but for its loss.

        A loss that every party's ledger holds whole is marked, so that a person's total counts it once. Losses of parts (the
        party unit) are added instead, which bounds the whole: Σ_q (T² − (T − R_q²)²) ≥ T² − γ⁴.
        """
        hashed, is_event = messages.digest(plan), plan.relation == EVENT
        self._ledger.keep_plan(hashed, messages.encode(plan))
        level = " event-level" if is_event else ""
        return {
            "label": f"{plan.task}/{plan.method}{level} {step.name} {hashed.hex()[:12]}",
            "together": kind_of(step).together and plan.unit == "person",
            "event_level": is_event,
            "plan": hashed,
            "version": self.terms.version,
        }


def _loss(step: Step, private: PrivateStep[Any]) -> Loss | None:
    """Return what a step costs; ``None`` for one that releases nothing, or is not private and allowed by name."""
    if step.price is None:
        return None
    return private.loss if is_conversation(step) else _local(step, private).law(step.price).loss


def _local(step: Step, private: PrivateStep[Any]) -> LocalStep:
    if is_conversation(step):
        raise ProtocolError("This step is opened together with other parties, in turns.")
    if step.price is None or not isinstance(private, LocalStep):
        raise PolicyRefusal("This step has no release without differential privacy.")
    return private


def _require_conversation(step: Step) -> None:
    if not is_conversation(step):
        raise ProtocolError("This step is not opened together with other parties.")


class AdmittedStep:
    """One step that the policy admitted, as this party's part in a conversation sees it: the gate, bound to this step.

    Parameters
    ----------
    gate
        The party's door.
    plan, step, private
        What is asked, and how this party computes it.
    """

    def __init__(self, gate: Gate, plan: Plan, step: Step, private: PrivateStep[Any]) -> None:
        self._gate = gate
        self.plan = plan
        self.step = step
        self.private = private
        self.request, self.body = gate.ledger_key(plan, step.name)

    @property
    def party(self) -> str:
        """This party's name."""
        return self._gate.terms.party

    @property
    def policy(self) -> Policy:
        """This party's rules."""
        return self._gate.policy

    @property
    def row_orders(self) -> "RowOrders":
        """The row orders that this party has agreed to."""
        orders = self._gate.row_orders
        assert orders is not None  # a gate in a conversation stands before a guard
        return orders

    @property
    def order_records(self) -> OrderRecords:
        """The ledger's records about row orders, for steps that make one."""
        return OrderRecords(self, self._ledger)

    # Data and noise -----------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Read the columns. A step that cannot be answered fails here, before anything is paid."""
        require_earlier(self.private)
        with among_rows():
            table = self._gate._table.read_as(self.private.schema)  # noqa: SLF001  # one module, one door
            table.load(self.step.columns)
            prepare(self.private, table)

    def compute(self, function: "Callable[Concatenate[PrivateTable, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of the private step on the table. What it returns leaves as shares or under masks only."""
        with among_rows():
            return function(self._gate._table.read_as(self.private.schema), *args, **kwargs)  # noqa: SLF001

    def each(self, part: "Callable[[PrivateTable, int, int], T]", ranges: Iterable[tuple[int, int]]) -> Iterator[T]:
        """Yield what a function makes of ranges of people (`PrivateTable.each`). It leaves as shares or under masks only."""
        with among_rows():
            found = self._gate._table.read_as(self.private.schema).each(part, ranges)  # noqa: SLF001
        while True:
            with among_rows():
                try:
                    one = next(found)
                except StopIteration:
                    return
            yield one

    # What the ledger keeps ----------------------------------------------------------------------------------------------

    def is_known(self) -> bool:
        """Return whether the ledger has a row for this step."""
        return self._ledger.knows(self.request)

    def refuse_if_concluded(self) -> None:
        """Refuse a step that is over: its seed is gone, and with another it would be opened a second time."""
        if self._ledger.answer_to(self.request, self.body) is not None:
            raise ReleaseLost(
                "This step was concluded before, and is opened once.",
                remedy="Ask for what was kept of it, or run the study again with the next repeat=, at a new price.",
            )

    def reserve(self) -> Reservation:
        """Pay durably, or find that this step was paid. See `Gate.reserve`."""
        return self._gate.reserve(self, self.private.loss)

    def disclose(self, fixed: dict[str, Array]) -> None:
        """Record by name, durably, what a conversation is about to open exactly; refuse the same step over anything else.

        ``fixed`` is what the coordinator has sent, and no function of rows.
        """
        answer = released(self.step, fixed, self.private.title, None)
        kept = self._ledger.answer_to(self.request, self.body)
        if kept is None:
            self.require_begun()
            self._ledger.record_nonprivate(self.request, self.body, **self.row())
            self._ledger.seal(self.request, answer)
        elif kept != answer:
            raise ProtocolError(
                "This study was carried out over other rows or weights before.",
                remedy="Run the study again with the next repeat=.",
            )

    def require_begun(self) -> None:
        """Refuse a first row before everybody has said yes. See `Gate.require_begun`."""
        self._gate.require_begun(self.plan)

    def keep_key(self, key: bytes) -> None:
        """Keep a key that the parties agreed on, durably, once."""
        self._ledger.keep_key(self.request, self.body, key, **self.row())

    def kept_key(self, name: str) -> bytes | None:
        """Return the key that the parties agreed on in another step of this plan."""
        return self._ledger.seed_of(self._gate.ledger_key(self.plan, name)[0])

    def row(self) -> LabelledRow:
        """Return what a row of the ledger says about this step, but for its loss."""
        return self._gate._row(self.plan, self.step)  # noqa: SLF001  # one module, one door

    @property
    def _ledger(self) -> SqliteLedger:
        return self._gate._ledger  # noqa: SLF001  # one module, one door
