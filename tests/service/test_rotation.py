"""A member's new identity key: signed with the old one, accepted by everybody without new signatures, and on the same budget."""

import shutil

import msgspec
import pytest

import colonnade as cn
from colonnade.errors import BadInput, ColonnadeError, ProtocolError
from colonnade.protocol.agreement import FederationAgreement, Rotation, read_agreement
from colonnade.secure.keys import Identity
from colonnade.service import federation_setup as setup
from tests.cli.studies import call
from tests.service.served import Site, unserved
from tests.service.test_papers import opened


@pytest.fixture
def site(tmp_path):
    return unserved(tmp_path)


def counts(**options) -> cn.PatternCount:
    return cn.PatternCount(["bank.segment", "telco.plan"], epsilon=0.25, **options)


def rotated(site: Site, name: str = "bank") -> FederationAgreement:
    """Rotate one member's key as its operator does, and hand its papers to everybody."""
    shown = call("party", "rotate", str(site.members[name].path))
    assert shown.exit_code == 0, shown.output
    shutil.copy(site.members[name].papers, site.papers_path)
    for member in site.members.values():
        member.install(site.folder)
    return site.papers


def test_a_new_key_needs_no_new_signatures_and_takes_part_on_the_old_budget(site):
    before = site.papers
    with opened(site) as federation:
        counts().fit(federation)
        spent = federation.budget().loc["bank", "spent"]
    old = site.members["bank"].identity().public
    papers = rotated(site)
    assert papers.identity == before.identity
    assert papers.signatures == before.signatures
    assert papers.check().pinned()["bank"].key != old
    assert site.members["bank"].identity().public == papers.pinned()["bank"].key
    with opened(site) as federation:
        assert federation.budget().loc["bank", "spent"] == spent
        counts().fit(federation)  # kept, and returned at no price
        assert federation.budget().loc["bank", "spent"] == spent
        counts().fit(federation, repeat=2)
        assert federation.budget().loc["bank", "spent"] > spent


def test_keys_rotate_again_and_again_and_survive_being_written(site):
    for number in range(1, 4):
        papers = rotated(site)
        assert len(papers.rotations["bank"]) == number
        assert FederationAgreement.read(papers.text()) == papers
    rotated(site, "telco")
    with opened(site) as federation:
        counts().fit(federation)


def test_nobody_talks_to_the_old_key_any_more(site):
    bank, kept = site.members["bank"], site.folder / "kept"
    shutil.copy(bank.path / "identity.key", kept)
    rotated(site)
    shutil.copy(kept, bank.path / "identity.key")
    with pytest.raises(ProtocolError, match="do not name this member"):
        bank.guard()


def test_a_peer_that_has_not_heard_of_the_new_key_refuses_it(site):
    assert call("party", "rotate", str(site.members["bank"].path)).exit_code == 0
    with opened(site) as federation, pytest.raises(ColonnadeError):
        counts().fit(federation)


def test_a_certificate_is_renewed_with_the_new_key_and_not_with_the_old_one(site, tmp_path):
    old = site.members["bank"].certificate_request()
    rotated(site)
    for request, sound in ((site.members["bank"].certificate_request(), True), (old, False)):
        path = tmp_path / "request.toml"
        path.write_text(request.text())
        if sound:
            setup.renew(site.folder, setup.Renewal(requests=[path]))
            continue
        with pytest.raises(BadInput, match="identity key"):
            setup.renew(site.folder, setup.Renewal(requests=[path]))


def stranger(papers: FederationAgreement) -> FederationAgreement:
    """A rotation that somebody else signed."""
    key = Identity.from_seed(b"x" * 32)
    forged = Rotation(identity=key.public.hex(), signature=key.sign(b"anything").hex())
    return msgspec.structs.replace(papers, rotations={"bank": [forged]})


def another_member(papers: FederationAgreement) -> FederationAgreement:
    """A rotation of the bank, said to be telco's."""
    return msgspec.structs.replace(papers, rotations={"telco": papers.rotations["bank"]})


def another_federation(papers: FederationAgreement) -> FederationAgreement:
    """The same rotation beside papers that say something else."""
    return msgspec.structs.replace(papers, name="another")


def out_of_order(papers: FederationAgreement) -> FederationAgreement:
    return msgspec.structs.replace(papers, rotations={"bank": papers.rotations["bank"][::-1]})


def of_nobody(papers: FederationAgreement) -> FederationAgreement:
    return msgspec.structs.replace(papers, rotations={**papers.rotations, "stranger": papers.rotations["bank"]})


@pytest.mark.every(3)
@pytest.mark.parametrize("forge", [stranger, another_member, another_federation, out_of_order, of_nobody])
def test_a_new_key_that_the_old_one_did_not_sign_is_refused(forge, site):
    rotated(site)
    papers = rotated(site)
    with pytest.raises(ProtocolError):
        forge(papers).check()


def test_papers_with_an_older_key_do_not_come_back(site):
    older = site.papers_path.read_text()
    rotated(site)
    site.papers_path.write_text(older)
    with pytest.raises(BadInput, match="older key of bank"):
        site.members["telco"].install(site.folder)
    assert read_agreement(site.members["telco"].papers).rotations


@pytest.mark.every(3)
@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_crash_on_the_way_is_finished_by_doing_it_again(step, site, monkeypatch):
    """Before the papers are written, before the old key is put aside, and before the new key is kept at all."""
    bank = site.members["bank"]
    from colonnade.service import party_folder

    done = []

    def crashing(path, content, honest=party_folder.replace_file):
        if len(done) == step:
            raise KeyboardInterrupt
        done.append(path)
        honest(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(party_folder, "replace_file", crashing)
        if step < 2:
            with pytest.raises(KeyboardInterrupt):
                bank.rotate()
        else:
            patch.setattr(type(bank.path), "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                bank.rotate()
    bank.rotate()
    papers = read_agreement(bank.papers).check()
    assert len(papers.rotations["bank"]) == 1
    assert papers.pinned()["bank"].key == bank.identity().public
    assert not (bank.path / "identity.next").exists()
