"""The only door out of a party: admit, debit, compute, draw, seal.

The order of the lines in `Gate.answer` is the security argument. A crash between debit and seal loses budget, never privacy;
the same question is never answered twice with fresh noise; nothing is drawn before the debit is durable.

A joint opening takes several turns, so there the debit is a reservation: durable before the first share leaves, it keeps the
seed from which this party's noise follows, and a run that was cut short is taken up again with the same noise (and fresh shares).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.registry import discloses, is_conversation
from colonnade.errors import BudgetExceeded, PlanMismatch, PolicyRefusal, ProtocolError
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.policy import Policy, Terms
from colonnade.party.steps import Earlier, JointStatistic, OpenStatistic, Statistic, nothing_earlier
from colonnade.party.steps.ledger_words import label_of, prepare, row_terms
from colonnade.party.steps.parts import PARTS
from colonnade.party.table import shards
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.loss import Loss, total
from colonnade.privacy.randomness import Randomness
from colonnade.protocol import codec
from colonnade.protocol.messages import Array, Ask, Released, Settled, pack, unpack
from colonnade.steps.matching_terms import is_aligning

if TYPE_CHECKING:
    from colonnade.party.row_orders import Views

__all__ = ["Gate", "Quoted"]


@dataclass(frozen=True)
class Quoted:
    """What a plan would cost one party: losses by step, which are unpaid, and which steps no budget pays for."""

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
        self.table = table
        self.policy = policy
        self.terms = terms
        self.ledger = ledger
        self.randomness = randomness
        self.views: Views | None = None  # the other orders of rows before the same ledger, once there is a guard

    def answer(self, ask: Ask) -> bytes:
        """Answer one step of one plan, exactly once."""
        request, body = codec.request_identity(ask.plan, self.terms.party, ask.step), codec.digest(ask)
        step = ask.plan.step(self.terms.party, ask.step)
        if step.price is None:
            return self._disclose(ask, step)
        stored = self.ledger.answer_to(request, body)
        if stored is not None:
            return stored
        statistic, mechanism = self._admit_local(ask.plan, step)
        shards.load(statistic, self.table, step.columns)  # a source that cannot be read fails here, at no cost
        prepare(statistic, self.table)
        terms = row_terms(self.ledger, ask.plan, step)
        self.ledger.debit(request, body, mechanism.loss, label=label_of(ask.plan, step), **terms)
        value = shards.perturbed(statistic, mechanism, self.table, self.randomness)
        return self.ledger.seal(request, codec.encode(self._release(step, {"value": pack(value)}, mechanism)))

    def _disclose(self, ask: Ask, step: Step) -> bytes:
        """Answer without differential privacy, because the policy allows it by name: recorded, durably, before it leaves.

        A step that takes the coordinator's inputs may be asked many times in one study and is one line in the ledger; its
        answer follows from the data and the inputs. One that takes none is answered once, and its bytes are kept.
        """
        statistic: Any = self._admit(ask.plan, step)
        if not hasattr(statistic, "disclose"):
            raise PolicyRefusal("This statistic has no release without differential privacy.")
        request, body = self.paid_as(ask.plan, ask.step)
        stored = None if ask.inputs else self.ledger.answer_to(request, body)
        if stored is not None:
            return stored
        if step.columns:
            self.table.load(step.columns)
        prepare(statistic, self.table)
        if not self.ledger.knows(request):
            terms = row_terms(self.ledger, ask.plan, step)
            self.ledger.record_nonprivate(request, body, label=label_of(ask.plan, step), **terms)
        inputs = {name: unpack(array) for name, array in ask.inputs.items()}
        values = statistic.disclose(self.table, inputs, self.randomness)
        answer = codec.encode(self._release(step, {name: pack(value) for name, value in values.items()}, statistic))
        return answer if ask.inputs else self.ledger.seal(request, answer)

    # Conversations ------------------------------------------------------------------------------------------------------

    def join(self, plan: Plan, name: str) -> Any:
        """Return this party's part in a conversation; nothing is paid before the first share leaves."""
        step = plan.step(self.terms.party, name)
        return PARTS[step.statistic](self, plan, step, self._admit_conversation(plan, step))

    def recall(self, plan: Plan, name: str) -> bytes | None:
        """Return the kept answer of a conversation, or what this party opened in it, if there is either."""
        step, (request, body) = plan.step(self.terms.party, name), self.paid_as(plan, name)
        kept = self.ledger.answer_to(request, body)
        if kept is None and not is_aligning(step):  # of an alignment only a number is opened, and that is no answer
            kept = self.ledger.opening_of(request)
        if kept is None and step.statistic == "group-key" and self.ledger.knows(request):
            return codec.encode(Settled(step=name))
        return kept

    def conclude(self, plan: Plan, name: str, values: dict[str, Array]) -> bytes:
        """Keep what was opened as the answer to this step, and forget the seed of its shares, or the key."""
        step = plan.step(self.terms.party, name)
        statistic = self._admit_conversation(plan, step)
        request, body = self.paid_as(plan, name)
        kept = self.ledger.answer_to(request, body)
        last = Settled(step=name) if step.statistic == "group-key" else self._release(step, values, statistic)
        return kept or self.ledger.commit(request, codec.encode(last))

    def paid_as(self, plan: Plan, name: str) -> tuple[bytes, bytes]:
        """Return the request id and body hash under which the ledger knows a step."""
        return codec.request_identity(plan, self.terms.party, name), codec.digest(Ask(plan=plan, step=name))

    # Quotes -------------------------------------------------------------------------------------------------------------

    def quote(self, plan: Plan) -> "Quoted":
        """Return what each step costs and which are unpaid, having checked that those together still fit. Spends nothing."""
        steps = plan.steps_of(self.terms.party)
        if not steps:
            raise PlanMismatch("The plan asks nothing of this party.")
        self._require_delta(plan)
        losses = {step.name: loss for step in steps if (loss := self._loss(plan, step)) is not None}
        unpaid = tuple(name for name in losses if not self.ledger.knows(self.paid_as(plan, name)[0]))
        self.ledger.require_room(total(losses[name] for name in unpaid))
        disclosed = tuple(step.name for step in steps if discloses(step))
        return Quoted(losses, unpaid, disclosed)

    def _require_delta(self, plan: Plan) -> None:
        """A ledger answers at its own δ: a study that states its ε at a larger one would promise less than the cap does."""
        cap = self.ledger.budget.delta
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
        return (
            self._admit_conversation(plan, step).loss
            if is_conversation(step)
            else self._admit_local(plan, step)[1].loss
        )

    def _admit(self, plan: Plan, step: Step) -> Any:
        return self.policy.admit(plan, step, self.terms, self._earlier(plan))

    def _admit_local(self, plan: Plan, step: Step) -> tuple[Statistic, Mechanism]:
        statistic = self._admit(plan, step)
        if is_conversation(step):
            raise ProtocolError("This step is opened together with other parties, in turns.")
        if step.price is None:
            raise PolicyRefusal("This statistic has no release without differential privacy.")
        return statistic, statistic.mechanism(step.price)

    def _admit_conversation(self, plan: Plan, step: Step) -> Any:
        if not is_conversation(step):
            raise ProtocolError("This step is not opened together with other parties.")
        return self._admit(plan, step)

    def _earlier(self, plan: Plan) -> Earlier:
        """Return a look at what this party has kept of a plan's earlier steps: from its own ledger, never from a request.

        Of a release these are its values; of a key that the parties agreed on, its bytes (``"key"``).
        """

        def kept(name: str) -> Mapping[str, NDArray[Any]]:
            if plan.step(self.terms.party, name).statistic == "group-key":
                key = self.ledger.seed_of(self.paid_as(plan, name)[0])
                return nothing_earlier(name) if key is None else {"key": np.frombuffer(key, dtype=np.uint8)}
            answer = self.ledger.answer_to(*self.paid_as(plan, name))
            reply = None if answer is None else codec.decode_reply(answer)
            if not isinstance(reply, Released):
                return nothing_earlier(name)
            return {value: unpack(array) for value, array in reply.values.items()}

        return kept

    def _release(
        self, step: Step, values: dict[str, Array], mechanism: Mechanism | JointStatistic | OpenStatistic
    ) -> Released:
        loss = None if step.price is None else cast("Mechanism", mechanism).loss.to_bytes()
        return Released(party=self.terms.party, step=step.name, values=values, mechanism=mechanism.name, loss=loss)
