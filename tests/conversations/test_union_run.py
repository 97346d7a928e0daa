"""A union in turns: right over the relay, deaf to tampering, and of a shape that tells nothing but what is public."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.conversations import matching
from colonnade.conversations.matching import UnionRun
from colonnade.errors import ProtocolError
from colonnade.protocol.messages import Blob
from colonnade.secure.matching import FIELD, UnionSide
from colonnade.steps import alignment as terms
from tests.conversations.list_stage import ListStage

LISTS = {"ana": [b"1", b"2", b"3", b"4"], "bo": [b"9", b"4", b"2", b"7", b"8"]}


def stage(lists=LISTS, **options) -> ListStage:
    return ListStage(lists, run_class=UnionRun, kind="union", **options)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(terms, "POINTS", 8)


ids = st.lists(st.integers(0, 20).map(lambda number: b"%d" % number), unique=True, max_size=11)


@settings(max_examples=6)
@given(ids, ids, st.integers(11, 20))
def test_both_keep_places_at_which_the_same_people_meet(first, second, capacity):
    played = stage({"ana": first, "bo": second}, capacity={"ana": capacity, "bo": 11})
    found = played.play()
    assert len(found["ana"]) == len(found["bo"]) == capacity + 11
    assert {one for one in found["ana"] if one is not None} == set(first)
    assert {one for one in found["bo"] if one is not None} == set(second)
    met = [(one, other) for one, other in zip(found["ana"], found["bo"], strict=True) if None not in (one, other)]
    assert all(one == other for one, other in met)
    assert len(met) == len(set(first) & set(second))
    assert len({part.kept[0] for part in played.parts.values()}) == 1


def test_turns_senders_and_sizes_of_letters_do_not_depend_on_the_lists():
    seen = []
    for lists in (LISTS, {"ana": [], "bo": [b"5"]}, {"ana": [b"5", b"6"], "bo": [b"6", b"5"]}):
        played = stage(lists)
        played.play()
        seen.append(played.sizes)
    assert seen[0] == seen[1] == seen[2]


def lengths_heard(second: list[bytes], monkeypatch) -> list[tuple[int, str, str, int]]:
    """Ana asks for one person: its list is that one over and over, and it hands back all but one of Bo's names."""
    honest = UnionRun._finish_stretch

    def finished(run: UnionRun, turn: int) -> None:
        honest(run, turn)
        rounds = run._matching.rounds
        if run._me == "ana" and turn == rounds + 1:
            asked = run._joined._covering.multiply(run._joined.names[:1])
            run._outgoing = np.repeat(asked, len(run._outgoing), axis=0)
        if run._me == "ana" and turn == 2 * rounds + 1:
            run._outgoing = np.concatenate([run._outgoing[:-1], run._outgoing[:1]])

    with monkeypatch.context() as patch:
        patch.setattr(UnionRun, "_finish_stretch", finished)
        played = stage({"ana": [b"7"], "bo": second})
        try:
            played.play()
        except ProtocolError as error:
            return [*played.sizes, (0, "", error.message, 0)]
        return played.sizes


WITH, WITHOUT = [b"9", b"4", b"2", b"7", b"8"], [b"9", b"4", b"2", b"6", b"8"]


def test_a_list_with_names_twice_does_not_ask_whether_somebody_is_on_the_other_list(monkeypatch):
    assert lengths_heard(WITH, monkeypatch) == lengths_heard(WITHOUT, monkeypatch)


def test_were_such_a_list_taken_the_length_of_the_union_would_tell(monkeypatch):
    """The positive control: there are not enough strangers to fill the union up."""
    monkeypatch.setattr(matching, "require_distinct", lambda _: None)
    monkeypatch.setattr(UnionSide, "order", lambda self, names: np.full(len(names), -1))
    assert lengths_heard(WITH, monkeypatch) != lengths_heard(WITHOUT, monkeypatch)


@pytest.mark.parametrize("when", [1, 5, *(pytest.param(turn, marks=pytest.mark.full) for turn in (3, 8, 10))])
@pytest.mark.parametrize("fault", ["cut", "changed", "lost", "replayed"])
def test_letters_that_are_cut_changed_lost_or_replayed_are_refused(when, fault):
    kept: dict[str, Blob] = {}

    def relay(turn, letters):
        box = dict(letters["ana"])
        if turn == when - 1:
            kept.update(box)
        if turn == when:
            data = bytes(box["bo"].view)
            box = {
                "cut": {"bo": Blob(data[:-1])},
                "changed": {"bo": Blob(data[:-1] + bytes([data[-1] ^ 1]))},
                "lost": {},
                "replayed": dict(kept) or {"bo": Blob(b"nothing yet")},
            }[fault]
        return {**letters, "ana": box}

    with pytest.raises(ProtocolError):
        stage(relay=relay).play()


@pytest.mark.parametrize("method", ["blinded", "evaluate", "covered_names", "cover", "united"])
@pytest.mark.parametrize("number", [2, *(pytest.param(bad, marks=pytest.mark.full) for bad in (0, 1, FIELD + 9))])
def test_a_bad_point_is_refused_wherever_it_comes_in(monkeypatch, method, number):
    honest = getattr(UnionSide, method)

    def bad(self, *arguments):
        points = honest(self, *arguments).copy()
        points[-1:] = np.frombuffer(number.to_bytes(32, "little"), dtype=np.uint8)
        return points

    monkeypatch.setattr(UnionSide, method, bad)
    with pytest.raises(ProtocolError):
        stage().play()
