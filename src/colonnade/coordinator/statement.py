"""What a plan opens to whom: the openings behind a privacy statement, and what they rest on."""

from collections.abc import Mapping

from colonnade.conversations.registry import discloses, is_conversation
from colonnade.coordinator.alignment_statement import alignment_openings, alignment_words
from colonnade.coordinator.driver import Quote
from colonnade.plan import EVENT, Plan, Step
from colonnade.privacy.laws.sketch_law import sketching
from colonnade.privacy.loss import NOTHING, Loss
from colonnade.result import COORDINATOR, Opening
from colonnade.steps.gradient_terms import GRADIENT, GradientTerms
from colonnade.steps.joint import Joint, is_joint

__all__ = ["assumptions_of", "is_sketch", "openings_of"]

SUMS: Mapping[str, str] = {
    "coreset-draws": "rows drawn",
    "coreset-scores": "importance scores",
    "coreset-gradient": "residuals",
}
"""Statistics that are opened as exact sums over parties, in words."""

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
    "Not differentially private: exact values left the parties, each of which allows this by name in its policy. "
    "What is said to stay hidden does so from a coordinator that follows the protocol; one that does not can learn more, up to "
    "the rows that take part."
)
SKETCHES = (
    "The sketches of memberships rest on a key that {parties} agreed on and the coordinator does not know, and on every one of "
    "them hashing with it. Nothing is guaranteed towards whoever holds the key and sees sketches: a party, or the coordinator "
    "with one. A key that leaks later uncovers what was released under it. It serves this study alone, is refused for any other, "
    "and is erased at its end."
)
SUMMED = (
    "Of {names} only sums over the parties were opened: no party's own part is seen unless all other parties pool theirs "
    "with whoever was told the sum."
)
BATCHES = (
    "Who takes part in a step follows from a key that {parties} agreed on and the coordinator does not know. Towards whoever "
    "holds it, or the coordinator with one of them, only the noise protects a person, in at most {participations} of {steps} "
    "steps: every party checked this on the key before the first. The key is erased at the end."
)
DELIVERED = (
    "Individual-level output: everybody's score under the plan's weights was opened to {recipient}, outside the "
    "differential-privacy promise. Only sums over the parties were opened; with two parties, or if all others pool theirs with "
    "{recipient}, a party's own part is seen. The coordinator relayed sealed letters."
)
DRAWN = (
    "Who drew which rows is hidden from the coordinator and from each party, as long as they do not pool what they see; of two "
    "parties, each learns what the other drew."
)
THIRD = "The coordinator is itself a compute node, and is assumed to collude with no party."


def openings_of(plan: Plan, quote: Quote, mechanisms: Mapping[str, str]) -> tuple[Opening, ...]:
    """Return one opening a local release, and one a joint step."""
    local = [step for step in plan.steps if not is_conversation(step) and not is_sketch(step)]
    openings = [_local_opening(step, quote, mechanisms) for step in local]
    joint_names = dict.fromkeys(step.name for step in plan.steps if is_joint(step))
    openings += [_joint_opening(plan, name, mechanisms) for name in joint_names]
    descents = dict.fromkeys(step.name for step in plan.steps if step.statistic == GRADIENT)
    openings += [_descent_opening(plan, name, mechanisms) for name in descents]
    sketched = dict.fromkeys(step.name for step in plan.steps if is_sketch(step))
    openings += [_sketch_opening(plan, name, mechanisms) for name in sketched]
    summed = dict.fromkeys(step.name for step in plan.steps if step.statistic in SUMS)
    openings += [_sum_opening(plan, name, mechanisms) for name in summed]
    delivered = dict.fromkeys(step.name for step in plan.steps if step.statistic == "predictions")
    openings += [_delivered_opening(plan, name) for name in delivered]
    return (*openings, *alignment_openings(plan))


def is_sketch(step: Step) -> bool:
    """Return whether a step is one party's part of sketches that all parties make under one key: one release, not several."""
    return step.statistic == "membership-sketches" and step.price is not None


def assumptions_of(plan: Plan) -> tuple[str, ...]:
    """Return what the guarantee of a plan rests on, in words."""
    words = []
    if plan.relation == EVENT:
        words.append(EVENT_LEVEL.format(change=max(step.parameters.get("change", 0) for step in plan.steps)))
    if any(discloses(step) for step in plan.steps):
        words.append(NOT_PRIVATE)
    if any(step.statistic == "coreset-draws" for step in plan.steps):
        words.append(DRAWN)
    if summed := dict.fromkeys(
        one for step in plan.steps if (one := step.statistic) in SUMS and one != "coreset-draws"
    ):
        words.append(SUMMED.format(names=" and ".join(SUMS[statistic] for statistic in summed)))
    recipients = dict.fromkeys(step.parameters["recipient"] for step in plan.steps if step.statistic == "predictions")
    words += [DELIVERED.format(recipient=recipient) for recipient in recipients]
    if any(not is_conversation(step) and step.price is not None and not is_sketch(step) for step in plan.steps):
        words.append(LOCAL)
    if any(is_sketch(step) for step in plan.steps):
        parties = [step.party for step in plan.steps if is_sketch(step)]
        words.append(SKETCHES.format(parties=", ".join(dict.fromkeys(parties))))
    for name in dict.fromkeys(step.name for step in plan.steps if step.statistic == GRADIENT):
        words += _descent_assumptions(GradientTerms.read(plan, name))
    if any(is_joint(step) or step.statistic == GRADIENT for step in plan.steps):
        covered = plan.collusion if any(is_joint(step) for step in plan.steps) else _covered_by_descents(plan)
        words.append(
            SECURE.format(
                threshold=plan.threshold,
                nodes=", ".join(plan.compute_nodes),
                collusion=covered,
                ies="y" if covered == 1 else "ies",
            )
        )
        if COORDINATOR in plan.compute_nodes:
            words.append(THIRD)
    return (*words, *alignment_words(plan))


def _covered_by_descents(plan: Plan) -> int:
    """How many colluders the noise of descents covers: none where the promise counts on secret batches."""
    names = dict.fromkeys(step.name for step in plan.steps if step.statistic == GRADIENT)
    return min(0 if GradientTerms.read(plan, name).noise.secret else plan.collusion for name in names)


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


def _sketch_opening(plan: Plan, name: str, mechanisms: Mapping[str, str]) -> Opening:
    steps = [step for step in plan.steps if step.name == name]
    assert steps[0].price is not None  # or it were no sketch
    scope, sketches = tuple(step.party for step in steps), steps[0].parameters.get("sketches")
    bought = sketching(steps[0].price, len(scope), plan.unit, sketches if isinstance(sketches, int) else 0)
    return Opening(
        mechanism=mechanisms.get(name, steps[0].statistic),
        scope=scope,
        losses=(bought.loss("person"),),
        party_losses=dict.fromkeys(scope, (bought.loss("party"),)),
        replaced=(bought.replaced_loss,),
        key_holders=scope,
    )


def _sum_opening(plan: Plan, name: str, mechanisms: Mapping[str, str]) -> Opening:
    """A sum without noise: everybody who could see it learns it."""
    steps = [step for step in plan.steps if step.name == name]
    return Opening(mechanisms.get(name, steps[0].statistic), tuple(step.party for step in steps), (None,))


def _delivered_opening(plan: Plan, name: str) -> Opening:
    """Scores that one party alone is told: nothing is guaranteed towards it, and nobody else sees anything."""
    steps = [step for step in plan.steps if step.name == name]
    scope = tuple(step.party for step in steps if step.columns)
    recipient = str(steps[0].parameters.get("recipient"))
    return Opening(f"individual scores opened to {recipient}", scope, (NOTHING,), key_holders=(recipient,))


def _joint_opening(plan: Plan, name: str, mechanisms: Mapping[str, str]) -> Opening:
    joint = Joint.read(plan, name)
    counts = range(len(joint.data_parties))
    return Opening(
        mechanism=mechanisms.get(name, next(iter(joint.steps.values())).statistic),
        scope=joint.data_parties,
        losses=tuple(joint.noise.loss(colluders=count) for count in counts),
        party_losses={
            owner: tuple(joint.noise.loss(colluders=count, party=owner) for count in counts)
            for owner in joint.data_parties
        },
        replaced=tuple(joint.noise.replaced_loss(colluders=count) for count in counts),
        nodes=joint.nodes,
        threshold=joint.threshold,
    )


def _descent_opening(plan: Plan, name: str, mechanisms: Mapping[str, str]) -> Opening:
    """All steps of a descent are one opening: secret batches count towards whoever does not hold their key."""
    terms = GradientTerms.read(plan, name)
    noise, counts = terms.noise, range(len(terms.owners))
    seen = counts[:1] if noise.secret else counts
    return Opening(
        mechanism=mechanisms.get(name, "gradient steps with noise in shares"),
        scope=terms.owners,
        losses=tuple(noise.loss(colluders=count) for count in seen),
        party_losses={
            owner: tuple(noise.loss(colluders=count, party=owner) for count in seen) for owner in terms.owners
        },
        nodes=terms.nodes,
        threshold=terms.threshold,
        key_holders=terms.owners if noise.secret else (),
        keyed_losses=tuple(noise.loss(colluders=max(count, 1)) for count in counts),
    )


def _descent_assumptions(terms: GradientTerms) -> list[str]:
    if not terms.noise.secret:
        return []
    return [
        BATCHES.format(
            parties=", ".join(terms.owners), participations=terms.noise.participations, steps=f"{terms.steps:,}"
        )
    ]
