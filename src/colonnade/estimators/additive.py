"""`AdditiveClassifier` and `AdditiveRegressor`: one shape per column, added up. Each belongs to one party's column.

Columns are read in bins, and so are two columns of one party that are to have an effect together.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colonnade.constraints import (
    AutoColumns,
    ColumnList,
    ColumnPairs,
    Constraint,
    Either,
    Numbers,
    OneColumn,
    OneOf,
    Optional,
    PerColumn,
    Real,
    Whole,
)
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.counting import TargetTables
from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimation.additive import centred_effects, information, marginal_shapes
from colonnade.estimation.moments import Moments
from colonnade.estimation.regression import Inference, numeric_place
from colonnade.estimation.shape_belief import AdditiveLeastSquares, ShapePrior, TargetCounts
from colonnade.estimators.answers import require_fitted, require_matching
from colonnade.estimators.frames import cells_of
from colonnade.estimators.methods.additive import AdditiveNewton, smoothness
from colonnade.estimators.methods.method import GivenMethod, Method
from colonnade.estimators.methods.moments import Secure
from colonnade.estimators.regression import (
    HasCoefficients,
    LinearRegression,
    LogisticRegression,
    PredictsClasses,
    PredictsNumbers,
    marked,
)
from colonnade.estimators.study import COMMON, Design, MomentStudy, Study
from colonnade.estimators.two_stages import (
    CHOICE_SHARE,
    EVIDENCE_SHARE,
    FirstStage,
    Purpose,
    best_columns,
    divided,
    how_many,
)
from colonnade.privacy.accounting import Price, Unit
from colonnade.schema import (
    AND,
    Column,
    ColumnName,
    Feature,
    bins_between,
    equal_bins,
    features_of,
    read_together,
    stored_names,
)
from colonnade.steps.kind import kind_of
from colonnade.steps.products import ScoreHistogram
from colonnade.steps.registry import STUDIES

Array = NDArray[np.float64]
BINS = 16
MOST_BINS = 256
PAIR_BINS = 6
"""How many bins a number has at most where it is read together with another column: neighbours are put together."""
DIRECTIONS = ("increasing", "decreasing")
ADDITIVE: Mapping[str, Constraint] = {
    **COMMON,
    "target": OneColumn(),
    "columns": Optional(Either(ColumnList(), AutoColumns())),
    "bins": Either(Whole(2, MOST_BINS), PerColumn(Either(Whole(2, MOST_BINS), Numbers(3)))),
    "monotone": Optional(PerColumn(OneOf(DIRECTIONS))),
    "pairs": ColumnPairs(),
    "smooth": Either(OneOf(("auto",)), Real(0, closed="neither")),
    "special_codes": Optional(PerColumn(Numbers(1))),
}
"""Constraints on the parameters that additive models have."""


class AdditiveModel:
    """A mixin of additive models: columns read in bins, a first stage where one is needed, and shapes to read."""

    task: ClassVar[str]
    essential: ClassVar[tuple[str, ...]]
    target: Any
    columns: Any
    method: Any
    unit: Any
    epsilon: Any
    delta: Any
    stage_before: FirstStage | None
    coef_: Any
    coef_stderr_: Any
    intercept_: Any
    classes_: Any
    _check: Any

    bins: Any
    monotone: Any
    pairs: Any
    smooth: Any
    special_codes: Any
    _coded: Sequence[Feature]
    _columns: Mapping[str, Column]
    _people: Array
    _inference: list[Inference] | None

    @property
    def shape_functions_(self) -> pd.DataFrame:
        """One row per bin: its column, its effect against the average person, its error and its share of people.

        With more than two classes there is one per class and bin, and ``class`` comes first.
        """
        found = self._effects()
        share = self._people / self._people[self._places()[self._coded[0].column]].sum()
        shapes = pd.DataFrame(
            {
                "column": [feature.column for feature in self._coded] * len(found),
                "bin": self._bins() * len(found),
                "effect": np.ravel(self.coef_),
                "stderr": np.ravel(self.coef_stderr_),
                "share": np.tile(share, len(found)),
                "hidden": np.concatenate([one.hidden[:-1] for one in found]),
            }
        )
        if len(found) > 1:
            shapes.insert(0, "class", np.repeat(self.classes_, len(self._coded)))
        return shapes

    @property
    def importance_(self) -> pd.Series:
        """The mean size of each column's effect over people, and over classes if there are several; the largest first."""
        shapes, classes = self.shape_functions_, len(self._effects())
        size = (shapes["effect"].abs() * shapes["share"]).groupby(shapes["column"], sort=False).sum() / classes
        return size.rename("importance").sort_values(ascending=False, kind="stable")

    def explain(self, row: Mapping[str, Any] | pd.Series | pd.DataFrame) -> pd.DataFrame:
        """Return what each column adds to one person's score, the largest first; the constant is ``"intercept"``.

        With more than two classes there is one column of effects per class, named after it.

        Parameters
        ----------
        row
            One record that the caller holds: a mapping, a series or a frame of one row, with the federation's column names.

        Examples
        --------
        >>> import colonnade as cn
        >>> data = cn.datasets.three_organisations(people=5_000)
        >>> federation = data.federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
        >>> model = cn.AdditiveClassifier("bank.default", columns=["bank.age", "telco.minutes"], epsilon=2.0, delta=1e-5)
        >>> list(model.fit(federation).explain(data.joined().iloc[[0]]).columns)
        ['bin', 'effect']
        """
        require_fitted(self)
        frame = _one_row(row)
        read = [own for name, column in self._columns.items() for own in stored_names(name, column)]
        missing = [name for name in read if name not in frame.columns]
        if missing:
            raise SchemaMismatch(f"The record lacks the column {missing[0]!r}.", remedy="Columns are 'party.column'.")
        found = []
        bins = np.array(self._bins(), dtype=object)
        effects, constants = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        for name, places in self._places().items():
            code = int(cells_of(frame, name, self._columns[name])[0])
            added = effects[:, places[code]] if code >= 0 else np.zeros(len(effects))
            found.append((name, str(bins[places[code]]) if code >= 0 else "none", *added.tolist()))
        found.sort(key=lambda one: -sum(map(abs, one[2:])))
        found.append(("intercept", "", *constants.tolist()))
        titles = ["effect"] if len(effects) == 1 else list(map(str, self.classes_))
        return pd.DataFrame(found, columns=["column", "bin", *titles]).set_index("column")

    # In two stages ----------------------------------------------------------------------------------------------------------

    def _first_stage(self, federation: Federation, repeat: int) -> FirstStage | None:
        """Return what is released before the study itself; nothing where all columns are named and products are opened."""
        if self.stage_before is not None:
            return None
        design = self.design(federation.describe())
        tables = self._made_of_tables(federation, design)
        wanted = how_many(self.columns)
        if not tables and (wanted is None or wanted >= len(design.explaining)):
            return None
        price, rest = divided(self.method.price(self), EVIDENCE_SHARE if tables else CHOICE_SHARE)
        algorithm = self._tables_of(design, price, federation.people)
        purpose: Purpose = "evidence" if tables else "choice"
        plan = federation._driver.plan(
            algorithm,
            task=self.task,
            method="tables",
            price=price,
            unit=self.unit,
            parameters={"stage": purpose, **({} if wanted is None else {"keep": wanted})},
            repeat=repeat,
        )
        return FirstStage(purpose, algorithm, plan, rest)

    def _made_of_tables(self, federation: Federation, design: Design) -> bool:  # noqa: ARG002
        """Return whether the tables of the first stage are what the model is made of."""
        return False

    def _tables_of(self, design: Design, price: Price, people: int) -> TargetTables | GramRelease:
        """Return the release that tells what each column says about the target by itself."""
        raise NotImplementedError

    def _informative(self, first: FirstStage, found: Any) -> Mapping[str, float]:
        """Return how much each column tells about the target, from what the first stage released."""
        raise NotImplementedError

    def _second_stage(self, first: FirstStage, found: Any) -> Self:
        """Return the study of the second stage. Before anything is known, of as many columns: the widest."""
        wanted = how_many(self.columns)
        names = [name for name in first.algorithm.columns if name != self.target]
        if wanted is not None:
            widths = {name: first.algorithm.columns[name].width for name in names}
            kept = best_columns(widths if found is None else self._informative(first, found), self.target, wanted)
            names = [name for name in names if name in kept]
        other = copy.copy(self)
        other.epsilon, other.delta = first.rest.epsilon, first.rest.delta
        other.stage_before = replace(first, found=found)
        if wanted is not None:
            other.columns = names
            for parameter in ("monotone", "special_codes", "bins"):
                given = getattr(self, parameter)
                if isinstance(given, Mapping):
                    own = {name: value for name, value in given.items() if name in names}
                    setattr(other, parameter, own or (BINS if parameter == "bins" else None))
            other.pairs = [pair for pair in self.pairs if set(pair) <= set(names)]
        return other

    def _stage_words(self, first: FirstStage, second: Self) -> dict[str, str]:
        wanted, share = how_many(self.columns), {"choice": CHOICE_SHARE, "evidence": EVIDENCE_SHARE}[first.purpose]
        words = {"first stage": f"{share} % of the price (ρ) opens the table of every column with the target"}
        if wanted is not None:
            among = len(first.algorithm.columns) - 1
            assert second.stage_before is not None  # it goes on with the first
            known = second.stage_before.found is not None
            kept = ", ".join(second.columns or ()) if known else "here the widest stand for them"
            words["columns"] = f"the {wanted} of {among} that tell most by themselves; {kept}"
        return words

    # Columns as they are read ----------------------------------------------------------------------------------------------

    def _as_read(self, federation: Federation) -> Federation:
        """Return the federation with numbers in bins, missing values as bins or levels of their own, and pairs together."""
        described = federation.describe()
        design = self.design(described)
        self._check_names(design.columns)
        read = {name: self._reading(name, column) for name, column in design.explaining.items()}
        read |= self._pairs_of(read)
        return federation.read_as({name: column for name, column in read.items() if column != described.get(name)})

    def _reading(self, name: str, column: Column) -> Column:
        if column.is_measured:
            wanted = self.bins.get(name, BINS) if isinstance(self.bins, Mapping) else self.bins
            edges = equal_bins(column, wanted).edges if isinstance(wanted, int) else wanted
            codes = (self.special_codes or {}).get(name, ())
            return bins_between(column, edges, missing=column.fill is not None, codes=codes)
        return column.with_missing_level()

    def _pairs_of(self, read: Mapping[str, Column]) -> dict[str, Column]:
        """Return the pairs of columns that are read together, each under a name of its own."""
        found: dict[str, Column] = {}
        for pair in self.pairs:
            names = [ColumnName.of(name) for name in pair]
            first, second = (_coarse(read[name]) for name in pair)
            found[_name_of_pair(pair)] = read_together((names[0].column, names[1].column), (first, second))
        return found

    def _check_names(self, chosen: Mapping[str, Column]) -> None:
        named = {
            "bins": self.bins if isinstance(self.bins, Mapping) else {},
            "monotone": self.monotone or {},
            "special_codes": self.special_codes or {},
        }
        for parameter, columns in named.items():
            for name in columns:
                if name not in chosen or not (chosen[name].is_measured or chosen[name].is_binned):
                    raise BadInput(
                        f"{parameter} names {name!r}, which is no number or date among the columns.",
                        remedy="Name columns of numbers or dates that enter the model.",
                    )
        for pair in self.pairs:
            self._check_pair(pair, chosen)

    def _check_pair(self, pair: Sequence[str], chosen: Mapping[str, Column]) -> None:
        outside = [name for name in pair if name not in chosen or name == self.target]
        if outside:
            raise BadInput(
                f"pairs names {outside[0]!r}, which is not among the columns that explain.",
                remedy="Name columns that enter the model.",
            )
        if len({frozenset(one) for one in self.pairs}) != len(self.pairs) or pair[0] == pair[1]:
            raise BadInput("A pair is two different columns, and is named once.", remedy="Name each pair once.")
        if ColumnName.of(pair[0]).party != ColumnName.of(pair[1]).party:
            raise BadInput(
                f"{pair[0]!r} and {pair[1]!r} belong to two parties. A pair is read from one row of one party: nobody holds both "
                "values, and to multiply them for every person on shares would cost a round per combination.",
                remedy="Pair columns of one party; columns of different parties add up.",
            )
        bound = [name for name in pair if name in (self.monotone or {})]
        if bound:
            raise BadInput(
                f"{bound[0]!r} is monotone, and what it adds together with another column would not be.",
                remedy="Leave it out of pairs=, or out of monotone=.",
            )

    def design(self, available: Mapping[str, Column]) -> Design:
        """Return the study's columns; all that there are, if some are yet to be chosen among them.

        A missing value is a bin of its column, so indicators are left out.
        """
        named = Design.of(available, None if how_many(self.columns) else self.columns, self.target)
        self._check(named)
        names = {*named.columns, *map(_name_of_pair, self.pairs)}
        return Design({n: one for n, one in available.items() if n in names and one.indicates is None}, self.target)

    # Effects -------------------------------------------------------------------------------------------------------------------

    def _effects(self) -> list[Inference]:
        require_fitted(self)
        assert self._inference is not None  # every fit has it
        return self._inference

    def _places(self) -> dict[str, NDArray[np.intp]]:
        """Return where each column's bins stand among the coefficients."""
        columns = np.array([feature.column for feature in self._coded])
        return {name: np.flatnonzero(columns == name) for name in self._columns}

    def _bins(self) -> list[str]:
        return [feature.name.removeprefix(f"{feature.column}=") for feature in self._coded]

    def _table(self) -> pd.DataFrame:
        """Return the shapes, the most important column first."""
        order = {name: place for place, name in enumerate(self.importance_.index)}
        shapes = marked(self.shape_functions_, prior="effects as large as those of other bins")
        titles = [name for name in ("class", "column", "bin") if name in shapes]
        return shapes.sort_values("column", key=lambda names: names.map(order), kind="stable").set_index(titles)


def _name_of_pair(pair: Sequence[str]) -> str:
    """Return what two columns are called where they are read together."""
    first, second = map(ColumnName.of, pair)
    return str(ColumnName(first.party, AND.join((first.column, second.column))))


def _coarse(column: Column) -> Column:
    """Return a column in fewer bins, each several neighbours of its own; what the caller has read in bins stays."""
    if not column.is_binned or len(column.middles) <= PAIR_BINS:
        return column
    kept = np.linspace(0, len(column.middles), PAIR_BINS + 1).round().astype(int)
    return msgspec.structs.replace(column, edges=[column.edges[place] for place in kept], levels=())


def _one_row(row: Mapping[str, Any] | pd.Series | pd.DataFrame) -> pd.DataFrame:
    frame = row if isinstance(row, pd.DataFrame) else pd.DataFrame([dict(row)])
    if len(frame) != 1:
        raise BadInput("explain takes one record.", remedy="For example frame.iloc[[0]].")
    return frame


MARGINAL = (
    "marginal effects: what each column tells by itself on the same people without noise, times one slope for all"
)


class AdditiveClassifier(AdditiveModel, PredictsClasses, HasCoefficients, Study):
    """An additive model of an event: one effect per bin of every column, added up to log-odds.

    Numbers and dates are read in public bins, a missing value in a bin of its own. Neighbouring bins are pulled together and
    weak columns to no effect, as far as noise asks for it: the penalties follow from the release and cost nothing.

    Parameters
    ----------
    target
        A category, ``"party.column"``. The second of two levels is the event. With more levels each is fitted against the rest,
        pays for its own tables and steps, and has shapes of its own.
    columns
        The explaining columns; all but the target by default. ``"auto:10"`` chooses ten of them: 15 % of the price tells how much
        each column says about the target by itself.
    bins
        How many bins of equal width a number has; or a mapping of column to a number of bins or to a list of edges, the
        column's bounds included. Columns that it does not name have 16.
    monotone
        Columns whose effect may only rise or only fall: ``{"bank.income": "decreasing"}``. It holds exactly.
    pairs
        Pairs of columns of one party that also have an effect together: ``[("bank.age", "bank.income")]``. It comes on top of
        each column's own, and its mean along either column is 0. Numbers have at most six bins there. A pair counts as one more
        column.
    smooth
        How smooth shapes of numbers are. ``"auto"`` finds it from the release. A number is one over the variance of what is not
        straight in them: 1 hardly binds, 100 keeps shapes nearly straight.
    special_codes
        Numbers that stand for something else than a quantity: ``{"bank.income": [-999]}``. Each is a bin of its own. Their
        owner has declared them among the column's ``na_values``.
    method
        ``"newton"``: tables of every column with the target, then Newton steps on secret shares. It needs three compute nodes
        besides the coordinator. Options: `cn.methods.AdditiveNewton`.
    epsilon, delta
        The price. There is no default for ε, and δ must be positive.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    shape_functions_ : DataFrame
        One row per bin: ``column``, ``bin``, ``effect`` in log-odds against the average person, ``stderr``, ``share`` of
        people, and whether the release determines it. With more than two levels of the target it begins with ``class``.
    importance_ : Series
        The mean size of each column's effect over people, the largest first; the mean over classes, if there are several.
    classes_ : array
        The target's levels.
    coef_, intercept_, feature_names_in_
        The same model as coefficients of bins: effects, and the log-odds of a person without any.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Errors are for the model that the same people give without noise, with the penalties that were found
    (docs/explanation/additive-models.md). They do not rely on effects being as small as believed, and are approximate.

    Missing values: a number that declares ``missing=`` has a further bin for them. A category with ``missing="excluded"`` has a
    further level. Nobody is left out.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian for all openings together.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties. Compute nodes compute as written.
    Spends: once at every party whose columns enter.
    Not released: scores of people, any count or gradient without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> columns = ["bank.age", "telco.late_payments", "insurer.risk_score"]
    >>> model = cn.AdditiveClassifier("bank.default", columns=columns, bins=8, epsilon=2.0, delta=1e-5).fit(federation)
    >>> list(model.shape_functions_.columns)
    ['column', 'bin', 'effect', 'stderr', 'share', 'hidden']
    >>> sorted(model.importance_.index) == sorted(columns)
    True
    """

    task: ClassVar[str] = STUDIES["AdditiveClassifier"]
    offers: ClassVar[tuple[type[Method[Any]], ...]] = (AdditiveNewton,)
    constraints = dict(ADDITIVE)
    essential: ClassVar[tuple[str, ...]] = (*LogisticRegression.essential, "_people", "_tables", "_inference")
    learned: ClassVar[tuple[str, ...]] = (*essential, "coef_stderr_", "_model")
    coding = "full"
    effect_unit = "log-odds"

    def __init__(
        self,
        target: str,
        *,
        columns: Sequence[str] | str | None = None,
        bins: int | Mapping[str, int | Sequence[float]] = BINS,
        monotone: Mapping[str, str] | None = None,
        pairs: Sequence[tuple[str, str]] = (),
        smooth: float | str = "auto",
        special_codes: Mapping[str, Sequence[float]] | None = None,
        method: GivenMethod = "newton",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.target = target
        self.columns = columns
        self.bins = bins
        self.monotone = monotone
        self.pairs = pairs
        self.smooth = smooth
        self.special_codes = special_codes

    def _check(self, design: Design) -> None:
        super()._check(design)
        if self.monotone and not design.has_two_classes:
            raise BadInput(
                f"monotone= is about one event, and {self.target!r} has {design.classes.size} levels.",
                remedy="Leave it out, or take a target of two levels.",
            )

    def _check_learned(self) -> None:
        super()._check_learned()
        require_matching(self, self._people, (len(self.feature_names_in_),))

    # Weights of evidence ---------------------------------------------------------------------------------------------------

    @property
    def marginal_(self) -> bool:
        """Whether effects are marginal: what each column tells by itself, times one slope (`cn.methods.AdditiveNewton`)."""
        require_fitted(self)
        return all(kind_of(step) is ScoreHistogram for step in self.plan_.steps)

    def _made_of_tables(self, federation: Federation, design: Design) -> bool:
        return bool(self.method.made_of_tables(self, federation, design))

    def _tables_of(self, design: Design, price: Price, people: int) -> TargetTables:
        return TargetTables(design.columns, self.target, price, people)

    def _informative(self, first: FirstStage, found: TargetCounts) -> Mapping[str, float]:
        features = features_of({name: one for name, one in first.algorithm.columns.items() if name != self.target})
        prior = ShapePrior.of(features, first.algorithm.columns, smoothness(self.smooth))
        return information(marginal_shapes(prior, features, found), features)

    def _head(self, level: float) -> dict[str, str]:
        head = super()._head(level)
        return {**head, "estimates": MARGINAL} if self.marginal_ else head


class AdditiveRegressor(AdditiveModel, PredictsNumbers, HasCoefficients, MomentStudy):
    """An additive model of a number: one effect per bin of every column, added up.

    Numbers and dates are read in public bins, a missing value in a bin of its own. Neighbouring bins are pulled together and
    weak columns to no effect, as far as noise asks for it: the penalties follow from the release and cost nothing.

    Parameters
    ----------
    target
        The numeric column to explain, ``"party.column"``.
    columns
        The explaining columns; all but the target by default. ``"auto:10"`` chooses ten of them: 15 % of the price tells how much
        each column says about the target by itself.
    bins
        How many bins of equal width a number has; or a mapping of column to a number of bins or to a list of edges, the
        column's bounds included. Columns that it does not name have 16.
    monotone
        Columns whose effect may only rise or only fall: ``{"bank.income": "increasing"}``. It holds exactly.
    pairs
        Pairs of columns of one party that also have an effect together: ``[("bank.age", "bank.income")]``. It comes on top of
        each column's own, and its mean along either column is 0. Numbers have at most six bins there. A pair counts as one more
        column.
    smooth
        How smooth shapes of numbers are. ``"auto"`` finds it from the release. A number is one over the variance of what is not
        straight in them: 1 hardly binds, 100 keeps shapes nearly straight.
    special_codes
        Numbers that stand for something else than a quantity: ``{"bank.income": [-999]}``. Each is a bin of its own. Their
        owner has declared them among the column's ``na_values``.
    method
        ``"secure"``: one noisy Gram matrix of bins and target, computed on secret shares. Options: `cn.methods.Secure`.
    epsilon, delta
        The price. There is no default for ε, and δ must be positive.
    unit
        ``"person"``: ε covers one person's records at all parties together. ``"party"``: one person's record at any one party.

    Attributes
    ----------
    shape_functions_ : DataFrame
        One row per bin: ``column``, ``bin``, ``effect`` in the target's unit against the average person, ``stderr``, ``share``
        of people, and whether the release determines it.
    importance_ : Series
        The mean size of each column's effect over people, the largest first.
    coef_, intercept_, feature_names_in_
        The same model as coefficients of bins: effects, and the prediction for a person without any.
    privacy_, transcript_, receipt_
        Privacy statement, message log and receipt.

    Notes
    -----
    Errors are for the model that the same people give without noise, with the penalties that were found
    (docs/explanation/additive-models.md). They do not rely on effects being as small as believed, and are approximate.

    Missing values: a number that declares ``missing=`` has a further bin for them. A category with ``missing="excluded"`` has a
    further level. Nobody is left out.

    Privacy
    -------
    Guarantee: (ε, δ) by zCDP of the discrete Gaussian (or the Rényi curve of Skellam noise) for the Gram matrix.
    Neighbours: zero-out.
    Adversary: the coordinator together with up to `collusion` parties.
    Spends: once at every party whose columns enter.
    Not released: residuals, fitted values, any moment without noise.

    Examples
    --------
    >>> import colonnade as cn
    >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=2.0, delta=1e-5))
    >>> columns = ["bank.age", "telco.minutes", "telco.plan"]
    >>> model = cn.AdditiveRegressor("bank.income", columns=columns, bins=8, epsilon=2.0, delta=1e-5).fit(federation)
    >>> sorted(model.importance_.index) == sorted(columns)
    True
    """

    task: ClassVar[str] = STUDIES["AdditiveRegressor"]
    offers: ClassVar[tuple[type[Method[Any]], ...]] = (Secure,)
    constraints = dict(ADDITIVE)
    essential: ClassVar[tuple[str, ...]] = (*LinearRegression.essential, "_people", "_inference")
    learned: ClassVar[tuple[str, ...]] = (*essential, "coef_stderr_")
    estimand = "the additive model with the penalties that were found, on the same people without noise"
    coding = "full"

    def __init__(
        self,
        target: str,
        *,
        columns: Sequence[str] | str | None = None,
        bins: int | Mapping[str, int | Sequence[float]] = BINS,
        monotone: Mapping[str, str] | None = None,
        pairs: Sequence[tuple[str, str]] = (),
        smooth: float | str = "auto",
        special_codes: Mapping[str, Sequence[float]] | None = None,
        method: GivenMethod = "secure",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        super().__init__(method=method, epsilon=epsilon, delta=delta, unit=unit)
        self.target = target
        self.columns = columns
        self.bins = bins
        self.monotone = monotone
        self.pairs = pairs
        self.smooth = smooth
        self.special_codes = special_codes

    @property
    def effect_unit(self) -> str:
        """What effects are measured in."""
        return f"units of {self.target}"

    def _check_learned(self) -> None:
        super()._check_learned()
        require_matching(self, self._people, (len(self.feature_names_in_),))

    def _tables_of(self, design: Design, price: Price, people: int) -> GramRelease:  # noqa: ARG002
        return GramRelease(design.columns, price)

    def _informative(self, first: FirstStage, found: Moments) -> Mapping[str, float]:
        """Return which part of the target's variance each column explains by itself, beyond what noise would."""
        place, count = numeric_place(found, self.target), found.count
        mean = float(found.matrix[0, place]) / count
        scores = {}
        for name in first.algorithm.columns:
            if name != self.target:
                places = found.places([name])
                people = np.maximum(np.diag(found.matrix)[places], 1.0)
                apart = found.matrix[places, place] - mean * found.matrix[0, places]
                noise = found.variance[places, place] + mean**2 * found.variance[0, places]
                scores[name] = float(np.sum((apart**2 - noise) / np.maximum(people, np.sqrt(noise)))) / count
        return scores

    def learn_from_moments(self, moments: Moments, design: Design) -> dict[str, Any]:
        """Return shapes in the target's unit, and what noise leaves them uncertain by."""
        explaining, target = design.explaining, design.explained
        numbers = [name for name, column in explaining.items() if column.is_number]
        if numbers:
            raise SchemaMismatch(
                f"An additive model takes columns in bins, and {numbers[0]!r} is not.",
                remedy="Give a federation, or moments of one that reads its columns in bins: federation.read_as({...}).",
            )
        place = numeric_place(moments, self.target)
        features = (moments.features[0], *(moments.features[one] for one in moments.places(list(explaining))))
        found = AdditiveLeastSquares(
            ShapePrior.of(features, explaining, smoothness(self.smooth)), features, moments, place
        ).result()
        unit = float(np.sqrt(max(float(np.diag(moments.matrix)[place]) / moments.count, 0.0)))
        coded = centred_effects(found, features, design.columns, self.monotone or {}, unit=unit)
        half, last = target.half_range, np.zeros(len(coded.estimates))
        last[-1] = target.midpoint
        inference = Inference(
            half * coded.estimates + last,
            half**2 * coded.privacy,
            half**2 * coded.sampling,
            coded.hidden,
            coded.dispersion,
        )
        return {
            "coef_": inference.estimates[:-1],
            "intercept_": float(inference.estimates[-1]),
            "coef_stderr_": inference.errors(total=False)[:-1],
            "feature_names_in_": np.array([feature.name for feature in features[1:]], dtype=object),
            "_coded": list(features[1:]),
            "_columns": explaining,
            "_inference": [inference],
            "_people": found.people[1:].copy(),
        }
