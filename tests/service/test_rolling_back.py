"""A party whose whole folder was rolled back, as a snapshot of its disk does: nobody accepts it again by trying."""

import shutil

import pytest

import colonnade as cn
from colonnade.conversations.memory import LedgerHeads
from colonnade.coordinator.connect import StudyJournal
from colonnade.errors import LedgerCorrupt
from colonnade.party.ledger import ledger as ledgers
from colonnade.party.ledger.ledger import MOST_OF_ONE, SqliteLedger
from colonnade.privacy.accounting import Loss
from tests.cli.studies import call
from tests.service.served import Site, unserved
from tests.service.test_papers import opened


def counts(epsilon: float = 0.25) -> cn.PatternCount:
    return cn.PatternCount(["bank.segment", "telco.plan"], epsilon=epsilon)


def rolled_back(tmp_path) -> Site:
    """A site whose bank answered a study, then six more, and stands before these again, its own memory included."""
    site = unserved(tmp_path, epsilon=100.0)
    bank = site.members["bank"].path
    with opened(site) as federation:
        counts().fit(federation)
    shutil.copytree(bank, tmp_path / "snapshot")
    with opened(site) as federation:
        for repeat in range(2, 8):
            counts(1.0).fit(federation, repeat=repeat)
    with site.members["bank"].ledger() as ledger:
        site.last = ledger.head()
    shutil.rmtree(bank)
    shutil.copytree(tmp_path / "snapshot", bank)
    return site


def remembered(site: Site, name: str) -> LedgerHeads:
    ledgers = {party: site.papers.members[party].ledger for party in site.papers.parties}
    return LedgerHeads(ledgers, site.members[name].path / "peers.heads")


@pytest.mark.full
@pytest.mark.parametrize("rows", [20, 0])
def test_a_rolled_back_party_is_refused_over_100_tries_until_its_owner_forfeits(tmp_path, monkeypatch, rows):
    """Also where it makes rows by itself between two tries, so that it passes all that its peers have seen."""
    site = rolled_back(tmp_path)
    bank, honest = site.members["bank"], ledgers._now
    for day in range(100 // MOST_OF_ONE + 1):  # it began every study that its peers refused, and holds them for an hour
        monkeypatch.setattr(ledgers, "_now", lambda clock, day=day: honest(clock) + day * 86_400_000_000)
        with bank.ledger() as ledger:
            for number in range(rows):
                ledger.debit(b"%d %d" % (day, number), bytes(32), Loss.of_pure(1), label="by itself")
            ledger.remember_head()
        with opened(site) as federation:  # members restart, and a coordinator is a new one
            for attempt in range(MOST_OF_ONE):
                with pytest.raises(LedgerCorrupt, match="gone back"):
                    counts(0.001).fit(federation, repeat=100 + day * MOST_OF_ONE + attempt)
    with bank.ledger() as ledger:
        assert ledger.head().sequence > site.last.sequence or not rows
    stood, rival = remembered(site, "telco").evidence("bank")
    for one in (stood, rival):
        site.papers.pinned()["bank"].verify(one.message, one.signature)
    shown = call("ledger", "restore", str(bank.path), "--forfeit", "--spent", f"{site.last.nano / 1e9:.9f}")
    assert shown.exit_code == 0, shown.output
    with opened(site) as federation:
        counts(0.001).fit(federation, repeat=1_000)
        counts(0.001).fit(federation, repeat=1_001)
    assert remembered(site, "telco").evidence("bank") is None


def test_the_coordinator_refuses_it_as_long(tmp_path):
    site = rolled_back(tmp_path)
    for member in site.members.values():  # nobody else remembers
        (member.path / "peers.heads").unlink(missing_ok=True)
    state = tmp_path / "state.sqlite"
    with opened(site, StudyJournal(state, site.papers)) as federation:
        counts(0.001).fit(federation, repeat=50)
        counts(0.001).fit(federation, repeat=51)
    shutil.rmtree(site.members["bank"].path)
    shutil.copytree(site.folder / "snapshot", site.members["bank"].path)
    for member in site.members.values():
        (member.path / "peers.heads").unlink(missing_ok=True)
    with opened(site, StudyJournal(state, site.papers)) as federation:
        for attempt in range(5):
            with pytest.raises(LedgerCorrupt, match="gone back"):
                counts(0.001).fit(federation, repeat=60 + attempt)


def test_an_owner_who_forfeits_less_than_was_seen_is_told_so(tmp_path):
    site = rolled_back(tmp_path)
    bank = site.members["bank"]
    assert call("ledger", "restore", str(bank.path), "--forfeit", "--spent", "0.5").exit_code == 0
    with opened(site) as federation, pytest.raises(LedgerCorrupt, match="total is below"):
        counts(0.001).fit(federation, repeat=100)
    assert call("ledger", "restore", str(bank.path), "--forfeit", "--spent", "6").exit_code == 0
    with bank.ledger() as ledger:
        assert 6 <= ledger.head().nano / 1e9 < 6.1
    with opened(site) as federation:
        counts(0.001).fit(federation, repeat=101)


def test_without_a_back_up_there_is_nothing_to_put_in_place_unless_it_is_forfeited(tmp_path):
    site = unserved(tmp_path)
    shown = call("ledger", "restore", str(site.members["bank"].path))
    assert shown.exit_code == 1
    assert "--forfeit" in shown.output


def test_a_restored_party_with_the_same_table_keeps_its_version_and_is_aligned_again(tmp_path):
    """It used to get a new version, and an alignment under another version is refused for 30 days."""
    site = unserved(tmp_path)
    bank = site.members["bank"]
    with opened(site) as federation:
        federation.align(mode="intersection", epsilon=0.25)
    call("ledger", "backup", str(bank.path), str(tmp_path / "copy.sqlite"))
    with opened(site) as federation:
        counts().fit(federation)
    for name in ("ledger.sqlite", "ledger.head"):
        (bank.path / name).unlink()
    shutil.rmtree(bank.path / "data")  # the disk is lost
    assert (
        call("ledger", "restore", str(bank.path), str(tmp_path / "copy.sqlite"), "--forfeit", "--spent", "2").exit_code
        == 0
    )
    assert bank.load([tmp_path / "bank.parquet"]).version == 1
    with opened(site) as federation:
        aligned = federation.align(mode="intersection", epsilon=0.25, repeat=2)
        counts().fit(aligned, repeat=2)
    assert bank.load([tmp_path / "bank.parquet"]).version > 1  # by now a version says nothing about rows again


@pytest.mark.full
def test_a_restored_party_with_another_table_gets_a_version_that_was_never_used(tmp_path):
    site = unserved(tmp_path)
    bank = site.members["bank"]
    call("ledger", "backup", str(bank.path), str(tmp_path / "copy.sqlite"))
    assert bank.load([tmp_path / "bank.parquet"]).version == 2  # in a row that is lost
    (bank.path / "ledger.sqlite").unlink()
    assert call("ledger", "restore", str(bank.path), str(tmp_path / "copy.sqlite"), "--forfeit").exit_code == 0
    site.tables["bank"].iloc[1:].to_parquet(tmp_path / "other.parquet")
    assert bank.load([tmp_path / "other.parquet"]).version > 2
    with SqliteLedger.open(bank.path / "ledger.sqlite") as ledger:
        assert ledger.restored_version(b"whatever") is None
