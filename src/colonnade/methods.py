"""The methods that estimators offer, as objects: what only one method understands is given on its object.

>>> import colonnade as cn
>>> model = cn.LogisticRegression("bank.default", method=cn.methods.Gradient(steps=200, rate=0.02), epsilon=1.0, delta=1e-6)
>>> model.get_params()["method__steps"], model.set_params(method__steps=300).method
(200, Gradient(rate=0.02, steps=300))

A method without options of its own is simply named: ``method="secure"``. An object is accepted by every estimator that offers a
method of that name, as long as this one has the options that were set.
"""

from colonnade.estimators.methods.coresets import Coreset, Importance, Uniform
from colonnade.estimators.methods.counts import Independent, Response
from colonnade.estimators.methods.moments import Functional, Gradient, Local, Secure, Sketch

__all__ = [
    "Coreset",
    "Functional",
    "Gradient",
    "Importance",
    "Independent",
    "Local",
    "Response",
    "Secure",
    "Sketch",
    "Uniform",
]
