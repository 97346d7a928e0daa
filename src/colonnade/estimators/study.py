"""What every estimator is: parameters, a preview that spends nothing, and a fit that runs one study."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from colonnade.coding.names import ColumnName
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.findings import Findings
from colonnade.coordinator.protocols.prediction import Prediction
from colonnade.coordinator.statement import statement_of
from colonnade.coordinator.traffic import forecast_traffic
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.estimators.coreset_options import prepare_nonprivate
from colonnade.estimators.delivery import Delivery
from colonnade.estimators.evaluation import Asked, Evaluation
from colonnade.estimators.model_file import PAPERS, write_model
from colonnade.estimators.outlook import general_warnings, other_epsilons
from colonnade.estimators.presentation import Shown, remember
from colonnade.estimators.preview import Expectation, Preview
from colonnade.estimators.progress import progress_bar
from colonnade.plan import RELATION, Parameter, Plan, Unit
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Algorithm
from colonnade.schema import Column

__all__ = ["Study", "refuse_recipient", "require_fitted", "require_matching", "require_same_schema"]


class Study(Shown, BaseEstimator):
    """The contract of all estimators.

    A subclass names its ``task`` and its ``methods`` (default first), builds an algorithm for a federation, and learns its
    attributes from what the algorithm returned. Everything about price, plan, agreement and statement happens here, once.

    Before anything runs, ``_expect(algorithm, federation)`` says what to expect, from public facts alone: a dictionary of words
    by figure, a tuple of warnings and, third, a tuple of `colonnade.estimators.preview.ExpectedError`, the one that people
    care for first. The third may be left out where a method cannot predict its error; one that gives it is held to it: a test
    compares ``preview(...).errors`` with errors measured on the demonstration's data, within a factor of 1.5. It is asked
    again at other ε for the preview's table, so it must not depend on anything but its arguments and ``self``.

    ``learned`` names every attribute that any method's fit may set, ``essential`` those that a model cannot do without: what is
    declared can be saved and loaded (`colonnade.estimators.stored_values` says of which types), and nothing else.

    ``disclosing_methods`` names methods that are not differentially private. They run with ``allow_nonprivate=True`` only,
    without a price, on what ``_nonprivate_algorithm(federation)`` returns.
    """

    task: ClassVar[str]
    methods: ClassVar[tuple[str, ...]]
    learned: ClassVar[tuple[str, ...]] = ()
    essential: ClassVar[tuple[str, ...]] = ()
    disclosing_methods: ClassVar[tuple[str, ...]] = ()

    method: str
    epsilon: float | None
    delta: float
    unit: Unit

    # What a subclass provides -------------------------------------------------------------------------------------------

    def _algorithm(self, federation: Federation, price: Price, repeat: int) -> Algorithm:
        raise NotImplementedError

    def _parameters(self) -> dict[str, Parameter]:
        """Return what identifies the study besides its steps."""
        return {}

    def _learn(self, federation: Federation, value: Any) -> None:
        raise NotImplementedError

    def _expect(self, algorithm: Algorithm, federation: Federation) -> Expectation:
        """Return the expected error in words by figure, warnings and, if it can be said, expected errors as numbers."""
        raise NotImplementedError

    # What a user calls --------------------------------------------------------------------------------------------------

    def preview(self, federation: Federation, *, repeat: int = 1) -> Preview:
        """Show price, what would remain, noise and expected error. Spends nothing and touches no data.

        Parameters
        ----------
        federation
            Where the study would run.
        repeat
            Which draw of the study.

        Returns
        -------
        Preview
            Prints as a short table.
        """
        algorithm, plan = self._prepare(federation, repeat)
        quote = federation.quote(plan)
        expected, warnings, *errors = self._expect(algorithm, federation)
        return Preview(
            title=f"{type(self).__name__}, method {self.method!r}",
            statement=statement_of(plan, quote, {}, federation.schemas, local=self._is_local()),
            charges={party: quote.charge(party) for party in plan.parties},
            budget=federation.budget(),
            expected=expected,
            warnings=tuple(dict.fromkeys((*general_warnings(plan), *warnings))),
            errors=errors[0] if errors else (),
            traffic=forecast_traffic(plan, quote, federation.schemas),
            others=other_epsilons(self, federation) if errors else pd.DataFrame(),
            epsilon=self.epsilon,
        )

    def fit(self, federation: Federation, *, repeat: int = 1) -> "Study":
        """Run the study.

        Parameters
        ----------
        federation
            Where to run it.
        repeat
            1 asks for the study's first draw: asking again returns the same release and debits nothing. 2 is a new draw at a
            new price, and so on.

        Returns
        -------
        self
        """
        algorithm, plan = self._prepare(federation, repeat)
        title = f"{type(self).__name__}(method={self.method!r})"
        with progress_bar(type(self).__name__) as progress:
            findings = federation.study(algorithm, plan, title=title, local=self._is_local(), progress=progress)
        self._learn(federation, findings.value)
        self.privacy_ = findings.privacy
        self.transcript_ = findings.transcript
        self.receipt_ = self._receipt(findings)
        self.plan_ = plan
        self.schema_ = _schema_of(plan, federation)
        remember(self, federation)
        return self

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file that `colonnade.load` reads: JSON, with statement, plan hash and schema inside.

        Parameters
        ----------
        path
            Where to; an existing file is replaced.
        """
        fitted = {name: value for name, value in vars(self).items() if name not in self.get_params(deep=False)}
        if any(name not in fitted for name in (*PAPERS, *self.essential)):
            raise BadInput("Only a fitted model can be saved.", remedy="Call fit(...) first.")
        if set(fitted) - {*PAPERS, *self.learned}:
            raise BadInput("The model has attributes that its estimator does not declare.", remedy="Remove them.")
        write_model(path, type(self).__name__, self.get_params(deep=False), fitted)

    def evaluate(
        self,
        federation: Federation,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
        level: float = 0.95,
        repeat: int = 1,
    ) -> Evaluation:
        """Measure how good the fitted model is on a federation, privately and accounted; nobody's score leaves.

        Parameters
        ----------
        federation
            Whose people to measure it on, such as the test part of `Federation.split`.
        epsilon, delta, unit
            The price of the evaluation, and for whom. There is no default for ε.
        level
            Of the intervals, which cover noise and rounding.
        repeat
            A higher number is a new draw at a new price.
        """
        require_fitted(self)
        require_same_schema(self, federation)
        price = Price.of(epsilon, delta)
        algorithm = self._evaluator(price, Asked(unit, level, repeat, federation.people))
        plan = federation.plan(
            algorithm,
            task="evaluation",
            method=type(self).__name__,
            price=getattr(algorithm, "price", price),  # some need no δ, and then promise none
            unit=unit,
            parameters={},  # the model's weights stand in the steps
            repeat=repeat,
        )
        title = f"{type(self).__name__}.evaluate"
        with progress_bar(title) as progress:
            findings = federation.study(algorithm, plan, title=title, progress=progress)
        metrics, tables = findings.value if isinstance(findings.value[-1], dict) else (findings.value, {})
        return Evaluation(type(self).__name__, tuple(metrics), level, findings, _schema_of(plan, federation), tables)

    # How it fits together -----------------------------------------------------------------------------------------------

    def _deliver(self, federation: Federation, to: str | None, reading: str) -> Delivery:
        """Score everybody in a federation and open the scores to one party, where every policy allows that."""
        require_fitted(self)
        if to not in federation.parties:
            raise BadInput(
                "Individual scores are opened to one named party of the federation: to=...",
                remedy=f"Its parties are {', '.join(federation.parties)}.",
            )
        algorithm = self._prediction(str(to), reading)
        require_same_schema(
            self, federation, [str(ColumnName(part.party, name)) for part in algorithm.parts for name in part.columns]
        )
        plan = federation.plan(
            algorithm, task="prediction", method=type(self).__name__, price=None, unit="person", parameters={}
        )
        title = f"{type(self).__name__}, scores for {to}"
        with progress_bar(title) as progress:
            findings = federation.study(algorithm, plan, title=title, progress=progress)
        return Delivery(str(to), findings, federation, _schema_of(plan, federation))

    def _prediction(self, to: str, reading: str) -> Prediction:  # noqa: ARG002
        """Return how the fitted model scores people, for one reader and one way of reading."""
        raise BadInput(f"{type(self).__name__} does not score people.")

    def _evaluator(self, price: Price, asked: Asked) -> Any:  # noqa: ARG002
        """Return the algorithm that measures how good the fitted model is."""
        raise BadInput(f"{type(self).__name__} has nothing to evaluate: its result is a release, not a model.")

    def _check_learned(self) -> None:
        """Refuse learned attributes, read from a file, that do not fit together."""

    def _prepare(self, federation: Federation, repeat: int) -> tuple[Algorithm, Plan]:
        if not isinstance(federation, Federation):
            raise BadInput("fit and preview take a federation.", remedy="Make one with cn.Federation.simulate(...).")
        if self.method not in self.methods:
            raise BadInput(
                f"{type(self).__name__} has no method {self.method!r}.", remedy=f"Use one of {self.methods}."
            )
        if self.unit not in ("person", "party"):
            raise BadInput("unit must be 'person' or 'party'.")
        if self.method in self.disclosing_methods:
            return prepare_nonprivate(self, federation, repeat)
        price = self._price()
        algorithm = self._algorithm(federation, price, repeat)
        plan = federation.plan(
            algorithm,
            task=self.task,
            method=self.method,
            price=price,
            unit=self._unit(),
            parameters=self._parameters(),
            repeat=repeat,
            relation=self._relation(),
        )
        return algorithm, plan

    def _price(self) -> Price:
        """Return what the study offers to pay for its unit."""
        return Price.of(self.epsilon, self.delta)

    def _unit(self) -> Unit:
        """Return for whom the price is promised."""
        return self.unit

    def _is_local(self) -> bool:
        return False

    def _relation(self) -> str:
        """Return which tables count as neighbours for the promise of this study."""
        return RELATION

    def _receipt(self, findings: Findings) -> str:
        return findings.receipt


def require_fitted(study: Study) -> None:
    """Refuse to use a model that was never fitted."""
    if any(not hasattr(study, name) for name in (*PAPERS, *study.essential)):
        raise BadInput(f"This {type(study).__name__} is not fitted.", remedy="Call fit(...) or cn.load(...) first.")


def refuse_recipient(to: object) -> None:
    """Refuse a recipient where rows are scored that the caller holds."""
    if to is not None:
        raise BadInput("to= goes with a federation.", remedy="Rows that you hold are scored here, for you alone.")


def require_same_schema(study: Study, federation: Federation, names: Sequence[str] | None = None) -> None:
    """Refuse a federation whose columns (all of the model's, by default) do not mean what they meant when it was fitted."""
    if not isinstance(federation, Federation):
        raise BadInput("This takes a federation.", remedy="Make one with cn.Federation.simulate(...).")
    available = {name: federation.column(name)[2] for name in federation.columns()}
    wanted = study.schema_ if names is None else {name: study.schema_[name] for name in names}
    changed = [name for name, column in wanted.items() if available.get(name) != column]
    if changed:
        raise SchemaMismatch(
            f"The federation describes the column {changed[0]!r} otherwise than the model's schema does.",
            remedy="Fit the model anew, or open the parties with the schema that it was fitted on.",
        )


def require_matching(study: Study, array: object, shape: tuple[int, ...]) -> None:
    """Refuse an array, read from a file, that is of another shape or not finite."""
    if not isinstance(array, np.ndarray) or array.shape != shape or not np.all(np.isfinite(array)):
        raise BadInput(f"The file's {type(study).__name__} has attributes that do not fit together.")


def _schema_of(plan: Plan, federation: Federation) -> dict[str, Column]:
    """Return what is public about every column that enters a study."""
    return federation.describe([name for name in federation.columns() if name in _columns_of(plan)])


def _columns_of(plan: Plan) -> set[str]:
    """Return every column that enters a study, as ``"party.column"``."""
    return {str(ColumnName(step.party, column)) for step in plan.steps for column in step.columns}
