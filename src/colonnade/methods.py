"""Methods as objects, for options that only one method has.

>>> import colonnade as cn
>>> model = cn.LogisticRegression("bank.default", method=cn.methods.Gradient(steps=200, rate=0.02), epsilon=1.0, delta=1e-6)
>>> model.get_params()["method__steps"], model.set_params(method__steps=300).method
(200, Gradient(rate=0.02, steps=300))

A method with its default options is given by name: ``method="secure"``. An object is accepted by every estimator that has a
method of that name with the options that were set.
"""

from typing import TYPE_CHECKING, Any

from colonnade.estimators.methods.additive import AdditiveNewton
from colonnade.estimators.methods.counts import Independent, Response
from colonnade.estimators.methods.describing import Groups
from colonnade.estimators.methods.method import METHODS
from colonnade.estimators.methods.moments import Functional, Newton, Secure

if TYPE_CHECKING:
    from colonnade.papers.methods import Coreset, Gradient, Importance, Local, Sketch, SketchedClusters, Uniform

__all__ = [
    "AdditiveNewton",
    "Coreset",
    "Functional",
    "Gradient",
    "Groups",
    "Importance",
    "Independent",
    "Local",
    "Newton",
    "Response",
    "Secure",
    "Sketch",
    "SketchedClusters",
    "Uniform",
]


if not TYPE_CHECKING:  # a type-checker that saw this would take any name to exist

    def __getattr__(name: str) -> Any:
        """Import a method of a package when it is first used (PEP 562)."""
        for method in METHODS.values() if name in __all__ else ():
            if method.__name__ == name:
                return method
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
