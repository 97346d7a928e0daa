"""What agreeing on an order of rows shows to whom: the openings behind its statement, and what they rest on, in words."""

from colonnade.plan import Plan
from colonnade.privacy.loss import NOTHING, Loss
from colonnade.result import Opening
from colonnade.steps.matching_terms import COHORT, MATCHING, Matching, is_aligning

__all__ = ["alignment_openings", "alignment_words"]

INTERSECTION = (
    "Every party learns which of its own ids are in every list. It learns nothing about its other ids, nor about anyone's list "
    "but its declared length ({lengths}), as long as at least two parties besides {leader} do not pool what they see; "
    "otherwise (and always with two parties) the pool learns which of the ids of {leader} the others have. "
    "This is not differentially private: a party may bring ids only to see whether they are common, and policies bound how often."
)
PUBLIC = "That the listed people take part is public; which of them a party has is told to nobody."
UNION = (
    "Both parties learn positions for the union of their lists, and nobody learns who is in common. {leader} sees how many "
    "pseudonyms coincide, hence how many people are in common; where the size is public, both do. Secure studies on this "
    "order cover the people in common."
)
TOLD = {
    "declared": "The number of people had been declared public.",
    "public": "The coordinator learns the exact number of people.",
    "noisy": "The coordinator learns the number of people with discrete Laplace noise; any party knows it exactly.",
    "hidden": "The coordinator learns nothing about the number of people.",
}


def alignment_openings(plan: Plan) -> tuple[Opening, ...]:
    """Return what an alignment opens: the number of people to the coordinator, who is common to the parties."""
    steps = [step for step in plan.steps if is_aligning(step)]
    if not steps:
        return ()
    owners = tuple(step.party for step in steps)
    if steps[0].statistic == COHORT:
        return (Opening("public list", owners, (NOTHING,)),)
    size, price = steps[0].parameters["size"], steps[0].price
    told: Loss | None = NOTHING if size in ("hidden", "declared") else None
    if price is not None:
        told = Loss.of_pure(price.nano)
    name = "number of people with discrete Laplace noise" if price is not None else f"number of people: {size}"
    return (Opening(name, owners, (told, None)),)


def alignment_words(plan: Plan) -> tuple[str, ...]:
    """Return what an alignment shows, and what that rests on."""
    steps = [step for step in plan.steps if is_aligning(step)]
    if not steps:
        return ()
    if steps[0].statistic == COHORT:
        return (PUBLIC,)
    matching = Matching.read(plan, steps[0].name)
    lengths = ", ".join(f"{party} {capacity:,}" for party, capacity in matching.capacities.items())
    words = INTERSECTION.format(lengths=lengths, leader=matching.leader)
    if steps[0].statistic != MATCHING:
        words = UNION.format(leader=tuple(matching.capacities)[1])
    return (words, TOLD[matching.size])
