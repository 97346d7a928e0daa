"""Decisions of a party's owner, as rows of its ledger: approvals of studies, caps of requesters and purposes, and the cap itself.

A decision is signed with the party's identity key. The public key is kept with the signature, so that the ledger alone shows that
the two belong together; the federation's papers say whose key it is. A decision is a row of kind ``cap``: it says what may be
spent, as the cap does, and is chained like every other row.
"""

import getpass
import os
from typing import Literal, Self

import msgspec

from colonnade.errors import BadInput, ColonnadeError
from colonnade.plan import one_line
from colonnade.privacy.accounting import NANO, Budget
from colonnade.secure.keys import Field, Identity, PublicIdentity, frame

__all__ = ["Allowance", "Approval", "CapDecision", "Decision", "Forfeit", "read_decision"]

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
        """Decide on a cap, in the name of whoever runs this process."""
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
