"""What a party was asked, in words: the one place that says a row of its ledger, or a request, to a person.

A sentence has five parts: when, what, who asked, at what price, to whom. *What* comes from the plan. The party keeps it, and its
rows name it by hash, so nobody can say otherwise later. The title in front of it, and the purpose, are what somebody has said.
They are the analyst's own words where the signature is theirs; otherwise they are words "according to the coordinator".

Every text that a coordinator could have chosen is written on one line without control characters (`colonnade.plan.one_line`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from colonnade.errors import ColonnadeError
from colonnade.party.ledger.chain import LedgerView
from colonnade.party.ledger.decisions import RefusedStudy
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import Entry
from colonnade.plan import About, Plan, Step, one_line
from colonnade.protocol import messages
from colonnade.protocol.agreement import read_agreement
from colonnade.result import COORDINATOR
from colonnade.schema import ColumnName, columns_at
from colonnade.secure.keys import PublicIdentity
from colonnade.steps.alignment import AligningStep
from colonnade.steps.kind import Admission, StepKind, kind_of

Keys = Mapping[str, PublicIdentity]
"""The analysts of a federation's papers, by name."""
PlansByHash = Mapping[bytes, Plan]

OWN_ROWS = {
    "genesis": "the ledger was made",
    "cap": "the cap was set",
    "version": "a data version was declared",
    "forfeit": "charged without a release: spent elsewhere, and not in this file",
    "migrated": "the file was brought to a newer format",
}
"""Rows that the party's owner wrote, not a request."""
STAGES = {
    "opening": "opened: ",
    "key": "key agreed on: ",
    "alignment": "row order kept: ",
    "list": "attempt to align rows: ",
}
"""Rows of a request that cost nothing."""
TOLD_BY = {
    "intersection": "which of its own ids all parties have, told to every party exactly",
    "union": "how many people are in common, told to one party exactly",
}
"""What an alignment tells peers, by its mode. None of it is differentially private."""


def parse_plan(content: bytes | None) -> Plan | None:
    """Return a plan from its canonical bytes; ``None`` if there are none, or if they are of another version of plans."""
    try:
        return None if content is None else messages.decode(content, Plan)
    except ColonnadeError:
        return None


def epsilon_in_words(epsilon: float | None) -> str:
    """Return a price on a line: "ε 0.98", or that nothing bounds it.

    Examples
    --------
    >>> epsilon_in_words(0.98), epsilon_in_words(None)
    ('ε 0.98', 'ε ∞ (not differentially private)')
    """
    return "ε ∞ (not differentially private)" if epsilon is None else f"ε {epsilon:.4g}"


class Provenance(StrEnum):
    """How far it is known who asked."""

    SIGNED = "signed"
    """The named analyst has signed these words for this plan."""
    OTHER_KEY = "signed with a key that the papers do not name now"
    CLAIMED = "according to the coordinator"
    FORGED = "the signature is not valid"


@dataclass(frozen=True)
class Requester:
    """Who asked for a study, and how far that is known.

    Parameters
    ----------
    name
        As somebody gave it; may be empty.
    provenance
        How far it is known.
    """

    name: str
    provenance: Provenance

    @classmethod
    def of(cls, about: About | None, plan: bytes | None, keys: Keys | None = None) -> "Requester":
        """Judge what was said about a study.

        Parameters
        ----------
        about
            What was said.
        plan
            The hash of the study's plan.
        keys
            The analysts of the papers; ``None`` where there are no papers at hand.
        """
        if about is None or not about.signature:
            return cls("" if about is None else one_line(about.requester), Provenance.CLAIMED)
        key = None if plan is None else about.signer(plan)
        if key is None:
            return cls(one_line(about.requester), Provenance.FORGED)
        named = keys is None or keys.get(about.requester) == key
        return cls(one_line(about.requester), Provenance.SIGNED if named else Provenance.OTHER_KEY)

    def words(self) -> str:
        """Return who asked, in words.

        Examples
        --------
        >>> Requester("analyst@telco", Provenance.SIGNED).words()
        'asked by analyst@telco'
        >>> Requester("", Provenance.CLAIMED).words()
        'asked by somebody unnamed, according to the coordinator'
        """
        name = f"asked by {self.name or 'somebody unnamed'}"
        return name if self.provenance is Provenance.SIGNED else f"{name}, {self.provenance}"


@dataclass(frozen=True)
class LedgerNarrator:
    """Whose ledger is read, and with what at hand.

    Parameters
    ----------
    party
        Whose ledger it is.
    delta
        The δ at which losses are shown: the cap's.
    plans
        The plans that rows refer to, by hash.
    keys
        The analysts of the papers; ``None`` where there are no papers at hand.
    owner
        What the party's own columns are called: "yours" towards the party itself.
    """

    party: str
    delta: float
    plans: PlansByHash = field(default_factory=dict)
    keys: Keys | None = None
    owner: str = "yours"

    def row(self, entry: Entry) -> "RowInWords":
        """Say one row."""
        plan = self.plans.get(entry.plan or b"")
        step = None if plan is None else _step(plan, self.party, entry)
        what = self._what(entry, plan, step)
        return RowInWords(
            sequence=entry.sequence,
            kind=entry.kind,
            when=entry.when,
            what=what,
            title="" if entry.about is None else one_line(entry.about.title),
            purpose="" if entry.about is None else one_line(entry.about.purpose, 1_000),
            requester=None if entry.plan is None else Requester.of(entry.about, entry.plan, self.keys),
            epsilon=None if entry.loss is None else entry.loss.epsilon(self.delta),
            is_private=entry.kind != "nonprivate",
            readers="" if plan is None else _readers(plan, step, entry),
            columns=() if plan is None else self.columns(plan, step),
            plan="" if entry.plan is None else entry.plan.hex(),
            version=entry.version,
        )

    def refusal(self, study: RefusedStudy) -> str:
        """Say a study that was refused, in one line."""
        plan, about = study.plan, study.about
        title = "" if about is None or not about.title else f"{one_line(about.title)}: "
        what = "a study whose plan is not shown" if plan is None else self.study(plan)
        purpose = f"for: {one_line(about.purpose, 1_000)}" if about is not None and about.purpose else ""
        price = "" if plan is None else epsilon_in_words(None if plan.price is None else plan.price.epsilon)
        asked = Requester.of(about, study.hash, self.keys).words()
        when, why = f"{study.time:%Y-%m-%d %H:%M}", f"refused: {study.code}"
        parts = (when, f"{title}{what}", asked, purpose, price, "" if plan is None else _told_exactly(plan), why)
        return " · ".join(part for part in parts if part)

    def _what(self, entry: Entry, plan: Plan | None, step: Step | None) -> str:
        if entry.request is None:
            return _own_row(entry)
        if plan is None:  # of before plans were kept
            return one_line(entry.label)
        level = ", event level" if entry.event_level else ""
        kind = None if step is None else _kind(step)
        if kind is not None and issubclass(kind, AligningStep):
            return STAGES.get(entry.kind, "") + _of_alignment(entry, kind)
        return STAGES.get(entry.kind, "") + self.study(plan, step) + level

    def study(self, plan: Plan, step: Step | None = None) -> str:
        """Say what a plan asks for, or one step of it: what is released, of how many columns, and how many are this party's."""
        steps = [step] if step is not None else list(plan.steps_of(self.party)) or list(plan.steps)
        titles = dict.fromkeys(kind_in_words(one) for one in steps)
        columns = self.columns(plan, step)
        own = columns_at(self.party, columns)
        if not columns:
            return "; ".join(titles)
        count = f"{len(columns)} column{'s' if len(columns) > 1 else ''}"
        return f"{'; '.join(titles)}, of {count} ({len(own)} of {self.owner})"

    def columns(self, plan: Plan, step: Step | None = None) -> tuple[str, ...]:
        """Return the columns that a plan, or the whole step that a party's step is part of, is about."""
        steps = plan.steps if step is None else [one for one in plan.steps if one.name == step.name]
        return tuple(
            dict.fromkeys(one_line(str(ColumnName(one.party, column))) for one in steps for column in one.columns)
        )


@dataclass(frozen=True)
class RowInWords:
    """A row of a ledger, as a person reads it. No cell holds a control character."""

    sequence: int
    kind: str
    when: datetime
    what: str
    title: str
    purpose: str
    requester: Requester | None
    """Who asked; ``None`` for a row that nobody asked for, or of before that was kept."""
    epsilon: float | None
    """What it cost, at the cap's δ; ``None`` for a row without a loss."""
    is_private: bool
    readers: str
    columns: tuple[str, ...]
    plan: str
    version: int | None

    @property
    def price(self) -> str:
        """What it cost, in words; empty for a row that releases nothing."""
        return epsilon_in_words(self.epsilon) if self.epsilon is not None or not self.is_private else ""

    @property
    def study(self) -> str:
        """Title, and what was released."""
        return f"{self.title}: {self.what}" if self.title else self.what

    def sentence(self) -> str:
        """Return the row in one line: when, what, who asked, what for, at what price, to whom."""
        asked = "" if self.requester is None else self.requester.words()
        purpose = f"for: {self.purpose}" if self.purpose else ""
        parts = (f"{self.when:%Y-%m-%d %H:%M}", self.study, asked, purpose, self.price, self.readers)
        return " · ".join(part for part in parts if part)


def read_rows(ledger: SqliteLedger, keys: Keys | None = None) -> list[RowInWords]:
    """Say every row of an open ledger.

    Parameters
    ----------
    ledger
        The ledger.
    keys
        The analysts of the papers; ``None`` where there are no papers at hand.
    """
    entries = ledger.entries()
    narrator = LedgerNarrator(ledger.party, ledger.budget.delta, plans_of(ledger, entries), keys)
    return [narrator.row(entry) for entry in entries]


def analysts_beside(ledger: Path) -> Keys | None:
    """Return the analysts of the papers in a party's folder; ``None`` where a ledger stands without papers."""
    papers = ledger.parent / "federation.toml"
    return read_agreement(papers).check().analyst_keys() if papers.is_file() else None


def plans_of(ledger: SqliteLedger | LedgerView, entries: Sequence[Entry]) -> PlansByHash:
    """Return the plans that rows refer to, by hash."""
    hashes = dict.fromkeys(entry.plan for entry in entries if entry.plan is not None)
    found = {digest: parse_plan(ledger.plan(digest)) for digest in hashes}
    return {digest: plan for digest, plan in found.items() if plan is not None}


def _own_row(entry: Entry) -> str:
    words = OWN_ROWS.get(entry.kind, one_line(entry.label))
    if entry.decision is not None:
        reason = f" ({entry.decision.reason})" if entry.decision.reason else ""
        words = f"decided by the owner, signed: {entry.decision.words()}{reason}"
    if entry.budget is not None:
        return f"{words}; the cap is ε {entry.budget.epsilon:.6g} at δ {entry.budget.delta:g}"
    return f"{words}: {entry.version}" if entry.kind == "version" else words


def _step(plan: Plan, party: str, entry: Entry) -> Step | None:
    """Return the step that a row is about: its request id follows from it, or it is the only one of this party."""
    steps: Sequence[Step] = plan.steps_of(party)
    found = [one for one in steps if messages.request_identity(plan, party, one.name) == entry.request]
    named = found or [one for one in steps if f" {one.name} " in entry.label]
    return named[0] if len(named) == 1 else steps[0] if len(steps) == 1 else None


def _told_exactly(plan: Plan) -> str:
    """Say what an alignment tells parties beside what it releases: the price covers none of it."""
    told = {kind.told for kind in map(_kind, plan.steps) if kind is not None and issubclass(kind, AligningStep)} - {""}
    return f"tells parties exactly {', '.join(sorted(told))}, without differential privacy" if told else ""


def kind_in_words(step: Step) -> str:
    """Say what a step releases."""
    kind = _kind(step)
    if kind is not None and issubclass(kind, AligningStep) and kind.told:
        return f"{TOLD_BY[kind.mode]}; {SIZES[str(step.parameters['size'])]}"
    return "something that this version does not know" if kind is None else kind.title


SIZES = {
    "noisy": "the number of people, with discrete Laplace noise, to the coordinator",
    "public": "the exact number of people, to the coordinator",
    "declared": "no number",
    "hidden": "no number",
}


def _of_alignment(entry: Entry, kind: type[AligningStep]) -> str:
    """Say one row of an alignment: each is about one of the things that an alignment tells, and most about none."""
    if entry.kind == "nonprivate":
        return "the exact number of people in common" if _is_size(entry) else TOLD_BY[kind.mode]
    return kind.title if entry.loss is not None else kind.mode


def _is_size(entry: Entry) -> bool:
    """Whether a row of an alignment is about the number of people, which goes to the coordinator."""
    return entry.loss is not None or entry.label.endswith(" size")


def _kind(step: Step) -> type[StepKind] | None:
    try:
        return kind_of(step)
    except ColonnadeError:
        return None


def _readers(plan: Plan, step: Step | None, entry: Entry) -> str:
    """Say who learns the result."""
    steps = plan.steps if step is None else (step,)
    recipients = {str(one.parameters["recipient"]) for one in steps if "recipient" in one.parameters} - {COORDINATOR}
    if recipients:
        return "to " + ", ".join(sorted(map(one_line, recipients)))
    kinds = {kind.admission for kind in map(_kind, steps) if kind is not None}
    if kinds == {Admission.ALIGNMENT} and not _is_size(entry):
        return f"to {', '.join(plan.parties)}"
    return "among the parties" if kinds == {Admission.NOTHING} else "to the coordinator"
