"""Small files that a crash leaves whole, on disk, for this user alone: put in place at once, or written in two places in turn."""

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from colonnade.errors import BadInput, DiskFull, disk_is_full


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file under another name, and put it in place once the block is left; after an error nothing has changed.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "figures"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"1 2 3")
    >>> path.read_bytes(), oct(path.stat().st_mode & 0o777)
    (b'1 2 3', '0o600')
    >>> folder.cleanup()
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if disk_is_full(error):
            raise DiskFull("What has to be kept cannot be written: the disk is full.") from None
        raise


class _Slot(NamedTuple):
    """One of the two places of a file that holds a whole value: which, the number of the value, and the value."""

    place: int
    number: int
    content: bytes

    def encoded(self) -> bytes:
        body = b"%016x" % self.number + self.content
        return (hashlib.sha256(body).hexdigest()[:32].encode() + body).ljust(AlternatingFile.SLOT)


class AlternatingFile:
    """A short value that changes often. It stands in one of two places of a file, and the next one is written into the other.

    A file that is put in place anew takes two syncs and a new name. Overwriting takes one. Each place has a checksum and a number
    that grows. Cut off in the middle of a write, a file still holds the value before.

    What can be read back need not be on disk: after a failed sync the system shows what it could not write, and the next sync may
    say that all is well. So a value counts as durable once this object has written it and its sync has succeeded. Where the
    value in the file is not known to be so (a sync failed, or another process wrote it), the next one is put in place anew, which
    touches neither of the two places.

    Parameters
    ----------
    path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = AlternatingFile(Path(folder.name) / "place")
    >>> file.read() is None
    True
    >>> for place in (b"one", b"two", b"three", b"three"):
    ...     file.keep(place)
    >>> file.read(), (Path(folder.name) / "place").stat().st_size
    (b'three', 8192)
    >>> folder.cleanup()
    """

    SLOT = 4096
    """Bytes of a place: what a disk writes at once, so that a write into one place cannot damage the other."""
    _HEADER = 48

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[bytes, _Slot | None] = (b"", None)
        self._durable: _Slot | None = None

    def read(self) -> bytes | None:
        """Return the value; ``None`` if there is no file. Raise `ValueError` if neither place holds a whole one."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        newest = self._newest(data)
        if newest is None:
            raise ValueError("Neither place holds a whole value.")
        return newest.content

    def keep(self, content: bytes) -> None:
        """Make this the value, durably."""
        if len(content) > self.SLOT - self._HEADER or content != content.rstrip(b" "):
            raise BadInput("A value that is kept in two places is short, and does not end with a blank.")
        newest = self._newest(self._path.read_bytes()) if self._path.exists() else None
        if newest is None or newest != self._durable:
            self._put_in_place(_Slot(0, 0 if newest is None else newest.number + 1, content))
        elif newest.content != content:
            self._overwrite(_Slot(1 - newest.place, newest.number + 1, content))

    def _put_in_place(self, slot: _Slot) -> None:
        self._durable = None
        with replacing(self._path) as file:
            file.write(slot.encoded().ljust(2 * self.SLOT))
        self._durable = slot

    def _overwrite(self, slot: _Slot) -> None:
        self._durable, content = None, slot.encoded()
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW)
            try:
                if os.pwrite(file, content, slot.place * self.SLOT) != len(content):
                    raise OSError(errno.EIO, "A place of a file was written in part.")
                os.fdatasync(file) if hasattr(os, "fdatasync") else os.fsync(file)  # no length changes
            finally:
                os.close(file)
        except OSError as error:
            if disk_is_full(error):
                raise DiskFull("What has to be kept cannot be written: the disk is full.") from None
            raise
        self._durable = slot

    def _newest(self, data: bytes) -> _Slot | None:
        if data != self._seen[0]:  # it is read far more often than written
            self._seen = (data, self._parsed(data))
        return self._seen[1]

    @classmethod
    def _parsed(cls, data: bytes) -> _Slot | None:
        if len(data) != 2 * cls.SLOT:
            return None
        found = []
        for place in range(2):
            slot = data[place * cls.SLOT : (place + 1) * cls.SLOT]
            body = slot[32:].rstrip(b" ")
            if len(body) >= 16 and hashlib.sha256(body).hexdigest()[:32].encode() == slot[:32]:
                found.append(_Slot(place, int(body[:16], 16), body[16:]))
        return max(found, key=lambda one: one.number, default=None)


def sync_folder(folder: Path) -> None:
    """Make durable which names a folder holds."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
