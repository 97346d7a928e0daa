"""The coordinator's view: who is up, which step a study has reached, bytes, and the reports of finished studies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from colonnade.event_log import Event, read_events

__all__ = ["CoordinatorView", "Site", "StudyLine", "coordinator_view"]

UP = {"connected": True, "disconnected": False, "started": True, "stopped": False, "exited": False}
STATUS = {"study-started": "running", "resumed": "running", "study-finished": "finished", "study-failed": "failed"}


@dataclass(frozen=True)
class Site:
    """A party or node, and whether it was last seen up."""

    name: str
    up: bool
    since: str


@dataclass(frozen=True)
class StudyLine:
    """A study: what became of it, and its steps in the order in which they were reached."""

    name: str
    status: str
    started: str
    steps: Sequence[tuple[str, str]]
    sent: int
    received: int


@dataclass(frozen=True)
class CoordinatorView:
    """Everything that the coordinator's page shows."""

    sites: Sequence[Site]
    studies: Sequence[StudyLine]
    reports: Sequence[str]


def coordinator_view(log: Path, reports: Path | None = None) -> CoordinatorView:
    """Read the coordinator's log, and list the reports in a folder."""
    events = read_events(log)
    found = [] if reports is None or not reports.is_dir() else sorted(path.name for path in reports.glob("*.html"))
    return CoordinatorView(_sites(events), _studies(events), found)


def _sites(events: Sequence[Event]) -> list[Site]:
    latest: dict[str, Site] = {}
    for event in events:
        name = event.fields.get("party")
        if event.event in ("connected", "disconnected") and name is not None:
            latest[str(name)] = Site(str(name), UP[event.event], event.time)
    return [latest[name] for name in sorted(latest)]


def _studies(events: Sequence[Event]) -> list[StudyLine]:
    grouped: dict[str, list[Event]] = {}
    for event in events:
        if "study" in event.fields:
            grouped.setdefault(str(event.fields["study"]), []).append(event)
    return [_study(name, some) for name, some in reversed(grouped.items())]


def _study(name: str, events: Sequence[Event]) -> StudyLine:
    statuses = [STATUS[event.event] for event in events if event.event in STATUS]
    steps = [(str(event.fields.get("step", "")), event.time) for event in events if event.event == "study-step"]
    return StudyLine(
        name,
        statuses[-1] if statuses else "running",
        events[0].time,
        steps,
        _largest(events, "bytes_out"),
        _largest(events, "bytes_in"),
    )


def _largest(events: Sequence[Event], name: str) -> int:
    """Byte counts of a study only grow; the last one is the largest."""
    return max((value for event in events if isinstance(value := event.fields.get(name), int)), default=0)
