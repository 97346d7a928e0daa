"""Plans made complete: which parties are asked, who computes on shares, and which threshold and collusion that gives."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from colonnade.coordinator.driver import ComputeMembers
from colonnade.errors import BadInput
from colonnade.plan import Parameter, Plan, Step, Unit
from colonnade.privacy.accounting import Price
from colonnade.secure.shamir import default_threshold
from colonnade.steps.kind import require_known, uses_compute_nodes

if TYPE_CHECKING:
    from colonnade.coordinator.federation import Federation

__all__ = ["complete_plan"]


def complete_plan(
    federation: "Federation",
    computing: ComputeMembers,
    steps: tuple[Step, ...],
    *,
    task: str,
    method: str,
    price: Price | None,
    unit: Unit,
    parameters: Mapping[str, Parameter],
    repeat: int,
    relation: str,
) -> Plan:
    """Return the plan of a study of some steps; see `Federation.plan`."""
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
        raise BadInput(
            "repeat must be a positive whole number.", remedy="For example repeat=2, for a new draw at a new price."
        )
    if unit not in ("person", "party"):
        raise BadInput("unit must be 'person' or 'party'.", remedy='For example unit="person".')
    asked = tuple(name for name in federation.parties if name in {step.party for step in steps})
    secure = uses_compute_nodes(steps)
    nodes = computing.choose(asked, federation.threshold) if secure else ()
    plan = Plan(
        task=task,
        method=method,
        parameters=dict(parameters),
        unit=unit,
        price=price,
        relation=relation,
        federation=federation.identity,
        alignment=federation.alignment,
        people=federation.people,
        parties=asked,
        compute_nodes=nodes,
        threshold=default_threshold(len(nodes)) if secure else 0,
        collusion=min(federation.collusion, len(asked) - 1) if secure else 0,
        steps=steps,
        repeat=repeat,
        data_versions={name: federation.data_versions[name] for name in asked},
    )
    require_known(plan)
    return plan
