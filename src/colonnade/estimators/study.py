"""What every estimator is: parameters, a preview that spends nothing, and a fit that runs one study."""

from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from colonnade.coordinator.federation import Federation
from colonnade.coordinator.findings import Findings, statement_of
from colonnade.errors import BadInput
from colonnade.estimators.preview import Preview
from colonnade.estimators.progress import progress_bar
from colonnade.plan import RELATION, Parameter, Plan, Unit
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Algorithm

__all__ = ["Study"]


class Study(BaseEstimator):
    """The contract of all estimators.

    A subclass names its ``task`` and its ``methods`` (default first), builds an algorithm for a federation, and learns its
    attributes from what the algorithm returned. Everything about price, plan, agreement and statement happens here, once.
    """

    task: ClassVar[str]
    methods: ClassVar[tuple[str, ...]]

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

    def _expect(self, algorithm: Algorithm, federation: Federation) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the expected error, in words by figure, and warnings."""
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
        expected, warnings = self._expect(algorithm, federation)
        return Preview(
            title=f"{type(self).__name__}, method {self.method!r}",
            statement=statement_of(plan, quote, {}, local=self._is_local()),
            charges={party: quote.charge(party) for party in plan.parties},
            budget=federation.budget(),
            expected=expected,
            warnings=warnings,
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
        return self

    # How it fits together -----------------------------------------------------------------------------------------------

    def _prepare(self, federation: Federation, repeat: int) -> tuple[Algorithm, Plan]:
        if not isinstance(federation, Federation):
            raise BadInput("fit and preview take a federation.", remedy="Make one with cn.Federation.simulate(...).")
        if self.method not in self.methods:
            raise BadInput(
                f"{type(self).__name__} has no method {self.method!r}.", remedy=f"Use one of {self.methods}."
            )
        if self.unit not in ("person", "party"):
            raise BadInput("unit must be 'person' or 'party'.")
        price = Price.of(self.epsilon, self.delta)
        algorithm = self._algorithm(federation, price, repeat)
        plan = federation.plan(
            algorithm,
            task=self.task,
            method=self.method,
            price=price,
            unit=self.unit,
            parameters=self._parameters(),
            repeat=repeat,
            relation=self._relation(),
        )
        return algorithm, plan

    def _is_local(self) -> bool:
        return False

    def _relation(self) -> str:
        """Return which tables count as neighbours for the promise of this study."""
        return RELATION

    def _receipt(self, findings: Findings) -> str:
        return findings.receipt
