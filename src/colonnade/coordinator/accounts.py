"""What a study has cost, read from the parties' own accounts after the fact.

The coordinator believes nothing about cost. A reply that was lost, a party that crashed after its debit, an attempt that was
taken up again: each would make a count of messages wrong. So every party says, when it agrees to a plan, which row is the last
of its ledger, and after the study which rows the plan has got since. Its ledger is what counts, and the same figures stand in
errors, receipts and `Federation.budget`.

* Rows of other studies are left out by the plan's hash, whoever asked for them meanwhile.
* The first agreement of a call is what counts, so attempts of one call are neither added up nor forgotten.
* A party that agreed with everything paid is not asked: nothing is ever paid twice.
* A party that does not answer has no figure. Its cost is unknown until it is back.

Across machines the account is signed over a nonce of the coordinator's, and checked against the federation's papers.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec

from colonnade.cost import Cost
from colonnade.errors import ColonnadeError, ProtocolError
from colonnade.plan import Plan
from colonnade.privacy.accounting import Loss, total
from colonnade.protocol import codec
from colonnade.protocol.messages import Accounted, GetAccount, Refused

if TYPE_CHECKING:
    from colonnade.coordinator.driver import Quote
    from colonnade.transport.direct import Transport

__all__ = ["Auditor", "CostOfCall", "every_account", "losses_in", "plan_accounts", "read_accounts"]


class Auditor(Protocol):
    """Who checks that an account is the party's own."""

    def account_nonce(self) -> bytes:
        """Return a fresh nonce for one account; empty where nobody checks."""
        ...

    def check_account(self, party: str, nonce: bytes, account: Accounted) -> None:
        """Return if this party signed the account over the nonce; refuse it otherwise."""


def read_accounts(
    questions: Mapping[str, GetAccount], transport: "Transport", auditor: Auditor, *, separately: bool = False
) -> dict[str, Accounted | ColonnadeError]:
    """Ask parties for their accounts; return each, or why it could not be read.

    Parameters
    ----------
    questions
        What each party is asked.
    transport, auditor
        How to reach the parties, and who checks their signatures.
    separately
        Whether somebody may be away. Each party is then asked by itself, all at the same time, because one that is away is
        waited for. Otherwise that is done only where a round to all of them fails.
    """
    nonces = {party: auditor.account_nonce() for party in questions}
    asked = {
        party: codec.encode(msgspec.structs.replace(question, nonce=nonces[party]))
        for party, question in questions.items()
    }

    def read(party: str, answers: Mapping[str, bytes] | None) -> Accounted | ColonnadeError:
        try:
            found = transport.exchange({party: asked[party]}) if answers is None else answers
            return _account_in(found, party, nonces[party], auditor)
        except ColonnadeError as error:
            return error

    if not questions:
        return {}
    try:
        answers = None if separately else transport.exchange(asked)
    except ColonnadeError:
        answers = None
    if answers is not None:
        return {party: read(party, answers) for party in questions}
    with ThreadPoolExecutor(len(questions), thread_name_prefix="colonnade") as threads:
        return dict(zip(questions, threads.map(lambda one: read(one, None), questions), strict=True))


def every_account(
    parties: Sequence[str], transport: "Transport", auditor: Auditor, *, in_words: bool = False
) -> dict[str, Accounted]:
    """Return every party's account, whole; raise the first failure."""
    read = read_accounts(dict.fromkeys(parties, GetAccount(in_words=in_words)), transport, auditor)
    for found in read.values():
        if isinstance(found, ColonnadeError):
            raise found
    return {party: found for party, found in read.items() if isinstance(found, Accounted)}


def plan_accounts(
    plan: Plan, since: Mapping[str, int], transport: "Transport", auditor: Auditor, *, separately: bool = False
) -> dict[str, Accounted | ColonnadeError]:
    """Return what each party's ledger has got for a plan since a row, or why it could not be read."""
    digest = codec.digest(plan)
    questions = {party: GetAccount(plan=digest, since=row) for party, row in since.items()}
    return read_accounts(questions, transport, auditor, separately=separately)


def losses_in(account: Accounted) -> list[Loss]:
    """Return the losses of an account, line by line; what is not private has none."""
    return [Loss.from_bytes(entry.loss) for entry in account.entries if entry.loss is not None]


def _account_in(answers: Mapping[str, bytes], party: str, nonce: bytes, auditor: Auditor) -> Accounted:
    if party not in answers:
        raise ProtocolError(f"The transport lost the account of {party!r}.", remedy="Repeat the call.")
    reply = codec.decode_reply(answers[party])
    if isinstance(reply, Refused):
        raise reply.error(party)
    if not isinstance(reply, Accounted) or reply.party != party:
        raise ProtocolError(f"Party {party!r} answered GetAccount with something else.")
    auditor.check_account(party, nonce, reply)
    return reply


@dataclass
class CostOfCall:
    """What one call costs: the rows that its plan gets in the ledgers after its first agreement.

    Parameters
    ----------
    plan
        The study.
    transport, auditor
        How to reach the parties, and who checks their signatures.
    since
        The last row of each ledger that the study may still be charged to; ``None`` before the first agreement.
    """

    plan: Plan
    transport: "Transport"
    auditor: Auditor
    since: Mapping[str, int] | None = None

    def agreed(self, quote: "Quote") -> None:
        """Note where the ledgers stand. Later agreements of the same call change nothing."""
        if self.since is None:
            self.since = {
                party: quote.sequences[party]
                for party in self.plan.parties
                if quote.unpaid[party] or quote.disclosed.get(party)
            }

    def read(self, *, failed: bool = False) -> Cost:
        """Read the parties' accounts, and return what the call has cost by now. After a failure somebody may be away."""
        accounts = plan_accounts(self.plan, self.since or {}, self.transport, self.auditor, separately=failed)
        known = {party: account for party, account in accounts.items() if isinstance(account, Accounted)}
        losses = {party: losses_in(account) for party, account in known.items()}
        return Cost(
            spent={party: total(found).epsilon(known[party].cap_delta) for party, found in losses.items() if found},
            unknown=tuple(party for party in accounts if party not in known),
            disclosed=tuple(
                party for party, account in known.items() if any(entry.loss is None for entry in account.entries)
            ),
        )
