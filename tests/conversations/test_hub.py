"""Data parties that do not compute greet through the nodes: what a coordinator can do with hellos that they did not check."""

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from colonnade.errors import ProtocolError
from colonnade.protocol import messages
from colonnade.protocol.messages import Blob
from colonnade.secure.keys import Hello
from tests.conversations.stage import Letters, Stage, a_plan, some_tables

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
                hello = change(messages.decode(letters[name]["eva"].view, Hello))
                letters[name]["eva"] = Blob(messages.encode(hello))
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


@pytest.mark.every(2)
@pytest.mark.parametrize("withheld", NODES)
def test_a_data_party_goes_on_only_with_the_word_of_every_node(withheld: str) -> None:
    def relay(turn: int, letters: Letters) -> Letters:
        if turn == 2:
            del letters["dee"][withheld]
        return letters

    turn, refused = a_stage().refusals(relay)
    assert turn == 2
    assert set(refused) == {"dee"}
