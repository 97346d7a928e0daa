"""Copies of a served party's table, one per declared version of its data.

::

    bank/data/
    └── 0002/             the table of data version 2
        ├── 0000.parquet  the id and the declared columns of the owner's file, cell by cell; 0600
        └── SHA256SUMS    what the copy must be

A column that schema.toml does not declare is not copied: nobody may ask about it, and it could only be lost.

A party answers from such a copy and never from the owner's file: one version is one table, whatever happens to that file
later. A copy is never changed. It is compared with its hashes when the party opens it; they never leave the folder.

The order of writing is the argument. A copy is made under another name, checked there, synced to disk and put in place at once;
only then is its version declared in the ledger. So a declared version has its copy, whenever a crash comes. A copy whose version
was never declared is one that nobody answers from, and the next load replaces it.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from colonnade.durable_file import replacing, sync_folder
from colonnade.errors import BadInput

__all__ = ["Snapshots"]

SUMS = "SHA256SUMS"

Copy = Callable[[Path, BinaryIO], None]
"""Writes what a party keeps of one of its owner's files."""


class Snapshots:
    """The copies in one folder.

    Parameters
    ----------
    folder
        Where they are; made when the first table is loaded.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def adding(self, version: int, files: Sequence[Path], copy: Copy) -> Iterator[list[Path]]:
        """Copy the files of a table; once the block is left, the copy is in place, on disk. After an error there is none.

        Parameters
        ----------
        version
            The version that the caller declares once the block is left.
        files
            The table: one file, or several whose rows follow one another.
        copy
            Writes what is kept of one of them.

        Yields
        ------
        list of Path
            The copied files, to be checked.
        """
        with self._locked():
            part = self._folder / f"{version:04d}.part"
            shutil.rmtree(part, ignore_errors=True)  # left by a crash
            part.mkdir(mode=0o700)
            try:
                sums = _copied(files, part, copy)
                yield [part / name for name in sums]
                with replacing(part / SUMS) as file:
                    file.writelines(f"{digest}  {name}\n".encode() for name, digest in sums.items())
                shutil.rmtree(self._place(version), ignore_errors=True)  # a crash came before its version was declared
                part.rename(self._place(version))
                sync_folder(self._folder)
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise

    def files(self, version: int) -> list[Path]:
        """Return the files of a version; refuse a copy that is not what was loaded."""
        place = self._place(version)
        try:
            sums = [line.split("  ", 1) for line in (place / SUMS).read_text(encoding="utf-8").splitlines()]
            sound = bool(sums) and all(_digest(place / name) == digest for digest, name in sums)
        except (OSError, ValueError):
            sound = False
        if not sound:
            raise BadInput(
                f"The copy of data version {version} in {self._folder.name}/ is missing, damaged or changed.",
                remedy="Restore the copy, or load the table again as a new version: colonnade party load FOLDER FILE.",
            )
        return [place / name for _, name in sums]

    def name_of(self, version: int) -> bytes:
        """Return a hash of the copy of a version: the same table has the same."""
        return hashlib.sha256((self._place(version) / SUMS).read_bytes()).digest()

    def rename(self, version: int, kept: int) -> None:
        """Let a copy be that of an earlier version, which has the same table."""
        shutil.rmtree(self._place(kept), ignore_errors=True)
        self._place(version).rename(self._place(kept))
        sync_folder(self._folder)

    def remove_before(self, version: int) -> None:
        """Remove the copies of earlier versions: nobody answers from one again."""
        for path in self._folder.glob("[0-9]*"):
            if path.name.isdecimal() and int(path.name) < version:
                shutil.rmtree(path, ignore_errors=True)

    def _place(self, version: int) -> Path:
        return self._folder / f"{version:04d}"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Refuse a second load at the same time: both would take the same version."""
        if not self._folder.exists():
            self._folder.mkdir(mode=0o700)
            sync_folder(self._folder.parent)
        lock = os.open(self._folder, os.O_RDONLY)
        try:
            _take(lock)
            yield
        finally:
            os.close(lock)


def _take(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BadInput("Another load into this folder is under way.", remedy="Wait until it has ended.") from None


def _copied(files: Sequence[Path], folder: Path, copy: Copy) -> dict[str, str]:
    """Copy files, synced to disk and for this user alone; return the hash of each copy by its name."""
    from colonnade.party.table.sources import files_in  # late: a supervisor loads nothing of the party's code

    sums = {}
    for number, path in enumerate(cast("list[Path]", [path for given in files for path in files_in(given)])):
        kind = path.suffix.lower()
        name = f"{number:04d}{'.parquet' if kind == '.duckdb' else kind}"
        try:
            with replacing(folder / name) as target:
                copy(path, target)
        except OSError as error:
            raise BadInput(
                f"The file {path.name!r} cannot be copied ({error.strerror or type(error).__name__}).",
                remedy="Check the file, and room on disk.",
            ) from None
        sums[name] = _digest(folder / name)
    return sums


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
