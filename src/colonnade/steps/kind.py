"""What a kind of step is.

A *step* is one thing that a plan asks of one party. Steps of the same name at several parties belong together: this module
calls all of them the *whole step*. Everything that differs between kinds is an attribute or a method of a `StepKind`: its
terms, who takes part, its law, what it opens to whom, the permission it needs, its traffic, and its words for ledgers and
reports. How a step is computed from the table is said by a `PrivateStep` in `colonnade.party.steps`, which holds it.

A `Forecast` adds up what a study will say: rounds, and bytes to and from every member. Everything large in a message is a
plan, an array whose shape the plan fixes, or shares of rows whose number and width it fixes. The rest (names, hashes,
seals) is a small constant per message. No message is sent.

*Terms* that many kinds have in common: parameters, coded columns as bounded integers, scores under public weights. What is
missing, unknown or of another type is refused before any data is read. Coded columns are what `colonnade.schema`
maps to [−1, 1], times γ and rounded. Rounding to the nearest integer keeps |entry| ≤ γ because γ is an integer. A category
adds γ² to a row's squared length however many levels it has. So a row of b columns has squared length at most bγ² by
construction, and nothing needs clipping unless the plan allows less. A missing number is the midpoint, which is coded as 0. A
missing category is 0 in every indicator. A model is public once it is released, so the weights of scores stand in the plan.
These are public facts: `colonnade.party.table.private_table` makes the integers from a table.

*Joint openings* (`JointStep`): products of parties' columns, worked out on secret shares and opened once, with noise in shares.
What a party contributes is integer rows to be shared, noise for every entry between two parties, and a part of its own,
noised by it alone. How rows are shared, multiplied and opened is said in `colonnade.conversations.products`. The debit is a
reservation: durable before the first share leaves, it keeps the seed of this party's noise. A run that was cut short is taken
up again with the same noise and fresh shares.

Every member reads the same plan and arrives at the same terms, or refuses. Nothing in them is private.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import BadInput, NotEnoughComputeNodes, PlanMismatch, PolicyRefusal, ProtocolError, SchemaMismatch
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import NOTHING, Loss, Price
from colonnade.privacy.laws import Mechanism
from colonnade.privacy.laws.shared import SharedNoise
from colonnade.protocol import messages
from colonnade.protocol.agreement import FederationAgreement
from colonnade.protocol.messages import SHORTEST_DIRECT
from colonnade.result import COORDINATOR, COORDINATOR_ALONE, Opening
from colonnade.schema import ColumnName, Schema
from colonnade.secure.keys import OVERHEAD
from colonnade.secure.residues import Arithmetic, gram_bound
from colonnade.secure.shamir import Rectangle, check_repetitions, cut, rectangles, require_threshold, seeded_points

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


class ReadsEarlier(Protocol):
    """How columns are read by what this party released before."""

    def schema(self, earlier: Earlier) -> Schema:
        """Return what the party's columns are read as; refuse if nothing was released."""


LOCAL_NOISE = "Each party perturbs its own release with its own independent noise; no peer is trusted."


def nothing_earlier(_: str) -> Mapping[str, NDArray[Any]]:
    """Refuse: nothing was released before."""
    raise ProtocolError("This step rests on an earlier step of its plan, which has not been released.")


class StepChannel(StrEnum):
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
    channel: ClassVar[StepChannel] = StepChannel.LOCAL
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
    standardised: "ReadsEarlier | None" = None
    """How it reads columns by what an earlier step released, if it does (`colonnade.steps.spreads`)."""

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


PACKAGES = ("colonnade.papers",)
"""The packages beside the core that may add to a `Registry`: all of them, and no others."""

Name = TypeVar("Name")
Entry = TypeVar("Entry")


class Registry(Mapping[Name, Entry]):
    """What can be asked for by name: what the core lists, and what the packages of `PACKAGES` add.

    A package is imported once a name is asked for that the core does not have, or once everything is listed. It registers what
    it adds when its modules are imported, as the core does. No two may have one name.

    A registry is an allow-list: a party answers nothing else. So nobody else's package is ever loaded, and no entry point is
    read. A package beyond ours computes on rows: a party would have to name it in its policy, and its hash would have to stand
    in the federation's papers. There is no such rule yet, so `register` refuses it.

    Parameters
    ----------
    room
        The module of a package that registers here, such as ``"steps"``.
    """

    def __init__(self, room: str) -> None:
        self._room = room
        self._entries: dict[Name, Entry] = {}

    def register(self, module: str, entries: Mapping[Name, Entry]) -> None:
        """Add entries.

        This goes by what the caller says its module is called. That is no defence against code that already runs in a party's
        process: such code could change the entries without it. What protects a party is that nothing but colonnade and
        `PACKAGES` is ever imported (no entry points, no names from a message or a policy). The check catches honest mistakes.

        Parameters
        ----------
        module
            Who adds them: ``__name__`` of the module.
        entries
            What is added, by name.
        """
        if not module.startswith("colonnade."):  # every package of `PACKAGES` is one of ours
            raise BadInput(
                f"{module} is no part of colonnade, and no party has agreed to run it.",
                remedy="Add it to the packages in colonnade.steps.kind, in a version that all members install.",
            )
        taken = [name for name in entries if name in self._entries]
        if taken:
            raise BadInput(f"{taken[0]!r} is registered already.", remedy="Choose another name.")
        self._entries.update(entries)

    def __getitem__(self, name: Name) -> Entry:
        if name not in self._entries:
            self._load()
        return self._entries[name]

    def __iter__(self) -> Iterator[Name]:
        self._load()
        return iter(self._entries)

    def __len__(self) -> int:
        self._load()
        return len(self._entries)

    def _load(self) -> None:
        for package in PACKAGES:
            import_module(f"{package}.{self._room}")


KINDS: Registry[str, type[StepKind]] = Registry("steps")
"""Every kind of step by its name; `colonnade.steps.registry` lists those of the core."""


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


TASKS: Registry[tuple[str, str], PlannedMethod] = Registry("steps")
"""Every task and method that a plan may name; `colonnade.steps.registry` lists those of the core."""


def require_known(plan: Plan) -> None:
    """Refuse a plan that names a task, a method, a kind of step or a parameter that the registry does not know.

    A plan that nobody meant, such as one with a letter changed on its way, would be another request, and would be paid for.
    """
    method = TASKS.get((plan.task, plan.method))
    if method is None:
        known = any(task == plan.task for task, _ in TASKS)
        unknown = "a method that its task does not have" if known else "a task that is not known here"
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
    return any(kind_of(step).channel == StepChannel.SHARES for step in steps)


LARGEST_NUMBER = 2.0**200
"""The largest weight, and the largest divisor. Sums and quotients of such numbers are finite."""

LARGEST_WHOLE = 2**62 - 1


def only_parameters(step: Step, allowed: frozenset[str]) -> dict[str, Parameter]:
    """Return a step's parameters. An unknown one could mean less noise, so it is refused."""
    if not set(step.parameters) <= allowed:
        raise BadInput("A step has a parameter that its kind does not know.")
    return step.parameters


def whole_parameter(
    parameters: Mapping[str, Parameter], name: str, largest: int = LARGEST_WHOLE, *, least: int = 1
) -> int:
    """Return a whole number within bounds."""
    value = parameters.get(name)
    if type(value) is not int or not least <= value <= largest:
        raise BadInput(f"A step's {name} must be a whole number between {least} and {largest}.")
    return value


def number_parameter(parameters: Mapping[str, Parameter], name: str) -> float:
    """Return a number of ordinary size."""
    return _number(parameters.get(name), name)


def number_list(parameters: Mapping[str, Parameter], name: str) -> tuple[float, ...]:
    """Return a list of numbers of ordinary size. A product that overflows is not a number, and no clamp holds that."""
    values = parameters.get(name)
    if not isinstance(values, tuple):
        raise BadInput(f"A step's {name} must be a list of numbers.")
    return tuple(_number(value, name) for value in values)


def whole_list(parameters: Mapping[str, Parameter], name: str) -> tuple[int, ...]:
    """Return a list of whole numbers."""
    values = parameters.get(name)
    if not isinstance(values, tuple) or any(type(value) is not int for value in values):
        raise BadInput(f"A step's {name} must be a list of whole numbers.")
    return tuple(int(value) for value in values)


def word_list(parameters: Mapping[str, Parameter], name: str) -> tuple[str, ...]:
    """Return a list of names; an absent one is empty."""
    values = parameters.get(name, ())
    if not isinstance(values, tuple) or any(not isinstance(value, str) for value in values):
        raise BadInput(f"A step's {name} must be a list of names.")
    return tuple(str(value) for value in values)


def require_width(planned: object, coded: int) -> None:
    """Refuse a plan that expects another number of columns than a party's columns are coded as."""
    if planned != coded:
        raise PlanMismatch("The plan's width does not match this party's coded columns.")


def seed_parameter(parameters: Mapping[str, Parameter], default: str = "") -> bytes:
    """Return 32 public bytes from their hexadecimal form."""
    try:
        seed = bytes.fromhex(str(parameters.get("seed", default)))
    except ValueError:
        seed = b""
    if len(seed) != 32:
        raise BadInput("A step's seed must be 32 bytes in hexadecimal.")
    return seed


def _number(value: object, name: str) -> float:
    if type(value) not in (float, int) or not abs(value) <= LARGEST_NUMBER:  # type: ignore[arg-type]  # a number by now
        raise BadInput(f"A step's {name} must be a number of ordinary size.")
    return float(value)  # type: ignore[arg-type]  # likewise


LARGEST_SCALE = 1 << 20
"""The largest γ of a fixed point."""
LARGEST_SHORT_SCALE = 2**15 - 1
"""The largest γ where a party keeps its rows in two bytes per number."""


def valid_scale(scale: object, largest: int = LARGEST_SCALE, *, example: str = "scale=4096") -> int:
    """Return γ; refuse what is no whole number within bounds."""
    if type(scale) is not int or not 1 <= scale <= largest:
        raise BadInput(f"scale is a whole number between 1 and {largest:,}.", remedy=f"For example {example}.")
    return scale


class FixedPoint:
    """How one party's columns become integers.

    Parameters
    ----------
    columns, schema
        Which columns, and what is public about them.
    scale
        γ.
    signed
        Categories of two levels coded as one column: −γ, γ, or 0 if missing.
    row_bound
        The squared length that no row may exceed. Rows are scaled down and truncated towards zero where it is below bγ².
    number_bound
        The squared length that a row's numbers may not exceed by themselves, if they are clipped so. They are scaled down
        together; levels, signs and indicators stay as they are.
    """

    def __init__(
        self,
        columns: Sequence[str],
        schema: Schema,
        *,
        scale: int,
        signed: Sequence[str] = (),
        row_bound: int,
        number_bound: int | None = None,
    ) -> None:
        if type(row_bound) is not int or row_bound < 1:
            raise BadInput("row_bound is a positive whole number.")
        if not set(signed) <= set(columns) or len(set(columns)) != len(columns):
            raise BadInput(
                "A column is named twice, or signed and not asked for.",
                remedy="Name each column once, and in signed= only columns that are asked for.",
            )
        self.columns = tuple(columns)
        self.schema = schema
        self.scale = valid_scale(scale)
        self.signed = frozenset(signed)
        self.widths = [self._width(name) for name in columns]
        self.row_bound = row_bound
        starts = np.cumsum([0, *self.widths])[:-1]
        self.numbers = [int(start) for start, name in zip(starts, columns, strict=True) if schema[name].is_measured]
        longest = scale**2 * len(self.numbers)
        self.number_bound = longest if number_bound is None else min(number_bound, longest)
        self.clips_numbers = self.number_bound < longest
        self.clips = row_bound < scale**2 * (len(columns) - len(self.numbers)) + self.number_bound

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return sum(self.widths)

    def _width(self, name: str) -> int:
        column = self.schema[name]
        if name not in self.signed:
            return column.width
        if not column.is_number and column.size != 2:
            raise SchemaMismatch(
                f"Column {name!r} has more than two levels and cannot be coded as a sign.",
                remedy="Leave it out of signed=: it is then coded by its levels.",
            )
        if column.is_number:
            raise SchemaMismatch(
                f"Column {name!r} is numeric and cannot be coded as a sign.",
                remedy="Leave it out of signed=: numbers need no sign.",
            )
        return 1


class ScoreWeights:
    """Weights of one party's coded columns.

    Parameters
    ----------
    columns, schema
        Which columns, and what is public about them.
    weights
        One row per output and one weight per coded column, in the order of ``columns``, levels in schema order; row by row.
    """

    def __init__(self, columns: Sequence[str], schema: Schema, weights: Sequence[float]) -> None:
        self.columns = tuple(columns)
        self.schema = schema
        self.widths = [schema[name].width for name in columns]
        outputs, rest = divmod(len(weights), sum(self.widths))
        if rest or not outputs:
            raise PlanMismatch("The plan's number of weights does not match this party's coded columns.")
        self.weights: NDArray[np.float64] = np.array(weights, dtype=np.float64).reshape(outputs, -1)

    @property
    def outputs(self) -> int:
        """How many scores there are."""
        return len(self.weights)


class BoundedScores:
    """Partial scores as bounded integers: a few columns that stand for all of a party's, in a Gram matrix.

    Every output is divided by its largest magnitude, multiplied by its height and rounded. What a plan's magnitude leaves outside
    is clamped, so |entry| ≤ height whatever the plan says, and a row's squared length is at most the sum of squared heights: the
    row bound. A null record is coded as 0 everywhere, so its scores are 0 and it contributes nothing: the bound is one for
    zero-out. That is why scores are never centred. Checked by tests/party/test_score_statistics.py.

    Parameters
    ----------
    columns, schema
        Which columns, and what is public about them.
    parameters
        ``weights`` (see `ScoreWeights`), ``largest`` (magnitudes) and ``heights``, one per output.
    scale
        γ, the constant column's entry.
    row_bound
        What the plan says that no row exceeds; refused if it is not the sum of squared heights.
    """

    parameters: ClassVar[frozenset[str]] = frozenset({"weights", "largest", "heights"})

    def __init__(
        self,
        columns: Sequence[str],
        schema: Schema,
        parameters: Mapping[str, Parameter],
        *,
        scale: int,
        row_bound: int,
    ) -> None:
        self.scores = ScoreWeights(columns, schema, number_list(parameters, "weights"))
        self.scale = scale
        self.row_bound = row_bound
        self.largest = np.array(number_list(parameters, "largest"))
        self.heights = np.array(whole_list(parameters, "heights"), dtype=np.int64)
        if not len(self.largest) == len(self.heights) == self.width or not np.all(self.largest >= 1 / LARGEST_NUMBER):
            raise PlanMismatch("The plan's scores and their weights differ in number.")
        if np.any(self.heights < 1) or np.any(self.heights > valid_scale(scale)):
            raise BadInput("The height of a score is at least 1 and at most the scale.")
        if row_bound != int(self.heights @ self.heights):
            raise PlanMismatch("The plan's row bound is not the one that the heights of the scores give.")

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return self.scores.outputs


OPENED_AT_ONCE = (1 << 28) - (1 << 16)
"""Bytes of what a step opens, all parties' own parts included, up to which it is opened and kept at once."""
TILE_ENTRIES = 1 << 23
"""Entries that are opened at a time beyond that."""
HELD_SHARES = 1 << 31
"""Bytes of shares that a compute node holds at most while it opens tile after tile."""
CHUNK_ELEMENTS = 1 << 20
CHUNK_UNIT = 8_192
WORD = 8

SECURE = (
    "At most {threshold} of the compute nodes {nodes} pool their shares. "
    "Noise covers {collusion} colluding data part{ies}. "
    "Parties are semi-honest in their inputs: one that shares unclipped values could amplify another's row past the noise."
)
THIRD = f"The coordinator is itself a compute node. The guarantee {COORDINATOR_ALONE}."


@dataclass(frozen=True)
class HashedStep:
    """A step of a plan, compared by the plan's hash: equal hashes, equal plans. It is what readers of plans remember by."""

    digest: bytes
    name: str
    plan: Plan = field(compare=False)


@dataclass(frozen=True)
class Tile:
    """What is opened at a time.

    Parameters
    ----------
    blocks
        Which products, in their order.
    entries
        How many numbers are opened of them.
    own
        Which of each party's own numbers go with them.
    """

    blocks: tuple[Rectangle, ...]
    entries: int
    own: slice


@dataclass(frozen=True)
class Joint:
    """The terms of one joint opening.

    Parameters
    ----------
    steps
        The steps of the data parties that share rows, by party, in the plan's order.
    widths
        How many columns each of them shares.
    noise
        How much noise, and what it costs which observer.
    nodes, threshold
        The compute nodes in the order of their points 1 … N, and t.
    people
        How many rows.
    largest, largest_other
        The largest magnitude of a shared integer, and of what it is multiplied by.
    fold
        Which products are added up before they are opened, by the place of their sum; ``None`` where each is opened by itself.
    sums
        How many sums there are then.
    redealt
        How many values per person the nodes deal again, where products are multiplied once more.
    preceding
        How many turns its conversation has before those of a plain product.
    givers
        Data parties that share no rows and add to what the others share.
    own_entries
        How many numbers each party releases of its own columns, noised by it alone.
    """

    steps: Mapping[str, Step]
    widths: list[int]
    noise: SharedNoise
    nodes: tuple[str, ...]
    threshold: int
    people: int
    largest: int
    largest_other: int
    fold: NDArray[np.int64] | None = None
    sums: int = 0
    redealt: int = 0
    preceding: int = 0
    givers: tuple[str, ...] = ()
    own_entries: Mapping[str, int] = field(default_factory=dict)

    @property
    def owners(self) -> tuple[str, ...]:
        """The data parties that share rows, in the plan's order."""
        return tuple(self.steps)

    @property
    def data_parties(self) -> tuple[str, ...]:
        """The owners and the givers."""
        return (*self.owners, *self.givers)

    @property
    def turns(self) -> int:
        """How many turns a run has before the first that opens, the greeting not counted."""
        return len(self.chunks) + 2 + self.preceding

    @cached_property
    def entries(self) -> int:
        """How many entries are opened: products between two parties, or sums of them."""
        return sum(one.entries for one in rectangles(self.widths)) if self.fold is None else self.sums

    @property
    def opened_bytes(self) -> int:
        """How large all that is opened is."""
        return WORD * (self.entries + sum(self.own_entries.values()))

    @cached_property
    def tiles(self) -> tuple[Tile, ...]:
        """What is opened at a time: everything, unless that is more than is kept at once."""
        if self.opened_bytes <= OPENED_AT_ONCE or self.fold is not None:
            return (Tile(tuple(rectangles(self.widths)), self.entries, slice(None)),)
        blocks: list[tuple[Rectangle, ...]] = [(tile,) for tile in cut(self.widths, TILE_ENTRIES)]
        own = -(-max(self.own_entries.values(), default=0) // TILE_ENTRIES)
        blocks += [()] * (own - len(blocks))
        return tuple(
            Tile(some, sum(one.entries for one in some), slice(place * TILE_ENTRIES, (place + 1) * TILE_ENTRIES))
            for place, some in enumerate(blocks)
        )

    @cached_property
    def members(self) -> tuple[str, ...]:
        """Everyone who takes part, in canonical order."""
        return tuple(sorted({*self.data_parties, *self.nodes}))

    @cached_property
    def hub(self) -> frozenset[str]:
        """The members of whom every letter is from or to one: the nodes, and owners that givers write to."""
        return frozenset((*self.nodes, *(self.owners if self.givers else ())))

    def seeded(self, owner: str) -> tuple[int, ...]:
        """Return the points to which an owner's rows travel as seeds."""
        return seeded_points(self.threshold, self.nodes.index(owner) + 1 if owner in self.nodes else None)

    @cached_property
    def bound(self) -> int:
        """No opened integer exceeds this (`colonnade.secure.residues.gram_bound`)."""
        reached = self.people * self.largest * self.largest_other
        return gram_bound(reached, 1, self._tail_variance())

    @cached_property
    def arithmetic(self) -> Arithmetic:
        """The cheapest arithmetic in which nothing can wrap: the headroom proof, when the plan is read."""
        return Arithmetic.for_headroom(self.bound, len(self.nodes))

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """Ranges of rows that are shared at a time, so that memory stays bounded."""
        rows = max(1, CHUNK_ELEMENTS // (sum(self.widths) + self.redealt) // CHUNK_UNIT) * CHUNK_UNIT
        return [(start, min(start + rows, self.people)) for start in range(0, self.people, rows)]

    def _tail_variance(self) -> int:
        """A Laplace tail is exponential: P(|x| > z) = e^(-z/b), so 128·b per share covers what √(256·V) covers elsewhere."""
        if self.noise.family == "laplace":
            return 64 * math.ceil(self.noise.share * len(self.steps)) ** 2
        return math.ceil(self.noise.opened_variance)


class JointStep(StepKind):
    """A step that is opened jointly. A subclass says what its noise is and how large its integers are."""

    channel: ClassVar[StepChannel] = StepChannel.SHARES
    conversation: ClassVar[str] = "products"
    together: ClassVar[bool] = True
    in_tiles: ClassVar[bool] = False
    """Whether it may be opened in tiles: its noise can be drawn so."""
    joint: Joint

    @classmethod
    def read(cls, plan: Plan, name: str) -> Joint:
        """Read a joint opening from a plan; refuse one that could not keep its promise. A plan is read once."""
        hashed = HashedStep(messages.digest(plan), name, plan)
        return _read(cls, hashed)  # type: ignore[arg-type]  # mypy takes a class for one without a hash

    @classmethod
    def terms(cls, plan: Plan, steps: Steps) -> Joint:
        """Return the terms that the parties' steps describe together."""
        largest, other = cls.largest(plan, steps)
        joint = Joint(
            steps=steps,
            widths=[whole_parameter(step.parameters, "width") for step in steps.values()],
            noise=cls.noise(plan, steps),
            nodes=plan.compute_nodes,
            threshold=plan.threshold,
            people=plan.people,
            largest=largest,
            largest_other=other,
            own_entries=cls.own_entries(steps),
        )
        cls.require_room(joint)
        return joint

    @classmethod
    def require_room(cls, joint: Joint) -> None:
        """Refuse what the members could not keep or hold, before anything is paid."""
        opened, columns = joint.opened_bytes // WORD, sum(joint.widths)
        if joint.opened_bytes > OPENED_AT_ONCE and not cls.in_tiles:
            raise BadInput(
                f"This step would open {opened:,} numbers, more than a party keeps of one step.",
                remedy="Ask for fewer columns or levels.",
            )
        held, fitting = WORD * joint.people * columns, HELD_SHARES // WORD // joint.people
        if len(joint.tiles) > 1 and held > HELD_SHARES:
            raise BadInput(
                f"A matrix of {columns:,} columns is opened in tiles, and every compute node would hold {held:,} bytes of shares "
                "meanwhile, more than it may.",
                remedy=f"Ask for at most {fitting:,} columns of this many people, or for fewer than 8,000, which are opened at "
                "once.",
            )

    @classmethod
    def held_in(cls, plan: Plan, name: str) -> str:
        """Return the conversation: that of tiles, if it is opened in more than one."""
        return "tiles" if cls.tiles_of(plan, name) > 1 else cls.conversation

    @classmethod
    def tiles_of(cls, plan: Plan, name: str) -> int:
        """Return in how many tiles it is opened."""
        return len(cls.read(plan, name).tiles)

    @classmethod
    def noise(cls, plan: Plan, steps: Steps) -> SharedNoise:
        """Return how much noise the opening has."""
        raise NotImplementedError

    @classmethod
    def largest(cls, plan: Plan, steps: Steps) -> tuple[int, int]:
        """Return the largest magnitudes of two shared integers that are multiplied."""
        scale = max(whole_parameter(step.parameters, "scale") for step in steps.values())
        return scale, scale

    @classmethod
    def own_entries(cls, steps: Steps) -> dict[str, int]:
        """Return how many numbers each party releases of its own columns."""
        return {}

    @classmethod
    def one_price(cls, steps: Steps) -> bool:
        """Return whether all parties must be offered the same price."""
        return True

    @property
    def loss(self) -> Loss:
        """The full loss of the opening; for the party unit, that of this party's part of a record."""
        loss = self.joint.noise.loss(party=self._owner)
        assert loss is not None  # with no more colluders than the plan allows, noise is left
        return loss

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return who takes part. The arithmetic is chosen here, so a plan in which something could wrap is refused."""
        plan.require_named()
        joint = cls.read(plan, name)
        joint.arithmetic  # noqa: B018  # the headroom proof
        return joint.members

    @classmethod
    def openings(cls, whole: WholeStep, losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Return one opening, whose loss grows with the colluders beyond those that the noise covers."""
        joint = cls.read(whole.plan, whole.name)
        counts = range(len(joint.data_parties))
        return (
            Opening(
                mechanism=title,
                scope=joint.data_parties,
                losses=tuple(joint.noise.loss(colluders=count) for count in counts),
                party_losses={
                    owner: tuple(joint.noise.loss(colluders=count, party=owner) for count in counts)
                    for owner in joint.data_parties
                },
                replaced=tuple(joint.noise.replaced_loss(colluders=count) for count in counts),
                nodes=joint.nodes,
                threshold=joint.threshold,
            ),
        )

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what is assumed of compute nodes, colluders and inputs."""
        return secure_words(whole.plan, whole.plan.collusion)

    @classmethod
    def noise_words(cls, whole: WholeStep) -> tuple[NoiseWords, ...]:
        """Return the noise of an opened entry."""
        first = whole.first
        joint = cls.read(whole.plan, first.name)
        noise = joint.noise
        sensitivity, scale = noise.describe()
        return (
            NoiseWords(
                step=first.name,
                parties=tuple(whole.steps),
                kind=cls.name,
                mechanism=(
                    f"{noise.family} noise in shares of {len(joint.steps)} parties, "
                    f"enough without {whole.plan.collusion} of them"
                ),
                sensitivity=sensitivity,
                scale=scale,
                price=price_words(first),
                proof=type(noise),
            ),
        )

    @classmethod
    def forecast(cls, whole: WholeStep, forecast: Forecast, *, kept: bool) -> bool:
        """Add the rounds of a joint opening: recall, greet, one turn per chunk and three more, conclude."""
        forecast_opening(cls.read(whole.plan, whole.name), forecast, kept=kept)
        return True


def read_joint(plan: Plan, name: str) -> Joint:
    """Read a joint opening from a plan."""
    kinds = {kind_of(step) for step in plan.steps if step.name == name}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or not issubclass(kind, JointStep):
        raise PlanMismatch("A joint step is one kind of step at two or more parties.")
    return kind.read(plan, name)


def check_nodes(plan: Plan) -> None:
    """Refuse a plan whose compute nodes could not keep its promise."""
    nodes = plan.compute_nodes
    if len(set(nodes)) != len(nodes):
        raise PlanMismatch("A compute node is named twice.")
    require_threshold(len(nodes), plan.threshold)
    if not 0 <= plan.collusion <= plan.threshold:
        raise NotEnoughComputeNodes("The collusion bound exceeds the threshold of the secret sharing.")


@dataclass(frozen=True)
class SharingFloor:
    """The least that a federation, or one party's policy, asks of every plan that computes on shares.

    The numbers are absolute: they do not depend on how many members a plan happens to name.

    Parameters
    ----------
    threshold
        At least this many compute nodes together learn nothing.
    collusion
        The noise covers at least this many colluding data parties, or all but one of the plan's: a larger coalition has all the
        data.
    nodes
        Who may compute; ``None`` for every member.
    """

    threshold: int = 1
    collusion: int = 0
    nodes: frozenset[str] | None = None

    @classmethod
    def of_papers(cls, papers: FederationAgreement) -> "SharingFloor":
        """Return what a federation's papers ask for."""
        return cls(papers.threshold, papers.collusion, frozenset(papers.computing))

    def check(self, plan: Plan, asker: str) -> None:
        """Refuse a plan below the floor. ``asker`` says in words whose floor it is."""
        if plan.threshold < self.threshold:
            raise PolicyRefusal(
                f"The plan's threshold is below {self.threshold}, the least that {asker} asks for.",
                remedy=f"Let at least {2 * self.threshold + 1} compute nodes take part.",
            )
        if plan.collusion < min(self.collusion, len(plan.parties) - 1):
            raise PolicyRefusal(
                f"The plan's noise covers fewer colluding parties than {asker} asks for.",
                remedy=f"Open the federation with collusion={self.collusion}.",
            )
        if self.nodes is not None and not set(plan.compute_nodes) <= self.nodes:
            raise PolicyRefusal(f"The plan names a compute node that {asker} does not accept.")


NO_FLOOR = SharingFloor()
"""What every plan on shares has to reach: a threshold of one."""


def shared_price(steps: Steps) -> Price:
    """Return the price of a joint opening."""
    price = next(iter(steps.values())).price
    if price is None:
        raise PlanMismatch("A joint opening has a price.")
    return price


def secure_words(plan: Plan, collusion: int) -> tuple[str, ...]:
    """Return what a computation on shares assumes, in words."""
    words = SECURE.format(
        threshold=plan.threshold,
        nodes=", ".join(plan.compute_nodes),
        collusion=collusion,
        ies="y" if collusion == 1 else "ies",
    )
    return (words, THIRD) if COORDINATOR in plan.compute_nodes else (words,)


@lru_cache(maxsize=64)
def _read(kind: type[JointStep], hashed: HashedStep) -> Joint:
    plan, name = hashed.plan, hashed.name
    steps = {step.party: step for step in plan.steps if step.name == name}
    if len(steps) < 2 or any(step.kind != kind.name for step in steps.values()):
        raise PlanMismatch("A joint step is one kind of step at two or more parties.")
    if kind.one_price(steps) and len({step.price for step in steps.values()}) != 1:
        raise PlanMismatch("The parties of a joint step are offered different prices.")
    check_nodes(plan)
    return kind.terms(plan, steps)


GIVEN = 2
"""Bytes per person in a letter of a giver (`colonnade.conversations.products`)."""


def forecast_opening(joint: "Joint", forecast: Forecast, *, kept: bool) -> None:
    """Add the rounds of a joint opening: recall, greet, one turn per chunk and three more, conclude."""
    if len(joint.tiles) > 1:
        _forecast_tiles(joint, forecast, kept=kept)
        return
    answer = joint.opened_bytes
    if kept:
        forecast.round(dict.fromkeys(joint.members, SMALL), dict.fromkeys(joint.owners, answer + LOSS + SMALL))
        if nodes := set(joint.members) - set(
            joint.data_parties
        ):  # they cannot say that they have forgotten their secrets
            forecast.round(dict.fromkeys(nodes, SMALL), dict.fromkeys(nodes, SMALL // 2))
        return
    arriving = _forecast_sharing(joint, forecast)
    forecast.round(arriving, _opened(joint, joint.tiles[0]))
    concluded = dict.fromkeys(joint.owners, answer + SMALL)
    forecast.round(concluded, dict.fromkeys(joint.owners, answer + LOSS + SMALL))


def _forecast_sharing(joint: "Joint", forecast: Forecast) -> dict[str, int]:
    """Add the rounds up to the degree checks; return what the members are sent next."""
    members = joint.members
    forecast.round(dict.fromkeys(members, SMALL), dict.fromkeys(members, SMALL // 2))
    forecast.round(dict.fromkeys(members, SMALL), dict.fromkeys(members, HELLO + SMALL))
    arriving = dict.fromkeys(members, len(members) * HELLO)
    if joint.preceding:
        sent, received = _given_letters(joint, forecast)
        forecast.round(arriving, {member: size + SMALL for member, size in sent.items()})
        arriving = received
    for turn in range(1, len(joint.chunks) + 3):
        sent, received = _letters(joint, forecast, turn)
        forecast.round(arriving, {member: size + SMALL for member, size in sent.items()})
        arriving = received
    return arriving


def _opened(joint: "Joint", tile: "Tile") -> dict[str, int]:
    """Return the bytes that each member opens with a tile."""
    own = {member: len(range(*tile.own.indices(entries))) for member, entries in joint.own_entries.items()}
    return {
        member: SMALL + WORD * (tile.entries if member in joint.nodes else 0) + WORD * own.get(member, 0)
        for member in joint.members
    }


def _forecast_tiles(joint: "Joint", forecast: Forecast, *, kept: bool) -> None:
    """Add the rounds of an opening in tiles: three for each, or one if it was kept."""
    members = joint.members
    if not kept:
        forecast.round(_forecast_sharing(joint, forecast), dict.fromkeys(members, SMALL // 2))
    for tile in joint.tiles:
        if not kept:
            sent, received = _noise_letters(joint, forecast, tile)
            forecast.round(dict.fromkeys(members, SMALL), {name: size + SMALL for name, size in sent.items()})
            forecast.round(received, dict.fromkeys(members, SMALL // 2))
        forecast.round(dict.fromkeys(members, SMALL), _opened(joint, tile))
    forecast.round(dict.fromkeys(joint.owners, SMALL), dict.fromkeys(joint.owners, LOSS + SMALL))


def _noise_letters(joint: "Joint", forecast: Forecast, tile: "Tile") -> tuple[dict[str, int], dict[str, int]]:
    """Return bytes of noise by sender and by receiver."""
    sent, received = dict.fromkeys(joint.members, 0), dict.fromkeys(joint.members, 0)
    for sender in joint.owners:
        for point, node in enumerate(joint.nodes, start=1):
            if node != sender:
                seeded = point <= 2 * joint.threshold
                size = LETTER + (SEED if seeded else joint.arithmetic.packed_size(tile.entries))
                forecast.letter(sender, node, size)
                sent[sender] += size
                received[node] += size
    return sent, received


def _given_letters(joint: "Joint", forecast: Forecast) -> tuple[dict[str, int], dict[str, int]]:
    """Return bytes of what givers write to the owners, by sender and by receiver."""
    sent, received = dict.fromkeys(joint.members, 0), dict.fromkeys(joint.members, 0)
    for giver in joint.givers:
        for owner in joint.owners:
            size = LETTER + GIVEN * joint.people
            forecast.letter(giver, owner, size)
            sent[giver] += size
            received[owner] += size
    return sent, received


def _letters(joint: "Joint", forecast: Forecast, turn: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return bytes of letters by sender and by receiver in one turn."""
    sent, received = dict.fromkeys(joint.members, 0), dict.fromkeys(joint.members, 0)
    for sender in joint.members:
        for point, node in enumerate(joint.nodes, start=1):
            if node != sender and (size := _letter(joint, sender, point, turn)):
                forecast.letter(sender, node, size)
                sent[sender] += size
                received[node] += size
    if turn == 1:
        for member in joint.members:
            if member not in joint.hub:
                received[member] += len(joint.nodes) * LETTER
        for node in joint.nodes:
            sent[node] += sum(member not in joint.hub for member in joint.members) * LETTER
    return sent, received


def _letter(joint: "Joint", sender: str, point: int, turn: int) -> int:
    deals, computes = sender in joint.owners and turn <= len(joint.chunks), sender in joint.nodes
    if not (deals or computes):
        return 0
    packed, t = joint.arithmetic.packed_size, joint.threshold
    repetitions, size = check_repetitions(joint.arithmetic), LETTER
    if deals and turn == 1:
        size += 2 * SEED
        if len(joint.tiles) == 1:
            size += SEED if point <= 2 * t else packed(joint.entries)
    if deals and point not in joint.seeded(sender):
        start, stop = joint.chunks[turn - 1]
        size += packed((stop - start) * joint.widths[joint.owners.index(sender)])
    if computes:
        size += 2 * SEED if turn == 2 else SEED
    if computes and joint.redealt and 2 <= turn <= len(joint.chunks) + 1:
        start, stop = joint.chunks[turn - 2]
        size += SEED if point <= t else packed((stop - start) * joint.redealt)
    if computes and turn == len(joint.chunks) + 2:
        size += len(joint.owners) * (packed(repetitions) + 12)
    return size
