"""Letters that came directly from peers, sealed, until the coordinator gives the turn that they are for.

They lie in files and not in memory: a relay that is killed and started again still has them, as the guard beside it still has its
run. Each is named by study, sender and hash. The same letter again is the same file, so that nothing is kept twice, and a sender
can neither replace nor reach what another one sent.

*Bounds.* All peers together may fill ``room`` bytes, each of them an equal part, with so many letters at most, and nobody the
last free ``SPARE`` bytes of the disk, where the ledger is too. A short letter counts as `LEAST_COUNTED` bytes, because it takes
a file. A letter that does not fit is not taken, and its sender has the coordinator relay it. To take a letter, or to look for
old ones, is as much work with a full mailbox as with an empty one.

*Erasure.* The letters of a turn are erased once the guard has answered it (`colonnade.service.post_office`), all letters of a
study when a run begins or the study is concluded, any letter after an hour (`Mailbox.tick`), and the whole folder when the
member is started or stopped: its guard then has no run under way (`erase_mail`).
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

ROOM = 4 * LARGEST_FRAME
"""Bytes: what one turn may bring is at most one frame, and a few studies run side by side."""

SPARE = 1 << 30
LETTERS = 1_024
"""Letters of one peer. In each study under way it has one or two here, and there are some tens of studies."""

LEAST_COUNTED = 4_096
LONGEST_WAIT = 3_600.0
"""Seconds that a letter waits for its turn: as long as a guard may work on one answer."""

Name = tuple[str, str, str]


@dataclass
class Place:
    """Where a letter is being written. It is kept when all of it has come, and else removed."""

    file: BinaryIO
    whole: bool = False


@dataclass(frozen=True)
class _Held:
    """A letter that is here: its length, and since when."""

    size: int
    since: float


@dataclass
class _Share:
    """What one peer has filled: letters, those on their way among them, and bytes as they count."""

    letters: int = 0
    filled: int = 0

    def has_room(self, size: int, each: int) -> bool:
        return self.letters < LETTERS and self.filled + max(size, LEAST_COUNTED) <= each

    def add(self, size: int) -> None:
        self.letters += 1
        self.filled += max(size, LEAST_COUNTED)

    def remove(self, size: int) -> None:
        self.letters -= 1
        self.filled -= max(size, LEAST_COUNTED)


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
        self._shares = {peer: _Share() for peer in peers}
        self._coming = 0
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        self._letters: dict[Name, _Held] = {}  # the oldest first
        for since, path in sorted((path.lstat().st_mtime, path) for path in folder.iterdir()):
            name = tuple(path.name.split("."))
            if len(name) == 3 and name[1] in self._shares and path.is_file() and not path.is_symlink():
                self._letters[name[0], name[1], name[2]] = held = _Held(path.stat().st_size, since)
                self._shares[name[1]].add(held.size)
            else:  # half a letter, one of somebody who is no peer any more, or nothing of ours
                _remove(path)
        self.tick()

    def __len__(self) -> int:
        return len(self._letters)

    def holds(self, sender: str, study: bytes, ticket: Ticket) -> bool:
        """Return whether a letter is here."""
        held = self._letters.get(_name(sender, study, ticket))
        return held is not None and held.size == ticket.size

    @contextlib.contextmanager
    def place(self, sender: str, study: bytes, ticket: Ticket) -> Iterator[Place | None]:
        """Make room for a letter, and keep it if it came whole; ``None`` where there is no room."""
        if not self._reserve(sender, ticket.size):
            yield None
            return
        part = self._folder / f"part-{next(self._numbers)}"
        is_kept = False
        try:
            with part.open("xb") as file:
                part.chmod(0o600)
                place = Place(file)
                yield place
            if place.whole:
                is_kept = self._keep(part, _name(sender, study, ticket), ticket.size)
        finally:
            part.unlink(missing_ok=True)
            with self._lock:
                self._coming -= ticket.size
                if not is_kept:
                    self._shares[sender].remove(ticket.size)

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
        """Erase letters that nobody has asked for. They are in order of age, so that only those that go are looked at."""
        with self._lock:
            while self._letters:
                name, oldest = next(iter(self._letters.items()))
                if self._clock() - oldest.since <= LONGEST_WAIT:
                    return
                self._erase(name)

    def _reserve(self, sender: str, size: int) -> bool:
        free = shutil.disk_usage(self._folder).free
        with self._lock:
            share = self._shares.get(sender)
            if share is None or not share.has_room(size, self._each) or self._coming + size > free - self._spare:
                return False
            share.add(size)
            self._coming += size
            return True

    def _keep(self, part: Path, name: Name, size: int) -> bool:
        """Put a letter in its place; return False where it has come on another connection meanwhile."""
        with self._lock:
            if name in self._letters:
                return False
            part.replace(self._path(name))
            self._letters[name] = _Held(size, self._clock())
            return True

    def _erase(self, name: Name) -> None:
        held = self._letters.pop(name, None)
        if held is not None:
            self._shares[name[1]].remove(held.size)
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: Name) -> Path:
        return self._folder / ".".join(name)


def _name(sender: str, study: bytes, ticket: Ticket) -> Name:
    return study.hex(), sender, ticket.digest.hex()


def erase_mail(folder: Path) -> None:
    """Erase all letters, and the folder. Of a member that begins or ends no guard has a run under way that could ask for them."""
    _remove(folder)


def _remove(path: Path) -> None:
    """Remove whatever is there, as far as that goes: what cannot be removed keeps no member from serving."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
