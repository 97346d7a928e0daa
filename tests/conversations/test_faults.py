"""Messages lost, changed, repeated and sent elsewhere; members killed: typed aborts, one debit, one noise, one opening.

A run of two chunks has turns 0 … 5. Letters are delivered in turns 1 (hellos) to 5 (degree checks).
"""

import contextlib
import sqlite3
from collections import defaultdict

import numpy as np
import pytest

from colonnade.errors import BudgetExceeded, ProtocolError
from colonnade.plan import Plan
from colonnade.privacy.accounting import Loss
from colonnade.protocol import messages
from colonnade.protocol.messages import Blob, Conclude, Opened, Post, Posted, Refused, Released, pack
from colonnade.steps import kind as joint_module
from tests.conversations.sites import (
    EPSILON,
    STEP,
    Lost,
    Requests,
    Site,
    at_turn,
    fails,
    once_each,
    replaced,
    turn_of,
    without,
)

PARTIES = ("bank", "telco", "insurer")
LAST = 5
full = pytest.mark.full


@pytest.fixture(autouse=True)
def _two_chunks(monkeypatch):
    monkeypatch.setattr(joint_module, "CHUNK_UNIT", 30)
    monkeypatch.setattr(joint_module, "CHUNK_ELEMENTS", 1)


# Letters --------------------------------------------------------------------------------------------------------------------


class Letters(dict):
    """Letters by receiver and sender, as a turn delivers them, with those of other turns and runs beside."""

    sender: str
    receiver: str
    past: dict[str, dict]

    @property
    def other(self) -> str:
        return next(name for name in PARTIES if name not in (self.sender, self.receiver))

    def change(self, edit) -> None:
        self[self.receiver][self.sender] = Blob(edit(bytearray(self[self.receiver][self.sender].view)))

    def put(self, letter: Blob) -> None:
        assert letter != self[self.receiver][self.sender]
        self[self.receiver][self.sender] = letter

    def swap(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        (a, b), (c, d) = one, other
        self[a][b], self[c][d] = self[c][d], self[a][b]


def _flip(place):
    def edit(data: bytearray) -> bytearray:
        data[place if place >= 0 else len(data) + place] ^= 1
        return data

    return lambda letters: letters.change(edit)


FAULTS = {
    "dropped": lambda letters: letters[letters.receiver].pop(letters.sender),
    "emptied": lambda letters: letters.change(lambda _: b""),
    "its first bit flipped": _flip(0),
    "a bit flipped": _flip(40),
    "its last bit flipped": _flip(-1),
    "truncated": lambda letters: letters.change(lambda data: data[:-1]),
    "extended": lambda letters: letters.change(lambda data: data + b"\0"),
    "under another's name": lambda letters: letters.swap(
        (letters.receiver, letters.sender), (letters.receiver, letters.other)
    ),
    "twice, under two names": lambda letters: letters[letters.receiver].update(
        {letters.other: letters[letters.receiver][letters.sender]}
    ),
    "and one more from a stranger": lambda letters: letters[letters.receiver].update(
        {"stranger": letters[letters.receiver][letters.sender]}
    ),
    "and one from oneself": lambda letters: letters[letters.receiver].update(
        {letters.receiver: letters[letters.receiver][letters.sender]}
    ),
    "spliced with another's": lambda letters: letters.change(
        lambda data: data[: len(data) // 2] + bytes(letters[letters.receiver][letters.other].view)[len(data) // 2 :]
    ),
    "misdelivered": lambda letters: letters.swap((letters.receiver, letters.sender), (letters.other, letters.sender)),
    "of the turn before": lambda letters: letters.put(letters.past["this run"][letters.receiver][letters.sender]),
    "of a run of another plan": lambda letters: letters.put(
        letters.past["another plan"][letters.receiver][letters.sender]
    ),
    "of an aborted run of this plan": lambda letters: letters.put(
        letters.past["an aborted run"][letters.receiver][letters.sender]
    ),
}
NOT_FOR_HELLOS = {"misdelivered", "of the turn before"}  # everybody gets the same hellos, and none came before

PAIRS = [(sender, receiver) for sender in PARTIES for receiver in PARTIES if sender != receiver]
CASES = [
    pytest.param(turn, fault, *pair, marks=[] if (turn, chosen) == (number % LAST + 1, number % 6) else [full])
    for turn in range(1, LAST + 1)
    for number, fault in enumerate(FAULTS)
    for chosen, pair in enumerate(PAIRS)
    if turn > 1 or fault not in NOT_FOR_HELLOS
]


class Spoiler:
    """Lets one fault happen to the letters of one turn, once, and records the letters of all others."""

    def __init__(self, site: Site, turn: int, fault: str, sender: str, receiver: str) -> None:
        self.site, self.turn, self.fault = site, turn, fault
        self.sender, self.receiver = sender, receiver
        self.seen: dict[str, dict[int, dict]] = defaultdict(dict)
        self.recording = "this run"
        site.spoil = self

    def __call__(self, requests: Requests) -> Requests:
        turn = turn_of(requests)
        if not turn:
            return requests
        posts = {name: messages.decode_request(data) for name, data in requests.items()}
        letters = Letters({name: dict(post.letters) for name, post in posts.items()})
        self.seen[self.recording][turn] = {name: dict(received) for name, received in letters.items()}
        if self.recording == "an aborted run" and turn == LAST:
            letters = {name: {} for name in letters}
        elif self.recording == "this run" and turn == self.turn:
            letters.sender, letters.receiver = self.sender, self.receiver
            letters.past = {
                run: turns[turn - (run == "this run")] for run, turns in self.seen.items() if self._had(run)
            }
            FAULTS[self.fault](letters)
            self.site.spoil = lambda requests: requests
        return {name: messages.encode(replaced(post, letters=letters[name])) for name, post in posts.items()}

    def _had(self, run: str) -> bool:
        return self.turn - (run == "this run") in self.seen[run]

    def prepare(self, plan: Plan) -> None:
        """Record what the fault needs of other runs."""
        if self.fault == "of a run of another plan":
            self.recording = "another plan"
            self.site.run(replaced(plan, repeat=2))
        if self.fault == "of an aborted run of this plan":
            self.recording = "an aborted run"
            assert fails(self.site, plan).code == "protocol-error"
        self.recording = "this run"


@pytest.mark.parametrize(("turn", "fault", "sender", "receiver"), CASES)
def test_a_run_is_over_and_can_be_run_again_when_a_letter_is(turn, fault, sender, receiver, site):
    """Dropped, changed, replayed, …: the run is over before anything is opened, and can be run again."""
    spoiler, plan = Spoiler(site, turn, fault, sender, receiver), site.plan()
    spoiler.prepare(plan)
    shares, spent = site.opened(), site.spent()
    error = fails(site, plan)
    assert error.code in {"protocol-error", "plan-mismatch"}
    refusers = {name for name, reply in site.rounds[-1][1].items() if isinstance(reply, Refused)}
    assert receiver in refusers
    if turn == 1:
        assert refusers == {receiver} or fault in ("under another's name", "twice, under two names")
        assert site.spent()[receiver] == spent[receiver]  # nothing is paid before the hellos are in order
    if turn < LAST:
        assert site.opened() == shares
    assert site.run(plan) == site.expected(plan)


# Whole messages -------------------------------------------------------------------------------------------------------------


@pytest.mark.every(3)
@pytest.mark.parametrize("name", ["telco", pytest.param("bank", marks=full), pytest.param("insurer", marks=full)])
@pytest.mark.parametrize("turn", [0, 2, 3, 4])
@pytest.mark.parametrize("reply", [False, True])
def test_a_lost_message_ends_the_run_and_another_takes_it_up_with_the_same_noise(turn, reply, name, site):
    plan = site.plan()
    if reply:
        site.lose = lambda party, request: _lose(site, party, request, name, turn)
    else:
        at_turn(site, turn, without(name))
    error = fails(site, plan)
    assert error.code == "protocol-error"
    assert site.run(plan) == site.expected(plan)
    assert site.spent() == once_each(site)


def _lose(site: Site, party: str, request, name: str, turn: int) -> None:
    if party == name and isinstance(request, Post) and request.turn == turn:
        site.lose = lambda party, request: None
        raise Lost


@pytest.mark.every(2)
@pytest.mark.parametrize("name", PARTIES)
def test_when_the_last_reply_is_lost_the_shares_that_were_kept_are_sent_again(name, site):
    plan = site.plan()
    site.lose = lambda party, request: _lose(site, party, request, name, LAST)
    fails(site, plan)
    assert site.run(plan) == site.expected(plan)
    assert sum(turn_of({"": messages.encode(asked["bank"])}) == LAST for asked, _ in site.rounds) == 1  # one opening
    assert site.spent() == once_each(site)


@pytest.mark.every(2)
@pytest.mark.parametrize("turn", range(LAST + 1))
def test_garbage_in_place_of_a_request_costs_nothing_more(turn, site):
    plan = site.plan()
    at_turn(site, turn, lambda requests: {**requests, "telco": requests["telco"][:-1] + b"\xff" * 3})
    assert fails(site, plan).code == "protocol-error"
    if turn < LAST:
        assert site.run(plan) == site.expected(plan)
    assert site.spent() == once_each(site)


def test_every_turn_asked_again_is_answered_with_the_same_bytes_and_paid_once(site):
    plan, real = site.plan(), site.handle

    def twice(name: str, data: bytes) -> bytes:
        answers = {real(name, data) for _ in range(3)}
        assert len(answers) == 1
        return answers.pop()

    site.handle = twice
    assert site.run(plan) == site.expected(plan)
    assert site.spent() == once_each(site)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", ["bank", "coordinator"])
@pytest.mark.parametrize("skipped", [0, 2, 3, LAST, LAST + 1, -1])
def test_turns_are_taken_in_order_only(skipped, name, pair):
    """In the middle of a run (turn 1 is taken, 2 is next) any other turn ends in a refusal and releases nothing."""
    plan = pair.plan()
    posts: dict[int, Post] = {}

    def remember(requests: Requests) -> Requests:
        posts[turn_of(requests)] = messages.decode_request(requests[name])
        if turn_of(requests) != 2:
            return requests
        if skipped != 2:
            reply = pair.ask(name, replaced(posts[2], turn=skipped))
            assert isinstance(reply, Refused)
            assert reply.code == "protocol-error"
        return without(name)(requests)

    pair.spoil = remember
    fails(pair, plan)
    pair.spoil = lambda requests: requests
    assert pair.opened() == 0
    assert pair.run(plan) == pair.expected(plan)


# Keeping the result ---------------------------------------------------------------------------------------------------------


def test_a_result_that_is_declared_in_the_middle_of_a_run_ends_it_for_good(site):
    """A coordinator that makes results up gets no further share of the step, and pays nothing back."""
    plan, posts = site.plan(), {}
    at_turn(site, 3, lambda requests: posts.update(requests) or {})
    fails(site, plan)
    made_up = Conclude(plan=plan, step=STEP, values={"cross": pack(np.zeros(26, dtype=np.int64))})
    assert isinstance(site.ask("bank", made_up), Released)
    assert isinstance(messages.decode_reply(site.handle("bank", posts["bank"])), Refused)
    request = messages.request_identity(plan, "bank", STEP)
    assert site.ledger("bank").seed_of(request) is None
    replies = [site.ask("bank", Post(plan=plan, step=STEP, run=bytes(16), turn=turn, letters={})) for turn in (0, 1)]
    assert not any(isinstance(reply, Posted | Opened) for reply in replies)
    assert site.spent() == once_each(site)


# The cap --------------------------------------------------------------------------------------------------------------------


def test_a_budget_that_runs_out_before_the_first_share_leaves_stops_the_run_there(tmp_path):
    site = Site(tmp_path, epsilon=0.7)
    plan = site.plan()

    def spend(requests: Requests) -> Requests:
        site.ledger("telco").debit(b"another study", bytes(32), Loss.of_pure(300_000_000), label="another study")
        return requests

    at_turn(site, 1, spend)
    with pytest.raises(BudgetExceeded) as refusal:
        site.run(plan)
    assert refusal.value.spent == {"bank": EPSILON, "insurer": EPSILON}  # they had dealt
    assert site.spent() == {"bank": EPSILON, "telco": 0.3, "insurer": EPSILON}
    assert site.opened() == 0
    with pytest.raises(BudgetExceeded) as refusal:
        site.run(plan)
    assert refusal.value.spent is None
    site.close()


def test_a_step_that_is_started_over_and_over_is_one_debit_and_one_noise(site):
    """Averaging: however often a coordinator starts over, the noise is the same and paid once."""
    plan = site.plan()
    for _ in range(8):
        at_turn(site, 4, lambda requests: {})
        with pytest.raises(ProtocolError):
            site.run(plan)
    assert site.run(plan) == site.expected(plan)
    assert site.spent() == once_each(site)


def secrets_kept(site: Site) -> dict[str, int]:
    """Count the secrets in each member's records. That the one step was is never forgotten."""
    found = {}
    for name in (*site.parties, *site.nodes):
        with contextlib.closing(sqlite3.connect(site.folder / f"{name}.openings")) as file:
            ((known, secret),) = file.execute("SELECT count(*), count(secret) FROM runs").fetchall()
            assert known == 1, f"{name} forgets that it took part"
            found[name] = secret
    return found


def test_every_member_forgets_its_secret_when_a_step_is_over(tmp_path):
    site = Site(tmp_path, parties=("bank", "telco"), nodes=("auditor",))
    plan = site.plan()
    result = site.run(plan)
    assert secrets_kept(site) == {"bank": 0, "telco": 0, "auditor": 0}
    site.kill("auditor")
    assert isinstance(site.ask("auditor", Post(plan=plan, step=STEP, run=bytes(16), turn=0, letters={})), Refused)
    assert site.run(plan) == result
    site.close()


@pytest.mark.parametrize("late", ["bank", "telco", "auditor"])
def test_a_member_that_missed_the_end_of_a_step_forgets_its_secret_when_the_study_is_asked_for_again(tmp_path, late):
    site = Site(tmp_path, parties=("bank", "telco"), nodes=("auditor",))
    plan = site.plan()

    def miss(requests: Requests) -> Requests:
        over = isinstance(messages.decode_request(next(iter(requests.values()))), Conclude)
        return {name: data for name, data in requests.items() if not (over and name == late)}

    site.spoil = miss
    fails(site, plan)
    assert secrets_kept(site)[late] == 1
    site.spoil = lambda requests: requests
    assert site.run(plan) == site.expected(plan)
    assert not any(secrets_kept(site).values())
    for name in site.parties:
        assert site.ledger(name).seed_of(messages.request_identity(plan, name, STEP)) is None
    site.close()
