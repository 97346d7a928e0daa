"""`Moment`: the p-th moment of sums over parties, each party holding one term of every person's sum."""

from collections.abc import Sequence
from typing import ClassVar

from colonnade.constraints import ColumnList, Either, OneOf, Real, Whole
from colonnade.estimators.methods.method import GivenMethod
from colonnade.estimators.methods.powers import LocalPowers, SketchedPowers
from colonnade.estimators.study import COMMON, Study
from colonnade.plan import Unit
from colonnade.privacy.laws.values import Change

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
    offers = (LocalPowers, SketchedPowers)
    constraints = {
        **COMMON,
        "columns": ColumnList(),
        "p": Real(0, closed="neither"),
        "change": Either(Whole(1), OneOf(("bounds",))),
    }
    learned: ClassVar[tuple[str, ...]] = ("value_", "stderr_")
    essential: ClassVar[tuple[str, ...]] = ("value_",)

    def __init__(
        self,
        columns: Sequence[str],
        p: float,
        *,
        change: Change = 1,
        method: GivenMethod = "local",
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
