"""A post office before a guard: letters put back and erased, and what a coordinator can have it hold in memory."""

import threading
import time
from pathlib import Path

import pytest

from colonnade.errors import ProtocolError
from colonnade.protocol import messages
from colonnade.protocol.messages import Blob, Post, Posted, Ticket
from colonnade.transport import links
from colonnade.transport.links import Mailbox, PostOffice
from tests.conversations.stage import a_plan
from tests.service.lines import until

PLAN = a_plan({"bank": 2, "telco": 2}, nodes=("bank", "telco", "insurer"))


class Says:
    """A guard that answers every turn with the same letters."""

    def __init__(self, letters: dict[str, bytes]) -> None:
        self.letters = letters
        self.heard: list[Post] = []

    def handle(self, data: bytes) -> bytes:
        self.heard.append(messages.decode_request(data))
        return messages.encode(Posted(letters={name: Blob(letter) for name, letter in self.letters.items()}))


def a_turn(number: int, letters: dict[str, Blob] | None = None, run: bytes = b"r" * 16) -> Post:
    return Post(plan=PLAN, step="gram", run=run, turn=number, letters=letters or {})


def with_mail(folder: Path, guard, letters: dict[str, bytes]) -> tuple[PostOffice, Mailbox, dict[str, Blob]]:
    """A post office whose mailbox has these letters for the next turn, and the tickets to them."""
    box, study = Mailbox(folder / "mail", letters, spare=0), messages.digest(PLAN)
    for sender, letter in letters.items():
        with box.place(sender, study, Ticket.of(letter)) as place:
            place.file.write(letter)
            place.whole = True
    return PostOffice(guard, box, {}), box, {sender: Ticket.of(letter).blob() for sender, letter in letters.items()}


def test_letters_are_put_back_for_the_guard_and_erased_with_its_answer(tmp_path):
    guard = Says({})
    office, box, tickets = with_mail(tmp_path, guard, {"telco": b"t" * 2_000, "bank": b"b" * 3_000})
    office.handle(messages.encode(a_turn(2, tickets)))
    assert guard.heard[0].letters == {"telco": Blob(b"t" * 2_000), "bank": Blob(b"b" * 3_000)}
    assert len(box) == 0
    office.handle(messages.encode(a_turn(2, tickets)))
    assert guard.heard[1].letters == tickets, "a guard that has answered does so again from memory"


def test_a_guard_that_is_away_leaves_the_letters_for_when_the_turn_comes_again(tmp_path):
    class Away:
        def handle(self, data: bytes) -> bytes:
            raise ProtocolError("The party's guard did not answer.")

    office, box, tickets = with_mail(tmp_path, Away(), {"telco": b"t" * 2_000})
    with pytest.raises(ConnectionAbortedError):
        office.handle(messages.encode(a_turn(2, tickets)))
    assert len(box) == 1


def test_a_first_turn_that_is_asked_again_erases_nothing_and_that_of_another_run_does(tmp_path):
    office, box, _ = with_mail(tmp_path, Says({}), {})
    study, ticket = messages.digest(PLAN), Ticket.of(b"t" * 2_000)
    box = office._mailbox = Mailbox(tmp_path / "other", ["telco"], spare=0)
    office.handle(messages.encode(a_turn(0)))
    with box.place("telco", study, ticket) as place:
        place.file.write(b"t" * 2_000)
        place.whole = True
    office.handle(messages.encode(a_turn(0)))
    assert len(box) == 1
    office.handle(messages.encode(a_turn(0, run=b"q" * 16)))
    assert len(box) == 0


def test_a_few_turns_at_most_are_held_whole(tmp_path):
    """However many turns a coordinator gives at once, letters are read for two of them before the guard has answered one."""
    entered, go = [], threading.Event()

    class Slow(Says):
        def handle(self, data: bytes) -> bytes:
            entered.append(len(data))
            assert go.wait(20)
            return super().handle(data)

    office, box, tickets = with_mail(tmp_path, Slow({}), {"telco": b"t" * 2_000})
    read, find = [], box.find
    box.find = lambda *place: read.append(place) or find(*place)
    threads = [
        threading.Thread(target=office.handle, args=(messages.encode(a_turn(2, tickets)),), daemon=True)
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(entered) >= links.TURNS_AT_ONCE, what="the first turns are at the guard")
    time.sleep(0.2)
    assert len(read) == links.TURNS_AT_ONCE
    go.set()
    for thread in threads:
        thread.join(20)
    assert len(read) == 6
