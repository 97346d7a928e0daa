"""A party gone bad: identities, letters and dealings that are not what they should be. A typed abort, and nothing is opened."""

import numpy as np
import pytest

from colonnade.conversations import products as run_module
from colonnade.conversations.conversation import ChallengeChain
from colonnade.conversations.products import ProductLetter
from colonnade.errors import ProtocolError
from colonnade.protocol import messages
from colonnade.protocol.messages import (
    Blob,
    Opened,
    Propose,
)
from colonnade.secure.shamir import Dealing, check_repetitions
from colonnade.steps import kind as joint_module
from tests import kit
from tests.conversations.stage import NAMES, Stage, Watched, a_plan, altered, members, seed, some_tables

# Identities -----------------------------------------------------------------------------------------------------------------


def swapped_keys(name: str) -> Stage:
    """One member was given two other members' keys the wrong way round."""
    plan = a_plan({"ana": 1, "bo": 1}, people=2)
    real = members(NAMES[:3])
    pinned = dict(real[name].pinned)
    one, other = [peer for peer in NAMES[:3] if peer != name]
    pinned[one], pinned[other] = pinned[other], pinned[one]
    wrong = run_module.Member(name, real[name].identity, pinned)
    return Stage(plan, some_tables(plan, kit.generator("swapped")), pinned={name: wrong})


@pytest.mark.every(2)
@pytest.mark.parametrize("name", NAMES[:3])
def test_swapped_identity_keys_end_the_run_before_anybody_deals_to_the_one_deceived(name):
    stage = swapped_keys(name)
    turn, refused = stage.refusals()
    assert (turn, set(refused)) == (1, {name})
    assert refused[name].code == "protocol-error"
    if name in stage.tables:
        assert stage.tables[name].begun == 0


# A party gone bad: letters --------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _two_chunks(monkeypatch):
    monkeypatch.setattr(joint_module, "CHUNK_UNIT", 4)
    monkeypatch.setattr(joint_module, "CHUNK_ELEMENTS", 1)


def a_stage(cheat: type[Watched], *, cheats: str = "dee", nodes: int = 4, threshold: int | None = None) -> Stage:
    """Ana, Bo and Dee hold data, and everybody computes; two chunks of rows."""
    widths = {"ana": 2, "bo": 1, cheats: 2}
    plan = a_plan(widths, nodes=NAMES[:nodes], threshold=threshold, people=7, scale=20)
    return Stage(plan, some_tables(plan, kit.generator("gone bad")), kinds={cheats: cheat})


def writing(change) -> type[Watched]:
    """A member that writes other letters than it should."""

    class Writes(Watched):
        def alter(self, turn: int, receiver: str, letter: ProductLetter) -> ProductLetter:
            return change(self, turn, receiver, letter)

    return Writes


def part(name: str, edit):
    """Change one part of every letter that has it."""

    def change(run, turn, receiver, letter):
        value = getattr(letter, name)
        return altered(letter, **{name: edit(value)}) if value else letter

    return writing(change)


def out_of_range(blob: Blob) -> Blob:
    return Blob(b"\xff" * len(blob)) if len(blob) != 32 else blob


BAD_LETTERS = {
    "a share of rows out of range": part("share", out_of_range),
    "a share of noise out of range": part("noise", out_of_range),
    "a share of a mask out of range": part("mask", out_of_range),
    "a share of rows too short": part("share", lambda blob: Blob(blob.view[:-6])),
    "a share of rows too long": part("share", lambda blob: Blob(bytes(blob.view) + bytes(6))),
    "a short seed": part("table", lambda blob: Blob(blob.view[:-1])),
    "no share of rows": part("share", lambda _: None),
    "no share of noise": part("noise", lambda _: None),
    "no share of a mask": part("mask", lambda _: None),
    "no seed": part("table", lambda _: None),
    "another end of its chain": part("head", lambda _: seed("another end")),
    "no end of its chain": part("head", lambda _: b""),
    "a link of another chain": part("reveal", lambda _: ChallengeChain(seed("another chain"), 2).link(1)),
    "the end of its chain in place of a link": writing(
        lambda run, turn, receiver, letter: altered(letter, reveal=run._chain.head) if letter.reveal else letter
    ),
    "a link too early": writing(
        lambda run, turn, receiver, letter: altered(letter, reveal=run._chain.link(2)) if turn == 2 else letter
    ),
    "no link": part("reveal", lambda _: b""),
    "another account of the chains": part("heads", lambda _: seed("another account")),
    "no account of the chains": part("heads", lambda _: b""),
    "a check out of range": part("check", lambda check: {owner: out_of_range(part) for owner, part in check.items()}),
    "a wrong check": part("check", lambda check: {owner: Blob(bytes(len(part))) for owner, part in check.items()}),
    "a check left out": part("check", lambda check: {"ana": check["ana"]}),
    "no check": part("check", lambda _: {}),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("fault", BAD_LETTERS)
def test_a_member_that_writes_this_is_refused_before_anything_is_opened(fault):
    stage = a_stage(BAD_LETTERS[fault])
    turn, refused = stage.refusals()
    assert {error.code for error in refused.values()} <= {"protocol-error"}
    assert refused
    assert "dee" not in refused or "end of its chain" in fault
    assert not any(isinstance(reply, Opened) for name, reply in stage.said.items() if name in refused)
    if "check" not in fault:
        assert turn < stage.runs["ana"].last_turn
        assert not any(isinstance(reply, Opened) for reply in stage.said.values())
    else:
        assert set(refused) == {"ana", "bo", "cy"}  # honest nodes abort alike


class Talks(Watched):
    """Writes bytes that are no letter."""

    body = b"not a letter"

    def _compose(self, turn: int):
        letters = super()._compose(turn)
        if turn == 2:
            self._session._sealed.clear()
            return {node: Blob(self._session.seal(node, turn, 0, self.body)) for node in letters}
        return letters


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not a letter",
        messages.encode(ProductLetter()) + b"\0",
        messages.encode(Propose(plan=a_plan({"a": 1, "b": 1}))),
    ],
)
def test_sealed_bytes_that_are_no_letter_are_refused(body):
    turn, refused = a_stage(type("Talks", (Talks,), {"body": body})).refusals()
    assert (turn, set(refused)) == (3, {"ana", "bo", "cy"})


# A party gone bad: dealings -------------------------------------------------------------------------------------------------


def dealing(degree: int, *, what: str = "_table", chunk: int | None = None) -> type[Watched]:
    """A data party whose table or masks are dealt by polynomials of another degree, in one chunk or in all."""

    class Deals(Watched):
        def _meet(self, hellos) -> None:
            super()._meet(hellos)
            dealt = self._dealing
            assert dealt is not None
            honest = getattr(dealt, what)
            steep = Dealing(honest.arithmetic, nodes=honest.nodes, degree=degree, seed=honest._seed, bound=honest.bound)
            if what == "_mask":
                count = check_repetitions(honest.arithmetic)
                dealt._mask_shares = steep.shares(0, np.zeros(count, dtype=np.int64))
            else:
                dealt._chunks = dealt._dealer.deal(_Mixed(honest, steep, chunk), self.joint.chunks)

    return Deals


class _Mixed:
    """Deals one chunk by one dealing and the others by another."""

    def __init__(self, honest: Dealing, other: Dealing, chunk: int | None) -> None:
        self.honest, self.other, self.chunk = honest, other, chunk
        self.seeds = honest.seeds

    def shares(self, number, *secrets):
        return (self.other if self.chunk in (None, number) else self.honest).shares(number, *secrets)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("nodes", "threshold", "degree"), [(4, 1, 2), (4, 1, 3), (5, 2, 3), (5, 2, 4), (7, 2, 3), (6, 1, 2)]
)
@pytest.mark.parametrize("chunk", [None, 1, 2])
@pytest.mark.parametrize("cheats", ["dee", "hal"])
def test_a_table_of_the_wrong_degree_is_caught_by_every_honest_node_before_anything_is_opened(
    nodes, threshold, degree, chunk, cheats
):
    """Whether the cheat computes itself (Dee) or only holds data (Hal)."""
    stage = a_stage(dealing(degree, chunk=chunk), cheats=cheats, nodes=nodes, threshold=threshold)
    turn, refused = stage.refusals()
    assert turn == stage.runs["ana"].last_turn
    assert set(stage.joint.nodes) - {cheats} <= set(refused)
    assert {error.message for error in refused.values()} == {
        "Shares do not lie on a polynomial of the declared degree."
    }
    assert not any(isinstance(stage.said[name], Opened) for name in stage.joint.nodes if name != cheats)


class OpensOtherwise(Watched):
    """Opens another share than it computed."""

    def _finish(self):
        opened = super()._finish()
        share = np.frombuffer(opened.share.data.view, dtype="<u8").copy()
        share[0] ^= np.uint64(1)
        return Opened(share=run_module.pack(share), own=opened.own)


def test_a_share_that_was_changed_at_the_opening_is_caught_where_there_are_shares_to_compare():
    stage = a_stage(OpensOtherwise).play()
    with pytest.raises(ProtocolError, match="polynomial of the declared degree"):
        stage.opened  # noqa: B018
    assert stage.joint.threshold * 2 + 1 < len(stage.joint.nodes)
