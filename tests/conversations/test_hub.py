"""Data parties that do not compute greet through the nodes: what a coordinator can do with hellos that they did not check."""

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from colonnade.conversations.conversation import Member
from colonnade.conversations.memory import LedgerHeads
from colonnade.errors import LedgerCorrupt, PlanMismatch, ProtocolError
from colonnade.protocol import codec
from colonnade.protocol.messages import Blob
from colonnade.secure.mail import Hello
from tests.conversations.stage import Letters, Stage, a_plan, members, some_tables
from tests.conversations.test_heads import Ledger

NODES = ("ana", "bo", "cy")
OWNERS = ("ana", "dee", "eva")
EVERYBODY = ("ana", "bo", "cy", "dee", "eva")
OUTSIDE = ("dee", "eva")


def a_stage(**changes: object) -> Stage:
    plan = a_plan(dict.fromkeys(OWNERS, 1), nodes=NODES)
    return Stage(plan, some_tables(plan, np.random.default_rng(7)), **changes)


def shown(receivers: tuple[str, ...], change: Callable[[Hello], Hello]) -> Callable[[int, Letters], Letters]:
    """A coordinator that shows some members another hello of eva."""

    def relay(turn: int, letters: Letters) -> Letters:
        if turn == 1:
            for name in receivers:
                hello = change(codec.decode(letters[name]["eva"].view, Hello))
                letters[name]["eva"] = Blob(codec.encode(hello))
        return letters

    return relay


def another_key(hello: Hello) -> Hello:
    return msgspec.structs.replace(hello, ephemeral=bytes(range(32)))


def test_data_parties_outside_a_committee_have_keys_with_its_members_only_and_the_opening_is_exact() -> None:
    stage = a_stage().play()
    assert stage.opened == stage.plain
    for name, run in stage.runs.items():
        assert run._session is not None
        expected = NODES if name in OUTSIDE else EVERYBODY
        assert set(run._session.peers) == set(expected) - {name}


def test_a_hello_that_nobody_signed_is_refused_by_every_node_where_everybody_is_shown_it() -> None:
    turn, refused = a_stage().refusals(shown(tuple(name for name in EVERYBODY if name != "eva"), another_key))
    assert turn == 1
    assert set(refused) == set(NODES)


def test_a_hello_that_only_a_data_party_was_shown_leaves_it_unread_and_unheard() -> None:
    """Dee cannot tell. No node can open what dee seals, and dee can open no node's word: nothing is ever multiplied."""
    turn, refused = a_stage().refusals(shown(("dee",), another_key))
    assert turn == 2
    assert set(refused) == {*NODES, "dee"}
    assert all(isinstance(error, ProtocolError) for error in refused.values())


def test_another_plan_is_noticed_before_anything_is_paid_also_where_no_signature_is_checked() -> None:
    stage = a_stage()
    turn, refused = stage.refusals(shown(("dee",), lambda hello: msgspec.structs.replace(hello, terms=bytes(32))))
    assert turn == 1
    assert isinstance(refused["dee"], PlanMismatch)
    assert stage.tables["dee"].begun == 0


@pytest.mark.parametrize("withheld", NODES)
def test_a_data_party_goes_on_only_with_the_word_of_every_node(withheld: str) -> None:
    def relay(turn: int, letters: Letters) -> Letters:
        if turn == 2:
            del letters["dee"][withheld]
        return letters

    turn, refused = a_stage().refusals(relay)
    assert turn == 2
    assert set(refused) == {"dee"}


# Ledgers --------------------------------------------------------------------------------------------------------------------


class Ledgers:
    """Everybody but bo and cy has a ledger, and everybody remembers."""

    def __init__(self) -> None:
        self.ledgers = {name: Ledger(f"ledger of {name}") for name in OWNERS}
        named = {name: ledger.name for name, ledger in self.ledgers.items()}
        self.heads = {
            name: LedgerHeads(named, mine=self.ledgers[name].shown if name in named else None) for name in EVERYBODY
        }
        self.members = {
            name: Member(name, member.identity, member.pinned, self.heads[name])
            for name, member in members(EVERYBODY).items()
        }
        self.draws = 0

    def stage(self) -> Stage:
        self.draws += 1
        return a_stage(pinned=self.members, run=b"%016d" % self.draws, draw=self.draws)

    def nonces(self, stage: Stage) -> dict[str, Blob]:
        return {name: Blob(member.standing(stage.plan, b"")[1]) for name, member in self.members.items()}

    def play(self, relay: Callable[[int, Letters], Letters] = lambda _, letters: letters) -> None:
        stage = self.stage()
        nonces = self.nonces(stage)
        letters = stage.turn(0, dict.fromkeys(EVERYBODY, nonces))
        for number in range(1, len(stage.joint.chunks) + 4):
            letters = stage.turn(number, relay(number, letters))


def test_a_data_party_remembers_where_the_others_ledgers_stand_by_the_nodes_word() -> None:
    table = Ledgers()
    table.ledgers["eva"].add()
    table.play()
    for name in EVERYBODY:
        if name != "eva":
            assert table.heads[name].known("eva") == table.ledgers["eva"].head()


def test_a_ledger_that_went_back_is_refused_by_a_data_party_that_checked_no_signature_of_it() -> None:
    """The nodes have lost their memory too, so that nobody but dee knows."""
    table = Ledgers()
    table.ledgers["eva"].add()
    table.play()
    table.ledgers["eva"].back(to=0)
    for name in (*NODES, "eva"):
        table.heads[name]._seen = {}
    with pytest.raises(LedgerCorrupt, match="'eva' has gone back"):
        table.play()


def test_a_head_that_a_coordinator_made_up_is_not_remembered() -> None:
    """Remembered, it would have every later head of an honest party refused."""
    table = Ledgers()
    ahead = Ledger("ledger of eva")
    for _ in range(9):
        ahead.add()
    made_up = msgspec.msgpack.encode(ahead.shown(()))
    with pytest.raises(ProtocolError):
        table.play(shown(("dee",), lambda hello: msgspec.structs.replace(hello, head=made_up)))
    assert table.heads["dee"].known("eva") is None
    table.play()
    assert table.heads["dee"].known("eva") == table.ledgers["eva"].head()
