"""Every exception that Colonnade raises on purpose.

::

    ColonnadeError
    ├── BadInput                 an invalid argument (code "bad-input")
    │   └── BoundsRequired       a column without public bounds
    ├── SchemaMismatch           data or a request that the public schema does not describe
    ├── PolicyRefusal            this party's own policy says no
    │   ├── NonPrivateRefused    a release without differential privacy, not consented to
    │   └── ApprovalNeeded       a study that waits until a party's owner has looked at it
    ├── BudgetExceeded           the release would take a ledger past its cap
    ├── PlanMismatch             a request outside the plan that was agreed
    ├── ProtocolError            bytes that are not a message of this protocol, or a message out of order
    │   ├── PartyAway            a party that did not answer in time
    │   └── Busy                 a member with too many studies under way; the coordinator asks again by itself
    ├── ReleaseLost              paid for, then lost in a crash; never drawn a second time
    ├── EstimateFailed           what was opened could not be turned into an answer; it is kept, and asking again is free
    ├── LedgerCorrupt            a ledger that cannot be trusted; nothing is spent from it
    ├── DiskFull                 no room to write what must be durable
    ├── LoosePermissions         a key, folder or policy that other users of the machine may read or change
    ├── AlreadyRunning           a folder that another process serves
    ├── CertificateExpired       a certificate for the network whose time is over, or has not begun
    └── NotEnoughComputeNodes    a secure method with too few non-colluding nodes

Each carries a stable ``code``, a ``remedy`` and a ``cost`` (`Cost`): what the failed call cost each party's ledger, by the
party's own account, and whose account could not be read. ``spent`` is the figures alone, from party to ε, or ``None`` if no
ledger is known to have changed. No message ever contains a value from a table.

A model that is used before it is fitted raises a further `BadInput`, which is scikit-learn's error too and therefore lives where
scikit-learn is imported: `colonnade.estimators.answers.NotFittedError` (code "not-fitted").
"""

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

__all__ = [
    "AlreadyRunning",
    "ApprovalNeeded",
    "BadInput",
    "BoundsRequired",
    "BudgetExceeded",
    "Busy",
    "CertificateExpired",
    "ColonnadeError",
    "DiskFull",
    "EstimateFailed",
    "LedgerCorrupt",
    "LoosePermissions",
    "NonPrivateRefused",
    "NotEnoughComputeNodes",
    "PartyAway",
    "PlanMismatch",
    "PolicyRefusal",
    "ProtocolError",
    "ReleaseLost",
    "SchemaMismatch",
    "disk_is_full",
    "error_for",
]


@dataclass(frozen=True)
class Cost:
    """What a call has cost, by the parties' own accounts.

    Parameters
    ----------
    spent
        What was debited, by party, as ε at the δ of the party's cap: the figure that its ledger shows.
    unknown
        The parties whose accounts could not be read. Of them no figure is ever given.
    disclosed
        The parties whose ledgers have recorded a release without differential privacy.

    Examples
    --------
    >>> Cost({"bank": 0.5}, unknown=("telco",)).words
    'bank ε=0.5; unknown for telco until it is back'
    """

    spent: Mapping[str, float] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    disclosed: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The figures in words; ``"nothing"`` if every account was read and none has changed."""
        parts = [", ".join(f"{party} ε={epsilon:.6g}" for party, epsilon in self.spent.items())]
        if self.disclosed:
            parts.append(f"a release that is not private is recorded by {', '.join(self.disclosed)}")
        if self.unknown:
            parts.append(
                f"unknown for {', '.join(self.unknown)} until {'it is' if len(self.unknown) == 1 else 'they are'} back"
            )
        return "; ".join(part for part in parts if part) or "nothing"


NOTHING_SPENT = Cost()
"""The cost of a call after which every ledger that it could have changed is as it was."""


class ColonnadeError(Exception):
    """Any error that Colonnade raises on purpose.

    Parameters
    ----------
    message
        What happened, without any value from a table.
    remedy
        What the caller can do about it.
    spent
        What the failed call cost, by party, as ε; ``None`` when nothing was spent.

    Examples
    --------
    >>> import colonnade as cn
    >>> try:
    ...     cn.Budget(epsilon=0)
    ... except cn.ColonnadeError as error:
    ...     print(error.code, error.spent)
    bad-input None
    """

    code: ClassVar[str] = "error"
    default_remedy: ClassVar[str] = "Look up the code in the reference of errors (docs/reference/errors.md)."

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        spent: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy or self.default_remedy
        self.cost = Cost(dict(spent)) if spent else NOTHING_SPENT

    @property
    def spent(self) -> Mapping[str, float] | None:
        """What the failed call cost, by party, as ε; ``None`` when no ledger is known to have changed."""
        return self.cost.spent or None

    def __str__(self) -> str:
        account = "Nothing was spent." if self.cost == NOTHING_SPENT else f"Spent: {self.cost.words}."
        return f"[{self.code}] {self.message} {account} {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.remedy), vars(self)


def _rebuild(kind: type[ColonnadeError], message: str, remedy: str) -> ColonnadeError:
    return kind(message, remedy=remedy)


class BadInput(ColonnadeError, ValueError):
    """Invalid argument: ε of zero, a missing column, an empty federation."""

    code = "bad-input"
    default_remedy = (
        "Change the argument that the message names; help(...) of the class or function says what it accepts."
    )


class BoundsRequired(BadInput):
    """A column without public bounds. Bounds are never taken from data: the data's own extremes are private."""

    code = "bounds-required"
    default_remedy = "State bounds that hold for any data, for example cn.Numeric(0, 120) for an age."


class SchemaMismatch(ColonnadeError):
    """Data, or a request, that the public schema does not describe."""

    code = "schema-mismatch"
    default_remedy = (
        "Name columns as federation.describe() lists them, or correct the party's cn.Schema to fit its data."
    )


class PolicyRefusal(ColonnadeError):
    """This party's own policy does not allow the request."""

    code = "policy-refusal"
    default_remedy = (
        "Ask for less, or ask the party's operator to allow it (cn.Policy, or policy.toml of a served party)."
    )


class NonPrivateRefused(PolicyRefusal):
    """A release that is not differentially private and that nobody consented to."""

    code = "nonprivate-refused"
    default_remedy = "Choose a private method, or pass allow_nonprivate=True where the parties' policies allow it."


class ApprovalNeeded(PolicyRefusal):
    """A study that waits until a party's owner has looked at it. Nothing was spent."""

    code = "approval-needed"
    default_remedy = "Have the party's operator approve it (colonnade party approve FOLDER), then call again."


class BudgetExceeded(ColonnadeError):
    """The release would take a party's ledger past its cap."""

    code = "budget-exceeded"
    default_remedy = "Ask for a smaller epsilon; federation.budget() shows what remains."


class PlanMismatch(ColonnadeError):
    """A request that is not part of the plan that was agreed."""

    code = "plan-mismatch"
    default_remedy = "Call fit(...) again: all parties then agree to one new plan."


class ProtocolError(ColonnadeError):
    """Bytes that are not a message of this protocol, or not at this point of it."""

    code = "protocol-error"
    default_remedy = (
        "Check that all parties and the coordinator run one version (colonnade --version), then call again."
    )


class PartyAway(ProtocolError):
    """A party, or its guard, that did not answer within the time that the coordinator waits (``patience``)."""

    code = "party-away"
    default_remedy = (
        "Restart the party (colonnade party serve FOLDER), then call again: what was released is not paid twice."
    )


class Busy(ProtocolError):
    """A member that has as many studies under way as it takes at once. Nothing was asked of its data.

    Parameters
    ----------
    retry_in
        Seconds after which there may be room.

    Examples
    --------
    >>> Busy("This member has 32 studies under way.", retry_in=2.0).retry_in
    2.0
    """

    code = "busy"
    default_remedy = "Call again in a while: what was released is not paid twice."

    def __init__(self, message: str, *, retry_in: float = 1.0, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.retry_in = retry_in


class ReleaseLost(ColonnadeError):
    """A release that was paid for and lost in a crash before it could be kept. It is never drawn a second time."""

    code = "release-lost"
    default_remedy = "Run the study again with the next repeat=; it is a new draw at a new price."


class EstimateFailed(ColonnadeError):
    """What the parties opened could not be turned into an answer, and none of it is lost.

    The parties keep every release of the study, so the same call fetches them again and debits nothing. It fails the same way
    until the code that estimates is another one. ``findings`` has the study's statement, traffic and accounts, if the study
    itself came to its end.
    """

    code = "estimate-failed"
    default_remedy = (
        "The parties keep what was opened: calling again costs nothing, and can succeed after an upgrade of Colonnade. Please "
        "report it. repeat= with the next number is a new draw at a new price."
    )
    findings: object = None


class LedgerCorrupt(ColonnadeError):
    """A ledger that cannot be trusted, and therefore is not spent from."""

    code = "ledger-corrupt"
    default_remedy = (
        "Stop and keep the file. `colonnade ledger verify FILE` shows the damage; `colonnade ledger restore` puts the newest "
        "back-up in place, and refuses one that has forgotten releases."
    )


class DiskFull(ColonnadeError):
    """A disk without room for what must be durable before anything is released. What was written before is as it was."""

    code = "disk-full"
    default_remedy = (
        "Make room on that disk. A served party then goes on by itself; in Python, open the federation again. The ledger is "
        "sound: do not put a back-up in its place."
    )


class LoosePermissions(ColonnadeError):
    """A key, a folder or a policy that other users of the machine could read or change."""

    code = "loose-permissions"
    default_remedy = "Take the permission away: chmod 600 for a key, chmod 700 for a folder, chmod go-w for a policy."


class AlreadyRunning(ColonnadeError):
    """A folder that another process serves. Two would answer on one socket and spend from one ledger."""

    code = "already-running"
    default_remedy = "Use the process that runs, or end it first; `colonnade party status FOLDER` shows it."


class CertificateExpired(ColonnadeError):
    """A certificate for the network whose time is over, or has not begun. It opens no connection."""

    code = "certificate-expired"
    default_remedy = (
        "Make a new one with `colonnade federation renew`, and put it in place with `colonnade party install`. "
        "Nothing has to be stopped."
    )


class NotEnoughComputeNodes(ColonnadeError):
    """A secure method with too few nodes. It needs three compute nodes, and most of them must not collude."""

    code = "not-enough-compute-nodes"
    default_remedy = (
        'Add a node without data (compute_nodes=[...]), or choose a method of the local channel, such as "response".'
    )


def _tree(root: type[ColonnadeError]) -> list[type[ColonnadeError]]:
    return [root] + [kind for child in root.__subclasses__() for kind in _tree(child)]


def error_for(code: str) -> type[ColonnadeError]:
    """Return the exception class with a given ``code``; an unknown code is a protocol error."""
    return {kind.code: kind for kind in _tree(ColonnadeError)}.get(code, ProtocolError)


def disk_is_full(error: OSError) -> bool:
    """Return whether the operating system has no room, or lets this user have no more of it."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
