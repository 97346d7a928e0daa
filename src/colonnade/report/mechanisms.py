"""Every mechanism of a plan with its sensitivity, its scale and its proof, rebuilt from public facts exactly as a party does.

A statistic and its mechanism are functions of plan, schema and price alone, so whoever reads the report arrives at the same
figures as the party that drew the noise. The proof is the mechanism's own documentation, copied into the report.
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from colonnade.coding.names import ColumnName
from colonnade.errors import ColonnadeError
from colonnade.party.steps import JOINT_STATISTICS, STATISTICS
from colonnade.plan import Plan, Step
from colonnade.privacy.laws.gradient_noise import GradientNoise
from colonnade.schema import Column, Schema
from colonnade.steps.gradient_terms import GRADIENT, GradientTerms
from colonnade.steps.joint import Joint, is_joint

__all__ = ["Noise", "noises", "proof_of"]


@dataclass(frozen=True)
class Noise:
    """How one step of a plan is perturbed.

    Parameters
    ----------
    step, parties, statistic
        What is released, and by whom.
    mechanism
        In words.
    sensitivity, scale
        In words, with the numbers in them.
    price
        What the step offers to pay; empty for one that is not private.
    proof
        The class whose documentation has the guarantee and its proof.
    """

    step: str
    parties: tuple[str, ...]
    statistic: str
    mechanism: str
    sensitivity: str
    scale: str
    price: str
    proof: type | None

    @property
    def private(self) -> bool:
        """Whether anything is guaranteed."""
        return bool(self.price)


def noises(plan: Plan, schema: Mapping[str, Column]) -> list[Noise]:
    """Return one entry a joint step and one a local step and kind of noise, in the plan's order.

    Parameters
    ----------
    plan
        The study.
    schema
        ``"party.column"`` to its public description, for the columns that enter.
    """
    found: list[Noise] = []
    for name in dict.fromkeys(step.name for step in plan.steps):
        steps = [step for step in plan.steps if step.name == name]
        if is_joint(steps[0]):
            found.append(_joint(plan, name, steps))
        elif steps[0].statistic == GRADIENT:
            found.append(_descent(plan, name, steps))
        else:
            found += [_local(plan, step, schema) for step in steps]
    return found


def proof_of(kind: type) -> str:
    """Return the documentation of a mechanism: what it guarantees, against whom, the proof, and its tests."""
    own = _without_usage(inspect.getdoc(kind) or "")
    module = inspect.getmodule(kind)
    around = "" if "\nPrivacy\n" in own or module is None else (inspect.getdoc(module) or "") + "\n\n"
    return f"{around}{own}".strip() or f"See {kind.__module__}.{kind.__qualname__}."


def _without_usage(documentation: str) -> str:
    """Leave out the sections of a numpy docstring that say how to call a class."""
    parts = re.split(r"\n(?=[A-Z][A-Za-z ]+\n-{3,}\n)", documentation)
    return "\n".join(part for part in parts if not part.startswith(("Parameters\n", "Examples\n", "Attributes\n")))


def _price(step: Step) -> str:
    if step.price is None:
        return ""
    return f"ε={step.price.epsilon:.6g}" + (f", δ={step.price.delta:.3g}" if step.price.delta else "")


def _joint(plan: Plan, name: str, steps: list[Step]) -> Noise:
    noise = Joint.read(plan, name).noise
    sensitivity, scale = noise.describe()
    return Noise(
        step=name,
        parties=tuple(step.party for step in steps),
        statistic=steps[0].statistic,
        mechanism=f"{noise.name} of {len(steps)} parties, enough without {plan.collusion} of them",
        sensitivity=sensitivity,
        scale=scale,
        price=_price(steps[0]),
        proof=type(noise),
    )


def _descent(plan: Plan, name: str, steps: list[Step]) -> Noise:
    terms = GradientTerms.read(plan, name)
    sensitivity, scale = terms.noise.describe(4.0 * terms.scale**2 * terms.weight_scale)  # integers per coded unit
    return Noise(
        step=name,
        parties=terms.owners,
        statistic=GRADIENT,
        mechanism=f"gaussian noise in shares of {len(steps)} parties, in each of {terms.steps:,} steps",
        sensitivity=sensitivity,
        scale=scale,
        price=_price(steps[0]),
        proof=GradientNoise,
    )


def _local(plan: Plan, step: Step, schema: Mapping[str, Column]) -> Noise:
    kind = {**STATISTICS, **JOINT_STATISTICS}.get(step.statistic)
    mechanism = _mechanism(kind, plan, step, schema)
    proof: Any = type(mechanism) if mechanism is not None else kind
    sensitivity, scale = mechanism.describe() if mechanism is not None else ("", "")
    name = getattr(mechanism, "name", None) or getattr(kind, "name", None) or step.statistic
    return Noise(
        step.name,
        (step.party,),
        step.statistic,
        str(name),
        sensitivity,
        scale,
        _price(step),
        proof if inspect.isclass(proof) else None,
    )


def _mechanism(kind: Any, plan: Plan, step: Step, schema: Mapping[str, Column]) -> Any:
    """Build the party's statistic and mechanism anew; ``None`` where they need more than is public here."""
    names = {column: str(ColumnName(step.party, column)) for column in step.columns}
    own = {column: schema[name] for column, name in names.items() if name in schema}
    if step.price is None or kind is None or len(own) != len(step.columns):
        return None
    try:
        return kind(plan, step, Schema(own)).mechanism(step.price)
    except (ColonnadeError, TypeError, AttributeError):
        return None
