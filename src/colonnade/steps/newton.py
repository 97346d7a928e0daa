"""Newton steps of a logistic regression: what one party's rows, scores and noise are, and what a run sends.

Who takes part, and in which numbers, is read by `colonnade.steps.newton_terms`.

*Bytes.* There are n people, d columns, L of them levels of that category, K terms, S data parties, of whom t + 1 are holders, and
N = 2t + 1 nodes. A share takes e bytes. A node's dealing sends N − 1 − t = t of them per value, another party's t + 1; the others
follow from seeds. A re-dealing by all nodes sends N·t. If all holders compute, a run sends about::

    columns        n·d·t·e, and n·e more per column of a party that does not compute
    each round     n·(S − 1)·2  +  n·(2Kt + 1)·t·e  +  n·2K(t − 1)·N·t·e  +  n·(t + 1)·t·e
    curvature      n·(d − L − 1)·N·t·e more

Six bytes suffice for some ten thousand people, eight for millions. `NewtonSteps.forecast` counts letter by letter.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from colonnade.errors import PlanMismatch, SchemaMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Loss
from colonnade.privacy.laws.newton import NewtonNoise
from colonnade.result import Opening
from colonnade.schema import Category, Schema
from colonnade.steps.joint import secure_words
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
from colonnade.steps.labelled import LabelledSteps
from colonnade.steps.newton_terms import KIND, Beat, NewtonTerms, Phase
from colonnade.steps.terms import FixedPoint, whole_list, whole_parameter

__all__ = ["NewtonSteps"]

COMPUTING = "The {roles} {members} compute as written. One that deviates could amplify a row past the noise."
POOLING = "{maskers} and any one of {told} do not pool their parts of people's scores."


class NewtonSteps(LabelledSteps):
    """One party's rows, its part of the scores and its noise, in every round of a Newton run.

    A round takes public weights. The curvature's round opens Σ w·x·xᵀ, each other round Σ r·x, with r = P(z) − y and w = P′(z) by
    the link's series (`colonnade.secure.sine_link`). The constant column is the target holder's: γ for a person who has a
    label, else 0; residual and weight of a person without a label are 0.

    Sensitivity: `colonnade.privacy.laws.newton.NewtonNoise`. Every row has squared length at most R_q², which the party
    enforces, in integers. Residuals and weights are bounded by the tables that the holders look them up in.
    """

    name: ClassVar[str] = KIND
    title: ClassVar[str] = "Newton steps with noise in shares"
    channel: ClassVar[Channel] = Channel.SHARES
    conversation: ClassVar[str] = "newton"
    together: ClassVar[bool] = True
    parameters: ClassVar[frozenset[str]] = frozenset(
        {"scale", "row_bound", "width", "target", "level", "levels", "window", "parts"}
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
            if isinstance(schema[name], Category):
                yield start, width
            start += width

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
        """Add the rounds of a run: recall, greet, one round per beat and one between columns and rounds, conclude."""
        _forecast(NewtonTerms.read(whole.plan, whole.name), forecast, kept=kept)
        return True


def _forecast(terms: NewtonTerms, forecast: Forecast, *, kept: bool) -> None:
    members, owners = terms.members, terms.owners
    answer = 8 * sum(1 + terms.noise.entries_of(number) for number in range(terms.rounds))
    if kept:
        forecast.round(dict.fromkeys(owners, SMALL), dict.fromkeys(owners, answer + LOSS + SMALL))
        return
    forecast.round(dict.fromkeys(members, SMALL), dict.fromkeys(members, SMALL // 2))
    forecast.round(dict.fromkeys(members, SMALL), dict.fromkeys(members, HELLO + SMALL))
    arriving = dict.fromkeys(members, len(members) * HELLO)
    for place, beat in enumerate(terms.beats):
        if place == len(terms.chunks):
            forecast.round(arriving, dict.fromkeys(members, SMALL))
            arriving = dict.fromkeys(members, SMALL)
        letters = dict(_letters(terms, beat))
        for ends, size in letters.items():
            forecast.letter(*ends, size)
        said = _by(letters, members, place=0)
        if beat.phase == Phase.OPEN:
            said = {
                name: SMALL + (8 * terms.noise.entries_of(beat.number) if name in terms.nodes else 0)
                for name in members
            }
        inputs = _inputs(terms, beat)
        forecast.round({name: size + inputs for name, size in arriving.items()}, said)
        arriving = _by(letters, members, place=1)
    forecast.round(dict.fromkeys(owners, answer + SMALL), dict.fromkeys(owners, answer + LOSS + SMALL))


def _inputs(terms: NewtonTerms, beat: Beat) -> int:
    """Return how large the public inputs of a turn are: the weights of a round."""
    return 0 if beat.phase != Phase.PARTS or beat.chunk else 8 * terms.columns


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
        entries, double = terms.noise.entries_of(beat.number), 2 * terms.threshold
        for owner in terms.owners:
            for other in {*terms.holders, *(terms.nodes if last else ())} - {owner}:
                size = LETTER
                if other in terms.holders:
                    size += 2 * people if other == terms.completing(owner) else SEED
                if last and other in terms.nodes:
                    size += _share(terms, owner, other, entries, double)
                yield (owner, other), size
        return
    if beat.phase == Phase.FACTORS:
        for evaluator in terms.evaluators:
            if evaluator != terms.teller:
                yield (terms.teller, evaluator), LETTER + 2 * people
    for sender, values in _dealt(terms, beat).items():
        for node in terms.nodes:
            if node != sender:
                yield (sender, node), LETTER + _share(terms, sender, node, values * people, terms.threshold)


def _dealt(terms: NewtonTerms, beat: Beat) -> dict[str, int]:
    """Return how many values per person each sender of a beat deals to the nodes."""
    if beat.phase == Phase.COLUMNS:
        return dict(terms.widths)
    if beat.phase == Phase.FACTORS:
        return {masker: 2 * terms.terms + (place == 0) for place, masker in enumerate(terms.maskers)}
    if beat.phase == Phase.SERIES:
        return dict.fromkeys(terms.evaluators, 1)
    again = {Phase.FOLD: 2 * terms.terms, Phase.WEIGH: len(terms.weighed)}
    return dict.fromkeys(terms.nodes, again[beat.phase]) if beat.phase in again else {}


def _share(terms: NewtonTerms, sender: str, node: str, values: int, degree: int) -> int:
    return SEED if terms.is_seeded(sender, node, degree) else terms.arithmetic.packed_size(values)
