"""The noise of moments on a union of two lists, read from a plan."""

from collections.abc import Mapping

from colonnade.errors import PlanMismatch
from colonnade.plan import Plan, Step
from colonnade.privacy.laws.union import UnionNoise

__all__ = ["union_noise"]


def union_noise(plan: Plan, steps: Mapping[str, Step]) -> UnionNoise:
    """Return the noise of one of the three steps; it is calibrated for all of them, whichever are asked for."""
    first = next(iter(steps.values()))
    shared = {(step.parameters.get("scale"), step.parameters.get("part")) for step in steps.values()}
    if len(shared) != 1 or first.price is None or len(steps) != 2:
        raise PlanMismatch("The parties of a union are asked for different parts, or without a price.")
    scale, part = shared.pop()
    cross = first.statistic == "union-cross"
    if cross != (part == "cross") or type(scale) is not int or not isinstance(part, str):
        raise PlanMismatch("A step of a union does not say which part of the moments it opens.")
    noise = UnionNoise(
        row_bounds={party: _whole(step, "row_bound") for party, step in steps.items()},
        widths={party: _whole(step, "coded") for party, step in steps.items()},
        constant=scale**2,
        price=first.price,
        unit=plan.unit,
        collusion=plan.collusion,
        part=part,
    )
    for party, step in steps.items():
        if step.parameters.get("width") != _width(noise, party):
            raise PlanMismatch("A step of a union has another width than its part.")
    return noise


def _width(noise: UnionNoise, party: str) -> int:
    if noise.part == "cross":
        return noise.widths[party] + 1
    return noise.entries_of(party) if noise.part == party else 1


def _whole(step: Step, parameter: str) -> int:
    value = step.parameters.get(parameter)
    if type(value) is not int or value < 1:
        raise PlanMismatch("A step of a union lacks a parameter that must be a positive whole number.")
    return value
