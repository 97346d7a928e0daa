"""What a kind of step is.

A *step* is one thing that a plan asks of one party. Steps of the same name at several parties belong together: this module
calls all of them the *whole step*. Everything that differs between kinds is an attribute or a method of a `StepKind`: its
terms, who takes part, its law, what it opens to whom, the permission it needs, its traffic, and its words for ledgers and
reports. How a step is computed from the table is said by a `PrivateStep` in `colonnade.party.steps`, which holds it.

A `Forecast` adds up what a study will say: rounds, and bytes to and from every member. Everything large in a message is a
plan, an array whose shape the plan fixes, or shares of rows whose number and width it fixes. The rest (names, hashes,
seals) is a small constant per message. No message is sent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch, PolicyRefusal, ProtocolError
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import NOTHING, Loss, Price
from colonnade.privacy.laws import Mechanism
from colonnade.protocol.messages import SHORTEST_DIRECT
from colonnade.result import Opening
from colonnade.schema import Schema
from colonnade.schema.features import ColumnName
from colonnade.secure.mail import OVERHEAD
from colonnade.steps.terms import only_parameters

SMALL = 60
"""Bytes of a message besides the plan and what is listed here: names, tags, lengths."""
LOSS = len(NOTHING.to_bytes())
HELLO = 290
LETTER = OVERHEAD + 90
SEED = 32


class Forecast:
    """Adds up rounds. Every request carries the plan.

    Parameters
    ----------
    plan_bytes
        How large the plan is.
    """

    def __init__(self, plan_bytes: int) -> None:
        self.plan_bytes = plan_bytes
        self.rounds = 0
        self.to: dict[str, int] = {}
        self.back: dict[str, int] = {}
        self.letters: dict[tuple[str, str], list[int]] = {}

    def round(self, to: Mapping[str, int], back: Mapping[str, int]) -> None:
        """Add one round: bytes to and from each member, besides the plan."""
        self.rounds += 1
        for member, size in to.items():
            self.to[member] = self.to.get(member, 0) + size + self.plan_bytes
        for member, size in back.items():
            self.back[member] = self.back.get(member, 0) + size

    def letter(self, sender: str, receiver: str, size: int) -> None:
        """Note one letter of a round, which could go directly from one member to another if it is not too short."""
        if size >= SHORTEST_DIRECT:
            self.letters.setdefault((sender, receiver), []).append(size)

    def releases(self, step: str, sizes: Mapping[str, int]) -> None:
        """Add one round in which every party sends its own release."""
        self.round(dict.fromkeys(sizes, len(step)), {party: size + LOSS + SMALL + 80 for party, size in sizes.items()})


Steps = Mapping[str, Step]
"""A whole step: the steps of one name, by party, in the plan's order."""

Earlier = Callable[[str], Mapping[str, NDArray[Any]]]
"""What this party released in an earlier step of the same plan, by the step's name. Of a group key, its bytes."""

LOCAL_NOISE = "Each party perturbs its own release with its own independent noise; no peer is trusted."


def nothing_earlier(_: str) -> Mapping[str, NDArray[Any]]:
    """Refuse: nothing was released before."""
    raise ProtocolError("This step rests on an earlier step of its plan, which has not been released.")


class Channel(StrEnum):
    """How members work a step out together."""

    LOCAL = "local"
    """Each party perturbs its own statistic."""
    SUM = "sum"
    """A sum of all parties' vectors under pairwise masks."""
    SHARES = "shares"
    """Products of parties' columns on secret shares, with noise in shares."""
    KEY = "key"
    """A secret that the parties agree on."""
    LISTS = "lists"
    """Private matching of id lists."""


class RowOrderKind(StrEnum):
    """On which row orders a step is answered."""

    COMMON = "common"
    """Rows of people that every party has."""
    UNION = "union"
    """Rows of a union of two lists, in which nobody learns who is in both."""
    ANY = "any"


class Admission(StrEnum):
    """Which rules of a policy a step has to meet."""

    COLUMNS = "columns"
    """The columns must be allowed, and the price too; without a price, the kind's ``permission``."""
    ALIGNMENT = "alignment"
    """The mode of alignment must be allowed."""
    PREDICTION = "prediction"
    """Individual scores must be allowed by model and recipient."""
    NOTHING = "nothing"
    """Nothing is released."""


@dataclass(frozen=True)
class NoiseWords:
    """How a step is perturbed, for reports.

    Parameters
    ----------
    step, parties, kind
        What is released, and by which parties.
    mechanism, sensitivity, scale
        In words, with the numbers in them.
    price
        What the step offers to pay; empty for one that is not private.
    proof
        The class whose documentation has the guarantee.
    """

    step: str
    parties: tuple[str, ...]
    kind: str
    mechanism: str
    sensitivity: str
    scale: str
    price: str
    proof: type | None

    @property
    def private(self) -> bool:
        """Whether anything is guaranteed."""
        return bool(self.price)


class StepKind:
    """One party's step, read from a plan: terms that were validated once. It is made from public facts only.

    Parameters
    ----------
    plan, step
        What is asked.
    schema
        What is public about the party's columns.
    earlier
        What the party released before in the same plan, for kinds that rest on it.
    """

    name: ClassVar[str]
    """The kind's name in a plan."""
    title: ClassVar[str]
    """What is released, in words; statements and reports show it."""
    channel: ClassVar[Channel] = Channel.LOCAL
    conversation: ClassVar[str] = ""
    """How members talk about it, by the name of a conversation; empty for a release of one party's own."""
    parameters: ClassVar[frozenset[str]] = frozenset()
    """The parameters that the kind knows."""
    admission: ClassVar[Admission] = Admission.COLUMNS
    permission: ClassVar[str] = ""
    """What a policy has to list under ``nonprivate`` where the step has no price; by default the kind's own name."""
    without_columns: ClassVar[bool] = False
    """Whether a party may take part without a column, as a helper that adds noise alone."""
    row_order_kind: ClassVar[RowOrderKind] = RowOrderKind.COMMON
    together: ClassVar[bool] = False
    """Whether every party's ledger holds the loss of the whole step, so that a person's total counts it once."""
    keeps_key: ClassVar[bool] = False
    """Whether the step ends with a key in each party's ledger, and with no release."""

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        only_parameters(step, self.parameters)
        self.step = step.name
        self.party = step.party
        self.columns = step.columns
        self.price = step.price
        self.people = plan.people
        self.schema = schema
        self.earlier = earlier
        self._owner = step.party if plan.unit == "party" else None

    @classmethod
    def held_in(cls, plan: Plan, name: str) -> str:
        """Return the name of the conversation in which members work out a whole step."""
        return cls.conversation

    @classmethod
    def tiles_of(cls, plan: Plan, name: str) -> int:
        """Return in how many parts a whole step is opened, each of which is kept by itself."""
        return 1

    # One party's step -------------------------------------------------------------------------------------------------------

    def law(self, price: Price) -> Mechanism:
        """Return the noise that a price buys; computed by the party itself and never taken from a request."""
        raise PolicyRefusal("This step has no release with differential privacy.")

    @property
    def loss(self) -> Loss:
        """What this party's ledger is debited."""
        if self.price is None:
            raise PolicyRefusal("This step has no release without differential privacy.")
        return self.law(self.price).loss

    @property
    def limits_peers(self) -> bool:
        """Whether peers learn something that the price does not count, so that ``max_peer_epsilon`` applies."""
        return False

    @property
    def peer_loss(self) -> Loss | None:
        """What a peer learns where ``limits_peers``; ``None`` if nothing bounds it."""
        return None

    @property
    def release_bytes(self) -> int | None:
        """How large this party's own release is; ``None`` where that is not known before."""
        return None

    def replaced_loss(self, loss: Loss) -> Loss | None:
        """Return the loss if a record is replaced by another instead of by nothing; ``None`` if it is not known."""
        return None

    @classmethod
    def ask(
        cls,
        *,
        name: str,
        party: str,
        columns: tuple[str, ...] = (),
        parameters: dict[str, Parameter] | None = None,
        price: Price | None,
    ) -> Step:
        """Return a step of this kind, to be put into a plan."""
        return Step(name=name, party=party, kind=cls.name, columns=columns, parameters=parameters or {}, price=price)

    # The whole step ---------------------------------------------------------------------------------------------------------

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return who takes part in its conversation, in canonical order; refuse a plan in which it makes no sense."""
        raise PlanMismatch(f"The step {name!r} of {plan.task} is no conversation.")

    @classmethod
    def discloses(cls, step: Step) -> bool:
        """Return whether exact values leave the party, without differential privacy."""
        return step.price is None

    @classmethod
    def openings(cls, whole: "WholeStep", losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Return what the whole step opens to which observer, and at what loss.

        Parameters
        ----------
        whole
            The whole step.
        losses
            What each party computed that its own part costs.
        title
            What perturbed it, in words.
        """
        return tuple(
            cls._own_opening(whole.plan, step, losses.get(party), whole.schemas, title)
            for party, step in whole.steps.items()
        )

    @classmethod
    def _own_opening(
        cls, plan: Plan, step: Step, loss: Loss | None, schemas: Mapping[str, Schema], title: str
    ) -> Opening:
        if loss is None:
            return Opening(title, (step.party,), (None,))
        replaced = cls.of_public(plan, step, schemas).replaced_loss(loss)
        return Opening(title, (step.party,), (loss,), replaced=() if replaced is None else (replaced,))

    @classmethod
    def assumptions(cls, whole: "WholeStep") -> tuple[str, ...]:
        """Return what the guarantee rests on, in words."""
        return (LOCAL_NOISE,) if all(step.price is not None for step in whole.steps.values()) else ()

    @classmethod
    def forecast(cls, whole: "WholeStep", forecast: Forecast, *, kept: bool) -> bool:
        """Add the step's rounds to a forecast of traffic; return whether that is possible."""
        sizes = {party: cls._bytes_of(whole.plan, step, whole.schemas) for party, step in whole.steps.items()}
        if None in sizes.values():
            return False
        forecast.releases(whole.name, {party: size or 0 for party, size in sizes.items()})
        return True

    @classmethod
    def _bytes_of(cls, plan: Plan, step: Step, schemas: Mapping[str, Schema]) -> int | None:
        return cls.of_public(plan, step, schemas).release_bytes

    @classmethod
    def noise_words(cls, whole: "WholeStep") -> tuple[NoiseWords, ...]:
        """Return how the whole step is perturbed, in words, rebuilt from public facts as every party does."""
        return tuple(cls._own_noise(whole.plan, step, whole.schemas) for step in whole.steps.values())

    @classmethod
    def _own_noise(cls, plan: Plan, step: Step, schemas: Mapping[str, Schema]) -> NoiseWords:
        if step.price is None:
            return NoiseWords(step.name, (step.party,), cls.name, cls.title, "", "", "", cls)
        law = cls.of_public(plan, step, schemas).law(step.price)
        sensitivity, scale = law.describe()
        return NoiseWords(
            step.name, (step.party,), cls.name, law.name, sensitivity, scale, price_words(step), type(law)
        )

    @classmethod
    def of_public(cls, plan: Plan, step: Step, schemas: Mapping[str, Schema]) -> "StepKind":
        """Read one party's step from public facts alone."""
        if step.party not in schemas:
            raise BadInput(f"The columns of party {step.party!r} are not described.")
        return cls(plan, step, schemas[step.party])

    @classmethod
    def in_words(cls, steps: Steps) -> str:
        """Return what the whole step is about: its title and the columns that enter."""
        columns = [str(ColumnName(party, column)) for party, step in steps.items() for column in step.columns]
        return f"{cls.title} of {_listed(columns)}" if columns else cls.title


def price_words(step: Step) -> str:
    """Return what a step offers to pay, in words; empty if it has no price."""
    if step.price is None:
        return ""
    return f"ε={step.price.epsilon:.6g}" + (f", δ={step.price.delta:.3g}" if step.price.delta else "")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


KINDS: dict[str, type[StepKind]] = {}
"""Every kind of step by its name; `colonnade.steps.registry` lists them."""


@dataclass(frozen=True)
class PlannedMethod:
    """What the plans of one method of a task may contain, by name.

    Parameters
    ----------
    kinds
        The kinds of step.
    parameters
        The parameters that identify a study besides its steps.
    """

    kinds: frozenset[str]
    parameters: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *kinds: type[StepKind], parameters: Iterable[str] = ()) -> "PlannedMethod":
        """Return a method whose plans have steps of these kinds."""
        return cls(frozenset(kind.name for kind in kinds), frozenset(parameters))


TASKS: dict[str, Mapping[str, PlannedMethod]] = {}
"""Every task that a plan may name, and its methods by name; `colonnade.steps.registry` lists them."""


def require_known(plan: Plan) -> None:
    """Refuse a plan that names a task, a method, a kind of step or a parameter that the registry does not know.

    A plan that nobody meant, such as one with a letter changed on its way, would be another request, and would be paid for.
    """
    method = TASKS.get(plan.task, {}).get(plan.method)
    if plan.task not in TASKS:
        unknown = "a task that is not known here"
    elif method is None:
        unknown = "a method that its task does not have"
    elif not {step.kind for step in plan.steps} <= method.kinds:
        unknown = "a kind of step that its method does not have"
    elif not set(plan.parameters) <= method.parameters:
        unknown = "a parameter that its method does not have"
    elif any(not set(step.parameters) <= KINDS[step.kind].parameters for step in plan.steps):
        unknown = "a parameter that its kind of step does not have"
    else:
        return
    raise PlanMismatch(
        f"The plan names {unknown}.",
        remedy="Check that all members run one version of colonnade, then call fit(...) again.",
    )


def kind_of(step: Step) -> type[StepKind]:
    """Return a step's kind; refuse one that is not known."""
    kind = KINDS.get(step.kind)
    if kind is None:
        raise PolicyRefusal("This party does not know the kind of step that was asked for.")
    return kind


@dataclass(frozen=True)
class WholeStep:
    """The steps of one name at all parties of a plan.

    Parameters
    ----------
    kind
        Their kind.
    plan, steps
        The plan, and its steps of this name by party, in the plan's order.
    schemas
        What is public about the parties' columns, where that is known.
    """

    kind: type[StepKind]
    plan: Plan
    steps: Steps
    schemas: Mapping[str, Schema] = field(default_factory=dict)

    @property
    def first(self) -> Step:
        """The first party's step."""
        return next(iter(self.steps.values()))

    @property
    def name(self) -> str:
        """What the step is called."""
        return self.first.name


def whole_steps(plan: Plan, schemas: Mapping[str, Schema] | None = None) -> Iterator[WholeStep]:
    """Yield every whole step of a plan, in the plan's order."""
    for name, kind in dict.fromkeys((step.name, step.kind) for step in plan.steps):
        found = {step.party: step for step in plan.steps if (step.name, step.kind) == (name, kind)}
        read = {
            party: found[party].read(schema) if party in found else schema for party, schema in (schemas or {}).items()
        }
        yield WholeStep(kind_of(next(iter(found.values()))), plan, found, read)


def is_conversation(step: Step) -> bool:
    """Return whether a step is one member's part in a conversation, and not a release of its own."""
    return bool(kind_of(step).conversation)


def discloses(step: Step) -> bool:
    """Return whether exact values leave in a step, without differential privacy."""
    return kind_of(step).discloses(step)


def uses_compute_nodes(steps: Iterable[Step]) -> bool:
    """Return whether something is computed on shares, so that compute nodes and a threshold are needed."""
    return any(kind_of(step).channel == Channel.SHARES for step in steps)
