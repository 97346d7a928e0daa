"""A value in two places of a file: once it is kept it is on disk, and at any moment the disk holds it or the one before."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from colonnade.party.ledger.file import AlternatingFile
from colonnade.runtime import private_files

SECTOR = 4_096
VALUES = [b"value %d" % number for number in range(6)]


class Disk:
    """A disk behind a file: the system shows what was written, and the disk has what was synced.

    A sync that fails drops what it could not write. The system goes on to show it, and the next sync has nothing to do.
    A file that is put in place is synced whole.
    """

    def __init__(self, patch: pytest.MonkeyPatch, path: Path, check: Callable[[bytes], None]) -> None:
        self.content, self.fails, self.shortens = path.read_bytes(), False, False
        self._pending: list[tuple[int, bytes]] = []
        self._path, self._check = path, check
        patch.setattr(private_files, "sync_folder", lambda _: self._replace())
        patch.setattr(private_files.os, "pwrite", self._write)
        patch.setattr(private_files.os, "fdatasync", self._sync)

    def _write(self, file: int, content: bytes, offset: int, write=os.pwrite) -> int:
        if self.shortens:
            content = content[: len(content) // 2]
        self._pending.append((offset, content))
        for cut in (1, 40, 60, len(content)):
            self._check(self._with(self.content, offset, content[:cut]))
        sector = offset // SECTOR * SECTOR  # the power fails while the disk writes: the sector is lost
        self._check(self._with(self.content, sector, bytes(SECTOR)[: len(self.content) - sector]))
        return write(file, content, offset)

    def _sync(self, _: int) -> None:
        pending, self._pending = self._pending, []
        if self.fails:
            raise OSError(5, "the disk does not answer")
        for offset, content in pending:
            self.content = self._with(self.content, offset, content)

    def _replace(self) -> None:
        self.content, self._pending = self._path.read_bytes(), []

    @staticmethod
    def _with(content: bytes, offset: int, written: bytes) -> bytes:
        return content[:offset] + written + content[offset + len(written) :]


def on_disk(folder, content: bytes) -> bytes | None:
    path = folder / "as it is on disk"
    path.write_bytes(content)
    try:
        return AlternatingFile(path).read()
    except ValueError:
        return None


def keep_all(folder, spoil: str, *, spoiled: int, restarts: bool) -> None:
    """Keep values one after the other, one of them only at the second attempt, and look at the disk at every moment."""
    path, known = folder / f"value {spoil} {spoiled} {restarts}", {VALUES[0]}
    file = AlternatingFile(path)
    file.keep(VALUES[0])

    def check(content: bytes) -> None:
        assert on_disk(folder, content) in known

    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(patch, path, check)
        for number, (before, value) in enumerate(pairwise(VALUES)):
            known = {before, value}
            if number == spoiled:
                setattr(disk, spoil, True)
                with pytest.raises(OSError, match=r"does not answer|in part"):
                    file.keep(value)
                setattr(disk, spoil, False)
                file = AlternatingFile(path) if restarts else file
            file.keep(value)
            assert on_disk(folder, disk.content) == value


@pytest.mark.parametrize("restarts", [False, True], ids=["the same process", "another process"])
def test_once_a_value_is_kept_it_is_on_disk_though_a_sync_before_it_failed(tmp_path, restarts):
    for spoiled in range(len(VALUES) - 1):
        keep_all(tmp_path, "fails", spoiled=spoiled, restarts=restarts)


def test_a_value_that_was_written_in_part_is_not_kept(tmp_path):
    for spoiled in range(len(VALUES) - 1):
        keep_all(tmp_path, "shortens", spoiled=spoiled, restarts=False)


def test_a_value_that_is_known_to_be_on_disk_is_not_written_again_and_any_other_one_is_once(tmp_path, monkeypatch):
    path, syncs = tmp_path / "value", []
    AlternatingFile(path).keep(b"value")
    monkeypatch.setattr(private_files.os, "fdatasync", syncs.append)
    file, before = AlternatingFile(path), path.stat().st_ino
    file.keep(b"value")
    anew = path.stat()
    assert anew.st_ino != before
    file.keep(b"value")
    assert (path.stat().st_ino, path.stat().st_mtime_ns, syncs) == (anew.st_ino, anew.st_mtime_ns, [])
    file.keep(b"another")
    assert (path.stat().st_ino, len(syncs)) == (anew.st_ino, 1)


def test_a_value_that_does_not_fit_its_place_is_refused(tmp_path):
    for value in (bytes(4_050), b"ends with a blank "):
        with pytest.raises(private_files.BadInput):
            AlternatingFile(tmp_path / "value").keep(value)
