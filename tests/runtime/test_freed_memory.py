"""What members free is kept, and only where nobody has said otherwise."""

import pytest

from colonnade.runtime import workers


@pytest.fixture
def fresh(monkeypatch):
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    return workers.keep_freed_memory.__wrapped__


def test_limits_that_whoever_started_the_process_has_set_are_left_alone(fresh, monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    assert fresh() is False
