"""`Policy`: what a party agrees to answer. It is checked before any data is read, and only public facts enter.

A coordinator can ask for more noise than the policy wants, never for less. The party itself computes the noise from the price,
and its policy caps the price.

What a party allows one requester: caps for each analyst and purpose, and studies that wait for the owner's approval.

All of it follows from the plan, the policy, the words that came with the request, and the ledger. No row of data enters, so a
refusal tells nothing about one.

*Who asks.* A requester is an analyst who has signed the request (`colonnade.plan.About`), and otherwise the coordinator. Rows of
the ledger keep those words, so what somebody has spent is added up from the ledger itself.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from colonnade.errors import (
    ApprovalNeeded,
    BadInput,
    BudgetExceeded,
    NonPrivateRefused,
    PlanMismatch,
    PolicyRefusal,
    ReleaseLost,
    SchemaMismatch,
)
from colonnade.party.ledger.decisions import Allowance, Approval, RefusedStudy
from colonnade.party.ledger.ledger import Hold
from colonnade.party.ledger.rows import Entry
from colonnade.plan import EVENT, PLAN_VERSION, RELATION, About, Plan, Step
from colonnade.privacy.accounting import Loss, Price, nano_epsilon, total
from colonnade.protocol import messages
from colonnade.protocol.messages import Described
from colonnade.result import COORDINATOR
from colonnade.schema import Schema
from colonnade.secure.keys import PublicIdentity
from colonnade.steps.alignment import LARGEST_CAPACITY, MODES, AligningStep, MatchingStep
from colonnade.steps.kind import (
    Admission,
    Earlier,
    RowOrderKind,
    SharingFloor,
    StepKind,
    kind_of,
    nothing_earlier,
    require_known,
    uses_compute_nodes,
)
from colonnade.steps.registry import EXACT, STUDIES

POLICY = "this party's policy"


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
    version: int = 1
    """The version of its data that its owner has declared."""
    analysts: Mapping[str, PublicIdentity] = field(default_factory=dict)
    """Who may sign requests, by name, with their public keys."""

    def described(self, policy: "Policy") -> Described:
        """Return what this party tells about itself, its row order and its rules for compute nodes."""
        return Described(
            party=self.party,
            schema=tuple(self.schema.items()),
            alignment=self.alignment,
            people=self.people,
            capacity=self.capacity,
            union=self.union,
            version=self.version,
            compute_for_others=policy.compute_for_others,
            compute_nodes=None if policy.compute_nodes is None else tuple(policy.compute_nodes),
        )

    def require_version(self, plan: Plan) -> None:
        """Refuse a plan about another version of this party's data. What is said follows from the plan and the declared version.

        Reservations, kept answers and kept row orders belong to the plans of one version, so they end with it: for everybody
        alike, and whether or not a row has changed.
        """
        if self.party not in plan.parties:
            return  # it computes on shares only
        if set(plan.data_versions) != set(plan.parties):
            raise PlanMismatch("The plan does not say which data version of each of its parties it asks about.")
        if plan.data_versions[self.party] != self.version:
            raise ReleaseLost(
                f"The plan asks about data version {plan.data_versions[self.party]}, and this party's owner has declared "
                f"version {self.version}.",
                remedy="Open the federation again and call again: what is kept of a data version ends with that version.",
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
        ``"align"`` and ``"split"``; ``None`` for everything. `PCA`, `SyntheticTable`, regressions, additive models and
        scorecards are fitted on the same kinds of release, so allowing one of them allows that release. The study itself says
        what it is, so this rule binds honest coordinators only. Caps, columns and ``nonprivate`` bind everybody.
    nonprivate
        What may be answered **without** differential privacy: ``"Coreset"`` (and every method of that name), and ``"align"`` for
        telling the coordinator exactly how many people are common. Empty by default.
    min_collusion
        In secure studies the noise must cover at least this many colluding data parties (or all but one of the study's parties: a
        larger coalition has all the data), and at least this many compute nodes together must learn nothing, however few
        members a plan names. Where a guarantee rests on a key or on secret batches (sketches, Poisson batches) there is no such
        noise: ``max_peer_epsilon`` caps what peers may learn there.
    min_threshold
        In secure studies at least this many compute nodes together must learn nothing. The federation's papers ask for
        ``threshold`` in any case, and ``min_collusion`` for as many as it names.
    compute_for_others
        Whether this party computes on shares in studies that use none of its data.
    compute_nodes
        The members that may compute on shares of this party's data besides itself; ``None`` for every member that the
        federation's papers let compute.
    direct_links
        Whether this party's sealed letters may go to other members directly, where ``colonnade party serve --direct`` asks for
        it, and not only through the coordinator.
    min_people
        Studies of fewer people are refused. Places of the row order count, which are public; whether this party has the person at
        a place is not.
    event_level
        Whether to answer studies whose ε hides only steps of a stated size in a value, and not the value (`Moment` with a
        number as ``change``). The ledger records them at that ε, and marks them.
    predictions
        The recipients to which individual scores of a model may be opened, by the estimator's name. Scores are an
        individual-level output **without** differential privacy: anybody who chooses a model's weights chooses what its scores
        tell. Empty by default.
    alignments
        The modes in which rows may be aligned: ``"cohort"`` (by default the only one), ``"intersection"``, ``"union"``. An
        intersection tells every party exactly which of its own ids all the others have, and a union tells one party how many are
        in common. Neither is differentially private: name them only where that may be told. Each is a line in the ledger. Telling
        the coordinator exactly how many people are common also takes ``"align"`` in ``nonprivate``.
    max_alignments, alignment_period
        How many attempts at an alignment, in any mode, are answered within a number of days. Within that time the list is not
        matched again under a new data version, whether or not it has changed: comparing two matchings tells who came and who
        went.
    capacity
        The length of this party's list of ids as others see it: the list is filled up to this many, and a table with more ids is
        refused when its owner opens it. ``None`` declares nothing: then this party takes part in no matching of lists.
    requesters
        The most that the studies of each requester may cost together, as an ε at the δ of the ledger's cap, by the analyst's
        name; ``"coordinator"`` for studies that no analyst has signed. Anybody not listed is refused. ``None`` for no rule.
    purposes
        The same for each purpose, by its exact words; ``""`` for studies without one. A purpose is what somebody says, so this
        rule divides a budget between honest requesters.
    approve_above
        Studies that take their requester's total above this ε wait for this party's owner (``colonnade party approve``), and
        so does everything that is not differentially private. ``None`` for no rule; 0 for every study.

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
    compute_for_others: bool = True
    compute_nodes: Sequence[str] | None = None
    direct_links: bool = True
    min_people: int = 1
    event_level: bool = False
    predictions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    alignments: Sequence[str] = ("cohort",)
    max_alignments: int = 10
    alignment_period: float = 30.0
    capacity: int | None = None
    requesters: Mapping[str, float] | None = None
    purposes: Mapping[str, float] | None = None
    approve_above: float | None = None

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
            raise BadInput("min_people must be a positive whole number.", remedy="For example min_people=1000.")
        floors: tuple[object, ...] = (self.min_collusion, self.min_threshold)
        if any(floor is not None and (type(floor) is not int or floor < 0) for floor in floors):
            raise BadInput(
                "min_collusion and min_threshold are whole numbers, zero or more.",
                remedy="For example min_collusion=1, min_threshold=1.",
            )
        self._check_compute_rules()
        self._check_requester_rules()

    def _check_requester_rules(self) -> None:
        for rule, caps in (("requesters", self.requesters), ("purposes", self.purposes)):
            if caps is None:
                continue
            if not isinstance(caps, Mapping) or any(not isinstance(name, str) for name in caps):
                raise BadInput(
                    f"{rule} maps names to an epsilon.", remedy=f'For example {rule}={{"analyst@telco": 0.5}}.'
                )
            for cap in caps.values():
                nano_epsilon(cap, what=rule)
        if self.approve_above is not None and self.approve_above != 0:
            nano_epsilon(self.approve_above, what="approve_above")

    @property
    def judges_requesters(self) -> bool:
        """Whether it matters who asks, or what for."""
        return not (self.requesters is None and self.purposes is None and self.approve_above is None)

    def _check_compute_rules(self) -> None:
        for rule in ("compute_for_others", "direct_links"):
            if not isinstance(getattr(self, rule), bool):
                raise BadInput(f"{rule} is true or false.", remedy=f"For example {rule}=False.")
        nodes: object = self.compute_nodes
        if nodes is not None and (
            isinstance(nodes, str)
            or not isinstance(nodes, Sequence)
            or any(not isinstance(node, str) for node in nodes)
        ):
            raise BadInput("compute_nodes is a list of members' names.", remedy='For example compute_nodes=["notary"].')

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
            raise BadInput(
                "max_alignments is a whole number and alignment_period a number of days, neither negative.",
                remedy="For example max_alignments=4, alignment_period=30.",
            )
        if self.capacity is not None and (type(self.capacity) is not int or not 1 <= self.capacity <= LARGEST_CAPACITY):
            raise BadInput(
                f"capacity is a whole number from 1 to {LARGEST_CAPACITY:,}.",
                remedy="For example capacity=100_000: at least as many as the table has ids.",
            )
        if isinstance(self.alignments, str) or not set(self.alignments) <= set(MODES):
            raise BadInput(
                f"alignments lists some of {', '.join(MODES)}.",
                remedy='For example alignments=["cohort", "intersection"].',
            )

    def admit(self, plan: Plan, step: Step, terms: Terms, earlier: Earlier = nothing_earlier) -> StepKind:
        """Return a step as an object of its kind, or refuse it before any data is read.

        Parameters
        ----------
        plan, step, terms
            What is asked, and the public facts that it is checked against.
        earlier
            What the party released earlier in the same plan.
        """
        self._check_plan(plan, terms)
        kind = kind_of(step)
        self._check_order(kind, terms)
        if kind.admission == Admission.ALIGNMENT:
            self._check_alignment(kind, step, terms)
        elif kind.admission == Admission.PREDICTION:
            self._check_prediction(plan, step, terms)
        elif kind.admission == Admission.COLUMNS:
            self._check_step(plan, kind, step, terms)
        admitted = kind(plan, step, step.read(terms.schema), earlier)
        self._check_peers(step, admitted)
        return admitted

    def _check_order(self, kind: type[StepKind], terms: Terms) -> None:
        on_a_union = kind.row_order_kind == RowOrderKind.UNION
        if kind.row_order_kind != RowOrderKind.ANY and terms.union != on_a_union:
            raise PolicyRefusal(
                "On a union of lists only secure pattern counts, groups and moments are answered, and moments in its own way: "
                "anything else would be about people that the other party does not have.",
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

    def admit_computing(self, plan: Plan, party: str) -> None:
        """Refuse a plan in which this party is to compute on shares of others' data, if its rules are against it."""
        require_known(plan)
        if not self.compute_for_others and not plan.steps_of(party):
            raise PolicyRefusal(
                "This party does not compute for studies that use none of its data (compute_for_others).",
                remedy="Let other members compute: nodes without data (compute_nodes=[...]), or other parties.",
            )
        SharingFloor(nodes=self._accepted_nodes(party)).check(plan, POLICY)

    def _check_plan(self, plan: Plan, terms: Terms) -> None:
        require_known(plan)
        if plan.relation not in (RELATION, EVENT) or plan.version != PLAN_VERSION:
            raise PlanMismatch("The plan uses another neighbouring relation or version.")
        if plan.relation == EVENT and not self.event_level:
            raise PolicyRefusal(
                "The study promises privacy for steps in a value only (event level), which this party's policy does not allow.",
                remedy='Ask with change="bounds", or have the party allow it: cn.Policy(event_level=True).',
            )
        terms.require_version(
            plan
        )  # first: row orders of another version are not known any more, and are no other mistake
        if (plan.federation, plan.alignment, plan.people) != (terms.federation, terms.alignment, terms.people):
            raise PlanMismatch("The plan was made for another federation or another alignment of rows.")
        if not set(plan.parties) <= set(terms.parties) or len(set(plan.parties)) != len(plan.parties):
            raise PlanMismatch("The plan names parties that are not in this federation.")
        plan.require_current()
        plan.require_named()
        if len({(step.party, step.name) for step in plan.steps}) != len(plan.steps):
            raise PlanMismatch("The plan has two steps of the same name at one party.")
        if self.allow is not None and plan.task not in {STUDIES[name] for name in self.allow}:
            raise PolicyRefusal(
                "This party's policy does not allow this kind of study (allow).",
                remedy="Ask for a study that it allows, or ask the party to add its name to allow.",
            )
        if uses_compute_nodes(plan.steps):
            self._check_sharing(plan, terms.party)
        if plan.people < self.min_people and not all(
            kind_of(step).admission == Admission.ALIGNMENT for step in plan.steps
        ):
            raise PolicyRefusal(
                f"The study covers fewer people than this party's policy requires (min_people={self.min_people})."
            )

    def _check_sharing(self, plan: Plan, party: str) -> None:
        """Refuse less noise or less secrecy than this party insists on. A coordinator may ask for more."""
        threshold = max(self.min_collusion, self.min_threshold or 1)
        SharingFloor(threshold, self.min_collusion, self._accepted_nodes(party)).check(plan, POLICY)

    def _accepted_nodes(self, party: str) -> frozenset[str] | None:
        return None if self.compute_nodes is None else frozenset((party, *self.compute_nodes))

    def _check_alignment(self, kind: type[StepKind], step: Step, terms: Terms) -> None:
        if not issubclass(kind, AligningStep) or kind.mode not in self.alignments:
            raise PolicyRefusal(
                f"The policy of party {terms.party!r} does not allow this mode of alignment (alignments).",
                remedy="Use a mode that it allows, or ask its owner to name this one: an intersection tells peers who is in "
                "common, and a union how many are.",
            )
        if issubclass(kind, MatchingStep):
            self._check_capacity(step, terms)
        if step.parameters.get("size") == "declared" and not terms.people:
            raise PlanMismatch("No number of people was declared public when this party was opened.")
        if step.parameters.get("size") == "public" and "align" not in self.nonprivate:
            raise NonPrivateRefused(
                "The coordinator would learn exactly how many people are common, which this party's policy does not allow.",
                remedy='Align with epsilon= (a noisy number) or size="hidden", or allow it: nonprivate=("align",).',
            )
        if step.price is not None:
            self._check_price(step.price)

    def _check_capacity(self, step: Step, terms: Terms) -> None:
        """Refuse a plan that shows a list as shorter than declared. The true length enters nowhere."""
        if not terms.capacity:
            raise PolicyRefusal(
                f"Party {terms.party!r} has not declared how long its list of ids looks to others (capacity), so it takes "
                "part in no matching of lists.",
                remedy="Its owner declares it: cn.Policy(capacity=...), or capacity in policy.toml.",
            )
        capacity = step.parameters.get("capacity")
        if isinstance(capacity, int) and capacity < terms.capacity:
            raise PolicyRefusal(
                "The plan would show this party's list as shorter than its policy declares.",
                remedy="Align with the capacity that the party declares.",
            )

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
        schema = step.read(terms.schema)
        unknown = [column for column in step.columns if column not in schema]
        if unknown or not (step.columns or optional):
            raise SchemaMismatch(
                f"Party {terms.party!r} is asked for columns that are not in its schema.",
                remedy="Name columns as list(federation.describe()) lists them.",
            )
        stored = {own for column in step.columns for own in schema.stored(column)}
        if self.columns is not None and not stored <= set(self.columns):
            raise PolicyRefusal(f"The policy of party {terms.party!r} does not allow one of the columns (columns).")

    def _check_step(self, plan: Plan, kind: type[StepKind], step: Step, terms: Terms) -> None:
        self._check_columns(step, terms, optional=kind.without_columns)
        if not step.columns and not self.compute_for_others:
            raise PolicyRefusal(
                "This party adds no noise to studies that use none of its data (compute_for_others).",
                remedy="Ask without helpers: method=cn.methods.Groups(helpers=False).",
            )
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


def requester_of(about: About | None) -> str:
    """Return who asks: the analyst who signed, and otherwise the coordinator. The signature was checked before."""
    return about.requester if about is not None and about.signature else COORDINATOR


@dataclass(frozen=True)
class Permission:
    """The rules of one party about requesters, as they stand.

    Parameters
    ----------
    policy
        The party's rules.
    party
        Its name.
    delta
        The δ of its ledger's cap, at which caps are compared.
    entries
        The rows of its ledger.
    now
        What the ledger's clock shows.
    held
        What is held for other studies: it counts as if it were spent.
    """

    policy: Policy
    party: str
    delta: float
    entries: Sequence[Entry]
    now: datetime
    held: Sequence[Hold] = ()

    def require(self, plan: Plan, about: About | None, cost: Loss, *, discloses: bool) -> None:
        """Refuse a study that its requester may not have, or that waits for an approval.

        Parameters
        ----------
        plan
            The study.
        about
            What is said about it.
        cost
            What it would still cost.
        discloses
            Whether something leaves without differential privacy.
        """
        who = requester_of(about)
        spent = self._spent(lambda entry: requester_of(entry.about) == who, lambda hold: hold.requester == who)
        self._require_cap("requester", self.policy.requesters, who, spent + cost)
        purpose = "" if about is None else about.purpose
        for_it = self._spent(
            lambda entry: entry.about is not None and entry.about.purpose == purpose,
            lambda hold: hold.purpose == purpose,
        )
        self._require_cap("purpose", self.policy.purposes, purpose, for_it + cost)
        if self._is_above(spent + cost, discloses=discloses) and not self.approved(plan):
            raise ApprovalNeeded(
                f"This study waits for the approval of party {self.party!r} (approve_above).",
                remedy="Have its operator look at it and approve it (colonnade party approve FOLDER), then call again.",
            )

    def waiting(self, refused: Sequence[RefusedStudy], version: int) -> list[RefusedStudy]:
        """Return the studies that wait for an approval, each once and the latest first, of the present data version."""
        found: dict[bytes, RefusedStudy] = {}
        for study in reversed(refused):
            plan = study.plan
            if study.code != ApprovalNeeded.code or plan is None or study.hash in found:
                continue
            paid = any(entry.plan == study.hash for entry in self.entries)
            if plan.data_versions.get(self.party) == version and not paid and not self.approved(plan):
                found[study.hash] = study
        return list(found.values())

    def _is_above(self, after: Loss, *, discloses: bool) -> bool:
        limit = self.policy.approve_above
        if limit is None:
            return False
        return discloses or limit == 0 or not after.fits(nano_epsilon(limit), self.delta)

    def approved(self, plan: Plan) -> bool:
        """Return whether the owner has approved this plan, on this data version, and the approval has not ended."""
        wanted = (messages.digest(plan).hex(), plan.data_versions.get(self.party))
        now = int(self.now.timestamp() * 1_000_000)
        return any(
            isinstance(entry.decision, Approval)
            and (entry.decision.plan, entry.decision.version) == wanted
            and now < entry.decision.until
            for entry in self.entries
        )

    def _spent(self, of: Callable[[Entry], bool], for_whom: Callable[[Hold], bool]) -> Loss:
        paid = [entry.loss for entry in self.entries if entry.loss is not None and entry.plan is not None and of(entry)]
        return total((*paid, *(hold.loss for hold in self.held if for_whom(hold))))

    def _require_cap(self, of: str, caps: Mapping[str, float] | None, name: str, after: Loss) -> None:
        if caps is None:
            return
        raised = [
            entry.decision.nano
            for entry in self.entries
            if isinstance(entry.decision, Allowance) and (entry.decision.of, entry.decision.name) == (of, name)
        ]
        if not raised and name not in caps:
            raise PolicyRefusal(
                f"The policy of party {self.party!r} lists every {of} that it answers, and this one is not among them "
                f"({of}s).",
                remedy=f"Ask its operator to add the {of} to its policy, or ask as one that is listed.",
            )
        cap = raised[-1] if raised else nano_epsilon(caps[name])
        if not after.fits(cap, self.delta):
            raise BudgetExceeded(
                f"This would take the {of} past its cap at party {self.party!r} ({of}s).",
                remedy=f"Ask for less, or have the operator raise it: colonnade ledger raise FOLDER --{of} NAME.",
            )
