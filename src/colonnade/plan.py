"""A study before it runs: what is asked, of whom, at what price.

A plan is public, complete and immutable. Its canonical bytes have a hash (`colonnade.protocol.messages.digest`), every party
checks that very plan against its own policy before it answers anything, and a request is identified by the plan's hash: the
same plan asked again is the same question, and gets the same answer at no further price.

*Who asks, and what for* (`About`). The coordinator is not a trust anchor, so what it says about a study is worth as much as the
coordinator. An *analyst* has a key. A member of the federation introduces the analyst, and the public key then stands in the
federation's papers. The analyst signs title, purpose and name together with the hash of the plan. Nobody else can put these
words beside another plan, or other words beside this one. The public key is kept with the signature, so that a ledger can be
checked years later by somebody who has nothing but the file; the papers say whose key it is.
"""

import re
from collections.abc import Mapping

import msgspec

from colonnade.errors import BadInput, ColonnadeError, PlanMismatch, ProtocolError
from colonnade.privacy.accounting import Price, Unit
from colonnade.schema import Column, ColumnName, Schema
from colonnade.secure.keys import Identity, PublicIdentity, frame

PLAN_VERSION = 3
"""Of how steps are priced and coded. A ledger may hold plans of older versions; none is answered any more."""
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
    readings
        What some of the columns are read as, instead of what is declared (`colonnade.schema.column`); left out where
        there is none.
    """

    name: str
    party: str
    kind: str
    columns: tuple[str, ...]
    parameters: dict[str, Parameter] = {}
    price: Price | None
    readings: dict[str, Column] | msgspec.UnsetType = msgspec.UNSET

    def read(self, schema: Schema) -> Schema:
        """Return its party's columns as this step reads them; refuse a reading that does not refine what is declared."""
        if self.readings is msgspec.UNSET:
            return schema
        if not self.readings or not set(self.readings) <= set(self.columns):
            raise PlanMismatch("A step says how to read columns that it does not ask for.")
        try:
            return schema.read_as(self.readings)
        except BadInput:
            raise PlanMismatch("A step reads a column in a way that its declared description does not allow.") from None

    def columns_in_words(self) -> list[str]:
        """Return its columns by ``"party.column"``, each with how it is read where that is not as declared."""
        readings = {} if self.readings is msgspec.UNSET else self.readings
        named = [(one_line(str(ColumnName(self.party, column))), readings.get(column)) for column in self.columns]
        return [name if how is None else f"{name} {how.in_words()}" for name, how in named]


LONGEST_TITLE = 200
LONGEST_PURPOSE = 1_000
LONGEST_SIGNATURE = 1_024
KEY_BYTES = 32
_ANALYST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


def one_line(text: str, longest: int = LONGEST_TITLE) -> str:
    r"""Return a text as it may be shown on a line: control characters written out, and cut to a length.

    Examples
    --------
    >>> print(one_line("two\nlines"))
    two\nlines
    """
    shown = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def checked_analyst_name(name: object) -> str:
    """Return an analyst's name; refuse one that is not a plain word such as ``analyst@telco``."""
    if not isinstance(name, str) or not _ANALYST.fullmatch(name):
        raise BadInput(
            "An analyst's name has letters, digits and the signs . _ @ + - only, and at most 100 of them.",
            remedy="For example 'analyst@telco'.",
        )
    return name


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What somebody says about a study: words beside a plan, and no part of it. The same plan with a new title is the same study.

    Parameters
    ----------
    title, purpose, requester
        One line each; empty where nothing is said.
    signature
        The requester's public key (32 bytes) and signature; empty where the words are the coordinator's own.

    Examples
    --------
    >>> identity = Identity.from_seed(bytes(32))
    >>> about = About(title="Churn", requester="analyst@telco").signed(bytes(32), identity)
    >>> about.signer(bytes(32)) == PublicIdentity(identity.public)
    True
    >>> about.signer(bytes(31) + b"1") is None  # another plan
    True
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

    def _message(self, plan: bytes) -> bytes:
        return frame("colonnade study request v1", plan, self.title, self.purpose, self.requester)

    def signed(self, plan: bytes, identity: Identity) -> "About":
        """Return these words with the analyst's signature under them, for the plan of this hash."""
        return msgspec.structs.replace(self, signature=identity.public + identity.sign(self._message(plan)))

    def signer(self, plan: bytes) -> PublicIdentity | None:
        """Return the key that signed these words for the plan of this hash; ``None`` if nobody did."""
        try:
            key = PublicIdentity(self.signature[:KEY_BYTES])
            key.verify(self._message(plan), self.signature[KEY_BYTES:])
        except ColonnadeError:
            return None
        return key

    def require_signed(self, plan: bytes, analysts: Mapping[str, PublicIdentity]) -> None:
        """Refuse words with a signature that is not the named analyst's: changed words, or somebody who speaks for another."""
        if not self.signature:
            return
        known = analysts.get(self.requester)
        if known is None or self.signer(plan) != known:
            raise ProtocolError(
                "The signature under what is said about the study is not that of a requester in this party's papers.",
                remedy="Ask with the key of an analyst in the federation's papers (colonnade federation check), or without one.",
            )


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """A whole study. Two plans with the same bytes are the same study. Its hash is kept with it (`colonnade.protocol.messages`).

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

    @property
    def members(self) -> tuple[str, ...]:
        """Everybody who has to say yes: the parties and the compute nodes, each once."""
        return tuple(dict.fromkeys((*self.parties, *self.compute_nodes)))

    def steps_of(self, party: str) -> tuple[Step, ...]:
        """Return what one party is asked for."""
        return tuple(step for step in self.steps if step.party == party)

    def require_current(self) -> None:
        """Refuse a plan of another version: members that price it differently would not add the same noise."""
        if self.version != PLAN_VERSION:
            raise PlanMismatch(
                f"The plan is of version {self.version}, and this member answers plans of version {PLAN_VERSION}.",
                remedy="Upgrade all members and the coordinator together.",
            )

    def require_named(self) -> None:
        """Refuse a plan that asks somebody whom it does not name.

        A member that shares rows without holding data could share anything; a node must not come to hold a key; and fewer parties
        named are fewer colluders to cover with noise.
        """
        if not {step.party for step in self.steps} <= set(self.parties):
            raise PlanMismatch("The plan asks a party that it does not name as one of its data parties.")

    def columns_in_words(self) -> list[str]:
        """Return all columns that enter, each with how it is read where that is not as declared."""
        return list(dict.fromkeys(words for step in self.steps for words in step.columns_in_words()))

    def read_columns(self) -> set[str]:
        """Return the columns, by ``"party.column"``, that are read otherwise than declared, or may be: standardised ones."""
        sources = {
            (step.party, step.parameters["standardised"]) for step in self.steps if "standardised" in step.parameters
        }
        found = set()
        for step in self.steps:
            readings = () if step.readings is msgspec.UNSET else step.readings
            names = step.columns if (step.party, step.name) in sources else readings
            found |= {str(ColumnName(step.party, column)) for column in names}
        return found

    def step(self, party: str, name: str) -> Step:
        """Return one step; a step that is not in the plan was not agreed to."""
        for step in self.steps:
            if step.party == party and step.name == name:
                return step
        raise PlanMismatch("A request names a step that the plan does not contain.")
