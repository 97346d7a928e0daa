"""A study before it runs: what is asked, of whom, at what price.

A plan is public, complete and immutable. Its canonical bytes have a hash (`colonnade.protocol.codec.digest`), every party
checks that very plan against its own policy before it answers anything, and a request is identified by the plan's hash: the
same plan asked again is the same question, and gets the same answer at no further price.
"""

import msgspec

from colonnade.errors import BadInput, PlanMismatch
from colonnade.privacy.accounting import Price, Unit

__all__ = ["EVENT", "PLAN_VERSION", "RELATION", "About", "Parameter", "Plan", "Step", "Unit"]

PLAN_VERSION = 2
"""The version of plans. 2 added the declared versions of the data, and calls a step's `kind` what 1 called `statistic`."""

RELATION = "zero-out"
"""The one neighbouring relation of all accounting: a record replaced by nothing, the number of people public."""

EVENT = "event"
"""The relation of studies that hide only steps of a stated size in a value. A party answers them where its policy says so."""

Parameter = bool | int | float | str | tuple[bool | int | float | str, ...]


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One thing that one party computes, perturbs and releases.

    Parameters
    ----------
    name
        What the step is for, unique among the party's steps.
    party
        Who answers.
    kind
        Which kind of step, by its registered name (`colonnade.steps.registry`).
    columns
        The party's own columns that enter.
    parameters
        What else the kind of step needs to know; public.
    price
        What the release offers to pay; ``None`` for a step that is not private and must be allowed by name.
    """

    name: str
    party: str
    kind: str
    columns: tuple[str, ...]
    parameters: dict[str, Parameter] = {}
    price: Price | None


LONGEST_TITLE = 200
LONGEST_PURPOSE = 1_000
LONGEST_SIGNATURE = 1_024


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What somebody says about a study: words beside a plan, and no part of it. The same plan with a new title is the same study.

    Parameters
    ----------
    title, purpose, requester
        One line each; empty where nothing is said.
    signature
        The requester's signature; empty where the words are the coordinator's own.
    """

    title: str = ""
    purpose: str = ""
    requester: str = ""
    signature: bytes = b""

    def __post_init__(self) -> None:
        lines = ((self.title, LONGEST_TITLE), (self.purpose, LONGEST_PURPOSE), (self.requester, LONGEST_TITLE))
        if any(len(words) > longest or not words.isprintable() for words, longest in lines):
            raise BadInput(
                f"The title and requester of a study are one line of at most {LONGEST_TITLE} characters each, its purpose "
                f"one of at most {LONGEST_PURPOSE}.",
                remedy="Shorten it, and leave out line breaks.",
            )
        if len(self.signature) > LONGEST_SIGNATURE:
            raise BadInput(
                f"The signature under a study's purpose has at most {LONGEST_SIGNATURE:,} bytes.",
                remedy="Sign with an analyst's key.",
            )


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole study. Two plans with the same bytes are the same study.

    Parameters
    ----------
    task, method, parameters
        What is being estimated, and how.
    unit, price
        The promise: ε and δ for this unit (``None`` if the method is not private).
    federation, alignment, people
        Which federation, which agreed row order, how many people; all public.
    parties, compute_nodes, threshold, collusion
        Who holds data, who computes on shares, how many nodes learn nothing together, how many colluding parties the noise
        covers.
    steps
        Everything that any party will release.
    repeat
        1 for the first draw; a higher number is a new draw at a new price.
    data_versions
        Which declared version of its data each of ``parties`` is asked about.
    """

    task: str
    method: str
    parameters: dict[str, Parameter]
    unit: Unit
    price: Price | None
    relation: str = RELATION
    federation: str
    alignment: str
    people: int
    parties: tuple[str, ...]
    compute_nodes: tuple[str, ...] = ()
    threshold: int = 0
    collusion: int = 0
    steps: tuple[Step, ...]
    repeat: int = 1
    data_versions: dict[str, int] = {}
    version: int = PLAN_VERSION

    def steps_of(self, party: str) -> tuple[Step, ...]:
        """Return what one party is asked for."""
        return tuple(step for step in self.steps if step.party == party)

    def require_named(self) -> None:
        """Refuse a plan that asks somebody whom it does not name.

        Whoever shares rows without holding data could share anything; a node must not come to hold a key; and fewer parties
        named are fewer colluders to cover with noise.
        """
        if not {step.party for step in self.steps} <= set(self.parties):
            raise PlanMismatch("The plan asks a party that it does not name as one of its data parties.")

    def step(self, party: str, name: str) -> Step:
        """Return one step; a step that is not in the plan was not agreed to."""
        for step in self.steps:
            if step.party == party and step.name == name:
                return step
        raise PlanMismatch("A request names a step that the plan does not contain.")
