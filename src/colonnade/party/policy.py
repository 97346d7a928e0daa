"""What this party agrees to answer. Checked before data is read; only public facts enter.

A coordinator can ask for more noise than the policy wants, never for less: the noise is computed here from the price, and the
price is capped here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.errors import BadInput, NonPrivateRefused, PlanMismatch, PolicyRefusal, SchemaMismatch
from colonnade.node.kinds import uses_compute_nodes
from colonnade.party.statistics import JOINT_STATISTICS, STATISTICS, Earlier, nothing_earlier
from colonnade.plan import EVENT, RELATION, Plan, Step
from colonnade.privacy.price import nano_epsilon
from colonnade.schema import Schema
from colonnade.secure.shamir import default_threshold

__all__ = ["Policy", "Terms"]


@dataclass(frozen=True)
class Terms:
    """The public facts about one party that a plan is checked against."""

    party: str
    schema: Schema
    federation: str
    alignment: str
    people: int
    parties: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A party's own rules. Everything not forbidden here still has to fit the ledger's cap.

    Parameters
    ----------
    max_epsilon
        The most that one release may cost; ``None`` for no rule beyond the ledger's cap.
    max_delta
        The largest δ of one release; ``None`` for no rule beyond the ledger's cap.
    columns
        The columns that may be used; ``None`` for every column of the schema.
    tasks
        The tasks that are answered (``"pattern-count"``, …); ``None`` for all.
    nonprivate
        Tasks that may be answered **without** differential privacy, by name. Empty by default.
    min_collusion
        Secure studies must be noised against at least this many colluding data parties (or all but one, if there are fewer).
    min_threshold
        Secure studies must keep at least this many compute nodes in the dark together; by default ⌊(N−1)/2⌋ of N.
    min_people
        Studies of fewer people are refused.
    event_level
        Whether to answer studies whose ε hides only steps of a stated size in a value, and not the value (`Moment` with a
        number as ``change``). The ledger records them at that ε, and marks them.

    Examples
    --------
    >>> Policy(max_epsilon=1.0, min_people=1_000).max_epsilon
    1.0
    """

    max_epsilon: float | None = None
    max_delta: float | None = None
    columns: Sequence[str] | None = None
    tasks: Sequence[str] | None = None
    nonprivate: Sequence[str] = ()
    min_collusion: int = 1
    min_threshold: int | None = None
    min_people: int = 1
    event_level: bool = False

    def __post_init__(self) -> None:
        if self.max_epsilon is not None:
            nano_epsilon(self.max_epsilon, what="max_epsilon")
        if not isinstance(self.min_people, int) or self.min_people < 1:
            raise BadInput("min_people must be a positive whole number.")
        floors: tuple[object, ...] = (self.min_collusion, self.min_threshold)
        if any(floor is not None and (type(floor) is not int or floor < 0) for floor in floors):
            raise BadInput("min_collusion and min_threshold are whole numbers, zero or more.")

    def admit(self, plan: Plan, step: Step, terms: Terms, earlier: Earlier = nothing_earlier) -> Any:
        """Return the statistic that this step asks for, or raise before any data is read."""
        self._check_plan(plan, terms)
        statistic = STATISTICS.get(step.statistic) or JOINT_STATISTICS.get(step.statistic)
        if statistic is None:
            raise PolicyRefusal("This party does not know the statistic that was asked for.")
        if not getattr(statistic, "releases_nothing", False):
            self._check_step(plan, step, terms)
        if getattr(statistic, "looks_back", False):
            return statistic(plan, step, terms.schema, earlier)
        return statistic(plan, step, terms.schema)

    def _check_plan(self, plan: Plan, terms: Terms) -> None:
        if plan.relation not in (RELATION, EVENT) or plan.version != 1:
            raise PlanMismatch("The plan uses another neighbouring relation or version.")
        if plan.relation == EVENT and not self.event_level:
            raise PolicyRefusal(
                "The study promises privacy for steps in a value only (event level), which this party's policy does not allow.",
                remedy='Ask with change="bounds", or have the party allow it: cn.Policy(event_level=True).',
            )
        if (plan.federation, plan.alignment, plan.people) != (terms.federation, terms.alignment, terms.people):
            raise PlanMismatch("The plan was made for another federation or another alignment of rows.")
        if not set(plan.parties) <= set(terms.parties) or len(set(plan.parties)) != len(plan.parties):
            raise PlanMismatch("The plan names parties that are not in this federation.")
        if len({(step.party, step.name) for step in plan.steps}) != len(plan.steps):
            raise PlanMismatch("The plan has two steps of the same name at one party.")
        if self.tasks is not None and plan.task not in self.tasks:
            raise PolicyRefusal("This party's policy does not allow this task.")
        if uses_compute_nodes(plan):
            self._check_sharing(plan)
        if plan.people < self.min_people:
            raise PolicyRefusal("The study covers fewer people than this party's policy requires.")

    def _check_sharing(self, plan: Plan) -> None:
        """A coordinator may ask for more noise and more secrecy than this party insists on, never for less."""
        floor = default_threshold(len(plan.compute_nodes)) if self.min_threshold is None else self.min_threshold
        if plan.threshold < floor:
            raise PolicyRefusal("The plan shares secrets between fewer nodes than this party's policy requires.")
        if plan.collusion < min(self.min_collusion, plan.threshold, len(plan.parties) - 1):
            raise PolicyRefusal("The plan's noise covers fewer colluding parties than this party's policy requires.")

    def _check_step(self, plan: Plan, step: Step, terms: Terms) -> None:
        unknown = [column for column in step.columns if column not in terms.schema]
        if unknown or not step.columns:
            raise SchemaMismatch(f"Party {terms.party!r} is asked for columns that are not in its schema.")
        if self.columns is not None and not set(step.columns) <= set(self.columns):
            raise PolicyRefusal("This party's policy does not allow one of the columns.")
        if step.price is None:
            if plan.task not in self.nonprivate:
                raise NonPrivateRefused(
                    "The step is not differentially private, and this party's policy does not allow it."
                )
            return
        if self.max_epsilon is not None and step.price.nano > nano_epsilon(self.max_epsilon):
            raise PolicyRefusal("The price of one release is above what this party's policy allows.")
        if self.max_delta is not None and step.price.delta > self.max_delta:
            raise PolicyRefusal("The delta of one release is above what this party's policy allows.")
