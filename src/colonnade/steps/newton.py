"""Newton steps of a logistic regression, read from a plan: whose columns, which nodes and holders, how much noise.

Everyone who takes part reads the same plan and arrives at the same object, or refuses. Nothing in it is private.

*Who computes.* Exactly the first 2t + 1 of a plan's compute nodes, and never the coordinator. Between a product and the next one
nodes deal their shares anew. A node that deviates there could add a number of its own choice to one person's residual, and so
amplify that person's row past the noise. Nothing checks it. So compute nodes are trusted to compute as written, as parties are
trusted in their inputs. A coordinator is trusted with nothing, and may not be one of them.

*Holders.* The scores stand in shares modulo a period at min(t + 1, parties) data parties, the target's holder first
(`colonnade.secure.sine_link`). The others' numbers are uniform to any but all of them together.

*Bytes.* There are n people, d columns, K terms, h holders, S data parties and N = 2t + 1 nodes. A share takes e bytes. A dealing
to all nodes costs (N − t)·e per value, and next to nothing for the t that take seeds. A re-dealing by all nodes costs N times
that, less what a node would send itself. A run sends about::

    columns        n·d·(N − t)·e
    each round     n·S·(h − 1)·2  +  n·(2Kh + 1)·(N − t)·e  +  n·(2K(h − 2) + 1)·R·e
    curvature      n·d·R·e more

with R = (N − t)·N − (N − t) = (N − t)(N − 1) values for one re-dealt value. `NewtonSteps.forecast` counts letter by letter.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple

from colonnade.errors import BadInput, NotEnoughComputeNodes, PlanMismatch, SchemaMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Loss
from colonnade.privacy.laws.newton import CURVATURE, NewtonNoise
from colonnade.protocol import codec
from colonnade.result import COORDINATOR, Opening
from colonnade.schema import Category, Schema
from colonnade.secure.residues import Arithmetic, noise_tail
from colonnade.secure.sine_link import COARSEST_BITS, FINEST_BITS, LINKS, LinkBounds, SineLink
from colonnade.steps.joint import HashedStep, check_nodes, secure_words
from colonnade.steps.kind import (
    HELLO,
    LETTER,
    LOSS,
    SEED,
    SMALL,
    Channel,
    Earlier,
    Forecast,
    NoiseWords,
    WholeStep,
    nothing_earlier,
    price_words,
)
from colonnade.steps.labelled import LARGEST_SCALE, LARGEST_WIDTH, LabelledSteps, LabelledTerms
from colonnade.steps.terms import FixedPoint, whole_list, whole_parameter

__all__ = ["Beat", "NewtonSteps", "NewtonTerms", "Phase"]

LARGEST_ROUNDS = 64
CHUNK_ELEMENTS = 1 << 20
CHUNK_UNIT = 8_192

COMPUTING = "The compute nodes {nodes} compute as written. One that deviates could amplify a row past the noise."

PLACE = 10
"""Bytes of a party's place beside its envelope."""

_COMMON = ("scale", "window", "parts", "level")


class Phase(StrEnum):
    """What is said in one turn of a run."""

    COLUMNS = "columns"
    """Data parties deal some people's columns to the nodes, once for all rounds."""
    PARTS = "parts"
    """Data parties split their parts of scores between the holders; with the last people also their noise, to the nodes."""
    FACTORS = "factors"
    """Holders deal what their tables say to the nodes."""
    FOLD = "fold"
    """Nodes multiply the next holder's factors in, and deal the product again."""
    SERIES = "series"
    """Nodes add the series up, and deal residuals or weights again."""
    WEIGH = "weigh"
    """Nodes multiply weights by columns, and deal the products again."""
    OPEN = "open"
    """Nodes open their shares of the round's noised sums."""


class Beat(NamedTuple):
    """One turn: its phase, the round and the chunk of people it is about, and of a fold the holder."""

    phase: Phase
    number: int = 0
    chunk: int = 0
    holder: int = 0


@dataclass(frozen=True)
class NewtonTerms(LabelledTerms):
    """One run of Newton steps.

    Parameters
    ----------
    bounds
        The link on shares.
    noise
        How much noise there is, and what each party's ledger is debited for it.
    arithmetic
        In which nothing that is opened can wrap.
    """

    bounds: LinkBounds
    noise: NewtonNoise
    arithmetic: Arithmetic

    @classmethod
    def read(cls, plan: Plan, name: str) -> "NewtonTerms":
        """Read a run from a plan; refuse one that could not keep its promise. A plan is read once."""
        return _read(HashedStep(codec.digest(plan), name, plan))

    @classmethod
    def _of(cls, plan: Plan, name: str) -> "NewtonTerms":
        steps = {step.party: step for step in plan.steps if step.name == name}
        if len(steps) < 2 or any(step.kind != NewtonSteps.name for step in steps.values()):
            raise PlanMismatch("Newton steps are computed by two data parties or more.")
        plan.require_named()
        for parameter in _COMMON:
            if len({step.parameters.get(parameter) for step in steps.values()}) != 1:
                raise PlanMismatch("The parties of Newton steps are asked for different scales, links or parts.")
        if sum(bool(step.parameters.get("target")) for step in steps.values()) != 1:
            raise PlanMismatch("Exactly one party holds the target.")
        check_nodes(plan)
        nodes = plan.compute_nodes[: 2 * plan.threshold + 1]
        if COORDINATOR in nodes:
            raise NotEnoughComputeNodes(
                "Newton steps need compute nodes besides the coordinator: a node could spoil what it deals again.",
                remedy='Add a node without data (compute_nodes=["helper"] in a simulation), or use method="secure".',
            )
        for bits in range(FINEST_BITS, COARSEST_BITS - 1, -1):
            bounds = LinkBounds(_link(steps), min(plan.threshold + 1, len(steps)), bits)
            noise = _noise(plan, steps, bounds)
            arithmetic = _with_room(plan.people, _scale(steps), bounds, noise, len(nodes))
            if arithmetic is not None:
                return cls(steps, nodes, plan.threshold, plan.people, bounds, noise, arithmetic)
        raise BadInput(
            "The largest possible sum does not fit any arithmetic, or its noise cannot be drawn.",
            remedy="Lower scale=, or raise epsilon.",
        )

    @cached_property
    def holders(self) -> tuple[str, ...]:
        """Who holds the scores, in shares modulo a period; the target's holder first."""
        (first,) = (party for party, step in self.asked.items() if step.parameters.get("target"))
        return (first, *(owner for owner in self.owners if owner != first))[: self.bounds.holders]

    @property
    def rounds(self) -> int:
        """How many rounds there are: the curvature, and the steps."""
        return self.noise.rounds

    @property
    def terms(self) -> int:
        """K."""
        return self.bounds.link.terms

    def bound(self, number: int) -> int:
        """Return what no integer exceeds that a round opens."""
        return _bound(number, self.people, self.scale, self.bounds, self.noise)

    def unit(self, number: int) -> float:
        """Return the integer that stands for one in what a round opens, with columns in [−1, 1]."""
        return float(self.bounds.unit * self.scale ** (2 if number == CURVATURE else 1))

    @cached_property
    def chunks(self) -> tuple[tuple[int, int], ...]:
        """Ranges of people that are computed on at a time, so that letters stay small."""
        wide = max(self.columns, 2 * self.terms + 1)
        rows = max(1, CHUNK_ELEMENTS // wide // CHUNK_UNIT) * CHUNK_UNIT
        return tuple((start, min(start + rows, self.people)) for start in range(0, self.people, rows))

    def beats(self, first: int) -> tuple[Beat, ...]:
        """Return all turns of a run that begins with round ``first``, after the three in which members meet."""
        chunks = range(len(self.chunks))
        columns = tuple(Beat(Phase.COLUMNS, chunk=chunk) for chunk in chunks)
        return columns + tuple(beat for number in range(first, self.rounds) for beat in self.round_beats(number))

    def round_beats(self, number: int) -> tuple[Beat, ...]:
        """Return the turns of one round; the last one opens it."""
        beats: list[Beat] = []
        for chunk in range(len(self.chunks)):
            beats += [Beat(Phase.PARTS, number, chunk), Beat(Phase.FACTORS, number, chunk)]
            beats += [Beat(Phase.FOLD, number, chunk, holder) for holder in range(1, self.bounds.holders - 1)]
            beats.append(Beat(Phase.SERIES, number, chunk))
            if number == CURVATURE:
                beats.append(Beat(Phase.WEIGH, number, chunk))
        return (*beats, Beat(Phase.OPEN, number))


class NewtonSteps(LabelledSteps):
    """One party's rows, its part of the scores and its noise, in every round of a Newton run.

    A round takes public weights. The curvature's round opens Σ w·x·xᵀ, each other round Σ r·x, with r = P(z) − y and w = P′(z) by
    the link's series (`colonnade.secure.sine_link`). The constant column is the target holder's: γ for a person who has a
    label, else 0; residual and weight of a person without a label are 0.

    Sensitivity: `colonnade.privacy.laws.newton.NewtonNoise`. Every row has squared length at most R_q², which the party
    enforces, in integers. Residuals and weights are bounded by the tables that the holders look them up in.
    """

    name: ClassVar[str] = "newton"
    title: ClassVar[str] = "Newton steps with noise in shares"
    channel: ClassVar[Channel] = Channel.SHARES
    conversation: ClassVar[str] = "newton"
    together: ClassVar[bool] = True
    parameters: ClassVar[frozenset[str]] = frozenset(
        {"scale", "row_bound", "width", "target", "level", "window", "parts"}
    )

    def __init__(self, plan: Plan, step: Step, schema: Schema, earlier: Earlier = nothing_earlier) -> None:
        super().__init__(plan, step, schema, earlier)
        self.terms = NewtonTerms.read(plan, step.name)
        self.target = str(step.parameters.get("target", ""))
        self.level = whole_parameter(step.parameters, "level", least=0)
        constant = self.terms.scale**2 if self.target else 0
        row_bound = self.terms.noise.row_bounds[step.party]
        features = [name for name in step.columns if name != self.target]
        if self.target and not self._has_level(schema):
            raise SchemaMismatch("The target of Newton steps is a category that has the level asked for.")
        if row_bound < constant + (1 if features else 0):
            raise PlanMismatch("The plan bounds this party's rows below the constant column.")
        self.coding = (
            FixedPoint(features, schema, scale=self.terms.scale, row_bound=row_bound - constant) if features else None
        )
        if self.terms.widths[step.party] != self.width:
            raise PlanMismatch("The plan gives this party's columns another width.")

    def _has_level(self, schema: Schema) -> bool:
        column = schema[self.target] if self.target in self.columns else None
        return isinstance(column, Category) and self.level < column.size

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
            ),
        )

    @classmethod
    def assumptions(cls, whole: WholeStep) -> tuple[str, ...]:
        """Return what is assumed of compute nodes, holders, colluders and inputs."""
        terms = NewtonTerms.read(whole.plan, whole.name)
        return (
            COMPUTING.format(nodes=", ".join(terms.nodes)),
            f"Not all of {', '.join(terms.holders)} pool their parts of people's scores.",
            *secure_words(whole.plan, whole.plan.collusion),
        )

    @classmethod
    def noise_words(cls, whole: WholeStep) -> tuple[NoiseWords, ...]:
        """Return the noise of the last step."""
        first = whole.first
        terms = NewtonTerms.read(whole.plan, first.name)
        sensitivity, scale = terms.noise.describe(terms.unit(terms.rounds - 1))
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
        """Add the rounds of a run: recall, greet, agree on a place, one round per beat, conclude."""
        _forecast(NewtonTerms.read(whole.plan, whole.name), forecast, kept=kept)
        return True


@lru_cache(maxsize=64)
def _read(hashed: HashedStep) -> NewtonTerms:
    return NewtonTerms._of(hashed.plan, hashed.name)  # noqa: SLF001  # its own module


def _first(steps: Mapping[str, Step]) -> Step:
    return next(iter(steps.values()))


def _scale(steps: Mapping[str, Step]) -> int:
    return whole_parameter(_first(steps).parameters, "scale", LARGEST_SCALE)


def _link(steps: Mapping[str, Step]) -> SineLink:
    window = whole_parameter(_first(steps).parameters, "window")
    if window not in LINKS:
        raise BadInput(f"The window of a link is one of {', '.join(map(str, LINKS))}.")
    return LINKS[window]


def _noise(plan: Plan, steps: Mapping[str, Step], bounds: LinkBounds) -> NewtonNoise:
    first = _first(steps)
    if first.price is None or len({step.price for step in steps.values()}) != 1:
        raise PlanMismatch("The parties of Newton steps are offered one price.")
    parts = whole_list(first.parameters, "parts")
    if not 2 <= len(parts) <= LARGEST_ROUNDS or any(not 1 <= part <= 10**6 for part in parts):
        raise BadInput(f"A Newton run has between 2 and {LARGEST_ROUNDS} rounds with positive parts of the price.")
    return NewtonNoise(
        row_bounds={party: whole_parameter(step.parameters, "row_bound", 2**50) for party, step in steps.items()},
        columns=sum(whole_parameter(step.parameters, "width", LARGEST_WIDTH) for step in steps.values()),
        residual=bounds.residual,
        residual_change=bounds.residual_change,
        weight=bounds.weight,
        weight_change=bounds.weight_change,
        parts=parts,
        price=first.price,
        unit=plan.unit,
        collusion=plan.collusion,
    )


def _bound(number: int, people: int, scale: int, bounds: LinkBounds, noise: NewtonNoise) -> int:
    """Return what no opened integer exceeds: so many people of |r|·|x| or |w|·|x|², and the noise, twice on the diagonal."""
    if number == CURVATURE:
        return people * bounds.weight * scale**2 + noise_tail(math.ceil(2 * noise.opened_variance(number)))
    return people * bounds.residual * scale + noise_tail(math.ceil(noise.opened_variance(number)))


def _with_room(people: int, scale: int, bounds: LinkBounds, noise: NewtonNoise, nodes: int) -> Arithmetic | None:
    """Return the cheapest arithmetic in which no opened integer can wrap: the headroom proof, when the plan is read.

    Only what is opened needs room. Everything before is exact modulo M, whatever it passes through.
    """
    try:
        most = max(_bound(number, people, scale, bounds, noise) for number in range(noise.rounds))
        return Arithmetic.for_headroom(most, nodes)
    except BadInput:  # too large to be opened, or to be drawn: coarser tables make both smaller
        return None


def _forecast(terms: NewtonTerms, forecast: Forecast, *, kept: bool) -> None:
    members, owners = terms.members, terms.owners
    answer = 8 * sum(1 + terms.noise.entries(number) for number in range(terms.rounds))
    if kept:
        forecast.round(dict.fromkeys(owners, SMALL), dict.fromkeys(owners, answer + LOSS + SMALL))
        return
    forecast.round(dict.fromkeys(owners, SMALL), dict.fromkeys(owners, SMALL // 2))
    forecast.round(dict.fromkeys(members, SMALL), dict.fromkeys(members, HELLO + SMALL))
    places = {(owner, other): LETTER + PLACE for owner in owners for other in members if other != owner}
    forecast.round(dict.fromkeys(members, len(members) * HELLO), _by(places, members, place=0))
    forecast.round(_by(places, members, place=1), dict.fromkeys(members, SMALL))
    arriving = dict.fromkeys(members, SMALL)
    for beat in terms.beats(0):
        letters = dict(_letters(terms, beat))
        said = _by(letters, members, place=0)
        if beat.phase == Phase.OPEN:
            said = {
                name: SMALL + (8 * terms.noise.entries(beat.number) if name in terms.nodes else 0) for name in members
            }
        inputs = _inputs(terms, beat)
        forecast.round({name: size + inputs for name, size in arriving.items()}, said)
        arriving = _by(letters, members, place=1)
    forecast.round(dict.fromkeys(owners, answer + SMALL), dict.fromkeys(owners, answer + LOSS + SMALL))


def _inputs(terms: NewtonTerms, beat: Beat) -> int:
    """Return how large the public inputs of a turn are: weights, and what the round before opened."""
    if beat.phase != Phase.PARTS or beat.chunk:
        return 0
    return 8 * terms.columns + (8 * terms.noise.entries(beat.number - 1) if beat.number else 0)


def _by(letters: dict[tuple[str, str], int], members: tuple[str, ...], *, place: int) -> dict[str, int]:
    """Add letters up by sender (0) or by receiver (1)."""
    sizes = dict.fromkeys(members, SMALL)
    for ends, size in letters.items():
        sizes[ends[place]] += size
    return sizes


def _letters(terms: NewtonTerms, beat: Beat) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield sender, receiver and size of every letter of a beat."""
    start, stop = terms.chunks[beat.chunk]
    people, last = stop - start, beat.chunk == len(terms.chunks) - 1
    if beat.phase == Phase.PARTS:
        entries, double = terms.noise.entries(beat.number), 2 * terms.threshold
        for owner in terms.owners:
            for other in {*terms.holders, *(terms.nodes if last else ())} - {owner}:
                size = LETTER + (2 * people if other in terms.holders else 0)
                if last and other in terms.nodes:
                    size += _share(terms, other, entries, double)
                yield (owner, other), size
        return
    for sender, values in _dealt(terms, beat).items():
        for node in terms.nodes:
            if node != sender:
                yield (sender, node), LETTER + _share(terms, node, values * people, terms.threshold)


def _dealt(terms: NewtonTerms, beat: Beat) -> dict[str, int]:
    """Return how many values per person each sender of a beat deals to the nodes."""
    if beat.phase == Phase.COLUMNS:
        return dict(terms.widths)
    if beat.phase == Phase.FACTORS:
        return {holder: 2 * terms.terms + (place == 0) for place, holder in enumerate(terms.holders)}
    again = {Phase.FOLD: 2 * terms.terms, Phase.SERIES: 1, Phase.WEIGH: terms.columns}
    return dict.fromkeys(terms.nodes, again[beat.phase]) if beat.phase in again else {}


def _share(terms: NewtonTerms, node: str, values: int, degree: int) -> int:
    point = terms.nodes.index(node) + 1
    return SEED if point <= degree else terms.arithmetic.packed_size(values)
