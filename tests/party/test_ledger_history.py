"""What a ledger shows of its history: that it only grew, by proofs that stay short, and nothing of what its rows say."""

import hashlib
import shutil
import time

import msgspec
import pytest

from colonnade.conversations.memory import extends
from colonnade.party.ledger import rows
from colonnade.party.ledger.chain import first_row
from colonnade.party.ledger.file import LedgerFile
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import FORMAT, Ceiling, Genesis
from colonnade.privacy.accounting import GRID, Budget, Loss
from tests.party.ledger_samples import BODY, fresh

LEAST = Loss.of_pure(1)


def grow(ledger: SqliteLedger, count: int, name: bytes = b"row") -> None:
    for number in range(count):
        ledger.debit(name + b"%d" % number, BODY, LEAST, label="x")


def test_every_head_is_shown_to_extend_every_earlier_one_also_by_another_process(tmp_path):
    with fresh(tmp_path) as ledger, SqliteLedger.open(tmp_path / "bank.ledger") as other:
        seen = [ledger.head()]
        for number in range(20):
            grow(other if number % 2 else ledger, 1, b"%d " % number)
            seen.append(ledger.head())
        head, earlier = ledger.shown([-1, *range(21), 21, 10**9])
        assert [one.sequence for one in earlier] == list(range(20))
        for one in earlier:
            assert one.root == seen[one.sequence].root
            assert extends(one.sequence + 1, one.root, head.sequence + 1, head.root, one.proof)
        assert other.shown(range(21)) == (head, earlier)
    with SqliteLedger.open(tmp_path / "bank.ledger") as again:
        assert again.shown(range(21)) == (head, earlier)
        assert all(again.continues(one) for one in seen)


def test_a_ledger_that_went_back_has_another_root_wherever_it_grows_to(tmp_path):
    with fresh(tmp_path) as ledger:
        grow(ledger, 5)
        shutil.copy(tmp_path / "bank.ledger", tmp_path / "copy.ledger")
        grow(ledger, 6, b"later")
        seen = ledger.head()
    with SqliteLedger.open(tmp_path / "copy.ledger") as back:
        for number in range(20):
            grow(back, 1, b"other %d" % number)
            head, earlier = back.shown([seen.sequence])
            assert not back.continues(seen)
            if head.sequence >= seen.sequence:
                claimed = earlier[0].root if earlier else head.root
                assert claimed != seen.root


def test_nobody_without_the_salt_can_try_out_what_a_row_says(tmp_path):
    """Two ledgers with the same rows to the bit, but for the salt, show nothing in common; an unsalted digest is nowhere."""
    genesis = Genesis(FORMAT, GRID, "0" * 32, "bank", False, Ceiling.of(Budget(epsilon=1.0)))
    shown = []
    for salt in ("11" * 32, "22" * 32):
        folder = tmp_path / salt[:2]
        folder.mkdir()
        with made(folder, msgspec.structs.replace(genesis, salt=salt)) as ledger:
            grow(ledger, 12)
            head, earlier = ledger.shown(range(12))
            shown.append({head.root, *(node for one in earlier for node in (one.root, *one.proof))})
            hashes = {row for (row,) in ledger._file.run("SELECT hash FROM entries")}
    assert not shown[0] & shown[1]
    guesses = {
        hashlib.sha256(prefix + row).digest() for row in hashes for prefix in (b"", b"\x00colonnade ledger row v1")
    }
    assert not (guesses | hashes) & (shown[0] | shown[1])


def made(folder, genesis: Genesis) -> SqliteLedger:
    file = LedgerFile.make(folder / "bank.ledger", patience=30.0)
    ledger = SqliteLedger(file, lambda: 1e9)
    with file.writing():
        file.lay_out()
        ledger._chain.append(first_row(genesis, 10**15))
    ledger.verify()
    return ledger


@pytest.mark.full
def test_heads_and_proofs_stay_cheap_in_long_ledgers(tmp_path):
    """Written past the ledger's syncs, which take the time; what is measured only reads."""
    with fresh(tmp_path) as ledger:
        with ledger._file.writing():
            state = ledger._chain.catch_up()
            for number in range(10_000):
                facts = state.row("debit", 10**15, "x", request=b"%d" % number, body=BODY, loss=LEAST)
                ledger._chain.append(facts)
                state = state.then(facts, rows.row_hash(facts))
        ledger.head()
        began = time.perf_counter()
        for number in range(100):
            head, earlier = ledger.shown([number * 100])
            assert extends(number * 100 + 1, earlier[0].root, head.sequence + 1, head.root, earlier[0].proof)
            assert len(earlier[0].proof) <= 28
        assert (time.perf_counter() - began) / 100 < 0.02
