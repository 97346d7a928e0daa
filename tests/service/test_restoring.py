"""A party that lost its disk: what its peers attest, and how its ledger comes back without spending anything twice."""

import msgspec
import pytest

import colonnade as cn
from colonnade.coordinator.connect import StudyJournal
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.runtime.private_files import lock_folder
from colonnade.service.decisions import attest
from tests.cli.studies import call
from tests.service.served import Site, unserved
from tests.service.test_papers import opened


def counts(**options) -> cn.PatternCount:
    return cn.PatternCount(["bank.segment", "telco.plan"], epsilon=0.25, **options)


@pytest.fixture
def lost(tmp_path):
    return a_loss(tmp_path)


def a_loss(tmp_path) -> Site:
    """A site whose bank has a back-up after one study, has run two since, and has lost its ledger and its memory."""
    site = unserved(tmp_path)
    with opened(site) as federation:
        counts().fit(federation)
    made = call("ledger", "backup", str(site.members["bank"].path), str(tmp_path / "copy.sqlite"))
    assert made.exit_code == 0, made.output
    with opened(site) as federation:
        counts().fit(federation, repeat=2)
        counts().fit(federation, repeat=3)
    bank = site.members["bank"].path
    with SqliteLedger.open(bank / "ledger.sqlite") as ledger:
        site.last = ledger.head()
    for name in ("ledger.sqlite", "ledger.head"):
        (bank / name).unlink()
    return site


def said(site: Site, *names: str) -> list[str]:
    words = []
    for name in names:
        path = site.folder / f"{name}.attested.toml"
        path.write_text(call("party", "attest", str(site.members[name].path), "--about", "bank").output)
        words += ["--attested", str(path)]
    return words


def restored(site: Site, *words: str):
    return call("ledger", "restore", str(site.members["bank"].path), str(site.folder / "copy.sqlite"), *words)


def test_a_back_up_that_is_behind_what_peers_attest_is_refused(lost):
    shown = restored(lost)
    assert shown.exit_code == 1
    assert "Nobody can say" in shown.output
    assert "ledger.head" in shown.output
    shown = restored(lost, *said(lost, "telco", "insurer"), "--spent", "10")
    assert shown.exit_code == 1
    assert "it has forgotten releases" in shown.output
    assert not (lost.members["bank"].path / "ledger.sqlite").exists()


def test_peers_do_not_know_the_last_study_so_their_word_alone_never_bounds_the_charge(lost):
    """They see a head at the start of a study; what the study itself cost is not in it."""
    assert attest(lost.members["telco"], "bank").total < lost.last.nano
    assert restored(lost, *said(lost, "telco", "insurer"), "--forfeit").exit_code == 0
    with lost.members["bank"].ledger() as ledger:
        assert ledger.remaining() == pytest.approx(0.0, abs=1e-6)


def test_after_a_forfeit_the_party_takes_part_again_and_nothing_was_spent_twice(lost):
    spent = f"{lost.last.nano / 1e9:.9f}"  # as its own monitoring has recorded
    shown = restored(lost, *said(lost, "telco", "insurer"), "--forfeit", "--spent", spent)
    assert shown.exit_code == 0, shown.output
    assert "charged  ε=" in shown.output
    bank = lost.members["bank"]
    with bank.ledger() as ledger:
        assert ledger.identity == lost.last.ledger
        assert ledger.head().nano >= lost.last.nano
    bank.load([lost.folder / "bank.parquet"])
    with opened(lost) as federation:  # its peers remember the lost rows, and accept what comes after them
        study = counts().fit(federation, repeat=4)
        total = federation.budget().loc["bank", "spent"]
    assert total >= lost.last.nano / 1e9 + study.privacy_.epsilon(unit="person") - 1e-9


def test_the_coordinators_memory_counts_too_and_needs_no_signature(lost, tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    journal = StudyJournal(state / "studies.sqlite", lost.papers)
    with opened(lost_but_whole(lost), journal) as federation:
        counts().fit(federation, repeat=5)
    journal.close()
    shown = call("coordinator", "attest", str(state), str(lost.papers_path), "--about", "bank")
    assert 'by = "coordinator"' in shown.output
    assert "signature" not in shown.output
    assert "sequence = 0" not in shown.output
    (tmp_path / "coordinator.toml").write_text(shown.output)
    bank = str(lost.members["bank"].path)
    taken = call("ledger", "restore", bank, "--attested", str(tmp_path / "coordinator.toml"), "--forfeit")
    assert taken.exit_code == 0, taken.output
    assert "restored" in taken.output


def lost_but_whole(site: Site) -> Site:
    """Put the back-up in place and let the peers forget, so that a study runs."""
    (site.folder / "copy.sqlite").rename(site.members["bank"].path / "ledger.sqlite")
    for member in site.members.values():
        (member.path / "peers.heads").unlink(missing_ok=True)
    return site


def test_what_a_member_did_not_sign_is_no_evidence(lost, tmp_path):
    telco = lost.members["telco"]
    own = attest(telco, "bank")
    lower = msgspec.structs.replace(own, sequence=1, total=0)
    other = msgspec.structs.replace(own, by="insurer")
    elsewhere = msgspec.structs.replace(own, federation="0" * 64).signed(telco.identity())
    for forged, words in ((lower, "not signed"), (other, "not signed"), (elsewhere, "another federation")):
        path = tmp_path / "forged.toml"
        path.write_text(forged.text())
        shown = restored(lost, "--attested", str(path), "--forfeit")
        assert shown.exit_code == 1
        assert words in shown.output
    path.write_text("nonsense = 1")
    assert "is not what" in restored(lost, "--attested", str(path)).output


def test_a_ledger_is_not_exchanged_under_a_party_that_runs(lost):
    with lock_folder(lost.members["bank"].path):
        shown = restored(lost, "--forfeit")
    assert shown.exit_code == 1
    assert "[already-running]" in shown.output


def test_a_memory_from_a_back_up_is_no_memory(tmp_path):
    """Ledger and memory of the same old day agree with each other; what the peers have seen shows that both are old."""
    site = unserved(tmp_path)
    with opened(site) as federation:
        counts().fit(federation)
    bank = site.members["bank"].path
    call("ledger", "backup", str(bank), str(tmp_path / "copy.sqlite"))
    old = (bank / "ledger.head").read_bytes()
    with opened(site) as federation:
        counts().fit(federation, repeat=2)
        counts().fit(federation, repeat=3)
    (bank / "ledger.sqlite").unlink()
    (bank / "ledger.head").write_bytes(old)
    assert restored(site, *said(site, "telco")).exit_code == 1
    assert restored(site, *said(site, "telco"), "--forfeit").exit_code == 0
    with site.members["bank"].ledger() as ledger:
        assert ledger.remaining() == pytest.approx(0.0, abs=1e-6)


def test_what_the_party_itself_remembers_is_enough(tmp_path):
    site = unserved(tmp_path)
    with opened(site) as federation:
        counts().fit(federation)
    bank = site.members["bank"].path
    call("ledger", "backup", str(bank / "ledger.sqlite"), str(tmp_path / "copy.sqlite"))
    (bank / "ledger.sqlite").unlink()
    assert restored(site).exit_code == 0
    with opened(site) as federation:
        assert counts().fit(federation).receipt_  # from what was kept
        counts().fit(federation, repeat=2)
