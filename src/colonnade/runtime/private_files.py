"""Files for one user alone, and files that a crash leaves whole: secrets, permissions, locks, temporary folders, durable writes.

A key that another user of the machine can read is not secret. A policy, or a folder, that another user can write to is not its
owner's. Both are refused, with the command to type.

A temporary folder goes with the object that holds it, at the latest with the process. A process that is killed leaves it behind;
the next one that makes such a folder removes those that nobody holds any more.
"""

import contextlib
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

from colonnade.errors import AlreadyRunning, BadInput, DiskFull, LoosePermissions, disk_is_full


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


_READABLE, _CHANGEABLE = 0o077, 0o022


def require_private(path: Path) -> None:
    """Refuse a file or folder that other users of this machine can read, change or list; one that is not there is nobody's."""
    with contextlib.suppress(FileNotFoundError):
        found = path.stat()
        if _open_to_others(found, _READABLE):
            mode = "700" if stat.S_ISDIR(found.st_mode) else "600"
            raise LoosePermissions(
                f"{path.name} can be read by other users of this machine, or belongs to one of them.",
                remedy=f"chown it to the user who runs the party, then: chmod {mode} {path}",
            )


def require_unchangeable(path: Path) -> None:
    """Refuse a file that other users of this machine can change; they may read it."""
    with contextlib.suppress(FileNotFoundError):
        found = path.stat()
        if _open_to_others(found, _CHANGEABLE):
            raise LoosePermissions(
                f"{path.name} can be changed by other users of this machine, or belongs to one of them.",
                remedy=f"Read what it says now; chown it to the user who runs the party, then: chmod go-w {path}",
            )


def _open_to_others(found: os.stat_result, bits: int) -> bool:
    """Return whether group or others have one of these permissions, or the file is neither ours nor the administrator's."""
    return os.name == "posix" and (bool(found.st_mode & bits) or found.st_uid not in (0, os.geteuid()))


def read_hex(path: Path) -> bytes:
    """Return a secret that is written in hexadecimal; refuse a file that others could read."""
    require_private(path)
    try:
        return bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        raise BadInput(f"{path.name} is missing or damaged.", remedy="Restore it from your copy of the key.") from None


def write_new(path: Path, content: bytes) -> None:
    """Write a file for this user alone, on disk before this returns; refuse to touch one that exists."""
    if path.exists():
        raise BadInput(f"{path} exists already.", remedy="Name a file that does not exist yet.")
    replace_file(path, content)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file for this user alone in one step: a reader meets all of it, or all of what was there before."""
    with replacing(path) as file:
        file.write(content)


def put_in_place(path: Path, content: bytes) -> None:
    """Write a file that others may read in one step: a reader meets all of it, or all of what was there before."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold a folder for this process and its children; refuse one that another process holds, by its number.

    The lock ends with the last process that inherited it, however it ends. The file that it is on stays.
    """
    import fcntl  # where there is none, no party is served: guards listen on Unix sockets

    with os.fdopen(os.open(folder / "serve.lock", os.O_CREAT | os.O_RDWR, 0o600), "r+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read(32).strip()
            raise AlreadyRunning(
                f"{folder.name} is served already, by process {holder or 'unknown'}.",
                remedy=f"Use that process, or end it first: kill {holder}" if holder.isdigit() else None,
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


TEMPORARY, HELD = "colonnade-", "held"


class TemporaryFolder:
    """A folder for temporary files that only this user can enter. It is removed with this object, with what is in it.

    A process holds a lock on a file in it, and the lock ends with the process, however that ends. So a folder that is locked by
    nobody was left behind, and is removed when another one is made.

    Examples
    --------
    >>> with TemporaryFolder() as folder:
    ...     folder.path.is_dir()
    True
    >>> folder.path.exists()
    False
    """

    def __init__(self) -> None:
        _remove_left_behind()
        new = Path(tempfile.mkdtemp(prefix=f"new-{TEMPORARY}"))
        lock = os.open(new / HELD, os.O_CREAT | os.O_RDWR, 0o600)
        _lock(lock)
        self.path = new.rename(new.with_name(new.name.removeprefix("new-")))  # a process that finds it finds it locked
        self.close = weakref.finalize(self, _remove, self.path, lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _remove_left_behind() -> None:
    """Remove this user's temporary folders that no process holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*"):
        with contextlib.suppress(OSError):  # another process may be removing it too
            if folder.is_symlink() or (os.name == "posix" and folder.stat().st_uid != os.geteuid()):
                continue
            lock = os.open(folder / HELD, os.O_RDWR)
            try:
                if _lock(lock):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _lock(file: int) -> bool:
    """Lock an open file for this process; return whether nobody else holds it. Where there are no locks, somebody may."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
