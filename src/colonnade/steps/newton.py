"""Newton steps of a model, read from a plan: whose columns, which nodes and holders, how much noise, and what a run sends.

Everyone who takes part reads the same plan and arrives at the same object, or refuses. Nothing in it is private. Which model is
fitted is a family's matter (`colonnade.families`): it brings the link on shares with its bounds, and says what a target is.

*The target.* One party holds it. Its first column is constant: γ for a person who has a label, else 0, so that a null record adds
nothing to a step. Gradient steps read the same from a plan (`LabelledTerms`).

*Who computes.* Exactly 2t + 1 of a plan's compute nodes, and never the coordinator. Between a product and the next one
nodes deal their shares anew. A node that deviates there could add a number of its own choice to one person's residual, and so
amplify that person's row past the noise. Nothing checks it. So compute nodes are trusted to compute as written, as parties are
trusted in their inputs. A coordinator is trusted with nothing, and may not be one of them. Holders of scores are taken before
others, then the first of the plan: what a node deals costs least.

*Holders.* The scores stand in shares modulo a period at t + 1 members, the target's holder first: data parties, and where
there are fewer, nodes without data (`colonnade.secure.sine_link`). The first t of them are *maskers*: they deal what their tables
say of their numbers. The last one tells its number to t + 1 nodes that are no maskers, the *evaluators*. To these the number is
public, so they multiply by what a table says of it without dealing anything. All maskers' numbers and the last one are needed to
know a score, and no t members have them.

*Levels.* A curvature needs Σ w·x_i·x_j for each pair of columns, and nodes multiply one column of each pair by the weights. The
constant column needs no product: its share of w·x is γ times that of w. Nor do the levels of one category. Two of them are never
both on, so their product is 0, and the square of a level is γ times the level. So the category with most levels is left out:
its products with other columns are those of the others with it. What is opened is the same.

*Bytes.* There are n people, d columns, L of them levels of that category, K terms, S data parties, of whom t + 1 are holders, and
N = 2t + 1 nodes. A share takes e bytes. A node's dealing sends N − 1 − t = t of them per value, another party's t + 1; the others
follow from seeds. A re-dealing by all nodes sends N·t. If all holders compute, a run sends about::

    columns        n·d·t·e, and n·e more per column of a party that does not compute
    each round     n·(S − 1)·2  +  n·(2Kt + 1)·t·e  +  n·2K(t − 1)·N·t·e  +  n·(t + 1)·t·e
    curvature      n·(d − L − 1)·N·t·e more

Six bytes suffice for some ten thousand people, eight for millions. `NewtonSteps.forecast` counts letter by letter.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple

from colonnade.errors import BadInput, NotEnoughComputeNodes, PlanMismatch, SchemaMismatch
from colonnade.families import DEFAULT, FAMILIES
from colonnade.families.family import Family
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Loss
from colonnade.privacy.laws.newton import NewtonNoise
from colonnade.protocol import messages
from colonnade.result import COORDINATOR, Opening
from colonnade.schema import Schema
from colonnade.secure.residues import PRIME_SETS, Arithmetic, noise_tail
from colonnade.secure.shamir import seeded_points
from colonnade.secure.sine_link import COARSEST_BITS, FINEST_BITS, FIRST_FACTORS, LinkBounds, TableKind
from colonnade.steps.kind import (
    HELLO,
    LARGEST_SHORT_SCALE,
    LETTER,
    LOSS,
    SEED,
    SMALL,
    Earlier,
    FixedPoint,
    Forecast,
    HashedStep,
    NoiseWords,
    StepChannel,
    StepKind,
    WholeStep,
    check_nodes,
    nothing_earlier,
    price_words,
    require_width,
    secure_words,
    valid_scale,
    whole_list,
    whole_parameter,
)
from colonnade.steps.spreads import Standardised

LARGEST_WIDTH = 20_000


@dataclass(frozen=True)
class LabelledTerms:
    """Whose columns, and which nodes.

    Parameters
    ----------
    asked
        The data parties' steps, by party, in the plan's order.
    nodes, threshold
        The 2t + 1 nodes in the order of their points, and t.
    people
        How many there are.
    """

    asked: Mapping[str, Step]
    nodes: tuple[str, ...]
    threshold: int
    people: int

    @property
    def owners(self) -> tuple[str, ...]:
        """The data parties, in the plan's order."""
        return tuple(self.asked)

    @cached_property
    def members(self) -> tuple[str, ...]:
        """Everyone who takes part, in canonical order."""
        return tuple(sorted({*self.owners, *self.nodes}))

    def point(self, member: str) -> int | None:
        """Return a member's point, or ``None`` if it does not compute."""
        return self.nodes.index(member) + 1 if member in self.nodes else None

    @cached_property
    def widths(self) -> dict[str, int]:
        """How many integers of a row each owner has, the constant one at the holder of the target included."""
        return {owner: whole_parameter(step.parameters, "width", LARGEST_WIDTH) for owner, step in self.asked.items()}

    def places(self, owner: str) -> slice:
        """Where an owner's columns stand among all."""
        before = self.owners[: self.owners.index(owner)]
        start = sum(self.widths[other] for other in before)
        return slice(start, start + self.widths[owner])

    @cached_property
    def columns(self) -> int:
        """How many columns there are over all owners: how many weights, and how many numbers a gradient has."""
        return sum(self.widths.values())

    @cached_property
    def scale(self) -> int:
        """γ: entries of rows are at most γ in magnitude."""
        return valid_scale(self.first.parameters.get("scale"), LARGEST_SHORT_SCALE)

    @property
    def first(self) -> Step:
        """The first party's step; what all parties are asked for alike is read from it."""
        return next(iter(self.asked.values()))


def family_of(parameters: Mapping[str, object]) -> Family:
    """Return the family that a plan's step names."""
    family = FAMILIES.get(str(parameters.get("family", DEFAULT.name)))
    if family is None:
        raise BadInput(f"The family of a model is one of {', '.join(FAMILIES)}.")
    return family


def family_term(family: Family) -> dict[str, str]:
    """Return what a plan's step says of its family: nothing where that is the default."""
    return {} if family is DEFAULT else {"family": family.name}


class LabelledSteps(StepKind):
    """One party's rows in such a run: whether the label is among them, and how its other columns are coded."""

    target: str
    """The name of the label's column, empty at parties that do not hold it."""
    coding: FixedPoint | None
    """How the other columns become integers; ``None`` where there are none."""

    @property
    def constant(self) -> int:
        """How many constant columns the party has: one where it holds the target."""
        return 1 if self.target else 0

    @property
    def width(self) -> int:
        """How many integers a row has."""
        return self.constant + (0 if self.coding is None else self.coding.width)


KIND = "newton"
"""What a step of this kind is called in a plan."""

LARGEST_ROUNDS = 64
CHUNK_ELEMENTS = 1 << 21
CHUNK_UNIT = 8_192

TABLES = [(bits, finer) for bits in range(FINEST_BITS, COARSEST_BITS - 1, -1) for finer in FIRST_FACTORS[::-1]][1:]
"""How fine the tables of a link can be, the finest first. With two holders each is half as fine as the one before it. With h of
them, one with fewer bits is 2ʰ⁻¹ times as coarse as the one before it."""

_COMMON = ("scale", "family", "window", "parts", "curvatures", "level")


class Phase(StrEnum):
    """What is said in one turn of a run."""

    COLUMNS = "columns"
    """Data parties deal some people's columns to the nodes, once for all rounds."""
    PARTS = "parts"
    """Data parties split their parts of scores between the holders; with the last people also their noise, to the nodes."""
    FACTORS = "factors"
    """Maskers deal what their tables say to the nodes; the last holder tells the evaluators its numbers."""
    FOLD = "fold"
    """Nodes multiply the next holder's factors in, and deal the product again."""
    SERIES = "series"
    """Evaluators add the series up, and deal their parts of residuals or weights again."""
    WEIGH = "weigh"
    """Nodes multiply weights by columns, and deal the products again."""
    OPEN = "open"
    """Nodes open their shares of the round's noised sums."""


class NewtonTurn(NamedTuple):
    """One turn: its phase, the round and the chunk of people it is about, and of a fold the holder."""

    phase: Phase
    round_number: int = 0
    chunk: int = 0
    holder: int = 0


@dataclass(frozen=True)
class NewtonTerms(LabelledTerms):
    """One run of Newton steps.

    Parameters
    ----------
    holders
        Who holds the scores, in shares modulo a period; the target's holder first.
    bounds
        The link on shares, of steps.
    curvature_bounds
        The same of the curvature, whose tables may be coarser: products of two columns need more room.
    noise
        How much noise there is, and what each party's ledger is debited for it.
    arithmetic
        In which nothing that is opened can wrap.
    """

    holders: tuple[str, ...]
    bounds: LinkBounds
    curvature_bounds: LinkBounds
    noise: NewtonNoise
    arithmetic: Arithmetic

    @classmethod
    def read(cls, plan: Plan, name: str) -> "NewtonTerms":
        """Read a run from a plan; refuse one that could not keep its promise. A plan is read once."""
        return _read(HashedStep(messages.digest(plan), name, plan))

    @classmethod
    def _of(cls, plan: Plan, name: str) -> "NewtonTerms":
        steps = {step.party: step for step in plan.steps if step.name == name}
        if len(steps) < 2 or any(step.kind != KIND for step in steps.values()):
            raise PlanMismatch("Newton steps are computed by two data parties or more.")
        plan.require_named()
        for parameter in _COMMON:
            if len({step.parameters.get(parameter) for step in steps.values()}) != 1:
                raise PlanMismatch(
                    "The parties of Newton steps are asked for different scales, families, links or parts."
                )
        if sum(bool(step.parameters.get("target")) for step in steps.values()) != 1:
            raise PlanMismatch("Exactly one party holds the target.")
        if sum(bool(_levels(step)) for step in steps.values()) > 1:
            raise PlanMismatch("At most one party leaves the levels of a category out of the products with weights.")
        check_nodes(plan)
        holders = _holders(plan, steps)
        preferred = sorted(plan.compute_nodes, key=lambda node: (node == COORDINATOR, node not in holders))
        nodes = tuple(node for node in plan.compute_nodes if node in preferred[: 2 * plan.threshold + 1])
        # a node deals products again and could falsify them: the coordinator is not trusted with that
        if COORDINATOR in nodes:
            raise NotEnoughComputeNodes(
                "Newton steps need 2t + 1 compute nodes, t being the threshold, and the coordinator cannot be one of them.",
                remedy='Add a node without data (compute_nodes=["helper"] in a simulation), or use method="secure".',
            )
        found = _with_room(plan, steps)
        if found is None:
            raise BadInput(
                "The largest possible sum does not fit any arithmetic, or its noise cannot be drawn.",
                remedy="Lower scale=, or raise epsilon.",
            )
        found.arithmetic.require_nodes(len(nodes))
        noise = _noise(plan, steps, found.residual, found.weight)
        links = found.residual, found.weight
        return cls(steps, nodes, plan.threshold, plan.people, holders, *links, noise, found.arithmetic)

    @property
    def maskers(self) -> tuple[str, ...]:
        """The holders that deal what their tables say."""
        return self.holders[:-1]

    @property
    def teller(self) -> str:
        """The holder that tells the evaluators its numbers."""
        return self.holders[-1]

    @cached_property
    def evaluators(self) -> tuple[str, ...]:
        """The t + 1 nodes that are told the last holder's numbers, in the order of their points; none is a masker."""
        free = [node for node in self.nodes if node not in self.maskers]
        chosen = sorted(free, key=lambda node: node != self.teller)[: self.threshold + 1]
        return tuple(node for node in self.nodes if node in chosen)

    @cached_property
    def told(self) -> tuple[str, ...]:
        """Who knows the last holder's numbers. Any one of them and all maskers have everybody's score."""
        return tuple(dict.fromkeys((self.teller, *self.evaluators)))

    @cached_property
    def constant(self) -> int:
        """Where the constant column stands among all."""
        return int(self.places(self.holders[0]).start)

    @cached_property
    def levels(self) -> range:
        """Where the levels of a category stand that are not multiplied by weights; empty if there is none."""
        for owner, step in self.asked.items():
            if block := _levels(step):
                start = self.places(owner).start + block[0]
                return range(start, start + block[1])
        return range(0)

    @cached_property
    def weighed(self) -> tuple[int, ...]:
        """Which columns are multiplied by weights, and dealt again."""
        return tuple(place for place in range(self.columns) if place != self.constant and place not in self.levels)

    @cached_property
    def family(self) -> Family:
        """What is fitted."""
        return family_of(self.first.parameters)

    @property
    def rounds(self) -> int:
        """How many rounds there are: the curvature, and the steps."""
        return self.noise.rounds

    @property
    def terms(self) -> int:
        """K."""
        return self.bounds.link.terms

    def bound(self, number: int) -> int:
        """Return an upper bound on the integers that a round opens."""
        return _bound(number, self.people, self.scale, self.link(number), self.noise)

    def link(self, number: int) -> LinkBounds:
        """Return the link of a round."""
        return self.curvature_bounds if self.bends(number) else self.bounds

    def bends(self, number: int) -> bool:
        """Return whether a round opens a curvature."""
        return number in self.noise.curvatures

    def table(self, number: int) -> TableKind:
        """Return which series the tables of a round are of."""
        return "weight" if self.bends(number) else "residual"

    def unit(self, number: int) -> float:
        """Return the integer that stands for one in what a round opens, with columns in [−1, 1]."""
        return float(self.link(number).unit * self.scale ** (2 if self.bends(number) else 1))

    def is_seeded(self, dealer: str, node: str, degree: int) -> bool:
        """Return whether a node's share of what a member deals travels as a seed."""
        return self.point(node) in seeded_points(degree, self.point(dealer))

    def completing(self, owner: str) -> str:
        """Return the holder whose number completes an owner's part of a score; those of others are uniform, and seeds."""
        return owner if owner in self.holders else self.teller

    @cached_property
    def chunks(self) -> tuple[tuple[int, int], ...]:
        """Ranges of people that are computed on at a time, so that letters stay small."""
        wide = max(self.columns, 2 * self.terms + 1)
        rows = max(1, CHUNK_ELEMENTS // wide // CHUNK_UNIT) * CHUNK_UNIT
        return tuple((start, min(start + rows, self.people)) for start in range(0, self.people, rows))

    @cached_property
    def spoken_turns(self) -> tuple[NewtonTurn, ...]:
        """All turns of a run in which anything is said: turns 1 … C are of columns, and turn C+2 is the first of the rounds."""
        columns = tuple(NewtonTurn(Phase.COLUMNS, chunk=chunk) for chunk in range(len(self.chunks)))
        return columns + tuple(turn for number in range(self.rounds) for turn in self.round_turns(number))

    @cached_property
    def first_turns(self) -> tuple[int, ...]:
        """The first turn of every round."""
        lengths = [len(self.round_turns(number)) for number in range(self.rounds)]
        return tuple(len(self.chunks) + 2 + sum(lengths[:number]) for number in range(self.rounds))

    def round_turns(self, number: int) -> tuple[NewtonTurn, ...]:
        """Return the turns of one round; the last one opens it."""
        turns: list[NewtonTurn] = []
        for chunk in range(len(self.chunks)):
            turns += [NewtonTurn(Phase.PARTS, number, chunk), NewtonTurn(Phase.FACTORS, number, chunk)]
            turns += [NewtonTurn(Phase.FOLD, number, chunk, holder) for holder in range(1, len(self.maskers))]
            turns.append(NewtonTurn(Phase.SERIES, number, chunk))
            if self.bends(number):
                turns.append(NewtonTurn(Phase.WEIGH, number, chunk))
        return (*turns, NewtonTurn(Phase.OPEN, number))


@lru_cache(maxsize=64)
def _read(hashed: HashedStep) -> NewtonTerms:
    return NewtonTerms._of(hashed.plan, hashed.name)  # noqa: SLF001  # its own module


def _first(steps: Mapping[str, Step]) -> Step:
    return next(iter(steps.values()))


def _levels(step: Step) -> tuple[int, ...]:
    """Return where a party's levels that are not multiplied by weights begin, and how many there are; or nothing."""
    block = whole_list(step.parameters, "levels")
    constant = bool(step.parameters.get("target"))
    if block and (len(block) != 2 or block[0] < constant or block[1] < 1 or sum(block) > _width(step)):
        raise PlanMismatch("The levels that are not multiplied by weights lie among a party's columns.")
    return block


def _width(step: Step) -> int:
    return whole_parameter(step.parameters, "width", LARGEST_WIDTH)


def _holders(plan: Plan, steps: Mapping[str, Step]) -> tuple[str, ...]:
    """Return t + 1 members: data parties, the target's first, then nodes without data."""
    (first,) = (party for party, step in steps.items() if step.parameters.get("target"))
    nodes = (node for node in plan.compute_nodes if node != COORDINATOR)
    return tuple(dict.fromkeys((first, *steps, *nodes)))[: plan.threshold + 1]


def _noise(plan: Plan, steps: Mapping[str, Step], residual: LinkBounds, weight: LinkBounds) -> NewtonNoise:
    first = _first(steps)
    if first.price is None or len({step.price for step in steps.values()}) != 1:
        raise PlanMismatch("The parties of Newton steps are offered one price.")
    parts = whole_list(first.parameters, "parts")
    if not 2 <= len(parts) <= LARGEST_ROUNDS or any(not 1 <= part <= 10**6 for part in parts):
        raise BadInput(f"A Newton run has between 2 and {LARGEST_ROUNDS} rounds with positive parts of the price.")
    return NewtonNoise(
        row_bounds={party: whole_parameter(step.parameters, "row_bound", 2**50) for party, step in steps.items()},
        columns=sum(map(_width, steps.values())),
        residual=residual.residual,
        residual_change=residual.residual_change,
        weight=weight.weight,
        weight_change=weight.weight_change,
        parts=parts,
        price=first.price,
        unit=plan.unit,
        collusion=plan.collusion,
        curvatures=whole_list(first.parameters, "curvatures") if "curvatures" in first.parameters else (1,),
    )


def _bound(number: int, people: int, scale: int, bounds: LinkBounds, noise: NewtonNoise) -> int:
    """Return an upper bound on opened integers: people times |r|·|x| or |w|·|x|², and the noise, twice on the diagonal."""
    variance = noise.variance(number)
    if number in noise.curvatures:
        return people * bounds.weight * scale**2 + noise_tail(math.ceil(2 * variance))
    return people * bounds.residual * scale + noise_tail(math.ceil(variance))


class _Room(NamedTuple):
    """An arithmetic, and the finest links of steps and of the curvature with which nothing opened can wrap in it."""

    arithmetic: Arithmetic
    residual: LinkBounds
    weight: LinkBounds


class _Word(NamedTuple):
    """The moduli of a word, and the coarsest tables of steps and of the curvature with which it is used."""

    moduli: tuple[int, ...]
    residual: tuple[int, int]
    weight: tuple[int, int]


WORDS = (
    _Word(PRIME_SETS[4], residual=TABLES[0], weight=TABLES[0]),  # a few people: what they send is little anyway
    _Word(PRIME_SETS[3], residual=(7, 16), weight=(4, 32)),  # rounding adds a hundredth and a tenth to the noise
    _Word(PRIME_SETS[4], residual=(6, 16), weight=(4, 16)),  # a fiftieth and a sixth
    _Word(PRIME_SETS[-1], residual=TABLES[-1], weight=TABLES[-1]),
)
"""The words in use, the first that has room for its tables is taken."""


def _size(number: int, plan: Plan, scale: int, bounds: LinkBounds, noise: NewtonNoise) -> float:
    """Return an upper bound on the integers that a round opens; infinite if its noise cannot be drawn."""
    try:
        return _bound(number, plan.people, scale, bounds, noise)
    except BadInput:  # its noise; coarser tables make it smaller
        return math.inf


def _with_room(plan: Plan, steps: Mapping[str, Step]) -> _Room | None:
    """Return the shortest word with room for links that are fine enough, or else for any: the headroom proof, as a plan is read.

    Only what is opened needs room. Everything before is exact modulo M, whatever it passes through.
    """
    parameters = _first(steps).parameters
    family, window = family_of(parameters), whole_parameter(parameters, "window")
    scale = valid_scale(parameters.get("scale"), LARGEST_SHORT_SCALE)
    links = {tables: family.bounds(window, plan.threshold + 1, *tables) for tables in TABLES}
    of_steps, of_curvature = {}, {}
    for tables, bounds in links.items():
        noise = _noise(plan, steps, bounds, bounds)
        sizes = {number: _size(number, plan, scale, bounds, noise) for number in range(noise.rounds)}
        of_curvature[tables] = max(sizes.pop(number) for number in noise.curvatures)
        of_steps[tables] = max(sizes.values())
    for word in WORDS:
        arithmetic = Arithmetic(word.moduli)
        room = arithmetic.largest
        fine = [links[tables] for tables in TABLES if of_steps[tables] <= room and tables >= word.residual]
        coarse = [links[tables] for tables in TABLES if of_curvature[tables] <= room and tables >= word.weight]
        if fine and coarse:
            return _Room(arithmetic, fine[0], coarse[0])
    return None


COMPUTING = "The {roles} {members} compute as written. One that deviates could amplify a row past the noise."
POOLING = "{maskers} and any one of {told} do not pool their parts of people's scores."


class NewtonSteps(LabelledSteps):
    """One party's rows, its part of the scores and its noise, in every round of a Newton run.

    A round takes public weights. A curvature's round opens Σ w·x·xᵀ, each other round Σ r·x, with r = μ(z) − y and w = μ′(z) by
    the series of the family's link (`colonnade.secure.sine_link`). The constant column is the target holder's: γ for a person who
    has a label, else 0; residual and weight of a person without a label are 0.

    Sensitivity: `colonnade.privacy.laws.newton.NewtonNoise`. Every row has squared length at most R_q², which the party
    enforces, in integers. Residuals and weights are bounded by the tables that the holders look them up in.
    """

    name: ClassVar[str] = KIND
    title: ClassVar[str] = "Newton steps with noise in shares"
    channel: ClassVar[StepChannel] = StepChannel.SHARES
    conversation: ClassVar[str] = "newton"
    together: ClassVar[bool] = True
    parameters: ClassVar[frozenset[str]] = (
        frozenset(
            {"scale", "row_bound", "width", "target", "level", "levels", "family", "window", "parts", "curvatures"}
        )
        | Standardised.parameters
    )

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.terms = NewtonTerms.read(plan, step.name)
        self.target = str(step.parameters.get("target", ""))
        self.level = whole_parameter(step.parameters, "level", least=0)
        constant = self.terms.scale**2 if self.target else 0
        row_bound = self.terms.noise.row_bounds[step.party]
        features = [name for name in step.columns if name != self.target]
        if self.target and not (
            self.target in self.columns and self.terms.family.takes(schema[self.target], self.level)
        ):
            raise SchemaMismatch("The target of Newton steps is a category that has the level asked for.")
        if row_bound < constant + (1 if features else 0):
            raise PlanMismatch("The plan bounds this party's rows below the constant column.")
        self.standardised = Standardised.of(plan, step, schema)
        number_bound = None if self.standardised is None else self.standardised.bound(self.terms.scale)
        self.coding = (
            FixedPoint(
                features,
                schema,
                scale=self.terms.scale,
                row_bound=row_bound - constant,
                number_bound=number_bound,
            )
            if features
            else None
        )
        require_width(self.terms.widths[step.party], self.width)
        block = whole_list(step.parameters, "levels")
        if block and block not in tuple(self._categories(schema)):
            raise PlanMismatch("The levels that are not multiplied by weights are not those of a category here.")

    def _categories(self, schema: Schema) -> Iterator[tuple[int, int]]:
        """Yield where the levels of a category begin among this party's columns, and how many there are.

        None if rows are scaled down: a level would then be another number than γ.
        """
        if self.coding is None or self.coding.clips:
            return
        start = self.constant
        for name, width in zip(self.coding.columns, self.coding.widths, strict=True):
            if not schema[name].is_number:
                yield start, width
            start += width

    @property
    def loss(self) -> Loss:
        """What all rounds together cost, to be debited before the first of them."""
        loss = self.terms.noise.loss(party=self._owner)
        assert loss is not None  # with no more colluders than the plan allows, noise is left
        return loss

    @classmethod
    def members(cls, plan: Plan, name: str) -> tuple[str, ...]:
        """Return who takes part. The terms are read here, so a plan in which something could wrap is refused."""
        return NewtonTerms.read(plan, name).members

    @classmethod
    def openings(cls, whole: WholeStep, losses: Mapping[str, Loss], title: str) -> tuple[Opening, ...]:
        """Return one opening for all rounds, whose loss grows with the colluders beyond those that the noise covers."""
        terms = NewtonTerms.read(whole.plan, whole.name)
        noise, counts = terms.noise, range(len(terms.owners))
        return (
            Opening(
                mechanism=title,
                scope=terms.owners,
                losses=tuple(noise.loss(colluders=count) for count in counts),
                party_losses={
                    owner: tuple(noise.loss(colluders=count, party=owner) for count in counts) for owner in terms.owners
                },
                replaced=tuple(noise.replaced_loss(colluders=count) for count in counts),
                nodes=terms.nodes,
                threshold=terms.threshold,
                score_holders=(terms.maskers, terms.told),
            ),
        )

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what is assumed of compute nodes, holders, colluders and inputs."""
        terms = NewtonTerms.read(whole.plan, whole.name)
        computing = dict.fromkeys((*terms.nodes, *terms.holders))
        return (
            COMPUTING.format(roles="compute nodes and holders of scores", members=", ".join(computing)),
            POOLING.format(maskers=" and ".join(terms.maskers), told=", ".join(terms.told)),
            *secure_words(whole.plan, whole.plan.collusion),
        )

    @classmethod
    def noise_words(cls, whole: WholeStep) -> tuple[NoiseWords, ...]:
        """Return the noise of the last step."""
        first = whole.first
        terms = NewtonTerms.read(whole.plan, first.name)
        sensitivity, scale = terms.noise.describe(terms.unit(terms.noise.last_step))
        return (
            NoiseWords(
                step=first.name,
                parties=terms.owners,
                kind=cls.name,
                mechanism=(
                    f"gaussian noise in shares of {len(whole.steps)} parties, enough without {whole.plan.collusion} of them, "
                    f"in each of {terms.rounds} rounds"
                ),
                sensitivity=sensitivity,
                scale=scale,
                price=price_words(first),
                proof=NewtonNoise,
            ),
        )

    @classmethod
    def forecast(cls, whole: WholeStep, forecast: Forecast, *, kept: bool) -> bool:
        """Add the rounds of a run: recall, greet, one round per turn and one between columns and rounds, conclude."""
        _forecast(NewtonTerms.read(whole.plan, whole.name), forecast, kept=kept)
        return True


def _forecast(terms: NewtonTerms, forecast: Forecast, *, kept: bool) -> None:
    members, owners = terms.members, terms.owners
    answer = 8 * sum(1 + terms.noise.entries_of(number) for number in range(terms.rounds))
    if kept:
        forecast.round(dict.fromkeys(owners, SMALL), dict.fromkeys(owners, answer + LOSS + SMALL))
        if nodes := set(members) - set(owners):  # they cannot say that they have forgotten their secrets
            forecast.round(dict.fromkeys(nodes, SMALL), dict.fromkeys(nodes, SMALL // 2))
        return
    forecast.round(dict.fromkeys(members, SMALL), dict.fromkeys(members, SMALL // 2))
    forecast.round(dict.fromkeys(members, SMALL), dict.fromkeys(members, HELLO + SMALL))
    arriving = dict.fromkeys(members, len(members) * HELLO)
    for place, turn in enumerate(terms.spoken_turns):
        if place == len(terms.chunks):
            forecast.round(arriving, dict.fromkeys(members, SMALL))
            arriving = dict.fromkeys(members, SMALL)
        letters = dict(_letters(terms, turn))
        for ends, size in letters.items():
            forecast.letter(*ends, size)
        said = _by(letters, members, place=0)
        if turn.phase == Phase.OPEN:
            said = {
                name: SMALL + (8 * terms.noise.entries_of(turn.round_number) if name in terms.nodes else 0)
                for name in members
            }
        inputs = _inputs(terms, turn)
        forecast.round({name: size + inputs for name, size in arriving.items()}, said)
        arriving = _by(letters, members, place=1)
    forecast.round(dict.fromkeys(owners, answer + SMALL), dict.fromkeys(owners, answer + LOSS + SMALL))


def _inputs(terms: NewtonTerms, turn: NewtonTurn) -> int:
    """Return how large the public inputs of a turn are: the weights of a round."""
    return 0 if turn.phase != Phase.PARTS or turn.chunk else 8 * terms.columns


def _by(letters: dict[tuple[str, str], int], members: tuple[str, ...], *, place: int) -> dict[str, int]:
    """Add letters up by sender (0) or by receiver (1)."""
    sizes = dict.fromkeys(members, SMALL)
    for ends, size in letters.items():
        sizes[ends[place]] += size
    return sizes


def _letters(terms: NewtonTerms, turn: NewtonTurn) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield sender, receiver and size of every letter of a turn."""
    start, stop = terms.chunks[turn.chunk]
    people, last = stop - start, turn.chunk == len(terms.chunks) - 1
    if turn.phase == Phase.PARTS:
        entries, double = terms.noise.entries_of(turn.round_number), 2 * terms.threshold
        for owner in terms.owners:
            for other in {*terms.holders, *(terms.nodes if last else ())} - {owner}:
                size = LETTER
                if other in terms.holders:
                    size += 2 * people if other == terms.completing(owner) else SEED
                if last and other in terms.nodes:
                    size += _share(terms, owner, other, entries, double)
                yield (owner, other), size
        return
    if turn.phase == Phase.FACTORS:
        for evaluator in terms.evaluators:
            if evaluator != terms.teller:
                yield (terms.teller, evaluator), LETTER + 2 * people
    for sender, values in _dealt(terms, turn).items():
        for node in terms.nodes:
            if node != sender:
                yield (sender, node), LETTER + _share(terms, sender, node, values * people, terms.threshold)


def _dealt(terms: NewtonTerms, turn: NewtonTurn) -> dict[str, int]:
    """Return how many values per person each sender of a turn deals to the nodes."""
    if turn.phase == Phase.COLUMNS:
        return dict(terms.widths)
    if turn.phase == Phase.FACTORS:
        return {masker: 2 * terms.terms + (place == 0) for place, masker in enumerate(terms.maskers)}
    if turn.phase == Phase.SERIES:
        return dict.fromkeys(terms.evaluators, 1)
    again = {Phase.FOLD: 2 * terms.terms, Phase.WEIGH: len(terms.weighed)}
    return dict.fromkeys(terms.nodes, again[turn.phase]) if turn.phase in again else {}


def _share(terms: NewtonTerms, sender: str, node: str, values: int, degree: int) -> int:
    return SEED if terms.is_seeded(sender, node, degree) else terms.arithmetic.packed_size(values)
