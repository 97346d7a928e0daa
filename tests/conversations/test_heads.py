"""Where ledgers stand, as peers and coordinator hear of it: out of order, late, replayed, and set back."""

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.conversations import memory
from colonnade.conversations.conversation import Meeting, Member
from colonnade.conversations.memory import LedgerHead, LedgerHeads, Said
from colonnade.errors import LedgerCorrupt, ProtocolError
from colonnade.protocol import codec
from colonnade.protocol.messages import Blob
from colonnade.secure.keys import Identity, PublicIdentity
from colonnade.secure.mail import Hello
from tests.conversations.stage import FEDERATION, NAMES, RUN, STEP, a_plan

STUDY = b"s" * 32
ANA, BO, CY = NAMES[:3]


class Ledger:
    """Rows that follow one another; ``back`` sets it back, and rows after that have another history."""

    def __init__(self, name: str = "ledger of ana") -> None:
        self.name, self.rows, self.lives = name, [], 0

    def add(self) -> None:
        self.rows.append(self.lives)

    def back(self, to: int) -> None:
        self.rows, self.lives = self.rows[:to], self.lives + 1

    def head(self) -> LedgerHead:
        history = hashlib.sha256(repr(self.rows).encode()).digest()
        return LedgerHead(self.name, len(self.rows), history, 10 * len(self.rows))


def said(ledger: Ledger, nonce: bytes | None) -> dict[str, Said]:
    return {ANA: Said(msgspec.msgpack.encode(ledger.head()), nonce)}


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger()
    for _ in range(5):
        made.add()
    return made


def peers(**options) -> LedgerHeads:
    return LedgerHeads({ANA: "ledger of ana"}, **options)


def test_a_late_head_raises_no_alarm_and_is_not_taken_for_where_the_ledger_stands(ledger):
    heads = peers()
    first = heads.issue(STUDY)
    late = said(ledger, first)
    ledger.add()
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    heads.observe(STUDY, late)
    assert heads.known(ANA) == ledger.head()


def test_a_ledger_that_stands_below_what_was_seen_before_the_nonce_is_refused(ledger):
    heads = peers()
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    seen = ledger.head()
    ledger.back(to=3)
    with pytest.raises(LedgerCorrupt, match="gone back"):
        heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    assert heads.known(ANA) == seen


def test_a_ledger_with_another_history_under_a_known_number_is_refused(ledger):
    """A clone that went its own way; also where the number was seen after the nonce."""
    heads = peers()
    early = heads.issue(STUDY)
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    ledger.back(to=4)
    ledger.add()
    for nonce in (early, heads.issue(STUDY)):
        with pytest.raises(LedgerCorrupt, match="gone back"):
            heads.observe(STUDY, said(ledger, nonce))


def test_another_ledger_than_that_of_the_papers_is_refused():
    heads, other = peers(), Ledger("another")
    with pytest.raises(LedgerCorrupt, match="another ledger"):
        heads.observe(STUDY, said(other, heads.issue(STUDY)))


def test_a_head_over_no_nonce_of_ours_is_out_of_order_and_no_alarm(ledger):
    """Of another study, made up, forgotten or expired: the study starts again, and nobody is told to stop a party."""
    now = [0.0]
    heads = peers(clock=lambda: now[0])
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    ledger.back(to=2)
    stale = heads.issue(STUDY)
    now[0] += memory.NONCE_LIFE + 1
    for nonce in (b"", b"n" * 16, heads.issue(b"another study"), stale):
        with pytest.raises(ProtocolError, match="not to a question"):
            heads.observe(STUDY, said(ledger, nonce))


def test_nonces_are_fresh_and_so_many_are_remembered(ledger, monkeypatch):
    monkeypatch.setattr(memory, "NONCES", 10)
    heads = peers()
    nonces = [heads.issue(STUDY) for _ in range(100)]
    assert len(set(nonces)) == 100
    heads.observe(STUDY, said(ledger, nonces[-10]))
    with pytest.raises(ProtocolError):
        heads.observe(STUDY, said(ledger, nonces[-11]))


def test_heads_outlive_the_process(ledger, tmp_path):
    path = tmp_path / "peers.heads"
    heads = peers(path=path)
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    ledger.back(to=3)
    again = peers(path=path)
    with pytest.raises(LedgerCorrupt, match="gone back"):
        again.observe(STUDY, said(ledger, again.issue(STUDY)))
    with pytest.raises(ProtocolError):  # of the last process
        again.observe(STUDY, said(ledger, heads.issue(STUDY)))


@given(st.lists(st.tuples(st.sampled_from(["add", "ask", "answer", "hear"]), st.integers(0, 9)), max_size=60))
def test_an_honest_ledger_never_raises_an_alarm_however_studies_are_interleaved(events):
    """Nonces are issued, answered and heard in any order; the ledger grows all the while."""
    ledger, heads = Ledger(), peers()
    asked: dict[int, bytes] = {}
    answered: dict[int, dict[str, Said]] = {}
    highest = 0
    for event, study in events:
        if event == "add":
            ledger.add()
        elif event == "ask":
            asked[study] = heads.issue(STUDY)
        elif event == "answer" and study in asked:
            answered[study] = said(ledger, asked[study])
        elif event == "hear" and study in answered:
            heads.observe(STUDY, answered[study])
            head = msgspec.msgpack.decode(answered[study][ANA].head, type=LedgerHead)
            highest = max(highest, head.sequence)
            known = heads.known(ANA)
            assert known is not None
            assert known.sequence == highest


@given(st.integers(1, 20), st.data())
def test_a_ledger_set_back_below_what_a_peer_saw_is_refused_by_that_peer_until_the_end(length, data):
    ledger, heads = Ledger(), peers()
    for _ in range(length):
        ledger.add()
        heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    ledger.back(to=data.draw(st.integers(0, length - 1)))
    for _ in range(data.draw(st.integers(0, length - len(ledger.rows)))):
        ledger.add()
    with pytest.raises(LedgerCorrupt):
        heads.observe(STUDY, said(ledger, heads.issue(STUDY)))


# Under a signature ----------------------------------------------------------------------------------------------------------


def identity(name: str) -> Identity:
    return Identity.from_seed(hashlib.sha256(name.encode()).digest())


def test_a_head_for_the_coordinator_is_signed_over_its_nonce_and_cannot_be_said_again(ledger):
    own = LedgerHeads({ANA: "ledger of ana"}, mine=ledger.head)
    coordinator, key = peers(), PublicIdentity(identity(ANA).public)
    first = coordinator.issue(STUDY)
    replay = own.signed(ANA, identity(ANA), STUDY, first)
    coordinator.observe_signed(ANA, key, STUDY, first, replay)
    second = coordinator.issue(STUDY)
    for study, nonce in ((STUDY, second), (b"another study", first)):
        with pytest.raises(ProtocolError):
            coordinator.observe_signed(ANA, key, study, nonce, replay)
    ledger.add()
    coordinator.observe_signed(ANA, key, STUDY, second, own.signed(ANA, identity(ANA), STUDY, second))
    assert coordinator.known(ANA) == ledger.head()


def test_a_party_whose_own_ledger_has_gone_back_signs_nothing(ledger):
    own = LedgerHeads({ANA: "ledger of ana"}, mine=ledger.head)
    own.observe(STUDY, said(ledger, None))
    ledger.back(to=3)
    with pytest.raises(LedgerCorrupt, match="gone back"):
        own.signed(ANA, identity(ANA), STUDY, b"n" * 16)


class Table3:
    """Three members who meet; ana and bo have ledgers."""

    def __init__(self) -> None:
        self.plan = a_plan({ANA: 1, BO: 1})
        self.study = codec.digest(self.plan)
        self.ledgers = {ANA: Ledger("ledger of ana"), BO: Ledger("ledger of bo")}
        names = {name: ledger.name for name, ledger in self.ledgers.items()}
        pinned = {name: PublicIdentity(identity(name).public) for name in (ANA, BO, CY)}
        self.heads = {
            name: LedgerHeads(names, mine=self.ledgers[name].head if name in self.ledgers else None)
            for name in (ANA, BO, CY)
        }
        self.members = {name: Member(name, identity(name), pinned, self.heads[name]) for name in (ANA, BO, CY)}

    def meetings(self, run: bytes = RUN) -> dict[str, Meeting]:
        return {
            name: Meeting(member, self.plan, STEP, run, (ANA, BO, CY), hashlib.sha256(name.encode() + run).digest())
            for name, member in self.members.items()
        }

    def nonces(self) -> dict[str, Blob]:
        return {name: Blob(member.standing(self.plan, b"")[1]) for name, member in self.members.items()}

    def meet(self, run: bytes = RUN, nonces: dict[str, Blob] | None = None) -> None:
        meetings = self.meetings(run)
        given_out = self.nonces() if nonces is None else nonces
        hellos = {name: Blob(meeting.greet(given_out).hello) for name, meeting in meetings.items()}
        for meeting in meetings.values():
            meeting.meet(hellos)


@pytest.fixture
def table() -> Table3:
    assert len(bytes.fromhex(FEDERATION)) == 32
    return Table3()


def test_members_who_meet_learn_where_ledgers_stand_and_refuse_one_that_went_back(table):
    table.ledgers[ANA].add()
    table.meet()
    for name in (BO, CY):
        assert table.heads[name].known(ANA) == table.ledgers[ANA].head()
    table.ledgers[ANA].back(to=0)
    table.heads[ANA]._highest = {}  # all of its disk was restored, with what it remembered of itself
    with pytest.raises(LedgerCorrupt, match=f"'{ANA}' has gone back"):
        table.meet(b"another run of it")


def test_a_hello_that_was_made_before_a_later_one_is_heard_is_no_alarm(table):
    """Two runs side by side: ana greets in the first, pays in the second, and the second is heard first."""
    nonces = table.nonces()
    first = table.meetings(b"the first of two")
    hellos = {name: Blob(meeting.greet(nonces).hello) for name, meeting in first.items()}
    table.ledgers[ANA].add()
    table.meet(b"the second of two")
    for meeting in first.values():
        meeting.meet(hellos)
    assert table.heads[BO].known(ANA) == table.ledgers[ANA].head()


def test_a_coordinator_that_keeps_nonces_back_or_mixes_them_up_is_out_of_order(table):
    nonces = table.nonces()
    for wrong in ({}, {**nonces, BO: nonces[CY]}, {**nonces, CY: Blob(bytes(16))}):
        with pytest.raises(ProtocolError, match="not to a question"):
            table.meet(hashlib.sha256(repr(wrong).encode()).digest()[:16], wrong)
    with pytest.raises(ProtocolError, match="length"):
        table.meet(b"a nonce too long", {**nonces, CY: Blob(bytes(17))})


def test_nonces_of_a_hello_are_under_its_signature(table):
    """Ana answered old nonces. A coordinator that writes the present ones into the hello has her ledger's old place believed."""
    meetings, nonces = table.meetings(), table.nonces()
    old = {name: Blob(bytes(16)) for name in nonces}
    hellos = {name: meeting.greet(old if name == ANA else nonces).hello for name, meeting in meetings.items()}
    present = codec.decode(hellos[BO], Hello).nonces
    changed = msgspec.structs.replace(codec.decode(hellos[ANA], Hello), nonces=present)
    blobs = {name: Blob(data) for name, data in {**hellos, ANA: codec.encode(changed)}.items()}
    with pytest.raises(ProtocolError):
        meetings[BO].meet(blobs)
