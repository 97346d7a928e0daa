"""`Moment`: the p-th moment of sums over parties, each party holding one term of every person's sum."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, ClassVar

from colonnade.coding.names import parties_of
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.power_moments import PerturbedPowers, PowerMoment, SketchedSquare, Totals
from colonnade.errors import BadInput
from colonnade.estimators.preview import Expectation, ExpectedError
from colonnade.estimators.study import Study
from colonnade.plan import EVENT, RELATION, Parameter
from colonnade.privacy.calibration import gaussian_party_price
from colonnade.privacy.laws.values import Change, valid_change
from colonnade.privacy.neighbours import Unit, party_price
from colonnade.privacy.price import Price
from colonnade.protocol.rounds import Algorithm
from colonnade.schema import Column

__all__ = ["Moment"]


class Moment(Study):
    """Estimate Σ over people of (Σ over parties of a whole number)^p, without bias.

    Parameters
    ----------
    columns
        One column of whole numbers a party, such as ``["clinic.visits", "pharmacy.purchases"]``, declared with
        ``cn.Numeric(lower, upper, integer=True)`` and never negative.
    p
        The order of the moment; any positive number.
    change
        By how much neighbours may differ in a person's value at a party: a whole number (event level, as in the paper: ε hides
        steps of that size, not the value), or ``"bounds"`` for the whole value.
    method
        ``"local"``: each value has discrete Laplace noise of its own (for p = 1, each party's sum has); or ``"sketch"``
        (p = 2): a short random projection with Gaussian noise.
    epsilon
        The price. There is no default.
    delta
        For ``"sketch"``: positive. Otherwise not used.
    unit
        ``"person"``: ε covers one person's values at all parties together; ``"party"``: at any one party.

    Attributes
    ----------
    value_ : float
        The estimate, without bias; it may be below 0 where the noise is large.
    stderr_ : float
        The standard error that the noise gives it.
    privacy_, transcript_, receipt_
        The statement, what was said, and a line to keep.

    Privacy
    -------
    Guarantee: ``"local"``: pure ε, for p other than 1 person by person (local differential privacy); ``"sketch"``: (ε, δ) by
    zCDP of the discrete Gaussian. Parties use independent randomness, so losses add.
    Neighbours: event (one value changes by at most ``change``); with ``change="bounds"`` zero-out, and replacement of the value.
    Adversary: the coordinator together with any set of parties.
    Spends: once at every party whose column is named.
    Not released: any person's value; which people are missing one.

    Examples
    --------
    >>> import colonnade as cn, pandas as pd
    >>> table = pd.DataFrame({"id": range(5_000), "visits": [0, 1, 2, 5] * 1_250})
    >>> clinic = cn.Party(table, schema=cn.Schema(visits=cn.Numeric(0, 30, integer=True)))
    >>> federation = cn.Federation.simulate({"clinic": clinic}, id="id", budget=cn.Budget(epsilon=4.0))
    >>> moment = cn.Moment(["clinic.visits"], 2, epsilon=4.0).fit(federation)
    >>> abs(moment.value_ - 37_500) < 8 * moment.stderr_, moment.privacy_.relation
    (True, 'event')
    """

    task: ClassVar[str] = "moment"
    methods: ClassVar[tuple[str, ...]] = ("local", "sketch")
    learned: ClassVar[tuple[str, ...]] = ("value_", "stderr_")
    essential: ClassVar[tuple[str, ...]] = ("value_",)

    def __init__(
        self,
        columns: Sequence[str],
        p: float,
        *,
        change: Change = 1,
        method: str = "local",
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
    ) -> None:
        self.columns = columns
        self.p = p
        self.change = change
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit

    def _algorithm(self, federation: Federation, price: Price, repeat: int) -> Algorithm:
        columns, power, change = self._one_each(federation), self._power(), valid_change(self.change)
        if self.method == "sketch":
            if power != 2:
                raise BadInput('method="sketch" is for p = 2.', remedy='Use method="local" for other orders.')
            if price.delta == 0:
                raise BadInput("Sketches need a positive delta.", remedy="For example delta=1e-6, or method='local'.")
            share = gaussian_party_price(price, len(columns), self.unit)
            algorithm: Any = SketchedSquare(columns, power, change, share, federation.people, repeat)
        else:
            share = party_price(Price(price.nano, 0.0), len(columns), self.unit)
            kind = Totals if power == 1 else PerturbedPowers
            algorithm = kind(columns, power, change, share, federation.people, repeat)
        algorithm.typical()  # whatever is refused, is refused before anything is asked
        return algorithm  # type: ignore[no-any-return]

    def _one_each(self, federation: Federation) -> dict[str, Column]:
        columns = federation.describe(self.columns)
        if len(parties_of(columns)) != len(columns):
            raise BadInput("A moment takes one column a party.", remedy="Add up a party's columns at the source.")
        return columns

    def _power(self) -> float:
        if isinstance(self.p, bool) or not isinstance(self.p, int | float) or not (isfinite(self.p) and self.p > 0):
            raise BadInput("p must be a positive, finite number.", remedy="For example p=2.")
        return float(self.p)

    def _parameters(self) -> dict[str, Parameter]:
        """Return nothing: noisy values serve every p, so equal releases are shared."""
        return {}

    def _is_local(self) -> bool:
        return self.method == "local" and self._power() != 1

    def _relation(self) -> str:
        return RELATION if valid_change(self.change) == "bounds" else EVENT

    def _learn(self, federation: Federation, value: PowerMoment) -> None:  # noqa: ARG002
        self.value_ = value.value
        self.stderr_ = value.stderr

    def _expect(self, algorithm: Any, federation: Federation) -> Expectation:  # noqa: ARG002
        moment, stderr = algorithm.typical()
        moment = max(moment, 1.0)  # a column of few small numbers may be expected to be all 0
        least, largest = algorithm.least_and_largest()
        expected = {
            "standard error": f"about {stderr:,.4g}, {stderr / moment:.2%} of the moment, if most sums are small and few are "
            "large, as counts are"
        }
        warnings = []
        if self._relation() == EVENT:
            expected["neighbours"] = f"event level: ε hides changes of up to {self.change} in a value, not the value"
        if stderr > moment / 4:
            warnings.append("The noise exceeds a quarter of the moment: narrow the bounds, or raise epsilon.")
        error = ExpectedError(
            "value_", stderr, "in the moment's unit", least, largest, "sums distributed as counts are"
        )
        return expected, tuple(warnings), (error,)
