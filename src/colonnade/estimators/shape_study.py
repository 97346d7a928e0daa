"""What additive models share: columns read in bins, shapes to read, and effects that are centred and monotone.

A study in two stages: what the first one releases decides what the second one asks for.

Each stage is a plan of its own, because a plan names every column and weight before anything is released. The price is divided
between the two, in parts of ρ. The second plan names the hash of the first, and the statement of the study is about both.
"""

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

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
from colonnade.coordinator.driver import Findings, Traffic, estimating, forecast_traffic, statement_of
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.counting import TargetTables
from colonnade.coordinator.protocols.moment_releases import GramRelease, MomentsRelease
from colonnade.errors import BadInput, BudgetExceeded, Cost, SchemaMismatch
from colonnade.estimation.regression import Inference
from colonnade.estimation.shape_belief import AdditiveFit, places_by_column
from colonnade.estimators.answers import Preview, budget_after, require_fitted, require_matching
from colonnade.estimators.export import cells_of
from colonnade.estimators.inference import RegressionStudy
from colonnade.estimators.second_moments import MomentStudy
from colonnade.estimators.study import COMMON
from colonnade.plan import Plan
from colonnade.privacy.accounting import NOTHING, Price
from colonnade.privacy.calibration import ledger_rho, price_of_rho
from colonnade.protocol import codec
from colonnade.result import PrivacyStatement
from colonnade.runtime.event_log import progress_bar
from colonnade.schema import AND, Column, bins_between, equal_bins, read_together
from colonnade.schema.features import ColumnName, Feature, stored_names
from colonnade.transport.direct import Transcript

AUTO = "auto:"
Purpose = Literal["choice", "evidence"]
CHOICE_SHARE, EVIDENCE_SHARE = 15, 80
"""How many hundredths of a price go to the first stage: where it chooses columns, and where it is nearly all of the study."""


@dataclass(frozen=True, eq=False)
class FirstStage:
    """What is released first, and what for.

    Parameters
    ----------
    purpose
        ``"choice"`` of columns, or ``"evidence"``: the tables that a model is made of.
    algorithm, plan
        What is run.
    rest
        The price that is left for the second stage.
    found
        What was released; ``None`` before that.
    """

    purpose: Purpose
    algorithm: TargetTables | GramRelease
    plan: Plan
    rest: Price
    found: Any = None

    @property
    def digest(self) -> str:
        """The hash of its plan, which the second plan names."""
        return codec.digest(self.plan).hex()


def how_many(columns: Sequence[str] | str | None) -> int | None:
    """Return how many columns are to be chosen; ``None`` where they are named.

    Examples
    --------
    >>> how_many("auto:10"), how_many(["bank.age"])
    (10, None)
    """
    return int(columns.removeprefix(AUTO)) if isinstance(columns, str) else None


def best_columns(scores: Mapping[str, float], target: str, wanted: int) -> list[str]:
    """Return the columns of the largest scores, at least one of which is another party's than the target's.

    Without one nothing would be left to compute together, after the first stage was paid for.

    Examples
    --------
    >>> best_columns({"bank.age": 3.0, "bank.income": 2.0, "telco.bill": 1.0}, "bank.default", 2)
    ['bank.age', 'telco.bill']
    """
    order = sorted(scores, key=lambda name: -scores[name])
    kept, holder = order[:wanted], ColumnName.of(target).party
    elsewhere = [name for name in order if ColumnName.of(name).party != holder]
    if elsewhere and not set(elsewhere) & set(kept):
        kept[-1] = elsewhere[0]
    return kept


def divided(price: Price, share: int) -> tuple[Price, Price]:
    """Divide a price between two stages, the first of which has so many hundredths of ρ.

    Examples
    --------
    >>> first, second = divided(Price.of(1.0, 1e-6), 15)
    >>> round(first.epsilon, 2), round(second.epsilon, 2)
    (0.36, 0.92)
    """
    if price.delta == 0:
        raise BadInput("A study in two stages needs a positive delta.", remedy="For example delta=1e-6.")
    unit = ledger_rho(price, 100)
    return price_of_rho(unit * share, price.delta), price_of_rho(unit * (100 - share), price.delta)


# Both stages as one ----------------------------------------------------------------------------------------------------------


def together(title: str, first: Findings, second: Findings) -> Findings:
    """Return the record of both stages: one statement, one log of messages, and what both have cost."""
    privacy = _both(first.privacy, second.privacy)
    epsilon, delta = privacy.epsilon(unit=second.plan.unit), privacy.delta(unit=second.plan.unit)
    lines = [first.receipt.splitlines()[-1], second.receipt.splitlines()[-1]]
    whole = f"{title} in two stages: ε={epsilon:.4g}, δ={delta:.4g} per {second.plan.unit} towards the coordinator, together."
    return replace(
        second,
        privacy=privacy,
        transcript=_added(first.transcript, second.transcript),
        receipt="\n".join([str(privacy.trust), whole, *lines]),
        cost=_summed(first.cost, second.cost),
    )


def in_two_stages(
    federation: Federation, first: FirstStage, second: Preview, price: Price, words: Mapping[str, str]
) -> Preview:
    """Return what to expect of both stages.

    Parameters
    ----------
    federation
        Whose parties are asked what the first stage costs, with columns as they are read.
    first, second
        The first stage, and what to expect of the second.
    price
        Of both.
    words
        What is said about the first.
    """
    plan, quote = first.plan, federation._driver.quote(first.plan)
    statement = statement_of(plan, quote, {}, federation._driver.columns.schemas, local=False)
    parties = dict.fromkeys((*plan.parties, *second.charges))
    charges = {party: quote.charge(party) + second.charges.get(party, NOTHING) for party in parties}
    unpaid = {
        party: {codec.request_identity(plan, party, step): quote.losses[party][step] for step in quote.unpaid[party]}
        for party in plan.parties
    }
    factor = price.epsilon / second.epsilon if second.epsilon else 1.0
    others = second.others.assign(epsilon=second.others["epsilon"] * factor) if len(second.others) else pd.DataFrame()
    return replace(
        second,
        statement=_both(statement, second.statement),
        charges=charges,
        unpaid={party: {**unpaid.get(party, {}), **second.unpaid.get(party, {})} for party in parties},
        after=budget_after(federation._driver.accounts(), charges),
        expected={**words, **second.expected},
        traffic=_traffic(forecast_traffic(plan, quote, federation._driver.columns.schemas), second.traffic),
        others=others,
        epsilon=price.epsilon,
    )


def require_both(federation: Federation, first: FirstStage, preview: Callable[[], Preview]) -> None:
    """Refuse a study whose second stage could not follow, before the first is paid for.

    Parameters
    ----------
    federation, first
        Whose parties are asked, and for what. A first stage that was paid for costs nothing again, and nothing is checked.
    preview
        Returns what to expect of both; the parties then say whether their policies allow the second.
    """
    if not any(federation._driver.quote(first.plan).unpaid.values()):
        return
    after = preview().after
    over = [str(party) for party, row in after.iterrows() if row["spent"] > row["epsilon"]]
    if over:
        raise BudgetExceeded(f"Both stages of this study would take the ledger of {over[0]!r} past its cap.")


def _traffic(first: Traffic | None, second: Traffic | None) -> Traffic | None:
    if first is None or second is None:
        return None
    bytes_to, bytes_from = Counter(first.bytes_to), Counter(first.bytes_from)
    bytes_to.update(second.bytes_to)
    bytes_from.update(second.bytes_from)
    return Traffic(first.rounds + second.rounds, bytes_to, bytes_from)


def _both(first: PrivacyStatement, second: PrivacyStatement) -> PrivacyStatement:
    return replace(
        second,
        openings=(*first.openings, *second.openings),
        parties=tuple(dict.fromkeys((*second.parties, *first.parties))),
        study_delta=max(first.study_delta, second.study_delta),
        assumptions=tuple(dict.fromkeys((*first.assumptions, *second.assumptions))),
        local=first.local and second.local,
    )


def _added(first: Transcript, second: Transcript) -> Transcript:
    found = Transcript()
    for one in (first, second):
        found.rounds += one.rounds
        found.messages += one.messages
        found.signatures |= one.signatures
        for name in ("bytes_to", "bytes_from", "seconds", "received", "numbers_to", "numbers_from", "direct"):
            for key, value in getattr(one, name).items():
                getattr(found, name)[key] += value
    return found


def _summed(first: Cost, second: Cost) -> Cost:
    parties = dict.fromkeys((*first.spent, *second.spent))
    return Cost(
        {party: first.spent.get(party, 0.0) + second.spent.get(party, 0.0) for party in parties},
        tuple(dict.fromkeys((*first.unknown, *second.unknown))),
        tuple(dict.fromkeys((*first.disclosed, *second.disclosed))),
    )


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


class ShapeStudy(RegressionStudy):
    """The base of additive models."""

    bins: Any
    monotone: Any
    pairs: Any
    smooth: Any
    special_codes: Any
    _coded: Sequence[Feature]
    _columns: Mapping[str, Column]
    _people: Array
    _first: FirstStage | None = None
    """What an earlier stage has released, in a copy that goes on with it."""

    @property
    def shape_functions_(self) -> pd.DataFrame:
        """One row per bin: its column, its effect against the average person, its error and its share of people.

        With more than two classes there is one per class and bin, and ``class`` comes first.
        """
        require_fitted(self)
        found = self._inferred()
        share = self._people / self._people[self._places()[self._coded[0].column]].sum()
        shapes = pd.DataFrame(
            {
                "column": [feature.column for feature in self._coded] * len(found),
                "bin": self._bins() * len(found),
                "effect": np.ravel(self.coef_),
                "stderr": np.ravel(self.coef_stderr_),
                "share": np.tile(share, len(found)),
                "determined": np.concatenate([one.determined[:-1] for one in found]),
            }
        )
        if len(found) > 1:
            shapes.insert(0, "class", np.repeat(np.array(self._classes(), dtype=object), len(self._coded)))
        return shapes

    @property
    def importance_(self) -> pd.Series:
        """The mean size of each column's effect over people, and over classes if there are several; the largest first."""
        shapes, classes = self.shape_functions_, len(self._inferred())
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
        titles = ["effect"] if len(effects) == 1 else list(map(str, self._classes()))
        return pd.DataFrame(found, columns=["column", "bin", *titles]).set_index("column")

    # In two stages ----------------------------------------------------------------------------------------------------------

    def fit(self, federation: Federation | MomentsRelease, *rows: object, repeat: int = 1) -> Self:
        """Run the study; in two stages where columns are to be chosen, or a model is made of tables alone.

        Parameters
        ----------
        federation
            The federation on which to run it.
        repeat
            Which draw of the study. 1 is the first: asking for it again returns the same release and debits nothing. 2 is a new
            draw at a new price, and so on.

        Returns
        -------
        self
        """
        checked, first = self._begun(federation, repeat, *rows)
        if first is None:
            return super().fit(federation, *rows, repeat=repeat)
        assert isinstance(federation, Federation)  # as `_begun` has it
        require_both(federation, first, partial(self.preview, federation, repeat=repeat))
        title = f"{type(self).__name__}(first stage)"
        with progress_bar(title) as progress:
            findings = checked._as_read(federation)._driver.study(
                first.algorithm, first.plan, title=title, progress=progress
            )
        with estimating(findings):
            going_on = checked._going_on(first, findings.value)
        second = going_on.fit(federation, repeat=repeat)
        name = f"{type(self).__name__}(method={second.plan_.method!r})"
        both = together(name, findings, second._findings())
        self._adopt({name: value for name, value in vars(second).items() if name in self.learned})
        self.privacy_, self.transcript_, self.receipt_ = both.privacy, both.transcript, both.receipt
        self.plan_, self.schema_, self._fitted_on = second.plan_, second.schema_, second._fitted_on
        return self

    def preview(self, federation: Federation, *, repeat: int = 1) -> Preview:
        """Show the price, the remaining budget, the noise and the expected error. Spends nothing and reads no data.

        Parameters
        ----------
        federation
            The federation on which the study would run.
        repeat
            Which draw of the study: 1 for the first, 2 for a new one, and so on.

        Returns
        -------
        Preview
            Prints as a short table. Of a second stage that depends on the first it shows one of the same price, until the first
            is paid for: then the parties tell again what it released, and the second is the one that would run.
        """
        checked, first = self._begun(federation, repeat)
        if first is None:
            return super().preview(federation, repeat=repeat)
        read, found = checked._as_read(federation), None
        if not any(read._driver.quote(first.plan).unpaid.values()):
            found = read._driver.study(first.algorithm, first.plan, title=f"{type(self).__name__}(first stage)").value
        going_on = checked._going_on(first, found)
        second = going_on.preview(federation, repeat=repeat)
        return in_two_stages(read, first, second, checked.method.price(checked), checked._stage_words(first, going_on))

    def _prepare(self, federation: Federation, repeat: int) -> tuple[Any, Plan]:
        _, first = self._begun(federation, repeat)
        return super()._prepare(federation, repeat) if first is None else (first.algorithm, first.plan)

    def _plan(self, federation: Federation, repeat: int) -> tuple[Any, Plan]:
        """Return what the coordinator would run, and the plan, which names the first stage that it goes on from."""
        algorithm, plan = super()._plan(federation, repeat)
        if self._first is None:
            return algorithm, plan
        return algorithm, msgspec.structs.replace(plan, parameters={**plan.parameters, "after": self._first.digest})

    def _begun(self, federation: object, repeat: int, *rows: object) -> tuple[Self, FirstStage | None]:
        """Return a checked copy, and its first stage if it has one that is not done."""
        checked = self._checked()
        if self._first is not None or not isinstance(federation, Federation) or rows:
            return checked, None
        return checked, checked._first_stage(checked._as_read(federation), repeat)

    def _first_stage(self, federation: Federation, repeat: int) -> FirstStage | None:
        """Return what is released before the study itself; nothing where all columns are named and products are opened."""
        columns = self._chosen(federation.describe())
        tables = self._made_of_tables(federation, columns)
        wanted = how_many(self.columns)
        if not tables and (wanted is None or wanted >= len(self._features(columns))):
            return None
        price, rest = divided(self.method.price(self), EVIDENCE_SHARE if tables else CHOICE_SHARE)
        algorithm = self._tables_of(columns, price, federation.people)
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

    def _made_of_tables(self, federation: Federation, columns: Mapping[str, Column]) -> bool:  # noqa: ARG002
        """Return whether the tables of the first stage are what the model is made of."""
        return False

    def _tables_of(self, columns: Mapping[str, Column], price: Price, people: int) -> TargetTables | GramRelease:
        """Return the release that tells what each column says about the target by itself."""
        raise NotImplementedError

    def _informative(self, first: FirstStage, found: Any) -> Mapping[str, float]:
        """Return how much each column tells about the target, from what the first stage released."""
        raise NotImplementedError

    def _going_on(self, first: FirstStage, found: Any) -> Self:
        """Return the study of the second stage. Before anything is known, of as many columns: the widest."""
        wanted = how_many(self.columns)
        names = [name for name in first.algorithm.columns if name != self.target]
        if wanted is not None:
            widths = {name: first.algorithm.columns[name].width for name in names}
            kept = best_columns(widths if found is None else self._informative(first, found), self.target, wanted)
            names = [name for name in names if name in kept]
        given = {**self.get_params(deep=False), "epsilon": first.rest.epsilon, "delta": first.rest.delta}
        if wanted is not None:
            given["columns"] = names
            for parameter in ("monotone", "special_codes", "bins"):
                if isinstance(given[parameter], Mapping):
                    own = {name: value for name, value in given[parameter].items() if name in names}
                    given[parameter] = own or (BINS if parameter == "bins" else None)
            given["pairs"] = [pair for pair in self.pairs if set(pair) <= set(names)]
        other = type(self)(**given)
        other._first = replace(first, found=found)
        return other

    def _stage_words(self, first: FirstStage, second: Self) -> dict[str, str]:
        wanted, share = how_many(self.columns), {"choice": CHOICE_SHARE, "evidence": EVIDENCE_SHARE}[first.purpose]
        words = {"first stage": f"{share} % of the price (ρ) opens the table of every column with the target"}
        if wanted is not None:
            among = len(first.algorithm.columns) - 1
            assert second._first is not None  # it goes on with the first
            kept = "here the widest stand for them" if second._first.found is None else ", ".join(second.columns or ())
            words["columns"] = f"the {wanted} of {among} that tell most by themselves; {kept}"
        return words

    def _checked(self) -> Self:
        found = super()._checked()
        found._first = self._first
        return found

    def _findings(self) -> Findings:
        return Findings(None, self.plan_, self.privacy_, self.transcript_, self.receipt_)

    # Columns as they are read ----------------------------------------------------------------------------------------------

    def _as_read(self, federation: Federation) -> Federation:
        """Return the federation with numbers in bins, missing values as bins or levels of their own, and pairs together."""
        described = federation.describe()
        chosen = self._chosen(described)
        self._check_names(chosen)
        read = {name: self._reading(name, column) for name, column in chosen.items() if name != self.target}
        read |= self._together(read)
        return federation.read_as({name: column for name, column in read.items() if column != described.get(name)})

    def _reading(self, name: str, column: Column) -> Column:
        if column.is_measured:
            wanted = self.bins.get(name, BINS) if isinstance(self.bins, Mapping) else self.bins
            edges = equal_bins(column, wanted).edges if isinstance(wanted, int) else wanted
            codes = (self.special_codes or {}).get(name, ())
            return bins_between(column, edges, missing=column.fill is not None, codes=codes)
        return column.with_missing_level()

    def _together(self, read: Mapping[str, Column]) -> dict[str, Column]:
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

    def _chosen(self, available: Mapping[str, Column]) -> dict[str, Column]:
        """Return the study's columns. A missing value is a bin of its column, so indicators are left out."""
        named = MomentStudy._chosen(self if how_many(self.columns) is None else self._of_all(), available)
        names = {*named, *map(_name_of_pair, self.pairs)}
        return {n: one for n, one in available.items() if n in names and one.indicates is None}

    def _of_all(self) -> Self:
        """Return the same study of all columns, among which some are yet to be chosen."""
        other = copy.copy(self)
        other.columns = None
        return other

    @property
    def _smoothness(self) -> float | None:
        return None if self.smooth == "auto" else float(self.smooth)

    # Effects -------------------------------------------------------------------------------------------------------------------

    def _effects(
        self,
        found: AdditiveFit,
        features: Sequence[Feature],
        columns: Mapping[str, Column],
        *,
        unit: float = 1.0,
    ) -> Inference:
        """Return effects against the average person, the intercept last: monotone where they have to be, with their errors.

        Parameters
        ----------
        found, features, columns
            What was fitted, the constant first.
        unit
            What an error is small against.
        """
        centred = centring(features, found.people)
        effects = centred @ found.weights
        for name, direction in (self.monotone or {}).items():
            places = places_by_column(features)[name]
            effects = _monotone(effects, places, found.people, columns[name], direction)
        order = np.append(np.arange(1, len(features)), 0)
        privacy, sampling = (
            (centred @ one @ centred.T)[np.ix_(order, order)] for one in (found.covariance, found.sampling)
        )
        determined = found.determined_in(centred, unit)[order]
        return Inference(effects[order], privacy, sampling, determined, 1.0)

    def _places(self) -> dict[str, NDArray[np.intp]]:
        """Return where each column's bins stand among the coefficients."""
        columns = np.array([feature.column for feature in self._coded])
        return {name: np.flatnonzero(columns == name) for name in self._columns}

    def _bins(self) -> list[str]:
        return [feature.name.removeprefix(f"{feature.column}=") for feature in self._coded]

    def _check_learned(self) -> None:
        super()._check_learned()
        require_matching(self, self._people, (len(self.feature_names_in_),))

    def _table(self) -> pd.DataFrame:
        """Return the shapes, the most important column first."""
        order = {name: place for place, name in enumerate(self.importance_.index)}
        shapes = self.shape_functions_
        titles = [name for name in ("class", "column", "bin") if name in shapes]
        return shapes.sort_values("column", key=lambda names: names.map(order), kind="stable").set_index(titles)


def centring(features: Sequence[Feature], people: Array) -> Array:
    """Return the map from effects to effects against the average person; the constant takes what that moves."""
    centred = np.eye(len(features))
    for places in places_by_column(features).values():
        shares = people[places] / people[places].sum()
        centred[np.ix_(places, places)] -= shares
        centred[0, places] += shares
    return centred


def _monotone(effects: Array, places: NDArray[np.intp], people: Array, column: Column, direction: str) -> Array:
    """Return the nearest effects, weighted by people, of which those of a column's bins rise or fall; centred again."""
    assert column.is_binned  # as `_check_names` has it
    ordered = places[: len(column.middles)]
    found = effects.copy()
    weights = people[ordered] + 1.0  # an empty bin follows its neighbours
    found[ordered] = isotonic_regression(effects[ordered], sample_weight=weights, increasing=direction == "increasing")
    moved = float(people[places] @ found[places]) / float(people[places].sum())
    found[places] -= moved
    found[0] += moved
    return found


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
