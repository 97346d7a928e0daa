"""What the coordinator asks of parties for the methods that papers brought.

*Logistic regression by noisy gradient steps* on secret shares: Algorithm 4 of Secure PCA.

See docs/references.md#secure-pca and docs/proofs/gradient-steps.md#statement. We differ from the paper in four ways. The noise
of a step is one vector of discrete Gaussian shares instead of three vectors. The accounting has the factor 3 of the sampling
theorem, and counts what peers learn by how often a person takes part (docs/proofs/gradient-steps.md#sampling, #part). Parties
clip their part of the score, so that no promise about weights is needed. The released weights are an average of the iterates.

Letters: γ and ω are the fixed-point scales of rows and weights. An opened number is γ²ω·Σ(⟨w, x⟩ − 2s)·x plus noise, that is
4γ²ω times a sum of gradients. The constant column comes first among the columns of the party that holds the target. Coded columns
are columns after scaling to [−1, 1], or indicators of levels.

*Second moments* from what each party releases by itself: rows with noise, or random combinations of rows with noise.

Perturbed rows are the baseline: every row leaves its party with noise. The sketches are Algorithm 4 and Theorems E.4 and E.5 of
Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives; docs/proofs/projections.md#size).

*Moments of sums* across parties: ‖Σ_j x^(j)‖_p^p of one column of whole numbers per party, in one round.

This is Algorithm 2 and Theorem E.5 of Primitives (Cohen-Addad, Kacham, Mirrokni, Zhong; docs/references.md#primitives). The
algorithm there counts patterns of rounded noisy values (2.4 million of them at two parties and ε = ½) and clips. We do not count.
Each value gets discrete Laplace noise, and the coordinator adds up a function of the noisy sums that undoes the noise on average
(`colonnade.papers.estimation`; docs/proofs/values-and-moments.md#unbiased-powers). For p = 1 sums are enough, as in the
paper. For p = 2 there is also the sketch of Theorem E.5, with random signs and with the noise subtracted.

*Drawing a coreset* together, and training on it where the rows are. Not differentially private.

Algorithms 1 to 3 and §6 of Coresets (Huang, Li, Sun, Zhao, 2022; docs/references.md#coresets). See also
docs/proofs/non-private.md#coresets and #weights.

We differ from the paper in four ways. Draws come through a secure sum with secret places, so that the coordinator learns
which rows were drawn and not by which party. So do scores of drawn rows: no party's own score is seen. A coreset's rows are
fixed in each party's ledger, and only these are gathered. And in vertical SAGA residuals are summed under masks, in batches,
after each party has whitened its own block. It stays what it is: not differentially private.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.driver import (
    Relay,
    agree_on_key,
    conclude_all,
    forget_key,
    key_steps,
    open_sum,
    shares_of,
    unmasked_sum,
)
from colonnade.coordinator.protocols.counting import reports_of, sample_coins
from colonnade.coordinator.protocols.moment_releases import is_positive, row_bound
from colonnade.coordinator.protocols.vertical_clustering import VerticalClustering
from colonnade.errors import BadInput, ProtocolError, SchemaMismatch
from colonnade.estimation.clustering import Grid, fitted_grid
from colonnade.estimation.counts import joint_counts, shrink_interactions, variance_of_counts
from colonnade.estimation.moments import Moments
from colonnade.estimation.tables import PairTableSet, consistent_tables
from colonnade.papers import estimation
from colonnade.papers import steps as kinds
from colonnade.papers.conversations import LARGEST_TURN, batch_of
from colonnade.papers.draws import SMALLEST_RATE, Sampling, Signs
from colonnade.papers.estimation import (
    IterateAverage,
    OptimiserName,
    StoppingRule,
    UnbiasedPower,
    clip_to_length,
    optimiser_of,
    sketched_tables,
)
from colonnade.papers.laws import SKETCHES, Carrier, Change, WholeValues, sketching
from colonnade.papers.steps import (
    KEY,
    LARGEST_WEIGHT,
    STEP,
    GradientStep,
    GradientTerms,
    MembershipSketches,
    Rows,
    SketchStep,
    Total,
    Values,
    ValueSketch,
)
from colonnade.plan import Parameter, Plan, Step
from colonnade.privacy.accounting import Price, Unit
from colonnade.privacy.calibration import discrete_laplace_variance, gaussian_sigma_squared, ledger_rho
from colonnade.privacy.laws.response import best_channel
from colonnade.protocol.messages import Array as Packed
from colonnade.protocol.messages import (
    Conclude,
    Opened,
    Recall,
    Released,
    Reply,
    Rounds,
    ask_all,
    pack,
    planned_value,
    unpack,
)
from colonnade.protocol.public_choice import public_positions, public_uniforms
from colonnade.schema import Column, ColumnName, Feature, coded_widths, columns_at, features_of, parties_of
from colonnade.secure.shamir import reconstruct
from colonnade.steps.kind import LARGEST_SHORT_SCALE, StepKind, valid_scale
from colonnade.steps.local import Reports
from colonnade.steps.sums import SumTerms

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

SCALE = 1024
"""γ and ω by default: rounding a row or a weight to a thousandth is far below the noise."""
STEEPEST = 0.5
"""The longest long-run step. Coded rows have a squared length of some tens, and the surrogate's curvature stays below 4."""
WANDERING = 3.5
"""How far noise alone may carry the weights of a descent by default."""


@dataclass(frozen=True)
class Schedule:
    """How the descent runs. Only ``steps``, ``rate`` and ``sampling`` affect the noise.

    Parameters
    ----------
    steps
        The number of steps.
    rate
        The probability that a person takes part in a step: the expected share of people in a batch.
    sampling
        ``"poisson"``: secret batches, accounted with amplification towards the coordinator; ``"balanced"``: everyone takes part
        equally often, accounted without.
    score_bound
        The bound to which the parties' parts of a score are clipped, in sum. A small one biases, a large one adds noise.
    optimiser, learning_rate
        ``"sgd"`` (with momentum) or ``"adam"``, and the length of a step; by default as long as the noise allows.
    weight_norm
        The length to which the weights of the coded columns are clipped after every step; by default they are not.
    tolerance
        Stop once the averaged weights have moved by less than this in a tenth of the steps; 0 never stops early. What was paid
        for steps that are not taken is not refunded.
    """

    steps: int = 500
    rate: float = 0.01
    sampling: Sampling = "poisson"
    score_bound: float | None = None
    optimiser: OptimiserName = "sgd"
    learning_rate: float | None = None
    weight_norm: float | None = None
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if type(self.steps) is not int or not 1 <= self.steps <= 1_000_000:
            raise BadInput("steps is a whole number between 1 and 1,000,000.", remedy="For example steps=200.")
        if not _positive(self.rate) or not SMALLEST_RATE <= self.rate <= 1:
            raise BadInput(
                "rate, the share of people in a batch, must be above 2^-20 and at most 1.",
                remedy="For example rate=0.01.",
            )
        if self.sampling not in ("poisson", "balanced"):
            raise BadInput("sampling is 'poisson' or 'balanced'.", remedy='For example sampling="poisson".')
        if self.optimiser not in ("sgd", "adam"):
            raise BadInput("The optimiser is 'sgd' or 'adam'.", remedy='For example optimiser="adam".')
        for name in ("score_bound", "learning_rate", "weight_norm"):
            value = getattr(self, name)
            if value is not None and not _positive(value):
                raise BadInput(f"{name} is a positive number, or None.", remedy=f"For example {name}=1.0.")
        if isinstance(self.tolerance, bool) or not isinstance(self.tolerance, int | float) or not self.tolerance >= 0:
            raise BadInput("tolerance must be a number, zero or more.", remedy="For example tolerance=0.001.")


@dataclass(frozen=True, eq=False)
class Descent:
    """The result of a descent.

    Parameters
    ----------
    features
        The coded columns; the constant one first.
    weights
        The averaged weights of the coded columns, in that order.
    steps
        The number of steps that were taken.
    """

    features: tuple[Feature, ...]
    weights: Array
    steps: int


@dataclass(frozen=True)
class GradientDescent:
    """The study: agree on a key for the batches, take the steps, keep the weights.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order, the target among them; of two parties or more.
    target
        A category of two levels.
    price
        The price of all steps together; δ must be positive.
    schedule
        How the descent runs.
    scale
        The fixed-point scales γ and ω.
    people
        The number of people.
    """

    columns: Mapping[str, Column]
    target: str
    price: Price
    schedule: Schedule
    people: int
    scale: int = SCALE

    def __post_init__(self) -> None:
        target = self.columns[self.target]
        if target.is_number or target.size != 2:
            raise SchemaMismatch(
                f"method='gradient' takes a target of two levels, and {self.target!r} is not one.",
                remedy="Use method='secure', which fits one row per class.",
            )
        if len(self.parties) < 2:
            raise BadInput(
                "A gradient on shares takes columns of at least two parties.",
                remedy="Name columns of another party too.",
            )
        if len(self.columns) < 2:
            raise BadInput(
                "A regression needs a column besides its target.",
                remedy='Name at least one more column: columns=["bank.age", ...].',
            )
        if self.price.delta == 0:
            raise BadInput(
                "method='gradient' needs a positive delta.",
                remedy="For example delta=1e-6, well below 1/people.",
            )
        valid_scale(self.scale, LARGEST_SHORT_SCALE, example="method=cn.methods.Gradient(scale=1024)")

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of({name: column for name, column in self.columns.items() if name != self.target})

    def steps(self) -> tuple[Step, ...]:
        """Return each party's part in agreeing on the key and in the descent."""
        return (*key_steps(self.parties, KEY), *(self._step(party) for party in self.parties))

    def rounds(self, plan: Plan) -> Rounds:
        """Run the descent, or return what the parties have kept of it."""
        terms = GradientTerms.read(plan, STEP)
        kept = yield {member: Recall(plan=plan, step=STEP) for member in terms.members}
        for reply in kept.values():
            if isinstance(reply, Released):
                yield from conclude_all(plan, STEP, kept, reply.values)
                yield from forget_key(plan, KEY)
                return self._descent(reply.array("weights").astype(float), int(reply.array("steps")[0]))
        yield from agree_on_key(plan, KEY)
        weights, taken = yield from self._descend(plan, terms)
        values = {"weights": pack(weights), "steps": pack(np.array([taken], dtype=np.int64))}
        yield {member: Conclude(plan=plan, step=STEP, values=values) for member in terms.members}
        yield from forget_key(plan, KEY)
        return self._descent(weights, taken)

    def deviation(self, terms: GradientTerms) -> float:
        """Return the standard deviation of the noise in one coordinate of a step's mean gradient, for coded columns."""
        return terms.noise.gradient_deviation(4.0 * self.scale**3) / (terms.rate * terms.people)

    def learning_rate(self, terms: GradientTerms) -> float:
        """Return the length of a step: as given, or short enough that noise alone does not carry the weights away."""
        if self.schedule.learning_rate is not None:
            return float(self.schedule.learning_rate)
        wander = self.deviation(terms) * math.sqrt(terms.steps * terms.columns)
        long_run = min(STEEPEST, WANDERING / wander)
        return (
            long_run * 0.1
            if self.schedule.optimiser == "sgd"
            else min(0.02, WANDERING / math.sqrt(terms.columns * terms.steps))
        )

    # How it runs --------------------------------------------------------------------------------------------------------

    def _descend(self, plan: Plan, terms: GradientTerms) -> Rounds:
        relay = Relay(plan, STEP, terms.members)
        yield from relay.greet()
        yield from relay.turn()
        weights = np.zeros(terms.columns)
        optimiser = optimiser_of(self.schedule.optimiser, self.learning_rate(terms))
        average, settling, taken = IterateAverage(), StoppingRule(self.schedule.tolerance, terms.steps), 0
        while taken < terms.steps:
            yield from relay.turn({"weights": pack(self._whole(weights))})
            opened = yield from relay.last()
            weights = clip_to_length(
                weights + optimiser.change(self._gradient(terms, opened)), self.schedule.weight_norm
            )
            taken += 1
            if settling.has_settled(average.add(weights)):
                break
        return (weights if average.value is None else average.value), taken

    def _gradient(self, terms: GradientTerms, replies: Mapping[str, Reply]) -> Array:
        shares = shares_of(terms.nodes, replies, terms.columns)
        opened = reconstruct(terms.arithmetic, shares, degree=2 * terms.threshold, bound=terms.bound)
        return opened / (4.0 * self.scale**3 * terms.rate * terms.people)

    def _whole(self, weights: Array) -> Integers:
        return np.clip(np.rint(weights * self.scale), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int64)

    def _descent(self, weights: Array, taken: int) -> Descent:
        """Put the constant column, which stands at the target's holder, in front."""
        constant = self._constant_place()
        if weights.shape != (len(self.features),):
            raise ProtocolError(f"{weights.size} weights were kept; the plan has {len(self.features)}.")
        return Descent(
            self.features, np.concatenate([weights[constant : constant + 1], np.delete(weights, constant)]), taken
        )

    def _constant_place(self) -> int:
        holder = self.parties.index(self._holder)
        earlier = self.parties[:holder]
        return sum(coded_widths(self.features)[party] for party in earlier)

    @property
    def _holder(self) -> str:
        return ColumnName.of(self.target).party

    def _step(self, party: str) -> Step:
        own = columns_at(party, self.columns)
        target = ColumnName.of(self.target).column if party == self._holder else ""
        width = coded_widths(self.features)[party] + bool(target)
        return GradientStep.ask(
            name=STEP,
            party=party,
            columns=own,
            parameters={
                "scale": self.scale,
                "weight_scale": self.scale,
                "row_bound": self.scale**2 * len(own),  # the constant column takes the target's place in the count
                "score_bound": self._score_bound(party),
                "width": width,
                "target": target,
                "steps": self.schedule.steps,
                "rate": float(self.schedule.rate),
                "sampling": self.schedule.sampling,
            },
            price=self.price,
        )

    def _score_bound(self, party: str) -> int:
        """Divide the bound on scores by the square roots of the parties' columns; the label adds 2 where it is."""
        roots = {name: math.sqrt(len(columns_at(name, self.columns))) for name in self.parties}
        bound = 2.0 + len(self.parties) if self.schedule.score_bound is None else float(self.schedule.score_bound)
        own = bound * roots[party] / sum(roots.values()) + (2.0 if party == self._holder else 0.0)
        steps = math.floor(own * self.scale**2)
        if steps < 1:
            raise BadInput(
                f"score_bound leaves party {party!r} less than one step of the fixed point: every score would be 0.",
                remedy="Raise score_bound, or scale=.",
            )
        return steps


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


ROWS_SCALE = 64
BLOCK = 65_536


@dataclass(frozen=True)
class PerturbedRows:
    """Noisy rows from every party, and the moments they give.

    The baseline of Secure PCA, Algorithm 3: each party perturbs its own rows and the coordinator multiplies them. We differ
    in the relation (zero-out: the number of rows is public, and was released there under add/remove all the same), in the
    noise (discrete), and in subtracting its known variance from the diagonal. The price of doing without peers is √people in
    every entry.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order.
    price
        The price of each party's release; δ must be positive.
    people
        The number of people, which is public.
    scale
        The fixed-point scale γ.
    """

    columns: Mapping[str, Column]
    price: Price
    people: int
    scale: int = ROWS_SCALE

    def __post_init__(self) -> None:
        if self.price.delta == 0:
            raise BadInput("Perturbed rows need a positive delta.", remedy="For example delta=1e-6.")
        valid_scale(self.scale, example="scale=1024")

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of(self.columns)

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: its rows."""
        return tuple(
            Rows.ask(
                name="rows",
                party=party,
                columns=columns_at(party, self.columns),
                parameters={"scale": self.scale},
                price=self.price,
            )
            for party in self.parties
        )

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect the rows, multiply them."""
        releases = yield from ask_all(plan, "rows")
        return self.combine({party: self._rows(party, releases[party]) for party in self.parties})

    def combine(self, rows: Mapping[str, NDArray[np.int32]]) -> Moments:
        """Multiply all parties' rows, and take the noise's own variance off the diagonal."""
        stacked = np.concatenate([rows[party] for party in self.parties])
        gram = np.zeros((len(stacked) + 1, len(stacked) + 1))
        for start in range(0, self.people, BLOCK):
            block = stacked[:, start : start + BLOCK] / self.scale
            wide = np.concatenate([np.ones((1, block.shape[1])), block])
            gram += wide @ wide.T
        noise = self.entry_noise()
        gram[np.diag_indices_from(gram)] -= self.people * noise
        return Moments.of_release(gram, self.variance(gram), self.people, self.features)

    def entry_noise(self) -> Array:
        """Return the variance of the noise in each coded column, 0 for the constant one."""
        variance = {
            party: float(gaussian_sigma_squared(self.price, self.scale**2 * len(columns_at(party, self.columns))))
            / self.scale**2
            for party in self.parties
        }
        return np.array([0.0, *(variance[feature.party] for feature in self.features[1:])])

    def variance(self, gram: Array) -> Array:
        """Return the variance of every entry of the product: Σx²s_j + Σy²s_i + m·s_i·s_j, twice the last on the diagonal."""
        noise, energy = self.entry_noise(), np.maximum(np.diag(gram), 0.0)
        variance = np.outer(energy, noise) + np.outer(noise, energy) + self.people * np.outer(noise, noise)
        variance[np.diag_indices_from(variance)] = 4 * energy * noise + 2 * self.people * noise**2
        variance[0, 0] = 0.0
        return np.asarray(variance)

    def _rows(self, party: str, release: Released) -> NDArray[np.int32]:
        return planned_value(release, (coded_widths(self.features)[party], self.people), np.int32)


SKETCH_SCALE = 1_024


@dataclass(frozen=True)
class SketchedMoments:
    """Noisy sketches from every party, and the moments they give.

    One message per party, no peer (Primitives, Algorithm 4 and Theorem E.4). We differ from the paper in three ways. Signs
    take the place of Gaussian sketches, so the sensitivity is exact and nothing can fail. The known noise variance is
    subtracted; unsubtracted it acts as a ridge penalty that nobody asked for. Columns are centred after the sketch, with sums
    that a row of ones carries. Rank-k approximation and regression then follow from the matrix, as from any other
    (docs/proofs/projections.md#size).

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order.
    price
        The price of each party's release; δ must be positive.
    people
        The number of people, which is public.
    scale
        The fixed-point scale γ.
    row_norms
        Party to the length to which it clips its coded rows (after scaling to [−1, 1]); by default nothing needs clipping.
    draw
        The number of the draw; signs differ from draw to draw.
    rows
        The number s of rows; by default the best for columns spread evenly between their bounds.
    """

    columns: Mapping[str, Column]
    price: Price
    people: int
    scale: int = SKETCH_SCALE
    row_norms: Mapping[str, float] | None = None
    draw: int = 1
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.price.delta == 0:
            raise BadInput("Sketches need a positive delta.", remedy="For example delta=1e-6, well below 1/people.")
        valid_scale(self.scale, example="scale=1024")
        norms = {} if self.row_norms is None else self.row_norms
        if (
            not isinstance(norms, Mapping)
            or set(norms) - set(self.parties)
            or not all(map(is_positive, norms.values()))
        ):
            raise BadInput(
                "row_norms maps parties of the study to positive lengths.",
                remedy=f"For example row_norms={{'{self.parties[0]}': 1.0}}. The study's parties are {', '.join(self.parties)}.",
            )

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns, the constant one first."""
        return features_of(self.columns)

    @property
    def size(self) -> int:
        """The number s of rows of a sketch, from public numbers alone."""
        if self.rows is not None:
            return self.rows
        coded = self.features[1:]
        energy = self.people * float(np.sum(_plain_spread(coded)))
        widths = coded_widths(coded)
        noise = sum(self._bound(party) * widths[party] for party in self.parties) / (2 * float(ledger_rho(self.price)))
        return best_sketch_size(energy, noise / self.scale**2, least=2 * len(coded))

    @property
    def seed(self) -> str:
        """The public seed of the signs."""
        return public_seed(tuple(self.columns), self.draw)

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party: its sketch."""
        size, seed = self.size, self.seed
        return tuple(
            SketchStep.ask(
                name="sketch",
                party=party,
                columns=columns_at(party, self.columns),
                parameters={
                    "size": size,
                    "seed": seed,
                    "scale": self.scale,
                    "row_bound": self._bound(party),
                    "width": self._width(party),
                },
                price=self.price,
            )
            for party in self.parties
        )

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect the sketches, multiply them."""
        releases = yield from ask_all(plan, "sketch")
        return self.combine({party: self._sketch(party, releases[party]) for party in self.parties})

    def combine(self, sketches: Mapping[str, NDArray[np.int64]]) -> Moments:
        """Multiply all parties' centred sketches, take the noise's own variance off the diagonal, and put the means back."""
        stacked = np.concatenate([sketches[party] for party in self.parties], axis=1) / self.scale
        rows, sums = centred_sketch(stacked, self.seed, self.people)
        gram = rows.T @ rows / len(rows)
        noise = self.entry_noise()
        gram[np.diag_indices_from(gram)] -= noise * (1 + 1 / self.people)
        return self.moments(gram, sums)

    def moments(self, gram: Array, sums: Array) -> Moments:
        """Return the moments of centred products, less their noise, and of column sums."""
        variance = self.variance(gram)
        whole = np.zeros_like(variance)
        whole[1:, 1:] = gram + np.outer(sums, sums) / self.people
        whole[0, 1:] = whole[1:, 0] = sums
        self._use_indicators(whole, variance)
        return Moments.of_release(whole, variance, self.people, self.features)

    def entry_noise(self) -> Array:
        """Return the variance of the noise in each coded column's sketch."""
        variance = {
            party: float(gaussian_sigma_squared(self.price, (self.size + 1) * self._bound(party))) / self.scale**2
            for party in self.parties
        }
        return np.array([variance[feature.party] for feature in self.features[1:]])

    def variance(self, gram: Array) -> Array:
        """Return the variance of every entry, the intercept's first: that of the sketch itself, of the noise, of both.

        Products of s rows of signs and noise, averaged: ``(E_iE_j + C_ij² + N_iE_j + N_jE_i + N_iN_j)/s`` with C the centred
        moments, E their diagonal and N the noise of a row; on the diagonal this is twice (E + N)²/s.
        """
        noise, energy = self.entry_noise(), np.maximum(np.diag(gram), 0.0)
        total = energy + noise
        products = np.outer(energy, energy)
        shared = np.clip(gram, -np.sqrt(products), np.sqrt(products))
        inner = (np.outer(total, total) + shared**2) / self.size
        inner[np.diag_indices_from(inner)] = 2 * total**2 / self.size
        variance = np.zeros((len(total) + 1, len(total) + 1))
        variance[1:, 1:], variance[0, 1:], variance[1:, 0] = inner, noise, noise
        return variance

    def _use_indicators(self, whole: Array, variance: Array) -> None:
        """The square of an indicator is itself: its sum is known better than its sketch's length."""
        levels = [place for place, feature in enumerate(self.features) if feature.kind == "level"]
        whole[levels, levels] = whole[0, levels]
        variance[levels, levels] = variance[0, levels]

    def _width(self, party: str) -> int:
        return coded_widths(self.features)[party]

    def _bound(self, party: str) -> int:
        return row_bound(self.row_norms, party, len(columns_at(party, self.columns)), self.scale)

    def _sketch(self, party: str, release: Released) -> NDArray[np.int64]:
        return planned_value(release, (self.size + 1, self._width(party)), np.int64)


def _plain_spread(features: tuple[Feature, ...]) -> Array:
    """The variance of each coded column if numbers are spread evenly and levels equally frequent."""
    counted = Counter(feature.column for feature in features)
    levels = np.array([counted[feature.column] for feature in features], dtype=np.float64)
    return np.array([1 / 3 if f.kind == "numeric" else (1 - 1 / k) / k for f, k in zip(features, levels, strict=True)])


SMALLEST_SIZE, LARGEST_SIZE = 16, 4_096
"""Larger sketches cost time in proportion and gain little: their own error is then a few parts in a hundred."""


def best_sketch_size(energy: float, noise: float, *, least: int = SMALLEST_SIZE) -> int:
    """Return the number of rows s = ΣE/ΣN, within the sizes that are supported.

    Let a sketch have s rows of signs, E be the squared length of a column, and N the variance of the noise in one row of its
    sketch divided by s. An entry of the Gram matrix of two sketched columns has variance ``(E_iE_j + s(N_iE_j + N_jE_i) +
    s²N_iN_j)/s`` up to the square of the entry itself, so ``s = ΣE/ΣN`` gives the least sum over all entries
    (docs/proofs/projections.md#size). Lengths are private: columns are taken to be spread evenly between their bounds.

    Examples
    --------
    >>> best_sketch_size(1e6, 2e3)
    500
    """
    return int(np.clip(round(energy / noise), max(least, SMALLEST_SIZE), LARGEST_SIZE))


def public_seed(columns: Sequence[str], draw: int) -> str:
    """Return the seed of the signs: a hash of what is asked, another for every draw."""
    return hashlib.sha256(f"colonnade/sketch/{draw}/{'/'.join(columns)}".encode()).hexdigest()


def centred_sketch(sketch: Array, seed: str, people: int) -> tuple[Array, Array]:
    """Return the sketch of columns less their means, and the noisy column sums, from s + 1 released rows.

    The first row holds the sums. G times ones is public, so subtracting it times the means is exact up to the noise in them,
    and leaves a sketch of the centred columns, whose own error does not grow with the means.
    """
    sums, rows = sketch[0], sketch[1:]
    ones = Signs(bytes.fromhex(seed), len(rows)).sums(people).astype(np.float64)
    return rows - np.outer(ones, sums / people), sums


LARGEST_HISTOGRAM = 1 << 22
LARGEST_LOG = 290.0
GRID = 9


@dataclass(frozen=True)
class PowerMoment:
    """An estimated moment and its standard error from the noise."""

    value: float
    stderr: float


@dataclass(frozen=True)
class _OneColumnEach:
    """What the three methods share: one column of whole numbers per party, and the change that the noise hides.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, one per party.
    power
        p.
    change
        By how much neighbours may differ in a value.
    price
        The price of each party's release.
    people
        The number of people, which is public.
    draw
        The number of the draw.
    """

    columns: Mapping[str, Column]
    power: float
    change: Change
    price: Price
    people: int
    draw: int = 1

    kind: ClassVar[type[StepKind]]

    @property
    def values(self) -> dict[str, WholeValues]:
        """What is public about each party's numbers."""
        return {
            ColumnName.of(name).party: WholeValues.of(column, name, self.change)
            for name, column in self.columns.items()
        }

    @property
    def lowest(self) -> int:
        """The smallest possible sum."""
        return sum(values.low for values in self.values.values())

    @property
    def highest(self) -> int:
        """The largest possible sum."""
        return sum(values.high for values in self.values.values())

    def steps(self) -> tuple[Step, ...]:
        """Return one step per party."""
        return tuple(
            self.kind.ask(
                name=self.kind.name,
                party=name.party,
                columns=(name.column,),
                parameters=self._parameters(),
                price=self.price,
            )
            for name in map(ColumnName.of, self.columns)
        )

    def _parameters(self) -> dict[str, Parameter]:
        return {"change": self.change}

    def typical(self, mean: float) -> tuple[float, float]:
        """Return moment and standard error for people whose sums are mostly small and seldom large, as counts are.

        Sums lie above the lowest by an exponential law with this mean, in parts of the range.
        """
        middles = (np.arange(GRID) + 0.5) / GRID
        above = np.minimum(-np.log1p(-middles) * mean, 1.0)
        return self.for_sums(self.lowest + above * (self.highest - self.lowest))

    def for_sums(self, sums: NDArray[np.float64]) -> tuple[float, float]:
        """Return moment and standard error for people whose sums are these, each equally often."""
        raise NotImplementedError


class PerturbedPowers(_OneColumnEach):
    """Every value gets noise of its own, and the coordinator adds up f of the noisy sums. Local differential privacy."""

    kind: ClassVar[type[StepKind]] = Values

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect, add up over parties, sum over people."""
        releases = yield from ask_all(plan, self.kind.name)
        return self.combine({party: self._packed(party, releases[party]) for party in self.values})

    @property
    def scales(self) -> list[Fraction]:
        """The scale of each party's noise."""
        return [values.scale(self.price) for values in self.values.values()]

    @property
    def carriers(self) -> dict[str, Carrier]:
        """The form in which each party's values travel."""
        return {party: values.carrier(self.price) for party, values in self.values.items()}

    def power_of(self, power: float) -> UnbiasedPower:
        """Return what estimates a power of a sum without bias; refuse what would overflow."""
        largest = self.highest + 100 * float(sum(self.scales))
        if power * math.log10(largest) + math.log10(self.people) > LARGEST_LOG:
            raise BadInput("A moment of this order does not fit floating point.", remedy="Ask for a smaller p.")
        return UnbiasedPower(power, self.scales, self.lowest)

    def combine(self, packed: Mapping[str, NDArray[np.generic]]) -> PowerMoment:
        """Estimate the moment and, from f² less an unbiased square of the moment's terms, its variance."""
        power, square = self.power_of(self.power), self.power_of(2 * self.power)
        total = spread = 0.0
        for sums, counts in self._sums(packed):
            value = power(sums)
            total += float(counts @ value)
            spread += float(counts @ (value**2 - square(sums)))
        if spread <= 0:  # few people: fall back on what noise does to the smallest sums
            spread = self.people * power.variance(self.lowest)
        return PowerMoment(total, math.sqrt(spread))

    def for_sums(self, sums: NDArray[np.float64]) -> tuple[float, float]:
        """Return moment and standard error for people whose sums are these, each equally often."""
        power = self.power_of(self.power)
        totals, counts = np.unique(sums.round().astype(int), return_counts=True)
        variances = np.array([power.variance(total) for total in totals.tolist()])
        moment = self.people * float(np.average(totals.astype(np.float64) ** self.power, weights=counts))
        return moment, math.sqrt(self.people * float(np.average(variances, weights=counts)))

    def _sums(self, packed: Mapping[str, NDArray[np.generic]]) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Return distinct noisy sums and how many people have them, folding blocks of people."""
        carriers = self.carriers
        offset = sum(carrier.offset for carrier in carriers.values())
        cells = sum(carrier.limit for carrier in carriers.values()) + 1
        parts = []
        histogram = np.zeros(cells if cells <= LARGEST_HISTOGRAM else 0, dtype=np.int64)
        for start in range(0, self.people, BLOCK):
            some = [packed[party][start : start + BLOCK] for party in carriers]
            sums = np.sum([one.astype(np.int64) for one in some], axis=0)
            if cells <= LARGEST_HISTOGRAM:
                histogram += np.bincount(sums, minlength=cells)
            else:
                parts.append((sums + offset, np.ones(len(sums))))
        seen = np.flatnonzero(histogram)
        return parts or [(seen + offset, histogram[seen].astype(np.float64))]

    def _packed(self, party: str, release: Released) -> NDArray[np.generic]:
        return planned_value(release, (self.people,), self.carriers[party].dtype)


class Totals(_OneColumnEach):
    """p = 1: the sum of each party's column with noise. Far more exact; not local, since a party adds up before it perturbs."""

    kind: ClassVar[type[StepKind]] = Total

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect and add."""
        releases = yield from ask_all(plan, self.kind.name)
        totals = [planned_value(releases[party], (1,), np.int64) for party in self.values]
        return PowerMoment(float(sum(int(total[0]) for total in totals)), self._stderr())

    def for_sums(self, sums: NDArray[np.float64]) -> tuple[float, float]:
        """Return moment and standard error for people whose sums are these, each equally often."""
        return self.people * float(sums.mean()), self._stderr()

    def _stderr(self) -> float:
        scales = [values.scale(self.price) for values in self.values.values()]
        return math.sqrt(sum(discrete_laplace_variance(scale) for scale in scales))


class SketchedSquare(_OneColumnEach):
    """p = 2 from sketches: the length of the sum of all parties' sketches, less the noise that is in it."""

    kind: ClassVar[type[StepKind]] = ValueSketch

    @property
    def size(self) -> int:
        """The number s of rows of a sketch, from public numbers alone."""
        unit = 1 / (2 * float(ledger_rho(self.price)))
        noise = unit * sum(values.sensitivity**2 for values in self.values.values())
        energy = self.people * sum((values.high - values.low + 1) ** 2 for values in self.values.values()) / 12
        return best_sketch_size(energy, noise)

    @property
    def noise(self) -> float:
        """The variance of the noise in a row of the parties' sketches together."""
        rows = self.size + 1
        return sum(
            float(gaussian_sigma_squared(self.price, rows * values.sensitivity**2)) for values in self.values.values()
        )

    def rounds(self, plan: Plan) -> Rounds:
        """One round: collect, add, measure."""
        releases = yield from ask_all(plan, self.kind.name)
        return self.combine({party: self._sketch(party, releases[party]) for party in self.values})

    def combine(self, sketches: Mapping[str, NDArray[np.int64]]) -> PowerMoment:
        """Estimate ‖x‖² as the squared length of the centred part plus m·mean², each less its noise."""
        rows, sums = centred_sketch(np.sum([*sketches.values()], axis=0).astype(np.float64), self._seed, self.people)
        length, total, noise = float(np.sum(rows**2)) / len(rows), float(sums[0]), self.noise
        value = length - noise + total**2 / self.people - 2 * noise / self.people
        return PowerMoment(value, self._stderr(length, total))

    def for_sums(self, sums: NDArray[np.float64]) -> tuple[float, float]:
        """Return moment and standard error for people whose sums are these, each equally often."""
        total, energy = self.people * float(sums.mean()), self.people * float(sums.var())
        return energy + total**2 / self.people, self._stderr(energy + self.noise, total)

    def _stderr(self, length: float, total: float) -> float:
        return math.sqrt(2 * length**2 / self.size + 4 * (total / self.people) ** 2 * self.noise)

    def _parameters(self) -> dict[str, Parameter]:
        return {"change": self.change, "size": self.size, "seed": self._seed}

    @property
    def _seed(self) -> str:
        return public_seed(tuple(self.columns), self.draw)

    def _sketch(self, party: str, release: Released) -> NDArray[np.int64]:
        return planned_value(release, (self.size + 1, 1), np.int64)


BlockCoefficients = Mapping[str, NDArray[np.float64]]
MARGIN_SCALE = 2**32
EPOCHS = 300
SETTLED = 1e-4
"""Relative change of residuals over an epoch, below which the training ends; the loss is then within about 10⁻⁴ of the best."""


def vertical_saga(plan: Plan, step: str, weights: NDArray[np.float64], widths: Mapping[str, int]) -> Rounds:
    """Train by vertical SAGA, and return each party's coefficients of its coded columns (after scaling to [−1, 1]).

    Each turn every party sends its masked part of a batch's residuals. The coordinator opens their sum and sends it back, and
    every party steps. In the whitened coordinates of `colonnade.papers.private` the gradient of row i is u_i·r_i with
    ‖u_i‖² its leverage. So the smoothness of a batch of b of m rows is L(b) = m(b−1)/(b(m−1))·L + (m−b)/(b(m−1))·m·max‖u_i‖²
    with L ≤ the number of parties (Gower, Richtárik and Bach 2021), and the step is 1/(3·L(b)).

    Parameters
    ----------
    plan, step
        The plan, and the name of the step.
    weights
        The weights of the sampled rows.
    widths
        The number of coefficients of each party.
    """
    terms, rows = SumTerms.read(plan, step), len(weights)
    relay = Relay(plan, step, terms.owners)
    yield from relay.greet()
    replies = yield from relay.last({"weights": pack(weights)})
    lengths = unmasked_sum(terms, replies, rows) / MARGIN_SCALE
    batch = len(batch_of(plan, 2, rows))
    length = _step_length(lengths, batch, len(terms.owners))
    known = np.full(rows, np.nan)
    inputs: dict[str, Packed] = {}
    turns = -(-rows // batch)
    moved, size = np.zeros(turns), np.ones(turns)
    for number in range(2, min(LARGEST_TURN - 1, EPOCHS * turns)):
        replies = yield from relay.last(inputs)
        places = batch_of(plan, number, rows)
        residuals = unmasked_sum(terms, replies, batch) / MARGIN_SCALE
        change = residuals - np.nan_to_num(known[places])
        moved[number % turns], size[number % turns] = change @ change, residuals @ residuals
        known[places] = residuals
        inputs = {"residuals": pack(residuals), "step": pack(np.array([length]))}
        if number > 4 * turns and moved.sum() <= SETTLED**2 * max(float(size.sum()), 1e-300):
            break
    replies = yield from relay.last({**inputs, "stop": pack(np.zeros(1))})
    return {party: _block(party, replies[party], widths[party]) for party in terms.owners}


def _step_length(lengths: NDArray[np.float64], batch: int, parties: int) -> float:
    rows = len(lengths)
    whole, single = float(parties), rows * float(max(lengths.max(), 1e-12))
    if rows == batch:
        return 1 / whole
    smoothness = rows * (batch - 1) * whole + (rows - batch) * single
    return batch * (rows - 1) / (3 * smoothness)


def _block(party: str, reply: object, width: int) -> NDArray[np.float64]:
    own = unpack(reply.own) if isinstance(reply, Opened) and reply.own is not None else None
    if own is None or own.shape != (width,) or not np.all(np.isfinite(own)):
        raise ProtocolError(f"Party {party!r} sent coefficients that are not {width} finite numbers.")
    return own.astype(np.float64)


Training = Literal["none", "rows", "clusters", "saga"]
"""What follows the sample: nothing, gathering its rows, local clusters of it (DISTDIM), or residuals of it (SAGA)."""

MARGIN_BOUND = 2**50
SMALLEST_BOUND = 2**32
"""The smallest bound on draws: they are summed in eight bytes, like all other numbers of a coreset."""


@dataclass(frozen=True, eq=False)
class CoresetFindings:
    """What a coreset study learned.

    Parameters
    ----------
    coreset
        Rows and weights.
    gathered
        The sampled rows, coded, all parties' columns side by side (training ``"rows"``).
    clusters
        Each party's local centres and labels (training ``"clusters"``).
    coefficients
        Each party's coefficients (training ``"saga"``).
    """

    coreset: estimation.WeightedSample
    gathered: Array | None = None
    clusters: Mapping[str, tuple[Array, NDArray[np.int64]]] | None = None
    coefficients: BlockCoefficients | None = None


@dataclass(frozen=True)
class CoresetStudy:
    """One coreset, and what is trained on it.

    Parameters
    ----------
    columns
        ``"party.column"`` to its description, in the federation's order, the target among them; of two parties or more.
    task, target, clusters
        The problem that the coreset is for.
    size, people
        The number of draws, and the number of people.
    uniform
        Whether rows are drawn uniformly by a public choice instead.
    training
        What is trained on the sample.
    seed
        The seed of public choices.
    ridge
        Penalty of vertical SAGA on squared coded coefficients, relative to the mean squared residual.
    """

    columns: Mapping[str, Column]
    task: estimation.Task
    size: int
    people: int
    target: str | None = None
    clusters: int = 1
    uniform: bool = False
    training: Training = "none"
    seed: int = 0
    ridge: float = 0.0

    def __post_init__(self) -> None:
        if len(self.parties) < 2:
            raise BadInput(
                "A coreset takes columns of at least two parties.", remedy="One party alone needs no federation."
            )

    @cached_property
    def parties(self) -> tuple[str, ...]:
        """The parties whose columns enter, in the federation's order."""
        return parties_of(self.columns)

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """The coded columns that are gathered: the target's among them, no constant."""
        return features_of(self.columns)[1:]

    def width(self, party: str) -> int:
        """How many coded columns a party has, its target included."""
        return coded_widths(self.features)[party]

    # What is asked ------------------------------------------------------------------------------------------------------

    def steps(self) -> tuple[Step, ...]:
        """Return the steps of every party."""
        names: NamedKinds = [("sample", kinds.CoresetSample)] if self.uniform else IMPORTANCE
        names = [*names, *TRAININGS[self.training]]
        keys = () if self.uniform else self.parties
        return (
            *key_steps(keys, "key"),
            *(self._step(party, name, kind) for party in self.parties for name, kind in names),
        )

    def rounds(self, plan: Plan) -> Rounds:
        """Draw the coreset, then train."""
        coreset = yield from (self._uniform(plan) if self.uniform else self._importance(plan))
        if self.training == "rows":
            return CoresetFindings(coreset, gathered=(yield from self._gather(plan, coreset)))
        if self.training == "clusters":
            return CoresetFindings(coreset, clusters=(yield from self._cluster(plan, coreset)))
        if self.training == "saga":
            found = yield from vertical_saga(plan, "train", coreset.weights, self._block_widths())
            return CoresetFindings(coreset, coefficients=found)
        return CoresetFindings(coreset)

    # The sample ---------------------------------------------------------------------------------------------------------

    def _uniform(self, plan: Plan) -> Rounds:
        replies = yield from ask_all(plan, "sample")
        sample = public_positions(plan, "sample", self.size)
        if any(not np.array_equal(reply.array("rows"), sample) for reply in replies.values()):
            raise ProtocolError("The parties do not repeat the same public choice of rows.")
        return estimation.weighted_coreset(sample, np.full(self.size, 1.0 / self.people), 1.0)

    def _importance(self, plan: Plan) -> Rounds:
        totals = yield from self._totals(plan)
        sample = yield from self._kept(plan)
        if sample is None:
            yield from agree_on_key(plan, "key")
            sample = yield from self._draw(plan, totals)
        scores = yield from open_sum(plan, "sample", len(sample), {"rows": pack(sample)})
        yield from forget_key(plan, "key")  # also where an earlier run failed just before
        return estimation.weighted_coreset(sample, scores / kinds.SCORE_SCALE, sum(totals.values()))

    def _totals(self, plan: Plan) -> Rounds:
        replies = yield from ask_all(plan, "total")
        claimed = {party: _number(reply) for party, reply in replies.items()}
        return estimation.checked_totals(claimed, self.maxima())

    def maxima(self) -> dict[str, float]:
        """Return the largest total that each party can have, from public facts."""
        held = None if self.target is None else ColumnName.of(self.target).party
        return {
            party: estimation.largest_total(
                self.task, self.width(party) - (party == held), self.people, self.clusters, target=party == held
            )
            for party in self.parties
        }

    def _kept(self, plan: Plan) -> Rounds:
        """Return the sample that the parties have kept of an earlier run of this plan, if there was one."""
        replies = yield {party: Recall(plan=plan, step="sample") for party in self.parties}
        for reply in replies.values():
            if isinstance(reply, Released):
                return reply.array("rows").astype(np.int64)
        return None

    def _draw(self, plan: Plan, totals: Mapping[str, float]) -> Rounds:
        """Have the parties draw. The rows are sorted, so that nobody can tell which party drew which row."""
        shares = estimation.allocate_draws(totals, public_uniforms(plan, "allocation", self.size))
        counts = np.array([shares[party] for party in sorted(shares)])
        drawn = yield from open_sum(plan, "draws", self.size, {"counts": pack(counts)})
        if not _in_range(drawn - 1, self.people):
            raise ProtocolError("The parties drew rows that the alignment does not have.")
        return np.sort(drawn - 1)

    # What follows -------------------------------------------------------------------------------------------------------

    def _gather(self, plan: Plan, coreset: estimation.WeightedSample) -> Rounds:
        replies = yield from ask_all(plan, "rows")
        parts = []
        for party in self.parties:
            rows = planned_value(replies[party], (len(coreset.rows), self.width(party)), np.float64)
            parts.append(rows)
        gathered = np.concatenate(parts, axis=1)
        if not np.all(np.isfinite(gathered)) or np.abs(gathered).max(initial=0.0) > 1 + 1e-9:
            raise ProtocolError("A party sent rows outside its public bounds.")
        return gathered

    def _cluster(self, plan: Plan, coreset: estimation.WeightedSample) -> Rounds:
        replies = yield from ask_all(plan, "clusters", {"weights": pack(coreset.weights)})
        found = {}
        for party in self.parties:
            centres, labels = replies[party].array("centres"), replies[party].array("labels").astype(np.int64)
            if centres.ndim != 2 or centres.shape[1] != self.width(party) or not 1 <= len(centres) <= self.clusters:
                raise ProtocolError(
                    f"Party {party!r} sent centres that are not as wide as its columns, or more than the plan says."
                )
            if labels.shape != coreset.rows.shape or not _in_range(labels, len(centres)):
                raise ProtocolError(f"Party {party!r} sent labels that are not one of its centres per row.")
            found[party] = (centres.astype(np.float64), labels)
        return found

    def _block_widths(self) -> dict[str, int]:
        """Coefficients of each party: the target's party has the intercept in place of the target."""
        return {party: self.width(party) for party in self.parties}

    def _step(self, party: str, name: str, kind: type[StepKind]) -> Step:
        own = columns_at(party, self.columns)
        parameters: dict[str, Parameter] = {
            "task": "uniform" if self.uniform else self.task,
            "size": self.size,
            "clusters": self.clusters,
            "seed": self.seed,
        }
        if self.target is not None and ColumnName.of(self.target).party == party:
            parameters["target"] = ColumnName.of(self.target).column
        bounds: dict[type[StepKind], dict[str, Parameter]] = {
            kinds.CoresetDraws: {"bound": max(self.people, SMALLEST_BOUND)},
            kinds.CoresetScores: {"bound": int(kinds.LARGEST_SCORES[self.task]) * kinds.SCORE_SCALE},
            kinds.CoresetGradient: {"bound": MARGIN_BOUND, "ridge": float(self.ridge)},
        }
        parameters |= bounds.get(kind, {})
        return kind.ask(name=name, party=party, columns=own, parameters=parameters, price=None)


NamedKinds = list[tuple[str, type[StepKind]]]
IMPORTANCE: NamedKinds = [
    ("total", kinds.CoresetTotal),
    ("draws", kinds.CoresetDraws),
    ("sample", kinds.CoresetScores),
]
TRAININGS: Mapping[Training, NamedKinds] = {
    "none": [],
    "rows": [("rows", kinds.CoresetRows)],
    "clusters": [("clusters", kinds.CoresetClusters)],
    "saga": [("train", kinds.CoresetGradient)],
}


def _number(reply: Released) -> float:
    return float(planned_value(reply, (1,), np.float64)[0])


def _in_range(places: NDArray[np.generic], people: int) -> bool:
    return bool(places.size == 0 or (places.min() >= 0 and places.max() < people))


CLUSTERS_KEY = "key"
"""The step in which parties agree on the key of their sketches."""


@dataclass(frozen=True)
class SketchedClustering(VerticalClustering):
    """Clustering with weights from sketches of memberships.

    Sketches (Algorithms 2 to 5 of Private vertical clustering) have phantoms per cell, which all parties derive from a key that
    they share, and are decoded by the joint likelihood of a pair's table (docs/proofs/sketches.md#decoding).

    Parameters
    ----------
    sketches
        M: sketches per pair of parties. The other parameters are those of `VerticalClustering`.
    """

    weights = "sketches", MembershipSketches
    sketches: int = SKETCHES

    def weight_steps(self) -> tuple[Step, ...]:
        """Return each party's part in the key, and its sketches."""
        steps = super().weight_steps()
        return steps if len(self.blocks) == 1 else (*key_steps(self._parties, CLUSTERS_KEY), *steps)

    def weight_parameters(self) -> dict[str, Parameter]:
        """Return the key, and M."""
        return {"key_of": CLUSTERS_KEY, "sketches": self.sketches}

    def grid(self, plan: Plan) -> Rounds:
        """Have the parties agree on a key, ask for sketches, and have the key erased."""
        yield from agree_on_key(plan, CLUSTERS_KEY)
        releases = yield from ask_all(plan, self.weights[0])
        yield from forget_key(plan, CLUSTERS_KEY)
        return self.from_sketches([self._sketches(releases[party]) for party in self._parties], plan.unit)

    def from_sketches(self, sketches: list[NDArray[np.uint16]], unit: Unit) -> Grid:
        """Fit every pair's table by its likelihood, make the tables agree, and fit the grid.

        Each party's sketches are listed by the other party, in the order of parties.
        """
        law = sketching(self.prices.weights, len(self.blocks), unit, self.sketches).law
        pairs = {(a, b): (sketches[a][b - 1], sketches[b][a]) for a, b in combinations(range(len(self.blocks)), 2)}
        tables = sketched_tables(law, pairs, (self.local_clusters,) * len(self.blocks), self.people)
        return self.from_tables(tables)

    def _sketches(self, release: Released) -> NDArray[np.uint16]:
        sketches = planned_value(release, (len(self.blocks) - 1, self.sketches, self.local_clusters), np.uint16)
        return sketches.astype(np.uint16)

    @property
    def _parties(self) -> list[str]:
        return [block.party for block in self.blocks]


@dataclass(frozen=True)
class ReportedClustering(VerticalClustering):
    """Clustering with weights from pair tables of randomised reports of memberships (Primitives, Algorithm 3).

    Reports are decoded pair by pair and fitted with all pairs at once, since the noise of a table with one axis per party grows
    with every party.

    Parameters
    ----------
    sample, draw
        The rate at which public coins choose who reports, and the number of the draw, by which coins differ. The other
        parameters are those of `VerticalClustering`.
    """

    weights = "reports", Reports
    sample: float = 1.0
    draw: int = 1

    def weight_parameters(self) -> dict[str, Parameter]:
        """Return the coins that choose who reports."""
        columns = [str(ColumnName(block.party, column)) for block in self.blocks for column in block.columns]
        return sample_coins(self.sample, self.draw, columns)

    def grid(self, plan: Plan) -> Rounds:
        """Ask for reports, and fit the grid to them."""
        releases = yield from ask_all(plan, self.weights[0])
        return self.from_reports([reports_of(block.party, releases[block.party]) for block in self.blocks])

    def from_reports(self, reports: list[NDArray[np.uint8]]) -> Grid:
        """Decode the reports pair by pair, pull each table towards independence as far as noise hides the rest, and fit.

        Where a sample reports (Primitives, Theorem B.2), its tables are scaled up to all people, and a cell's variance grows by
        that of the sample.
        """
        asked = len(reports[0])
        if len({len(report) for report in reports}) != 1 or not 0 < asked <= self.people:
            raise ProtocolError("The parties reported on different numbers of people.")
        if self.sample == 1 and asked != self.people:
            raise ProtocolError("The parties did not report on everybody.")
        channel = best_channel(self.local_clusters, self.prices.weights)
        pairs, scale = list(combinations(range(len(reports)), 2)), self.people / asked
        tables = {
            (a, b): scale
            * shrink_interactions(joint_counts([reports[a], reports[b]], [channel, channel]), asked, [channel, channel])
            for a, b in pairs
        }
        even = np.full((self.local_clusters,) * 2, asked / self.local_clusters**2)
        variance = float((scale**2 * variance_of_counts(even, [channel, channel]) + scale * (scale - 1) * even).mean())
        sizes = (self.local_clusters,) * len(reports)
        agreed = consistent_tables(PairTableSet(sizes, tables, dict.fromkeys(pairs, variance)), float(self.people))
        return fitted_grid(agreed, float(self.people))
