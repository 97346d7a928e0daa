"""What a log says, read back: the fixed vocabulary of `colonnade.event_log`, and nothing that is not in it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colonnade.event_log import EVENTS, FIELDS

__all__ = ["Event", "read_events"]

NEWEST = 2_000_000
"""How many bytes of a log are read, from its end: a dashboard shows what is going on, an archive what has been."""

COMMON = frozenset({"time", "site", "process", "event"})


@dataclass(frozen=True)
class Event:
    """One line of a log."""

    time: str
    site: str
    process: str
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict)


def read_events(path: Path) -> list[Event]:
    """Return the newest events of a log, oldest first. A line that is not of the vocabulary is not an event."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            end = file.tell()
            file.seek(max(0, end - NEWEST))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return list(_parsed(lines[1:] if end > NEWEST else lines))


def _parsed(lines: list[str]) -> Iterator[Event]:
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if not isinstance(found, dict) or not set(found) >= COMMON or found["event"] not in EVENTS:
            continue
        fields = {name: value for name, value in found.items() if name in FIELDS}
        words = [str(found[name]) for name in ("time", "site", "process", "event")]
        yield Event(words[0], words[1], words[2], words[3], fields)
