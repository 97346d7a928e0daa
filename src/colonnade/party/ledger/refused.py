"""Studies that a party refused: kept beside its ledger, so that its owner sees who asked for what, and can approve what waits.

A refusal releases nothing, so it is no row of the ledger. The file is bounded: the oldest are forgotten first, and of a very long
plan only the hash is kept. A study that is refused again for the same reason is kept once. The coordinator is never told what is
in it, and no refusal depends on it.
"""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from colonnade.durable_file import replacing
from colonnade.errors import BadInput, ProtocolError
from colonnade.plan import About, Plan
from colonnade.protocol import codec

__all__ = ["RefusedStudies", "RefusedStudy"]

MOST_STUDIES = 200
LARGEST_PLAN = 2**15
"""Bytes of a plan that is kept whole."""


class RefusedStudy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One study that was refused.

    Parameters
    ----------
    when
        In microseconds since 1970.
    code
        Why, by the code of the error.
    hash
        The hash of its plan.
    content
        The plan's canonical bytes; empty for a very long one.
    about
        What was said about it.
    """

    when: int
    code: str
    hash: bytes
    content: bytes
    about: About | None = None

    @property
    def time(self) -> datetime:
        """When it was refused."""
        return datetime.fromtimestamp(self.when / 1_000_000, tz=UTC)

    @property
    def plan(self) -> Plan | None:
        """The plan; ``None`` for a very long one, and for one of another version of plans."""
        try:
            return codec.decode(self.content, Plan) if self.content else None
        except ProtocolError:
            return None


class RefusedStudies:
    """The studies that one party has refused lately.

    Parameters
    ----------
    ledger
        The party's ledger. The file is beside it, with the ending ``.refused``.
    """

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_suffix(".refused")

    def record(self, when: datetime, code: str, plan: Plan, about: About | None) -> None:
        """Keep a study that was refused; one that is kept with the same reason and words stays as it is."""
        content = codec.encode(plan)
        hashed = codec.plan_digest(content)
        kept = self.read()
        if any((one.hash, one.code, one.about) == (hashed, code, about) for one in kept):
            return
        new = RefusedStudy(
            when=int(when.timestamp() * 1_000_000),
            code=code,
            hash=hashed,
            content=content if len(content) <= LARGEST_PLAN else b"",
            about=about,
        )
        with replacing(self.path) as file:
            file.write(msgspec.json.encode([*kept, new][-MOST_STUDIES:]))

    def read(self) -> list[RefusedStudy]:
        """Return the studies that were refused, oldest first; refuse a file in which a plan is not the one of its hash."""
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=list[RefusedStudy])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError, BadInput):
            raise _damaged() from None
        if any(one.content and codec.plan_digest(one.content) != one.hash for one in found):
            raise _damaged()
        return found


def _damaged() -> BadInput:
    return BadInput(
        "The list of studies that were refused is damaged. No release rests on it.",
        remedy="Keep a copy of the file that ends in .refused if you look into this, then remove it.",
    )
