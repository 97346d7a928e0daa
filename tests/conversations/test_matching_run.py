"""Matching in turns: exact over the relay, deaf to tampering, and of a shape that tells nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.conversations.matching import MatchingRun
from colonnade.errors import ProtocolError
from colonnade.protocol.messages import Blob
from colonnade.secure.matching import FIELD, Follower, Leader
from colonnade.steps import alignment as terms
from tests.conversations.list_stage import ListStage

LISTS = {
    "ana": [b"1", b"2", b"3", b"4"],
    "bo": [b"9", b"4", b"2", b"7", b"8"],
    "cy": [b"4", b"2", b"5"],
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Several blocks even of short lists."""
    monkeypatch.setattr(terms, "POINTS", 8)
    monkeypatch.setattr(terms, "SLOTS", 50)


lists = st.lists(st.lists(st.integers(0, 20), unique=True, max_size=16), min_size=2, max_size=6)


@settings(max_examples=8)
@given(lists)
def test_everyone_keeps_the_same_people_in_the_same_order(drawn):
    names = ("ana", "bo", "cy", "dee", "eva", "flo")
    held = {name: [b"%d" % one for one in some] for name, some in zip(names, drawn, strict=False)}
    stage = ListStage(held)
    found = stage.play()
    expected = set.intersection(*map(set, held.values()))
    assert all(set(some) == expected for some in found.values())
    assert len({tuple(some) for some in found.values()}) == 1
    assert len({part.kept[0] for part in stage.parts.values()}) == 1


# The coordinator's transcript, and the parties' ---------------------------------------------------------------------------


def test_turns_senders_and_sizes_of_letters_do_not_depend_on_the_lists():
    """The same permitted knowledge (capacities, places), other lists: nothing that a relay sees differs but contents."""
    others = {"ana": [b"77"], "bo": [b"%d" % k for k in range(16)], "cy": []}
    seen = []
    for held in (LISTS, others):
        stage = ListStage(held, places=lambda _: 5)
        stage.play()
        seen.append(stage.sizes)
    assert seen[0] == seen[1]


def opened(stage: ListStage, patch: pytest.MonkeyPatch) -> dict[str, list[tuple[int, int]]]:
    """What each party opens: turn and length of every plaintext."""
    views: dict[str, list[tuple[int, int]]] = {name: [] for name in stage.runs}
    honest = MatchingRun._open

    def spied(self, turn, letters):
        letters = honest(self, turn, letters)
        for letter in letters.values():
            blobs = (letter.points, letter.table, letter.tags)
            views[self._me].append((turn, sum(len(blob) for blob in blobs if blob is not None)))
        return letters

    patch.setattr(MatchingRun, "_open", spied)
    stage.play()
    return views


def test_what_a_party_opens_has_a_shape_that_does_not_depend_on_the_others_lists(monkeypatch):
    mine, views = {"ana": LISTS["ana"]}, []
    for rest in ({"bo": LISTS["bo"], "cy": LISTS["cy"]}, {"bo": [b"2", b"4", b"1"], "cy": [b"2", b"4", b"3", b"6"]}):
        with monkeypatch.context() as patch:
            views.append(opened(ListStage({**mine, **rest}), patch)["ana"])
    assert views[0] == views[1]


def test_two_runs_share_no_bytes():
    first, second = ListStage(LISTS, run="first"), ListStage(LISTS, run="second")
    assert first.play().keys() == second.play().keys()
    mail = [
        {bytes(one.view) for turn in stage.letters for box in turn.values() for one in box.values()}
        for stage in (first, second)
    ]
    assert not mail[0] & mail[1]


# A coordinator gone bad ---------------------------------------------------------------------------------------------------


def tampered(change):
    """A relay that changes the letters of one turn."""

    def relay(turn, letters):
        return change(turn, {to: dict(box) for to, box in letters.items()})

    return relay


def _truncate(letters):
    box = letters["ana"]
    sender = min(box)
    box[sender] = Blob(bytes(box[sender].view)[:-1])


def _flip(letters):
    box = letters["ana"]
    sender = min(box)
    data = bytearray(box[sender].view)
    data[-1] ^= 1
    box[sender] = Blob(bytes(data))


def _drop(letters):
    box = letters["ana"]
    box.pop(min(box))


def _swap(letters):
    box = letters["ana"]
    first, second = sorted(box)[:2]
    box[first], box[second] = box[second], box[first]


def _misdeliver(letters):
    letters["ana"], letters["bo"] = letters["bo"], letters["ana"]


@pytest.mark.every(3)
@pytest.mark.parametrize("change", [_truncate, _flip, _drop, _swap, _misdeliver])
@pytest.mark.parametrize("when", [1, 2])
def test_letters_that_are_cut_changed_lost_swapped_or_misdelivered_are_refused(change, when):
    def relay(turn, letters):
        if turn == when:
            change(letters)
        return letters

    capacities = {"ana": 8, "bo": 16, "cy": 16}  # ana leads: everyone writes to it
    with pytest.raises(ProtocolError):
        ListStage(LISTS, capacity=capacities, relay=tampered(relay)).play()


def test_a_letter_of_an_earlier_turn_is_refused():
    kept = {}

    def relay(turn, letters):
        if turn == 2:
            kept.update(letters["ana"])
        if turn == 3:
            letters["ana"] = dict(kept)
        return letters

    with pytest.raises(ProtocolError):
        ListStage(LISTS, capacity={"ana": 16, "bo": 17, "cy": 18}, relay=tampered(relay)).play()


# A party gone bad ---------------------------------------------------------------------------------------------------------

BAD_POINTS = {
    "identity": 0,
    "small order": 1,
    "minus one": FIELD - 1,
    "not canonical": FIELD + 9,
    "off the curve": 2,
}


@pytest.mark.parametrize("name", BAD_POINTS)
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_bad_point_is_refused_by_whoever_gets_it(monkeypatch, name, role):
    owner, method = (Leader, "blinded") if role == "leader" else (Follower, "evaluate")
    honest = getattr(owner, method)

    def bad(self, *arguments):
        points = honest(self, *arguments).copy()
        points[-1] = np.frombuffer(BAD_POINTS[name].to_bytes(32, "little"), dtype=np.uint8)
        return points

    monkeypatch.setattr(owner, method, bad)
    with pytest.raises(ProtocolError, match="peer sent a point"):
        ListStage(LISTS).play()
