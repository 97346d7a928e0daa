"""The method of `SyntheticTable`: one release of the tables of all pairs of columns."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols import moment_releases
from colonnade.estimation.expected_errors import ExpectedError
from colonnade.estimation.moments import Moments
from colonnade.estimation.noisy_tables import NoisyTables
from colonnade.estimation.private_pgm import has_library
from colonnade.estimators.methods.method import Expectation
from colonnade.estimators.methods.moments import MomentMethod, opened_variance
from colonnade.privacy.accounting import Price

if TYPE_CHECKING:
    from colonnade.estimators.synthetic import SyntheticTable

__all__ = ["SecurePairs"]

MOSTLY_NOISE = 0.5
LOST = (
    "Most pair tables would be mostly noise: ask for fewer columns, fewer bins or a larger epsilon. The table is then little "
    "more than its columns one by one."
)
NO_LIBRARY = "fit(...) needs the library mbi, which is not installed here: pip install 'colonnade[synthetic]'."


class SecurePairs(MomentMethod):
    """The tables of all pairs of columns, counted on secret shares. Only the noisy tables are opened.

    It has no options of its own.
    """

    name = "secure"
    does = "the tables of all pairs of columns, on secret shares; rows are drawn from a graphical model that is fitted to them"
    guarantee = "(ε, δ)"
    adversary = "the coordinator and up to c colluding parties"
    delta = "needed"
    reference = "private-pgm"
    unused = {}

    def protocol(
        self, study: "SyntheticTable", federation: Federation, price: Price, repeat: int
    ) -> moment_releases.GramRelease:
        """Return a release of second moments of levels; over the people in common if the federation is aligned so."""
        kind = moment_releases.UnionRelease if federation.union else moment_releases.GramRelease
        return kind(study._chosen(federation.describe()), price)

    def expect(self, study: "SyntheticTable", algorithm: Any, federation: Federation) -> Expectation:
        """Return the noise of a cell of a pair table, which no data changes."""
        variance = opened_variance(study, algorithm, federation)
        released = Moments.of_release(np.zeros_like(variance), variance, federation.people, algorithm.features)
        tables = NoisyTables(released)
        cells = {pair: tables.sizes[pair[0]] * tables.sizes[pair[1]] for pair in tables.pairs}
        noise = math.sqrt(sum(tables.variance(*pair) * many for pair, many in cells.items()) / sum(cells.values()))
        moved = np.array([tables.deviation(*pair) * many for pair, many in cells.items()])
        moved = np.minimum(moved * math.sqrt(2 / math.pi) / (2 * federation.people), 1.0)
        levels = sum(tables.sizes.values())
        words = {
            "levels": f"{levels} of {len(tables.columns)} columns, in {len(cells)} pair tables",
            "noise of a cell": f"{noise:,.3g} people",
            "noise of a pair table": f"as if {float(np.median(moved)):.1%} of people had moved, before the model is fitted",
        }
        warnings = [LOST] if float(np.median(moved)) > MOSTLY_NOISE else []
        warnings += [] if has_library() else [NO_LIBRARY]
        return Expectation(words, tuple(warnings), (ExpectedError("pair counts as released", noise, "people"),))
