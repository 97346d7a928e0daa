"""Decisions of a party's owner, as rows of its ledger: approvals of studies, caps of requesters and purposes, and the cap itself.

A decision is signed with the party's identity key. The public key is kept with the signature, so that the ledger alone shows that
the two belong together; the federation's papers say whose key it is. A decision is a row of kind ``cap``: it says what may be
spent, as the cap does, and is chained like every other row.

Studies that a party refused: kept beside its ledger, so that its owner sees who asked for what, and can approve what waits.

A refusal releases nothing, so it is no row of the ledger. The file is bounded: the oldest are forgotten first, and of a very long
plan only the hash is kept. A study that is refused again for the same reason is kept once. The coordinator is never told what is
in it, and no refusal depends on it.
"""

import getpass
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

import msgspec

from colonnade.errors import BadInput, ColonnadeError, ProtocolError
from colonnade.plan import About, Plan, one_line
from colonnade.privacy.accounting import NANO, Budget
from colonnade.protocol import messages
from colonnade.runtime.private_files import replacing
from colonnade.secure.keys import Field, Identity, PublicIdentity, frame

LONGEST_REASON = 1_000
_KEY = 64
"""Hexadecimal digits of a public key."""


class _Decision(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of all decisions: a reason, and a signature of the party's owner."""

    reason: str = ""
    signature: str = ""

    def __post_init__(self) -> None:
        if len(self.reason) > LONGEST_REASON or not self.reason.isprintable():
            raise BadInput(f"A reason is one line of at most {LONGEST_REASON:,} characters.", remedy="Shorten it.")

    def _facts(self) -> tuple[Field, ...]:
        kept = {name: getattr(self, name) for name in self.__struct_fields__ if name != "signature"}
        return tuple(f"{name}={value!r}" for name, value in kept.items())

    def _message(self, ledger: str) -> bytes:
        return frame("colonnade owner's decision v1", type(self).__name__, ledger, *self._facts())

    def signed(self, ledger: str, identity: Identity) -> Self:
        """Return this decision with the owner's signature, for the ledger of this name."""
        made = identity.sign(self._message(ledger)).hex()
        return msgspec.structs.replace(self, signature=identity.public.hex() + made)

    def signer(self, ledger: str) -> PublicIdentity | None:
        """Return the key that signed this decision for this ledger; ``None`` if none did."""
        try:
            key = PublicIdentity(bytes.fromhex(self.signature[:_KEY]))
            key.verify(self._message(ledger), bytes.fromhex(self.signature[_KEY:]))
        except (ColonnadeError, ValueError):
            return None
        return key


class Approval(_Decision, frozen=True, kw_only=True, tag="approval"):
    """One study may run, on one data version, until a time.

    Parameters
    ----------
    plan
        The hash of its plan, in hexadecimal.
    version
        The data version that it may be about.
    until
        Until when, in microseconds since 1970.
    """

    plan: str
    version: int
    until: int

    def words(self) -> str:
        """Return the decision in words."""
        return f"approved: the study of plan {one_line(self.plan[:12])}, on data version {self.version}"


class Allowance(_Decision, frozen=True, kw_only=True, tag="allowance"):
    """The cap of one requester, or of one purpose, in place of the policy's.

    Parameters
    ----------
    of
        ``"requester"`` or ``"purpose"``.
    name
        Which one.
    nano
        The cap, in nano-ε, at the δ of the ledger's own cap.
    """

    of: Literal["requester", "purpose"]
    name: str
    nano: int

    def words(self) -> str:
        """Return the decision in words."""
        return f"the cap of {self.of} {one_line(self.name)} is ε {self.nano / NANO:.6g}"


class CapDecision(_Decision, frozen=True, kw_only=True, tag="cap"):
    """The ledger's own cap, with a reason and a signature.

    Parameters
    ----------
    nano, delta
        The cap.
    """

    nano: int
    delta: float

    @classmethod
    def by_user(cls, budget: Budget, where: str) -> "CapDecision":
        """Decide on a cap, in the name of the user who runs this process."""
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container may know no names
            user = f"user {os.getuid()}"
        return cls(nano=budget.nano, delta=budget.delta, reason=f"by {one_line(user)}, {where}")

    @property
    def budget(self) -> Budget:
        """The cap as a budget."""
        return Budget(epsilon=self.nano / NANO, delta=self.delta)

    def words(self) -> str:
        """Return the decision in words."""
        return "the cap was changed"


class Forfeit(_Decision, frozen=True, kw_only=True, tag="written off"):
    """This ledger had gone back; what it has forgotten is written off. Peers accept it again from here on.

    Parameters
    ----------
    nano
        The total from here on, in nano-ε at the cap's δ.
    when
        In microseconds since 1970. Peers that refuse this ledger accept one with a later forfeit than they know.
    version
        The highest data version that may have been declared in rows that are lost: it is given to no other table.
    """

    nano: int
    when: int
    version: int = 0

    def words(self) -> str:
        """Return the decision in words."""
        return f"what this ledger has forgotten is written off: the total is ε {self.nano / NANO:.6g}"


Decision = Approval | Allowance | CapDecision | Forfeit


def read_decision(detail: str | None) -> Decision | None:
    """Return the decision that a row of kind ``cap`` holds; ``None`` for a cap without a signature."""
    try:
        found: Decision = msgspec.json.decode(detail or "", type=Decision)
    except (msgspec.MsgspecError, BadInput):
        return None
    return found


MOST_STUDIES = 200
LARGEST_PLAN = 2**15
"""Bytes of a plan that is kept whole."""


class RefusedStudy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One study that was refused.

    Parameters
    ----------
    when
        In microseconds since 1970.
    code
        Why, by the code of the error.
    hash
        The hash of its plan.
    content
        The plan's canonical bytes; empty for a very long one.
    about
        What was said about it.
    """

    when: int
    code: str
    hash: bytes
    content: bytes
    about: About | None = None

    @property
    def time(self) -> datetime:
        """When it was refused."""
        return datetime.fromtimestamp(self.when / 1_000_000, tz=UTC)

    @property
    def plan(self) -> Plan | None:
        """The plan; ``None`` for a very long one, and for one of another version of plans."""
        try:
            return messages.decode(self.content, Plan) if self.content else None
        except ProtocolError:
            return None


class RefusedStudies:
    """The studies that one party has refused lately.

    Parameters
    ----------
    ledger
        The party's ledger. The file is beside it, with the ending ``.refused``.
    """

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_suffix(".refused")

    def record(self, when: datetime, code: str, plan: Plan, about: About | None) -> None:
        """Keep a study that was refused; one that is kept with the same reason and words stays as it is."""
        content = messages.encode(plan)
        hashed = messages.plan_digest(content)
        kept = self.read()
        if any((one.hash, one.code, one.about) == (hashed, code, about) for one in kept):
            return
        new = RefusedStudy(
            when=int(when.timestamp() * 1_000_000),
            code=code,
            hash=hashed,
            content=content if len(content) <= LARGEST_PLAN else b"",
            about=about,
        )
        with replacing(self.path) as file:
            file.write(msgspec.json.encode([*kept, new][-MOST_STUDIES:]))

    def read(self) -> list[RefusedStudy]:
        """Return the studies that were refused, oldest first; refuse a file in which a plan is not the one of its hash."""
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=list[RefusedStudy])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError, BadInput):
            raise _damaged() from None
        if any(one.content and messages.plan_digest(one.content) != one.hash for one in found):
            raise _damaged()
        return found


def _damaged() -> BadInput:
    return BadInput(
        "The list of studies that were refused is damaged. No release rests on it.",
        remedy="Keep a copy of the file that ends in .refused if you look into this, then remove it.",
    )
