"""Methods of `Moment`: noise on every value, or on a short random projection."""

from typing import TYPE_CHECKING, Any

from colonnade.coding.names import parties_of
from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.power_moments import PerturbedPowers, PowerMoment, SketchedSquare, Totals
from colonnade.errors import BadInput
from colonnade.estimators.methods.method import Method
from colonnade.estimators.preview import Expectation, ExpectedError
from colonnade.plan import EVENT, RELATION
from colonnade.privacy.calibration import gaussian_party_price
from colonnade.privacy.neighbours import party_price
from colonnade.privacy.price import Price
from colonnade.schema import Column

if TYPE_CHECKING:
    from colonnade.estimators.moment import Moment

__all__ = ["LocalPowers", "SketchedPowers"]

Powers = Totals | PerturbedPowers | SketchedSquare


class PowerMethod(Method["Moment"]):
    """A method of `Moment`. Noisy values serve every p, so that equal releases are shared."""

    def relation(self, study: "Moment") -> str:
        """One value changes by at most ``change``, or the whole value is protected."""
        return RELATION if study.change == "bounds" else EVENT

    def expect(self, study: "Moment", algorithm: Powers, federation: Federation) -> Expectation:
        """Say how far the moment is off, if sums are distributed as counts are."""
        moment, stderr = algorithm.typical()
        moment = max(moment, 1.0)  # a column of few small numbers may be expected to be all 0
        least, largest = algorithm.least_and_largest()
        words = {
            "standard error": f"about {stderr:,.4g}, {stderr / moment:.2%} of the moment, if most sums are small and few are "
            "large, as counts are"
        }
        if self.relation(study) == EVENT:
            words["neighbours"] = f"event level: ε hides changes of up to {study.change} in a value, not the value"
        large = stderr > moment / 4
        warnings = ("The noise exceeds a quarter of the moment: narrow the bounds, or raise epsilon.",) if large else ()
        error = ExpectedError(
            "value_", stderr, "in the moment's unit", least, largest, "sums distributed as counts are"
        )
        return Expectation(words, warnings, (error,))

    def learn(self, study: "Moment", federation: Federation, value: PowerMoment) -> dict[str, Any]:
        """The estimate and its error."""
        return {"value_": value.value, "stderr_": value.stderr}


class LocalPowers(PowerMethod):
    """Each value has discrete Laplace noise of its own; for p = 1, each party's sum has."""

    name = "local"
    does = "noise on every value (p = 1: on each party's sum), then an unbiased estimate for any p > 0"
    guarantee = 'pure ε, local differential privacy (p = 1: not local); event level unless `change="bounds"`'
    trust = "the coordinator and any parties"
    delta = "not used"
    reference = "primitives"

    def is_local(self, study: "Moment") -> bool:
        """A sum is perturbed once, and not person by person."""
        return study.p != 1

    def protocol(self, study: "Moment", federation: Federation, price: Price, repeat: int) -> Totals | PerturbedPowers:
        """By noisy values, or sums, of each party."""
        columns = _one_per_party(study, federation)
        share = party_price(Price(price.nano, 0.0), len(columns), study.unit)
        kind = Totals if study.p == 1 else PerturbedPowers
        algorithm: Totals | PerturbedPowers = kind(
            columns, float(study.p), study.change, share, federation.people, repeat
        )
        algorithm.typical()  # whatever is refused, is refused before anything is asked
        return algorithm


class SketchedPowers(PowerMethod):
    """A short random projection with Gaussian noise, for p = 2."""

    name = "sketch"
    does = "p = 2: the same from one perturbed random projection per party"
    guarantee = '(ε, δ); event level unless `change="bounds"`'
    trust = "the coordinator and any parties"
    delta = "needed"
    reference = "primitives"

    def protocol(self, study: "Moment", federation: Federation, price: Price, repeat: int) -> SketchedSquare:
        """By one sketch per party."""
        columns = _one_per_party(study, federation)
        if study.p != 2:
            raise BadInput('method="sketch" is for p = 2.', remedy='Use method="local" for other orders.')
        if price.delta == 0:
            raise BadInput("Sketches need a positive delta.", remedy="For example delta=1e-6, or method='local'.")
        share = gaussian_party_price(price, len(columns), study.unit)
        algorithm = SketchedSquare(columns, float(study.p), study.change, share, federation.people, repeat)
        algorithm.typical()  # whatever is refused, is refused before anything is asked
        return algorithm


def _one_per_party(study: "Moment", federation: Federation) -> dict[str, Column]:
    columns = federation.describe(study.columns)
    if len(parties_of(columns)) != len(columns):
        raise BadInput("A moment takes one column per party.", remedy="Add up a party's columns at the source.")
    return columns
