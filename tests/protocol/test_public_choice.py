"""Public choices: the same for everybody with the same plan, others for another draw, and uniform."""

import msgspec
import numpy as np

from colonnade.protocol.messages import Ask, Blob, Opened, Post, Posted, pack
from colonnade.protocol.public_choice import public_positions, public_subset, public_uniforms
from colonnade.transport.direct import numbers_in
from tests import kit
from tests.kit import ALPHA, chi_square_p

PLAN = kit.written(
    task="coreset", method="uniform", federation="f" * 64, alignment="a" * 64, people=1000, parties=("a", "b")
)


def test_the_same_plan_and_label_make_the_same_choice_and_no_other_does():
    again = msgspec.structs.replace(PLAN)
    other = msgspec.structs.replace(PLAN, repeat=2)
    first = public_uniforms(PLAN, "x", 50)
    assert np.array_equal(first, public_uniforms(again, "x", 50))
    assert not np.array_equal(first, public_uniforms(other, "x", 50))
    assert not np.array_equal(first, public_uniforms(PLAN, "y", 50))


def test_positions_are_uniform_over_the_people_and_sorted():
    drawn = public_positions(PLAN, "places", 100_000)
    assert np.all(np.diff(drawn) >= 0)
    assert drawn.max() < 1_000
    assert chi_square_p(np.bincount(drawn, minlength=1_000), np.ones(1_000)) > ALPHA


def test_a_subset_has_different_members_each_as_likely_as_the_next():
    counts = np.zeros(20)
    for turn in range(4_000):
        subset = public_subset(PLAN, f"batch {turn}", 20, 5)
        assert len(np.unique(subset)) == 5
        counts[subset] += 1
    assert chi_square_p(counts, np.ones(20)) > ALPHA
    assert public_subset(PLAN, "all", 3, 9).tolist() == [0, 1, 2]


def test_numbers_are_entries_and_words_and_hellos_are_none():
    values = {"x": pack(np.zeros((3, 4))), "n": pack(np.zeros(2, dtype=np.int32))}
    letters = {"b": Blob(bytes(80))}
    assert numbers_in(Ask(plan=PLAN, step="s", inputs=values)) == 14
    assert numbers_in(Post(plan=PLAN, step="s", run=b"", turn=1, letters=letters, inputs=values)) == 14
    assert numbers_in(Post(plan=PLAN, step="s", run=b"", turn=2, letters=letters)) == 10
    assert numbers_in(Posted(letters=letters)) == 10
    assert numbers_in(Opened(share=None, own=values["x"])) == 12
