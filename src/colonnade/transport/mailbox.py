"""Letters that came directly from peers, sealed, until the coordinator gives the turn that they are for.

They lie in files and not in memory: a relay that is killed and started again still has them, as the guard beside it still has its
run. Each is named by study, sender and hash. The same letter again is the same file, so that nothing is kept twice, and a sender
can neither replace nor reach what another one sent.

*Bounds.* All peers together may fill ``room`` bytes, each of them an equal part, and nobody the last free ``SPARE`` bytes of the
disk, where the ledger is too. A letter that does not fit is not taken, and its sender has the coordinator relay it.

*Erasure.* The letters of a turn are erased when the next turn of their study comes, all letters of a study when a run begins or
the study is concluded, and any letter after an hour (`Mailbox.tick`).
"""

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from colonnade.protocol.codec import LARGEST_FRAME
from colonnade.protocol.messages import Ticket

__all__ = ["Mailbox", "Place"]

ROOM = 4 * LARGEST_FRAME
"""Bytes: what one turn may bring is at most one frame, and a few studies run side by side."""

SPARE = 1 << 30
KEPT = 3_600.0
"""Seconds: as long as a guard may work on one answer."""

Name = tuple[str, str, str]


@dataclass
class Place:
    """Where a letter is being written. It is kept when all of it has come, and else removed."""

    file: BinaryIO
    whole: bool = False


class Mailbox:
    """What peers have sent.

    Parameters
    ----------
    folder
        Where the letters lie, for this user alone.
    peers
        Who may send.
    room
        How many bytes all of them may fill.
    spare
        How many bytes of the disk stay free.
    clock
        Seconds since 1970.
    """

    def __init__(
        self,
        folder: Path,
        peers: Collection[str],
        *,
        room: int = ROOM,
        spare: int = SPARE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._each = room // max(len(peers), 1)
        self._spare = spare
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = iter(range(1 << 62))
        self._coming = dict.fromkeys(peers, 0)
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        self._letters: dict[Name, int] = {}
        for path in folder.iterdir():
            name = tuple(path.name.split("."))
            if len(name) == 3 and name[1] in self._coming:
                self._letters[name[0], name[1], name[2]] = path.stat().st_size
            else:
                path.unlink()  # half a letter, or of somebody who is no peer any more
        self.tick()

    def __len__(self) -> int:
        return len(self._letters)

    def holds(self, sender: str, study: bytes, ticket: Ticket) -> bool:
        """Return whether a letter is here."""
        return self._letters.get(_name(sender, study, ticket)) == ticket.size

    @contextlib.contextmanager
    def place(self, sender: str, study: bytes, ticket: Ticket) -> Iterator[Place | None]:
        """Make room for a letter, and keep it if it came whole; ``None`` where there is no room."""
        if not self._reserve(sender, ticket.size):
            yield None
            return
        part = self._folder / f"part-{next(self._numbers)}"
        try:
            with part.open("xb") as file:
                part.chmod(0o600)
                place = Place(file)
                yield place
            if place.whole:
                name = _name(sender, study, ticket)
                part.replace(self._path(name))
                with self._lock:
                    self._letters[name] = ticket.size
        finally:
            part.unlink(missing_ok=True)
            with self._lock:
                self._coming[sender] -= ticket.size

    def find(self, sender: str, study: bytes, ticket: Ticket) -> bytes | None:
        """Return a letter, or nothing."""
        if not self.holds(sender, study, ticket):
            return None
        try:
            return self._path(_name(sender, study, ticket)).read_bytes()
        except FileNotFoundError:
            return None

    def forget(self, study: bytes, sender: str | None = None, ticket: Ticket | None = None) -> None:
        """Erase all letters of a study, or one of them."""
        with self._lock:
            if sender is not None and ticket is not None:
                self._erase(_name(sender, study, ticket))
                return
            for name in [name for name in self._letters if name[0] == study.hex()]:
                self._erase(name)

    def tick(self) -> None:
        """Erase letters that nobody has asked for."""
        with self._lock:
            for name in list(self._letters):
                with contextlib.suppress(FileNotFoundError):
                    if self._clock() - self._path(name).stat().st_mtime <= KEPT:
                        continue
                self._erase(name)

    def _reserve(self, sender: str, size: int) -> bool:
        free = shutil.disk_usage(self._folder).free
        with self._lock:
            filled = sum(held for name, held in self._letters.items() if name[1] == sender)
            if sender not in self._coming or self._coming[sender] + filled + size > self._each:
                return False
            if sum(self._coming.values()) + size > free - self._spare:
                return False
            self._coming[sender] += size
            return True

    def _erase(self, name: Name) -> None:
        self._letters.pop(name, None)
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: Name) -> Path:
        return self._folder / ".".join(name)


def _name(sender: str, study: bytes, ticket: Ticket) -> Name:
    return study.hex(), sender, ticket.digest.hex()
