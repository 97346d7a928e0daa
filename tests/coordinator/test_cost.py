"""What a call has cost, after any fault: the words of the error or of the receipt are those of the parties' ledgers.

Members are killed at each message, before it is delivered, after it is answered, and between a debit and its answer. They come
back at once or stay away. Each case is a study that is cut short, and the same study again.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

import colonnade as cn
from colonnade.conversations.conversation import Member, check_account
from colonnade.coordinator.driver import NoJournal
from colonnade.errors import ColonnadeError, Cost, ProtocolError
from colonnade.party.ledger.rows import CHARGED
from colonnade.privacy.accounting import Loss, total
from colonnade.protocol.messages import Accounted, AccountLine, GetAccount, decode_request
from colonnade.secure.keys import Identity, PublicIdentity
from tests.conversations.sites import Site

full = pytest.mark.full
PRICE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


class ThreeAttempts(NoJournal):
    """Nothing is kept, and a study is tried three times, as across machines."""

    attempts = 3


STUDIES = {
    "response": lambda: cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0),
    "secure": lambda: cn.PatternCount(["bank.segment", "telco.plan"], epsilon=0.5),
    "gram": lambda: cn.PCA(1, columns=["bank.age", "telco.bill"], **PRICE),
    "sketch": lambda: cn.KMeans(2, columns=["bank.age", "telco.bill"], method="sketch", **PRICE),
}
MESSAGES = {"response": 4, "secure": 10, "gram": 10, "sketch": 11}
"""How many messages of the study each of its parties gets."""


class Killed(BaseException):
    """Raised where a party dies inside a call; no code of its own gets to see it."""


class Deadly:
    """The wire of a site on which one member dies at one message.

    Parameters
    ----------
    site
        The members.
    name, message, when
        Who dies at which of its messages: ``"before"`` it is delivered, ``"after"`` it is answered, or ``"paid"``: right after
        the first debit that it or a later message causes.
    back
        Whether it is brought up again at once, or stays away.
    """

    def __init__(self, site: Site, name: str, message: int, when: str, *, back: bool) -> None:
        self.site, self.name, self.message, self.when, self.back = site, name, message, when, back
        self.seen: dict[str, int] = {}
        self.died = False

    def exchange(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        if all(isinstance(decode_request(data), GetAccount) for data in requests.values()):
            return self.site.exchange(requests)
        replies: dict[str, bytes] = {}
        for name, data in requests.items():
            reply = self._deliver(name, data)
            if reply is not None:
                replies[name] = reply
        return replies

    def _deliver(self, name: str, data: bytes) -> bytes | None:
        number = self.seen[name] = self.seen.get(name, -1) + 1
        if name in self.site.away:
            return None
        here = not self.died and (name, number) == (self.name, self.message)
        try:
            if here and self.when == "before":
                raise Killed
            if here and self.when == "paid":
                self._die_after_a_debit()
            reply = self.site.endpoints[name].handle(data)
            if here and self.when == "after":
                raise Killed
        except Killed:
            self.died = True
            self.site.kill(name)
            if not self.back:
                self.site.away.add(name)
            return None
        return reply

    def _die_after_a_debit(self) -> None:
        ledger: Any = self.site.ledger(self.name)
        for verb in ("debit", "reserve"):
            real = getattr(ledger, verb)

            def pay(*args: Any, real: Any = real, **terms: Any) -> None:
                real(*args, **terms)
                raise Killed

            setattr(ledger, verb, pay)

    def close(self) -> None:
        """The site is closed by its fixture."""


def where(site: Site) -> dict[str, int]:
    return {party: site.ledger(party).head().sequence for party in site.parties}


def difference(site: Site, before: Mapping[str, int]) -> dict[str, float]:
    """What the ledgers themselves say was charged since: composed, at the δ of the cap."""
    found = {}
    for party, sequence in before.items():
        ledger = site.ledger(party)
        rows = [row for row in ledger.entries() if row.sequence > sequence and row.kind in CHARGED]
        if rows:
            found[party] = total(row.loss for row in rows if row.loss is not None).epsilon(ledger.budget.delta)
    return found


def says(text: str, spent: Mapping[str, float], unknown: tuple[str, ...] = ()) -> None:
    """The words of a receipt or of an error are those of the ledgers, and no others."""
    cost = Cost({party: epsilon for party, epsilon in spent.items() if party not in unknown}, unknown)
    words = {"nothing": ("Nothing was spent.", "already paid, nothing spent")}
    expected = words.get(cost.words, (f"Spent: {cost.words}.", f"paid: {cost.words}"))
    assert any(one in text for one in expected), (text, expected)


def run(site: Site, study: Any, federation: cn.Federation) -> str:
    """Fit a study; whether it ends or fails, its text says the cost. Return "done", or the error's code."""
    before = where(site)
    try:
        text, outcome = study.fit(federation).receipt_, "done"
    except ColonnadeError as error:
        text, outcome, unknown = str(error), error.code, error.cost.unknown
    else:
        unknown = ()
    assert set(unknown) <= site.away
    says(text, difference(site, before), unknown)
    return outcome


def cases() -> Iterator[Any]:
    for study, messages in MESSAGES.items():
        for message in range(messages):
            for when in ("before", "after", "paid"):
                for name, back, attempts in (("bank", True, 1), ("telco", True, 3), ("telco", False, 1)):
                    usual = (message + len(when) + attempts) % 5 == 0 or (when == "paid" and message in (3, 5))
                    yield pytest.param(study, message, when, name, back, attempts, marks=[] if usual else [full])


@pytest.mark.every(5)
@pytest.mark.parametrize(("study", "message", "when", "name", "back", "attempts"), list(cases()))
def test_after_a_kill_the_words_are_those_of_the_ledgers(study, message, when, name, back, attempts, site):
    journal = ThreeAttempts() if attempts == 3 else None
    federation = cn.Federation(site, parties=site.parties, compute_nodes=site.nodes, journal=journal)
    estimator = STUDIES[study]()
    federation._driver.transport = Deadly(site, name, message, when, back=back)
    first = run(site, estimator, federation)
    assert federation._driver.transport.died or when == "paid" or first == "done"
    site.away.clear()
    federation._driver.transport = Deadly(site, "nobody", 0, "before", back=True)
    assert run(site, estimator, federation) in ("done", "release-lost")
    assert run(site, estimator, federation) in ("done", "release-lost")


def test_a_release_whose_party_died_as_it_had_paid_is_drawn_when_it_is_back_and_paid_once(site):
    federation = cn.Federation(site, parties=site.parties, journal=ThreeAttempts())
    federation._driver.transport = wire = Deadly(site, "telco", 3, "paid", back=True)
    study = STUDIES["response"]().fit(federation)
    assert wire.died
    assert "paid: bank ε=0.5, telco ε=0.5" in study.receipt_


def test_attempts_of_one_call_are_paid_once_and_said_once(site):
    """Every reply of one turn is lost, three times over: one debit per party, and no doubled figure."""
    federation = cn.Federation(site, parties=site.parties, journal=ThreeAttempts())
    site.spoil = lambda requests: requests if len(requests) == 1 else _without_dealing(requests)
    before = where(site)
    with pytest.raises(ProtocolError) as failure:
        STUDIES["secure"]().fit(federation)
    assert failure.value.spent == difference(site, before)
    assert set(failure.value.spent.values()) == {0.5}


def _without_dealing(requests: dict[str, bytes]) -> dict[str, bytes]:
    turns = {getattr(decode_request(data), "turn", None) for data in requests.values()}
    return {name: data for name, data in requests.items() if turns != {2} or name != "insurer"}


def test_a_fit_that_was_taken_up_again_says_what_it_paid_and_the_next_that_it_paid_nothing(site):
    federation = cn.Federation(site, parties=site.parties, journal=ThreeAttempts())
    federation._driver.transport = wire = Deadly(site, "bank", 4, "after", back=True)
    study = STUDIES["secure"]().fit(federation)
    assert wire.died
    assert "paid: bank ε=0.5, telco ε=0.5" in study.receipt_
    assert "already paid, nothing spent" in study.fit(federation).receipt_


def test_what_another_coordinator_spends_meanwhile_is_not_counted(site):
    other = cn.Federation(site, parties=site.parties)
    real, entered = site.handle, []

    def handle(name: str, data: bytes) -> bytes:
        if getattr(decode_request(data), "turn", None) == 1 and not entered:
            entered.append(name)
            STUDIES["response"]().fit(other)
        return real(name, data)

    site.handle = handle
    study = STUDIES["secure"]().fit(site.federation)
    assert entered
    assert "paid: bank ε=0.5, telco ε=0.5" in study.receipt_
    assert site.federation.budget().spent["bank"] == pytest.approx(1.0)


def test_of_a_party_that_stays_away_no_figure_is_given(site):
    site.federation._driver.transport = Deadly(site, "telco", 6, "after", back=False)
    with pytest.raises(ColonnadeError) as failure:
        STUDIES["secure"]().fit(site.federation)
    assert failure.value.cost == Cost({"bank": 0.5}, unknown=("telco",))
    assert "Spent: bank ε=0.5; unknown for telco until it is back." in str(failure.value)


def test_a_study_whose_parties_leave_at_its_end_is_returned_and_says_whose_cost_is_unknown(site):
    site.away.add("telco")
    study = STUDIES["secure"]().fit(site.federation)
    assert "paid: bank ε=0.5; unknown for telco until it is back" in study.receipt_


def test_an_error_after_the_study_was_paid_says_what_was_paid(site, monkeypatch):
    study = STUDIES["secure"]()

    def learn(*_: object) -> None:
        raise ProtocolError("The tables do not fit together.")

    monkeypatch.setattr(type(study._checked().method), "learn", learn)
    with pytest.raises(ProtocolError) as failure:
        study.fit(site.federation)
    assert failure.value.spent == {"bank": 0.5, "telco": 0.5}


# Accounts that are not the party's own --------------------------------------------------------------------------------------


def account(entries: tuple[AccountLine, ...] = ()) -> Accounted:
    return Accounted(
        party="bank",
        ledger="one",
        sequence=3,
        cap_nano=10**9,
        cap_delta=0.0,
        spent=Loss.of_pure(5).to_bytes(),
        entries=entries,
    )


def signed(identity: Identity, nonce: bytes) -> Accounted:
    return Member("bank", identity, {}).signed(account((AccountLine(label="a", loss=None),)), nonce)


def test_an_account_is_signed_with_every_line_and_for_one_question():
    identity, nonce = Identity.from_seed(bytes(32)), bytes(16)
    honest = signed(identity, nonce)
    check_account(honest, nonce, PublicIdentity(identity.public))
    for changed in (
        msgspec.structs.replace(honest, entries=()),
        msgspec.structs.replace(honest, sequence=2),
        msgspec.structs.replace(honest, signature=bytes(64)),
    ):
        with pytest.raises(ProtocolError):
            check_account(changed, nonce, PublicIdentity(identity.public))
    with pytest.raises(ProtocolError):
        check_account(honest, bytes(15) + b"\1", PublicIdentity(identity.public))
    with pytest.raises(ProtocolError):
        check_account(honest, nonce, PublicIdentity(Identity.from_seed(bytes(31) + b"\1").public))


class Doubting(NoJournal):
    """A journal that believes no account of telco's."""

    def check_account(self, party: str, nonce: bytes, account: Accounted) -> None:
        if party == "telco":
            raise ProtocolError("A signature is not that of the party it is said to come from.")


def test_of_an_account_that_is_not_believed_no_figure_is_given(site):
    federation = cn.Federation(site, parties=site.parties, journal=Doubting())
    assert "paid: bank ε=0.5; unknown for telco until it is back" in STUDIES["secure"]().fit(federation).receipt_
    with pytest.raises(ProtocolError, match="signature"):
        federation.budget()
