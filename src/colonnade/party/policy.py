"""`Policy`: what a party agrees to answer. It is checked before any data is read, and only public facts enter.

A coordinator can ask for more noise than the policy wants, never for less. The party itself computes the noise from the price,
and its policy caps the price.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from colonnade.errors import BadInput, NonPrivateRefused, PlanMismatch, PolicyRefusal, SchemaMismatch
from colonnade.plan import EVENT, PLAN_VERSION, RELATION, Plan, Step
from colonnade.privacy.accounting import Price, nano_epsilon
from colonnade.protocol.messages import Described
from colonnade.schema import Schema
from colonnade.secure.shamir import default_threshold
from colonnade.steps.alignment import LARGEST_CAPACITY, MODES, AligningStep
from colonnade.steps.kind import (
    KINDS,
    Admission,
    Earlier,
    RowOrderKind,
    StepKind,
    kind_of,
    nothing_earlier,
    uses_compute_nodes,
)

__all__ = ["EXACT", "STUDIES", "Policy", "Terms"]


STUDIES: Mapping[str, str] = {
    "PatternCount": "pattern-count",
    "Moment": "moment",
    "KMeans": "clustering",
    "KMedian": "clustering",
    "PCA": "moments",
    "LinearRegression": "moments",
    "LogisticRegression": "moments",
    "Coreset": "coreset",
    "evaluate": "evaluation",
    "predict": "prediction",
    "align": "alignment",
    "split": "split",
}
"""What a policy may allow, and what a plan calls it."""

EXACT: Mapping[str, str] = {"Coreset": "coreset", "align": "alignment"}
"""What a policy may allow without differential privacy, and what a plan calls it."""


@dataclass(frozen=True)
class Terms:
    """The public facts about one party that a plan is checked against."""

    party: str
    schema: Schema
    federation: str
    alignment: str
    people: int
    parties: tuple[str, ...]
    capacity: int = 0
    """The declared length of its list of ids in an alignment; 0 if none is declared. The true length is not public."""
    union: bool = False
    """Whether its rows are in the order of a union, where nobody may learn who is in common."""
    version: int | None = None
    """The version of its data that its owner has declared, if any."""

    def described(self) -> Described:
        """Return what this party tells about itself and its row order."""
        return Described(
            party=self.party,
            schema=tuple(self.schema.items()),
            alignment=self.alignment,
            people=self.people,
            capacity=self.capacity,
            union=self.union,
        )


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A party's own rules. Everything not forbidden here still has to fit the ledger's cap.

    Parameters
    ----------
    max_epsilon
        The most that one release may cost; ``None`` for no rule beyond the ledger's cap.
    max_delta
        The largest δ of one release; ``None`` for no rule beyond the ledger's cap.
    max_peer_epsilon
        The most that a peer may learn, as an ε at the study's δ. It applies to studies whose price counts on a secret that peers
        know, such as which people are in a batch. ``None`` for no rule.
    columns
        The columns that may be used; ``None`` for every column of the schema.
    allow
        What is answered, by the estimators' names (``["PatternCount", "KMeans"]``) and by ``"evaluate"``, ``"predict"``,
        ``"align"`` and ``"split"``; ``None`` for everything. `PCA`, `LinearRegression` and `LogisticRegression` are fitted on one
        and the same release, so allowing one of them allows that release. The study itself says what it is, so this
        rule binds honest coordinators only. Caps, columns and ``nonprivate`` bind everybody.
    nonprivate
        What may be answered **without** differential privacy: ``"Coreset"`` (and every method of that name), and ``"align"`` for
        telling the coordinator exactly how many people are common. Empty by default.
    min_collusion
        The noise of secure studies must cover at least this many colluding data parties (or all but one, if there are fewer).
        Where a guarantee rests on a key or on secret batches (sketches, Poisson batches) there is no such noise:
        ``max_peer_epsilon`` caps what peers may learn there.
    min_threshold
        In secure studies at least this many compute nodes together must learn nothing; by default ⌊(N−1)/2⌋ of N.
    min_people
        Studies of fewer people are refused.
    event_level
        Whether to answer studies whose ε hides only steps of a stated size in a value, and not the value (`Moment` with a
        number as ``change``). The ledger records them at that ε, and marks them.
    predictions
        The recipients to which individual scores of a model may be opened, by the estimator's name. Scores are an
        individual-level output **without** differential privacy: anybody who chooses a model's weights chooses what its scores
        tell. Empty by default.
    alignments
        The modes in which rows may be aligned: ``"intersection"``, ``"cohort"``, ``"union"``. Telling the coordinator exactly
        how many people are common also takes ``"align"`` in ``nonprivate``.
    max_alignments, alignment_period
        How often this party's list may be matched with others within a number of days. Within that time a list that has changed
        is refused: comparing two alignments tells who came and who went.
    capacity
        The length of this party's list of ids as others see it: the list is filled up to this many. ``None`` declares nothing;
        then the study that aligns has to state it.

    Examples
    --------
    >>> Policy(max_epsilon=1.0, min_people=1_000).max_epsilon
    1.0
    """

    max_epsilon: float | None = None
    max_delta: float | None = None
    max_peer_epsilon: float | None = None
    columns: Sequence[str] | None = None
    allow: Sequence[str] | None = None
    nonprivate: Sequence[str] = ()
    min_collusion: int = 1
    min_threshold: int | None = None
    min_people: int = 1
    event_level: bool = False
    predictions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    alignments: Sequence[str] = ("intersection", "cohort", "union")
    max_alignments: int = 10
    alignment_period: float = 30.0
    capacity: int | None = None

    def __post_init__(self) -> None:
        check_names("allow", () if self.allow is None else self.allow, STUDIES)
        check_names("nonprivate", self.nonprivate, EXACT)
        self._check_alignment_rules()
        self._check_prediction_rules()
        if self.max_epsilon is not None:
            nano_epsilon(self.max_epsilon, what="max_epsilon")
        if self.max_peer_epsilon is not None:
            nano_epsilon(self.max_peer_epsilon, what="max_peer_epsilon")
        if not isinstance(self.min_people, int) or self.min_people < 1:
            raise BadInput("min_people must be a positive whole number.")
        floors: tuple[object, ...] = (self.min_collusion, self.min_threshold)
        if any(floor is not None and (type(floor) is not int or floor < 0) for floor in floors):
            raise BadInput("min_collusion and min_threshold are whole numbers, zero or more.")

    def _check_prediction_rules(self) -> None:
        rules: object = self.predictions
        if not isinstance(rules, Mapping) or any(
            isinstance(recipients, str) or not isinstance(recipients, Sequence) for recipients in rules.values()
        ):
            raise BadInput(
                "predictions maps models to lists of recipients.", remedy='For example {"LinearRegression": ["bank"]}.'
            )

    def _check_alignment_rules(self) -> None:
        if type(self.max_alignments) is not int or self.max_alignments < 0 or not self.alignment_period >= 0:
            raise BadInput("max_alignments is a whole number and alignment_period a number of days, neither negative.")
        if self.capacity is not None and (type(self.capacity) is not int or not 1 <= self.capacity <= LARGEST_CAPACITY):
            raise BadInput(f"capacity is a whole number from 1 to {LARGEST_CAPACITY:,}.")
        if isinstance(self.alignments, str) or not set(self.alignments) <= set(MODES):
            raise BadInput(f"alignments lists some of {', '.join(MODES)}.")

    def admit(
        self,
        plan: Plan,
        step: Step,
        terms: Terms,
        halves: Mapping[str, type[StepKind]] = KINDS,
        earlier: Earlier = nothing_earlier,
    ) -> StepKind:
        """Return a step as an object of its kind, or refuse it before any data is read.

        Parameters
        ----------
        plan, step, terms
            What is asked, and the public facts that it is checked against.
        halves
            Which classes steps become, by the name of their kind: the kinds by default, their private halves at a gate.
        earlier
            What the party released earlier in the same plan.
        """
        self._check_plan(plan, terms)
        kind = kind_of(step, halves)
        self._check_order(kind, terms)
        if kind.admission == Admission.ALIGNMENT:
            self._check_alignment(kind, step, terms)
        elif kind.admission == Admission.PREDICTION:
            self._check_prediction(plan, step, terms)
        elif kind.admission == Admission.COLUMNS:
            self._check_step(plan, kind, step, terms)
        admitted = kind(plan, step, terms.schema, earlier)
        self._check_peers(step, admitted)
        return admitted

    def _check_order(self, kind: type[StepKind], terms: Terms) -> None:
        on_a_union = kind.row_order_kind == RowOrderKind.UNION
        if kind.row_order_kind != RowOrderKind.ANY and terms.union != on_a_union:
            raise PolicyRefusal(
                "On a union of lists only secure pattern counts and moments are answered, and moments in its own way: anything "
                "else would be about people that the other party does not have.",
                remedy='Use PatternCount, PCA or a regression with method="secure", or align with mode="intersection".',
            )

    def _check_peers(self, step: Step, admitted: StepKind) -> None:
        """Refuse a step in which peers learn more than they may."""
        if self.max_peer_epsilon is None or step.price is None or not admitted.limits_peers:
            return
        loss = admitted.peer_loss
        if loss is None or not loss.fits(nano_epsilon(self.max_peer_epsilon), step.price.delta):
            raise PolicyRefusal(
                "Peers would learn more than this party's policy allows (max_peer_epsilon).",
                remedy="Lower epsilon, take fewer steps, or use sampling='balanced' with method='gradient'.",
            )

    def _check_plan(self, plan: Plan, terms: Terms) -> None:
        if plan.relation not in (RELATION, EVENT) or plan.version != PLAN_VERSION:
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
        if plan.data_versions.get(terms.party) != terms.version or not set(plan.data_versions) <= set(plan.parties):
            raise PlanMismatch("The plan asks about another version of this party's data.")
        plan.require_named()
        if len({(step.party, step.name) for step in plan.steps}) != len(plan.steps):
            raise PlanMismatch("The plan has two steps of the same name at one party.")
        if self.allow is not None and plan.task not in {STUDIES[name] for name in self.allow}:
            raise PolicyRefusal(
                "This party's policy does not allow this kind of study (allow).",
                remedy="Ask for a study that it allows, or ask the party to add its name to allow.",
            )
        if uses_compute_nodes(plan.steps):
            self._check_sharing(plan)
        if plan.people < self.min_people and not all(
            kind_of(step).admission == Admission.ALIGNMENT for step in plan.steps
        ):
            raise PolicyRefusal(
                f"The study covers fewer people than this party's policy requires (min_people={self.min_people})."
            )

    def _check_sharing(self, plan: Plan) -> None:
        """Refuse less noise or less secrecy than this party insists on. A coordinator may ask for more."""
        usual = default_threshold(
            len({*plan.parties, *plan.compute_nodes})
        )  # not of the nodes that a plan happens to choose
        floor = usual if self.min_threshold is None else self.min_threshold
        if plan.threshold < floor:
            raise PolicyRefusal("The plan shares secrets between fewer nodes than this party's policy requires.")
        if plan.collusion < min(self.min_collusion, max(usual, plan.threshold), len(plan.parties) - 1):
            raise PolicyRefusal("The plan's noise covers fewer colluding parties than this party's policy requires.")

    def _check_alignment(self, kind: type[StepKind], step: Step, terms: Terms) -> None:
        if not issubclass(kind, AligningStep) or kind.mode not in self.alignments:
            raise PolicyRefusal(
                f"The policy of party {terms.party!r} does not allow this mode of alignment (alignments)."
            )
        if step.parameters.get("size") == "declared" and not terms.people:
            raise PlanMismatch("No number of people was declared public when this party was opened.")
        if step.parameters.get("size") == "public" and "align" not in self.nonprivate:
            raise NonPrivateRefused(
                "The coordinator would learn exactly how many people are common, which this party's policy does not allow.",
                remedy='Align with epsilon= (a noisy number) or size="hidden", or allow it: nonprivate=("align",).',
            )
        capacity = step.parameters.get("capacity")
        if terms.capacity and isinstance(capacity, int) and capacity < terms.capacity:
            raise PolicyRefusal(
                "The plan would show this party's list as shorter than its policy declares.",
                remedy="Align with the capacity that the party declares.",
            )
        if step.price is not None:
            self._check_price(step.price)

    def _check_prediction(self, plan: Plan, step: Step, terms: Terms) -> None:
        """Refuse individual scores unless model and recipient are allowed. The recipient itself needs no columns in the model."""
        recipient = step.parameters.get("recipient")
        if step.price is not None or recipient not in self.predictions.get(plan.method, ()):
            raise NonPrivateRefused(
                f"Party {terms.party!r} does not allow individual scores of this model to be opened to that party.",
                remedy='Its policy names model and recipient: cn.Policy(predictions={"LogisticRegression": ["bank"]}).',
            )
        self._check_columns(step, terms, optional=recipient == terms.party)

    def _check_columns(self, step: Step, terms: Terms, *, optional: bool = False) -> None:
        unknown = [column for column in step.columns if column not in terms.schema]
        if unknown or not (step.columns or optional):
            raise SchemaMismatch(f"Party {terms.party!r} is asked for columns that are not in its schema.")
        if self.columns is not None and not {terms.schema.stored(column) for column in step.columns} <= set(
            self.columns
        ):
            raise PolicyRefusal(f"The policy of party {terms.party!r} does not allow one of the columns (columns).")

    def _check_step(self, plan: Plan, kind: type[StepKind], step: Step, terms: Terms) -> None:
        self._check_columns(step, terms)
        if step.price is None:
            self._check_disclosure(plan, kind)
            return
        self._check_price(step.price)

    def _check_disclosure(self, plan: Plan, kind: type[StepKind]) -> None:
        """Refuse what is not allowed by name. A permission is for what leaves, so the study's name in the plan has to agree."""
        permission = kind.permission or kind.name
        if permission not in {EXACT[name] for name in self.nonprivate} or plan.task != permission:
            raise NonPrivateRefused(
                "The step is not differentially private, and this party's policy does not allow it."
            )

    def _check_price(self, price: Price) -> None:
        if self.max_epsilon is not None and price.nano > nano_epsilon(self.max_epsilon):
            raise PolicyRefusal(
                f"This party's policy allows an epsilon of at most {self.max_epsilon:g} per release (max_epsilon).",
                remedy=f"Pass epsilon={self.max_epsilon:g} or less.",
            )
        if self.max_delta is not None and price.delta > self.max_delta:
            raise PolicyRefusal(
                f"This party's policy allows a delta of at most {self.max_delta:g} per release (max_delta).",
                remedy=f"Pass delta={self.max_delta:g} or less.",
            )


def check_names(rule: str, names: Sequence[str], known: Mapping[str, object]) -> None:
    """Refuse a name that a rule does not know; suggest the nearest one that it knows."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise BadInput(f"{rule} is a list of names.", remedy=f'For example {rule}=["{next(iter(known))}"].')
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(str(name).casefold(), [one.casefold() for one in known], n=1, cutoff=0.5)
            meant = [one for one in known if one.casefold() in close]
            hint = f"Did you mean {meant[0]!r}? " if meant else ""
            raise BadInput(f"{rule} cannot name {name!r}.", remedy=f"{hint}It takes {', '.join(known)}.")
