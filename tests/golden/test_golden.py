"""With fixed test randomness every release has the values it had when `golden.json` was recorded, to the last bit.

Whoever changes on purpose what is released, or in which order randomness is drawn, records anew
(``python -m tests.golden.record``) and says so; a change that should change nothing has to leave this alone.
"""

import pytest

from tests.golden.record import recomputed, recorded
from tests.golden.studies import ESTIMATORS, KINDS, STUDIES

GOLDEN = recorded()


@pytest.mark.every(3)
@pytest.mark.parametrize("name", STUDIES)
def test_releases_are_those_recorded(name):
    lines = recomputed(name, GOLDEN[name])
    assert not lines, f"{name}: {len(lines)} values differ from golden.json\n" + "\n".join(lines[:20])


def test_every_study_is_recorded_and_nothing_else():
    assert list(GOLDEN) == list(STUDIES)


def test_every_kind_of_step_and_every_method_is_covered():
    assert {kind for study in GOLDEN.values() for kind in study["kinds"]} == set(KINDS)
    names = {name.partition(",")[0] for name in GOLDEN}
    assert {f"{kind.__name__}:{method}" for kind in ESTIMATORS for method in kind.methods} <= names
