"""Small files that a crash leaves whole: a new one is put in place at once, on disk, for this user alone."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from colonnade.errors import DiskFull, disk_is_full

__all__ = ["replacing", "sync_folder"]


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


def sync_folder(folder: Path) -> None:
    """Make durable which names a folder holds."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
