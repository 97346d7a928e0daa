"""What a plan opens to whom: the openings behind a privacy statement, and what they rest on."""

from collections.abc import Mapping

from colonnade.coordinator.driver import Quote
from colonnade.node.joint import Joint, is_joint
from colonnade.node.kinds import is_conversation
from colonnade.plan import EVENT, Plan, Step
from colonnade.privacy.loss import Loss
from colonnade.result import COORDINATOR, Opening

__all__ = ["assumptions_of", "openings_of"]

LOCAL = "Each party perturbs its own release with its own independent noise; no peer is trusted."
SECURE = (
    "At most {threshold} of the compute nodes {nodes} pool their shares. "
    "Noise covers {collusion} colluding data part{ies} besides the coordinator. "
    "Parties are semi-honest in their inputs: one that shares unclipped values could amplify another's row past the noise."
)
EVENT_LEVEL = (
    "Event level: neighbours differ in one person's value at each party by at most {change}. "
    "Steps of that size are hidden; a whole value, and the order of its size, is not."
)
NOT_PRIVATE = (
    "Not differentially private: exact values left the parties, each of which allows this by name in its policy."
)
THIRD = "The coordinator is itself a compute node, and is assumed to collude with no party."


def openings_of(plan: Plan, quote: Quote, mechanisms: Mapping[str, str]) -> tuple[Opening, ...]:
    """Return one opening a local release, and one a joint step."""
    openings = [_local_opening(step, quote, mechanisms) for step in plan.steps if not is_conversation(step)]
    joint_names = dict.fromkeys(step.name for step in plan.steps if is_joint(step))
    return tuple(openings + [_joint_opening(plan, name, mechanisms) for name in joint_names])


def assumptions_of(plan: Plan) -> tuple[str, ...]:
    """Return what the guarantee of a plan rests on, in words."""
    words = []
    if plan.relation == EVENT:
        words.append(EVENT_LEVEL.format(change=max(step.parameters.get("change", 0) for step in plan.steps)))
    if any(step.price is None and step.statistic != "group-key" for step in plan.steps):
        words.append(NOT_PRIVATE)
    if any(not is_conversation(step) and step.price is not None for step in plan.steps):
        words.append(LOCAL)
    if any(is_joint(step) for step in plan.steps):
        words.append(
            SECURE.format(
                threshold=plan.threshold,
                nodes=", ".join(plan.compute_nodes),
                collusion=plan.collusion,
                ies="y" if plan.collusion == 1 else "ies",
            )
        )
        if COORDINATOR in plan.compute_nodes:
            words.append(THIRD)
    return tuple(words)


def _local_opening(step: Step, quote: Quote, mechanisms: Mapping[str, str]) -> Opening:
    if step.price is None:
        return Opening(mechanisms.get(step.name, step.statistic), (step.party,), (None,))
    loss = quote.losses[step.party][step.name]
    replaced = _replaced(step, loss)
    return Opening(
        mechanism=mechanisms.get(step.name, step.statistic),
        scope=(step.party,),
        losses=(loss,),
        replaced=() if replaced is None else (replaced,),
    )


def _replaced(step: Step, loss: Loss) -> Loss | None:
    """The loss if a record is replaced: a report is as private either way; of counts two cells move; a row moves twice as far."""
    if step.statistic == "reports" or step.parameters.get("change") == "bounds":
        return loss
    if step.statistic == "histogram" and loss.pure is not None:
        return Loss.of_pure(2 * loss.pure)
    return loss * 4 if step.statistic in ("rows", "sketch") else None


def _joint_opening(plan: Plan, name: str, mechanisms: Mapping[str, str]) -> Opening:
    joint = Joint.read(plan, name)
    counts = range(len(joint.owners))
    return Opening(
        mechanism=mechanisms.get(name, next(iter(joint.steps.values())).statistic),
        scope=joint.owners,
        losses=tuple(joint.noise.loss(colluders=count) for count in counts),
        party_losses={
            owner: tuple(joint.noise.loss(colluders=count, party=owner) for count in counts) for owner in joint.owners
        },
        replaced=tuple(joint.noise.replaced_loss(colluders=count) for count in counts),
        nodes=joint.nodes,
        threshold=joint.threshold,
    )
