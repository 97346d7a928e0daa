"""What a party remembers of its own ledger: a ledger that was set back answers nothing, and no crash blocks a sound one."""

import os
import shutil
from pathlib import Path

import msgspec
import pytest

import colonnade as cn
from colonnade.errors import LedgerCorrupt
from colonnade.party import gate
from colonnade.party.ledger.file import HeadMemory, LedgerFile
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import Head
from colonnade.protocol import messages
from colonnade.runtime import private_files
from tests.federations import as_if_agreed, federation
from tests.party.ledger_samples import BODY, TENTH, fresh

METHODS = ("response", "independent", "secure")


def study(method: str) -> cn.PatternCount:
    return cn.PatternCount(["bank.segment", "telco.plan"], epsilon=0.25, method=method)


def remembered(path: Path) -> Head | None:
    return HeadMemory(path).read()


def set_back(folder: Path) -> bytes:
    """Leave a bank's ledger as it was before two studies, and no memory of them; return the memory that it should have."""
    with federation(ledger_dir=folder) as f:
        study("response").fit(f)
        shutil.copy(folder / "bank.sqlite", folder / "backup")
        study("response").fit(f, repeat=2)
        study("secure").fit(f, repeat=2)
    shutil.copy(folder / "backup", folder / "bank.sqlite")
    memory = (folder / "bank.head").read_bytes()
    (folder / "bank.head").unlink()
    return memory


# A ledger that went back ----------------------------------------------------------------------------------------------


def test_a_party_does_not_open_a_ledger_that_went_back(tmp_path):
    memory = set_back(tmp_path)
    (tmp_path / "bank.head").write_bytes(memory)
    with pytest.raises(LedgerCorrupt, match="gone back") as refusal:
        federation(ledger_dir=tmp_path)
    assert "colonnade ledger restore" in refusal.value.remedy
    with pytest.raises(LedgerCorrupt, match="gone back"):
        SqliteLedger.open(tmp_path / "bank.sqlite")


def test_no_method_is_answered_from_a_ledger_that_went_back_and_neither_is_the_budget(tmp_path):
    memory = set_back(tmp_path)
    with federation(ledger_dir=tmp_path) as f:  # a coordinator that remembers nothing
        rows = f._driver.transport._endpoints["bank"]._gate.ledger.head()
        (tmp_path / "bank.head").write_bytes(memory)
        for method in METHODS:
            with pytest.raises(LedgerCorrupt, match="gone back"):
                study(method).fit(f, repeat=3)
        with pytest.raises(LedgerCorrupt, match="gone back"):
            f.budget()
        assert f._driver.transport._endpoints["bank"]._gate.ledger.head() == rows


def requests(f: cn.Federation) -> dict[str, messages.Request]:
    """One request of each kind, for what the bank has answered before."""
    plan = study("response").fit(f).plan_
    joint = study("secure").fit(f).plan_
    step = joint.steps_of("bank")[0].name
    return {
        "Propose": messages.Propose(plan=plan),
        "Ask": messages.Ask(plan=plan, step="reports"),
        "Post": messages.Post(plan=joint, step=step, run=bytes(16), turn=0, letters={}),
        "Recall": messages.Recall(plan=joint, step=step),
        "Conclude": messages.Conclude(plan=joint, step=step, values={}),
        "GetYes": messages.GetYes(plan=messages.digest(plan), nonces={}),
        "Begin": messages.Begin(plan=messages.digest(plan), yeses={}),
        "Withdraw": messages.Withdraw(plan=messages.digest(plan)),
        "GetAccount": messages.GetAccount(),
        "GetDescription": messages.GetDescription(),
    }


def test_no_kind_of_request_is_answered_from_a_ledger_that_went_back(tmp_path):
    with federation(ledger_dir=tmp_path) as f:
        asked = requests(f)
        assert {kind.__name__ for kind in messages.Request.__args__} == set(asked)
        memory = remembered(tmp_path / "bank.head")
        later = msgspec.json.encode(Head(memory.ledger, memory.sequence + 1, bytes(32), memory.nano))
        (tmp_path / "bank.head").write_bytes(later)
        for request in (*map(messages.encode, asked.values()), b"no request at all"):
            reply = messages.decode_reply(f._driver.transport._endpoints["bank"].handle(request))
            assert isinstance(reply, messages.Refused)
            assert (reply.code, reply.spent) == ("ledger-corrupt", None)
            assert "gone back" in reply.message


def test_another_history_of_the_same_length_is_refused(tmp_path):
    with fresh(tmp_path) as ledger:
        shutil.copy(tmp_path / "bank.ledger", tmp_path / "fork.ledger")
        ledger.debit(b"one", BODY, TENTH, label="x")
        ledger.remember_head()
    with SqliteLedger.open(tmp_path / "fork.ledger") as fork:
        for name in (b"another", b"and one more"):
            fork.debit(name, BODY, TENTH, label="x")
    shutil.copy(tmp_path / "fork.ledger", tmp_path / "bank.ledger")
    with pytest.raises(LedgerCorrupt, match="gone back"):
        SqliteLedger.open(tmp_path / "bank.ledger")


def test_a_ledger_is_not_made_anew_where_one_was_shown(tmp_path):
    with fresh(tmp_path) as ledger:
        ledger.remember_head()
    (tmp_path / "bank.ledger").unlink()
    with pytest.raises(LedgerCorrupt, match="another one"):
        fresh(tmp_path)
    assert not (tmp_path / "bank.ledger").exists()


def test_a_memory_that_cannot_be_read_refuses_and_an_older_one_is_sound(tmp_path):
    with fresh(tmp_path) as ledger:
        ledger.remember_head()
        older = (tmp_path / "bank.head").read_bytes()
        ledger.debit(b"one", BODY, TENTH, label="x")
        ledger.remember_head()
    for damaged in (b"", b"{}", older[:-1], b"\xff" * 40):
        (tmp_path / "bank.head").write_bytes(damaged)
        with pytest.raises(LedgerCorrupt, match="cannot be read"):
            SqliteLedger.open(tmp_path / "bank.ledger")
    (tmp_path / "bank.head").write_bytes(older)
    SqliteLedger.open(tmp_path / "bank.ledger").close()


def test_a_memory_that_was_cut_off_while_it_was_written_is_the_one_before(tmp_path):
    """Wherever a write breaks off, and into whichever of the two places it went."""
    with fresh(tmp_path) as ledger:
        for count in range(4):
            ledger.remember_head()
            before, file = ledger.head(), (tmp_path / "bank.head").read_bytes()
            ledger.debit(b"%d" % count, BODY, TENTH, label="x")
            ledger.remember_head()
            after = (tmp_path / "bank.head").read_bytes()
            assert len(after) == 8192 or count == 0
            differing = [place for place in range(8192) if file[place] != after[place]]
            for cut in range(differing[0], differing[-1], 7):
                (tmp_path / "bank.head").write_bytes(after[: cut + 1] + file[cut + 1 :])
                assert remembered(tmp_path / "bank.head") in (before, ledger.head())
                ledger.refuse_set_back()
            (tmp_path / "bank.head").write_bytes(after)
    (tmp_path / "bank.head").write_bytes(bytes(8192))
    with pytest.raises(LedgerCorrupt, match="cannot be read"):
        SqliteLedger.open(tmp_path / "bank.ledger")


def test_a_memory_that_is_damaged_is_not_written_over(tmp_path):
    with fresh(tmp_path) as ledger:
        ledger.remember_head()
        (tmp_path / "bank.head").write_bytes(b"damaged")
        with pytest.raises(LedgerCorrupt, match="cannot be read"):
            ledger.remember_head()
    assert (tmp_path / "bank.head").read_bytes() == b"damaged"


# When it is written ---------------------------------------------------------------------------------------------------


def test_a_message_leaves_once_its_ledger_is_remembered_and_the_memory_is_its_owners_alone(tmp_path):
    with federation(ledger_dir=tmp_path) as f:
        bank = f._driver.transport._endpoints["bank"]
        for ask in (f.budget, lambda: study("response").fit(f), lambda: study("secure").fit(f)):
            ask()
            assert remembered(tmp_path / "bank.head") == bank._gate.ledger.head()
    assert (tmp_path / "bank.head").stat().st_mode & 0o777 == 0o600


def written(path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def test_a_refusal_leaves_once_its_ledger_is_remembered_and_one_from_an_old_ledger_remembers_nothing(tmp_path):
    """What a request has recorded before it failed is not forgotten either: a debit, or an attempt to align."""
    with federation(ledger_dir=tmp_path) as f:
        plan = study("response").fit(f).plan_
        bank = f._driver.transport._endpoints["bank"]
        before = (tmp_path / "bank.sqlite").read_bytes()
        repeated = as_if_agreed(f._driver.transport._endpoints["bank"], msgspec.structs.replace(plan, repeat=2))
        again = messages.encode(messages.Ask(plan=repeated, step="reports"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gate, "released", lambda *_: 1 / 0)
            refused = messages.decode_reply(bank.handle(again))
        assert refused.spent == pytest.approx(0.125)
        highest = bank._gate.ledger.head()
        assert remembered(tmp_path / "bank.head") == highest
    (tmp_path / "bank.sqlite").write_bytes(before)
    with pytest.raises(LedgerCorrupt, match="gone back"):
        federation(ledger_dir=tmp_path)
    memory = (tmp_path / "bank.head").read_bytes()
    (tmp_path / "bank.head").unlink()
    with federation(ledger_dir=tmp_path) as f:
        (tmp_path / "bank.head").write_bytes(memory)
        assert messages.decode_reply(f._driver.transport._endpoints["bank"].handle(again)).code == "ledger-corrupt"
    assert remembered(tmp_path / "bank.head") == highest


def test_a_request_that_adds_no_row_writes_nothing(tmp_path):
    with federation(ledger_dir=tmp_path) as f:
        study("response").fit(f)
        file = written(tmp_path / "bank.head")
        f.budget()
        study("response").fit(f)
        assert written(tmp_path / "bank.head") == file


def test_nothing_leaves_while_the_memory_cannot_be_written_and_what_was_spent_is_said(tmp_path, monkeypatch):
    with federation(ledger_dir=tmp_path) as f:
        plan = study("response").fit(f).plan_
        repeated = as_if_agreed(f._driver.transport._endpoints["bank"], msgspec.structs.replace(plan, repeat=2))
        again = messages.encode(messages.Ask(plan=repeated, step="reports"))
        bank = f._driver.transport._endpoints["bank"]

        def full(_):
            raise OSError(28, "no space")

        with monkeypatch.context() as patch:
            patch.setattr(private_files.os, "fdatasync", full)
            refused = messages.decode_reply(bank.handle(again))
        assert isinstance(refused, messages.Refused)
        assert refused.code == "disk-full"
        assert refused.spent == pytest.approx(0.125)
        assert isinstance(messages.decode_reply(bank.handle(again)), messages.Released)  # paid for, and kept


def test_an_older_head_never_replaces_a_newer_one(tmp_path):
    with fresh(tmp_path) as one, SqliteLedger.open(tmp_path / "bank.ledger") as other:
        one.debit(b"one", BODY, TENTH, label="x")
        other.debit(b"two", BODY, TENTH, label="x")
        other.remember_head()
        one.remember_head()
        assert remembered(tmp_path / "bank.head") == other.head()


class Cut(BaseException):
    """The process is gone."""


class CutAt:
    """Counts the calls that touch a disk, and cuts the process off just before one of them, or just after."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int, *, after: bool) -> None:
        self.calls, self._number, self._after = 0, number, after
        patch.setattr(LedgerFile, "run", self._cutting(LedgerFile.run))
        patch.setattr(private_files.os, "open", self._cutting(os.open))
        patch.setattr(private_files.os, "fsync", self._cutting(os.fsync))
        patch.setattr(private_files.os, "fdatasync", self._cutting(os.fdatasync))
        patch.setattr(private_files.os, "pwrite", self._cutting(os.pwrite))
        patch.setattr(Path, "replace", self._cutting(Path.replace))

    def _cutting(self, honest):
        def call(*args):
            self.calls += 1
            mine = self.calls == self._number
            if mine and not self._after:
                raise Cut
            result = honest(*args)
            if mine:
                raise Cut
            return result

        return call


def cut_off(ledger: SqliteLedger, number: int, *, after: bool) -> bool:
    """Pay for something and show it, cut off at one call; return whether it was."""
    with pytest.MonkeyPatch.context() as patch:
        CutAt(patch, number, after=after)
        try:
            ledger.debit(b"one", BODY, TENTH, label="x")
            ledger.remember_head()
        except Cut:
            return True
    return False


def test_wherever_a_party_is_cut_off_its_ledger_is_not_behind_its_memory_and_it_goes_on(tmp_path):
    for after in (False, True):
        for number in range(1, 100):
            folder = tmp_path / f"{number}-{after}"
            folder.mkdir()
            with fresh(folder) as ledger:
                ledger.remember_head()
                cut = cut_off(ledger, number, after=after)
            with SqliteLedger.open(folder / "bank.ledger") as ledger:
                ledger.debit(b"two", BODY, TENTH, label="x")
                ledger.remember_head()
                assert remembered(folder / "bank.head") == ledger.head()
            if not cut:
                break
        assert 10 < number < 99
