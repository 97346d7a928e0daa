"""Where ledgers stand, as peers and coordinator hear of it: out of order, late, replayed, and set back."""

import hashlib
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.conversations import memory
from colonnade.conversations.conversation import Member
from colonnade.conversations.endpoint import Consents, Yes
from colonnade.conversations.memory import Earlier, History, LedgerHead, LedgerHeads, Said, Statement
from colonnade.errors import LedgerCorrupt, ProtocolError
from colonnade.protocol import messages
from colonnade.secure.keys import NONCE_BYTES, Identity, PublicIdentity, nonces_digest
from tests.conversations.stage import NAMES, a_plan

STUDY = b"s" * 32
ANA, BO, CY = NAMES[:3]


class Ledger:
    """Rows that follow one another; ``back`` sets it back, and rows after that have another history."""

    def __init__(self, name: str = "ledger of ana") -> None:
        self.name, self.rows, self.lives, self.total, self.forfeited, self.clock = name, [0], 0, 0, 0, 0

    def add(self, count: int = 1) -> None:
        self.rows += [self.lives] * count
        self.total, self.clock = self.total + 10 * count, self.clock + 1

    def back(self, to: int) -> None:
        self.total -= 10 * (len(self.rows) - 1 - to)
        self.rows, self.lives, self.clock = self.rows[: to + 1], self.lives + 1, self.clock + 1

    def forfeit(self, total: int) -> None:
        self.add()
        self.total, self.forfeited = max(total, self.total), self.forfeited + 1

    def history(self) -> History:
        return History(hashlib.sha256(b"%d %d" % place).digest() for place in enumerate(self.rows))

    def head(self) -> LedgerHead:
        return self.shown(()).head

    def shown(self, since) -> Statement:
        history, last = self.history(), len(self.rows) - 1
        earlier = [Earlier(row, history.root(row + 1), history.proof(row + 1)) for row in since if 0 <= row < last]
        head = LedgerHead(self.name, last, history.root(), self.total, self.forfeited, self.clock)
        return Statement(head, tuple(earlier))


class Ana:
    """A party that says where its ledger stands. ``restarted`` forgets what the process knew."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.restarted()

    def restarted(self) -> None:
        self.own = LedgerHeads({ANA: self.ledger.name}, mine=self.ledger.shown)

    def said(self, question: bytes, **others: bytes) -> dict[str, Said]:
        return signed(self.own.own(ANA, {BO: question, **others}), question)


def signed(statement: bytes, question: bytes | None) -> dict[str, Said]:
    return {ANA: Said(statement, question, b"over " + statement, b"ana")}


def said(ledger: Ledger, question: bytes | None) -> dict[str, Said]:
    return Ana(ledger).said(question or b"") if question else signed(msgspec.msgpack.encode(ledger.shown(())), None)


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger()
    made.add(5)
    return made


def peers(**options) -> LedgerHeads:
    return LedgerHeads({ANA: "ledger of ana"}, **options)


def test_a_late_head_raises_no_alarm_and_is_not_taken_for_where_the_ledger_stands(ledger):
    heads, ana = peers(), Ana(ledger)
    late = ana.said(heads.issue(STUDY))
    ledger.add()
    heads.observe(STUDY, ana.said(heads.issue(STUDY)))
    heads.observe(STUDY, late)
    assert heads.known(ANA) == ledger.head()


def test_a_ledger_with_another_history_under_a_known_number_is_refused(ledger):
    """A clone that went its own way; also where the number was seen after the nonce."""
    for fresh in (False, True):
        heads = peers()
        question = heads.issue(STUDY)
        heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
        clone = Ledger()
        clone.add(4)
        clone.lives = 1
        clone.add()
        with pytest.raises(LedgerCorrupt, match="gone back"):
            heads.observe(STUDY, said(clone, heads.issue(STUDY) if fresh else question))


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
    for nonce in (b"x", b"n" * 16, heads.issue(b"another study"), stale):
        with pytest.raises(ProtocolError, match="to a question that is not open"):
            heads.observe(STUDY, said(ledger, nonce))
    assert heads.evidence(ANA) is None


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
    with pytest.raises(ProtocolError):  # of the last process
        again.observe(STUDY, said(ledger, heads.issue(STUDY)))
    with pytest.raises(LedgerCorrupt, match="gone back"):
        again.observe(STUDY, said(ledger, again.issue(STUDY)))


def test_an_honest_ledger_never_raises_an_alarm_however_studies_are_interleaved():
    """Three peers ask, and are answered together. Answers come late, in any order, twice or never; the ledger grows meanwhile."""
    late = 0
    for seed in range(100):
        draw, ledger, sites = random.Random(seed), Ledger(), [peers() for _ in range(3)]
        ana, highest = Ana(ledger), [-1, -1, -1]
        asked: dict[int, dict[int, bytes]] = {}
        answered: dict[int, bytes] = {}
        for _ in range(200):
            study, site, event = (
                draw.randrange(8),
                draw.randrange(3),
                draw.choice(["add", "ask", "answer", "hear", "hear"]),
            )
            if event == "add":
                ledger.add(draw.randint(1, 3))
            elif event == "ask" and study not in asked:
                asked[study] = {place: one.issue(STUDY) for place, one in enumerate(sites) if place != site}
            elif event == "answer" and study in asked and (study not in answered or not draw.randrange(4)):
                answered[study] = ana.own.own(ANA, {str(place): one for place, one in asked[study].items()})
            elif event == "hear" and study in answered and site in asked[study]:
                sites[site].observe(STUDY, signed(answered[study], asked[study][site]))
                row = msgspec.msgpack.decode(answered[study], type=Statement).head.sequence
                late += row < highest[site]
                highest[site] = max(highest[site], row)
                assert sites[site].known(ANA).sequence == highest[site]
                assert sites[site].evidence(ANA) is None
    assert late > 100  # or this has tried nothing


@given(st.integers(1, 20), st.data())
def test_a_ledger_set_back_below_what_a_peer_saw_is_refused_by_that_peer_until_the_end(length, data):
    """Also once it has grown past it."""
    ledger, heads = Ledger(), peers()
    for _ in range(length):
        ledger.add()
        heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    ledger.back(to=data.draw(st.integers(0, length - 1)))
    ledger.add(data.draw(st.integers(0, 3 * length)))
    with pytest.raises(LedgerCorrupt):
        heads.observe(STUDY, said(ledger, heads.issue(STUDY)))


# A roll-back, and how it ends -----------------------------------------------------------------------------------------------


def refused(heads: LedgerHeads, ana: Ana) -> str:
    with pytest.raises((LedgerCorrupt, ProtocolError)) as refusal:
        heads.observe(STUDY, ana.said(heads.issue(STUDY)))
    return refusal.value.code


@pytest.mark.every(2)
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_a_rolled_back_ledger_is_refused_however_often_it_tries_and_however_far_it_grows_until_its_owner_forfeits(
    rows, tmp_path
):
    """Each refusal used to add a row, and after enough of them the ledger had passed what its peers remembered."""
    ledger, path = Ledger(), tmp_path / "peers.heads"
    ledger.add(20)
    heads = peers(path=path)
    heads.observe(STUDY, Ana(ledger).said(heads.issue(STUDY)))
    highest = ledger.head()
    ledger.back(to=8)
    ana = Ana(ledger)
    for attempt in range(100):
        heads = heads if attempt % 10 else peers(path=path)  # members restart meanwhile
        assert refused(heads, ana) == "ledger-corrupt"
        ledger.add(rows)
    assert heads.known(ANA) == highest
    stood, rival = heads.evidence(ANA)
    assert (stood.head, rival.head.ledger) == (highest, highest.ledger)
    ledger.forfeit(total=highest.total)
    heads.observe(STUDY, ana.said(heads.issue(STUDY)))
    assert heads.known(ANA) == ledger.head()
    assert peers(path=path).evidence(ANA) is None
    ledger.add()
    heads.observe(STUDY, ana.said(heads.issue(STUDY)))


def test_two_signed_heads_that_contradict_are_kept_and_anybody_can_check_them(ledger, tmp_path):
    key, heads = identity(ANA), peers(path=tmp_path / "peers.heads")
    for _ in range(2):
        question = {BO: heads.issue(STUDY)}
        statement = spoken(Ana(ledger).own, question)
        if ledger.lives:
            with pytest.raises(LedgerCorrupt, match="gone back"):
                hear(heads, question, statement)
        else:
            hear(heads, question, statement)
        ledger.back(to=2)
        ledger.add(9)
    evidence = peers(path=tmp_path / "peers.heads").evidence(ANA)
    assert evidence is not None
    for one in evidence:
        PublicIdentity(key.public).verify(one.message, one.signature)
        assert one.head.root in one.message


def spoken(own: LedgerHeads, questions: dict[str, bytes]) -> bytes:
    """What ana says of her ledger, after a signature over it and over all questions, as in a yes."""
    statement = own.own(ANA, questions)
    return identity(ANA).sign(STUDY + nonces_digest(questions) + statement) + statement


def hear(heads: LedgerHeads, questions: dict[str, bytes], data: bytes, study: bytes = STUDY) -> None:
    signature, statement = data[:64], data[64:]
    words = study + nonces_digest(questions) + statement
    PublicIdentity(identity(ANA).public).verify(words, signature)
    heads.observe(study, {ANA: Said(statement, questions[BO], words, signature)})


def test_the_peers_own_root_sent_back_proves_nothing(ledger):
    heads = peers()
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    seen, honest = ledger.head(), ledger.history()
    ledger.back(to=2)
    ledger.add(9)
    branch = ledger.history()
    for proof in ((), (seen.root,), honest.proof(4), branch.proof(6), honest.proof(6)):
        claim = Statement(ledger.head(), (Earlier(5, seen.root, proof),))
        with pytest.raises(ProtocolError, match="does not hold"):
            heads.observe(STUDY, signed(msgspec.msgpack.encode(claim), heads.issue(STUDY)))
    with pytest.raises(ProtocolError, match="does not show"):
        heads.observe(STUDY, signed(msgspec.msgpack.encode(Statement(ledger.head())), heads.issue(STUDY)))
    assert heads.known(ANA) == seen


def test_questions_that_were_hoarded_before_a_roll_back_do_not_help_it(ledger):
    """They are measured by what was known when they were asked; what was seen since counts too."""
    heads = peers()
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    hoard = [heads.issue(STUDY) for _ in range(30)]
    clone = Ledger()
    clone.add(5)
    clone.lives = 1
    ledger.add(6)
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    clone.clock = ledger.clock + 1
    ana = Ana(clone)
    with pytest.raises(ProtocolError):  # it stands where the ledger once stood, and its answer could be a late one
        heads.observe(STUDY, ana.said(hoard[0]))
    for question in hoard:
        with pytest.raises((LedgerCorrupt, ProtocolError)):
            heads.observe(STUDY, ana.said(question))
        clone.add()
    assert heads.known(ANA) == ledger.head()
    assert heads.evidence(ANA) is not None


def test_a_coordinator_that_changes_what_is_asked_has_nobody_banned(ledger):
    heads, ana = peers(), Ana(ledger)
    heads.observe(STUDY, ana.said(heads.issue(STUDY)))
    ledger.add(4)
    ana.restarted()  # so that it names by itself nothing that it said before
    for rows in ({}, {ANA: 0}, {ANA: 3}, {ANA: 10**9}, {ANA: -1}, {"nobody": 5}):
        question = heads.issue(STUDY)
        changed = question[:NONCE_BYTES] + msgspec.msgpack.encode(rows)
        ana.restarted()
        with pytest.raises(ProtocolError, match="does not show"):
            heads.observe(STUDY, signed(ana.own.own(ANA, {BO: changed}), question))
    with pytest.raises(ProtocolError, match="does not show"):
        heads.observe(STUDY, signed(ana.own.own(ANA, {BO: question[:NONCE_BYTES] + b"\xff"}), question))
    assert heads.evidence(ANA) is None
    heads.observe(STUDY, ana.said(heads.issue(STUDY)))


def test_a_question_that_is_cut_to_what_one_party_has_to_know_asks_the_same(ledger):
    heads, ana = LedgerHeads({ANA: "ledger of ana", CY: "another"}), Ana(ledger)
    heads.observe(STUDY, ana.said(heads.issue(STUDY)))
    ledger.add()
    question = heads.issue(STUDY)
    assert memory.addressed(question, CY) == question[:NONCE_BYTES] + msgspec.msgpack.encode({})
    statement = ana.own.own(ANA, {BO: memory.addressed(question, ANA)})
    heads.observe(STUDY, signed(statement, memory.addressed(question, ANA)))
    assert heads.known(ANA) == ledger.head()


def test_a_forfeit_ends_a_ban_once(ledger):
    heads, highest = peers(), ledger.total
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    ledger.back(to=1)
    assert refused(heads, Ana(ledger)) == "ledger-corrupt"
    ledger.forfeit(total=highest)
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    mended = len(ledger.rows) - 1
    ledger.add(5)
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    ledger.back(to=mended)  # with the forfeit in it
    for _ in range(20):
        assert refused(heads, Ana(ledger)) == "ledger-corrupt"
        ledger.add()


def test_a_forfeit_that_writes_off_less_than_was_seen_is_refused():
    ledger, heads = Ledger(), peers()
    ledger.add(1_000)
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    seen = ledger.total
    ledger.back(to=10)
    ledger.forfeit(total=seen - memory.ROUNDING - 1)
    with pytest.raises(LedgerCorrupt, match="total is below"):
        heads.observe(STUDY, said(ledger, heads.issue(STUDY)))
    ledger.forfeit(total=seen)
    heads.observe(STUDY, said(ledger, heads.issue(STUDY)))


def test_a_ledger_from_before_its_last_forfeit_is_refused_and_a_message_from_before_it_bans_nobody(ledger):
    heads, ana = peers(), Ana(ledger)
    heads.observe(STUDY, ana.said(heads.issue(STUDY)))
    question = heads.issue(STUDY)
    late = ana.said(question)
    ledger.back(to=1)
    ledger.forfeit(total=10**6)
    heads.observe(STUDY, Ana(ledger).said(heads.issue(STUDY)))
    with pytest.raises(ProtocolError):
        heads.observe(STUDY, late)
    assert heads.evidence(ANA) is None
    before = Ledger()
    before.add(50)
    assert refused(heads, Ana(before)) == "ledger-corrupt"
    assert heads.evidence(ANA) is not None


def test_processes_of_one_site_share_what_they_know(ledger, tmp_path):
    """A coordinator runs studies from several processes."""
    one, other = peers(path=tmp_path / "heads"), peers(path=tmp_path / "heads")
    one.observe(STUDY, said(ledger, one.issue(STUDY)))
    ledger.add()
    other.observe(STUDY, said(ledger, other.issue(STUDY)))
    assert one.issue(STUDY)
    assert one.known(ANA) == ledger.head()
    ledger.back(to=3)
    assert refused(one, Ana(ledger)) == "ledger-corrupt"
    ledger.add(50)
    assert refused(other, Ana(ledger)) == "ledger-corrupt"
    assert other.evidence(ANA) is not None


def test_a_statement_stays_short_and_a_damaged_one_bans_nobody():
    ledger, heads, draw = Ledger(), peers(), random.Random(3)
    ledger.add(3_000)
    ana = Ana(ledger)
    heads.observe(STUDY, ana.said(heads.issue(STUDY)))
    ledger.add(2_000)
    question = heads.issue(STUDY)
    statement = ana.own.own(ANA, {BO: question})
    assert len(statement) < 3_000
    for _ in range(200):
        place = draw.randrange(len(statement))
        changed = statement[:place] + bytes([statement[place] ^ draw.randrange(1, 256)]) + statement[place + 1 :]
        damaged = draw.choice([changed, statement[:place]])
        with pytest.raises((ProtocolError, LedgerCorrupt)):
            peers_like(heads).observe(STUDY, signed(damaged, question))
    heads.observe(STUDY, signed(statement, question))


def peers_like(heads: LedgerHeads) -> LedgerHeads:
    other = peers()
    other._seen, other._issued, other._roots = heads._seen, heads._issued, dict(heads._roots)
    return other


# Under a signature ----------------------------------------------------------------------------------------------------------


def identity(name: str) -> Identity:
    return Identity.from_seed(hashlib.sha256(name.encode()).digest())


def test_a_head_for_the_coordinator_is_signed_over_its_nonce_and_cannot_be_said_again(ledger):
    own, coordinator = Ana(ledger).own, peers()
    first = {BO: coordinator.issue(STUDY)}
    replay = spoken(own, first)
    hear(coordinator, first, replay)
    second = {BO: coordinator.issue(STUDY)}
    for study, questions in ((STUDY, second), (b"another study", first)):
        with pytest.raises(ProtocolError):
            hear(coordinator, questions, replay, study)
    ledger.add()
    hear(coordinator, second, spoken(own, second))
    assert coordinator.known(ANA) == ledger.head()


def test_a_party_whose_own_ledger_has_gone_back_signs_nothing(ledger):
    own = Ana(ledger).own
    own.observe(STUDY, said(ledger, None))
    ledger.back(to=3)
    for _ in range(20):
        with pytest.raises(LedgerCorrupt, match="gone back"):
            spoken(own, {BO: b"n" * 16})
        ledger.add()


class Table3:
    """Three members of two plans, who say yes; ana and bo have ledgers."""

    def __init__(self) -> None:
        first = a_plan({ANA: 1, BO: 1})
        assert {*first.members} == {ANA, BO, CY}
        self.plans = [msgspec.structs.replace(first, repeat=repeat) for repeat in (1, 2)]
        self.ledgers = {ANA: Ledger("ledger of ana"), BO: Ledger("ledger of bo")}
        names = {name: ledger.name for name, ledger in self.ledgers.items()}
        pinned = {name: PublicIdentity(identity(name).public) for name in (ANA, BO, CY)}
        self.heads = {
            name: LedgerHeads(names, mine=self.ledgers[name].shown if name in self.ledgers else None)
            for name in (ANA, BO, CY)
        }
        self.consents = {name: Consents(Member(name, identity(name), pinned, self.heads[name])) for name in pinned}

    def nonces(self, number: int = 0) -> dict[str, bytes]:
        return {name: one.ask(self.plans[number]) for name, one in self.consents.items()}

    def yeses(self, nonces: dict[str, bytes], number: int = 0) -> dict[str, bytes]:
        plan = messages.digest(self.plans[number])
        return {name: one.say(plan, nonces) for name, one in self.consents.items()}

    def hear(self, yeses: dict[str, bytes], number: int = 0) -> None:
        for one in self.consents.values():
            one.hear(messages.digest(self.plans[number]), yeses)

    def agree(self, number: int = 0) -> None:
        self.hear(self.yeses(self.nonces(number), number), number)


@pytest.fixture
def table() -> Table3:
    return Table3()


def test_members_who_say_yes_learn_where_ledgers_stand_and_refuse_one_that_went_back(table):
    table.ledgers[ANA].add()
    table.agree()
    for name in (BO, CY):
        assert table.heads[name].known(ANA) == table.ledgers[ANA].head()
    table.ledgers[ANA].back(to=0)
    table.heads[ANA]._seen = {}  # all of its disk was restored, with what it remembered of itself
    with pytest.raises(LedgerCorrupt, match=f"'{ANA}' has gone back"):
        table.agree()


def test_a_yes_that_was_said_before_a_later_one_is_heard_is_no_alarm(table):
    """Two studies side by side: ana says yes to the first, pays in the second, and the second is heard first."""
    yeses = table.yeses(table.nonces())
    table.ledgers[ANA].add()
    table.agree(1)
    table.hear(yeses)
    assert table.heads[BO].known(ANA) == table.ledgers[ANA].head()


def test_a_coordinator_that_keeps_nonces_back_or_mixes_them_up_is_out_of_order(table):
    nonces = table.nonces()
    for wrong in ({}, {ANA: nonces[ANA], BO: nonces[BO]}, {**nonces, ANA: nonces[CY]}, {**nonces, "dee": bytes(16)}):
        with pytest.raises(ProtocolError, match="not those of this plan's members"):
            table.consents[ANA].say(messages.digest(table.plans[0]), wrong)
    with pytest.raises(ProtocolError, match="too short or too long"):
        table.consents[ANA].say(messages.digest(table.plans[0]), {**nonces, CY: bytes(15)})
    mixed = {name: {**nonces, (CY if name == BO else BO): bytes(16)} for name in (ANA, BO)}
    plan = messages.digest(table.plans[0])
    yeses = {name: one.say(plan, {**mixed[ANA], name: nonces[name]}) for name, one in table.consents.items()}
    with pytest.raises(ProtocolError, match="other nonces"):  # everybody was shown nonces of its own
        table.consents[BO].hear(plan, yeses)


def test_a_message_that_comes_twice_changes_nothing(table):
    nonces = table.nonces()
    assert table.nonces() == nonces
    yeses = table.yeses(nonces)
    table.ledgers[ANA].add()
    assert table.yeses(nonces) == yeses
    table.hear(yeses)
    table.hear(yeses)
    assert table.nonces() != nonces  # the study is asked for again


def test_nonces_of_a_yes_are_under_its_signature(table):
    """Ana answered old nonces. A coordinator that writes the present ones into her yes has her ledger's old place believed."""
    plan, nonces = messages.digest(table.plans[0]), table.nonces()
    old = table.consents[ANA].say(plan, {**nonces, BO: bytes(16)})
    yeses = {name: one.say(plan, nonces) for name, one in table.consents.items() if name != ANA}
    present = messages.decode(yeses[BO], Yes).nonces
    changed = msgspec.structs.replace(messages.decode(old, Yes), nonces=present)
    with pytest.raises(ProtocolError, match="signature"):
        table.consents[BO].hear(plan, {**yeses, ANA: messages.encode(changed)})
