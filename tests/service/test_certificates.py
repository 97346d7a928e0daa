"""Certificates: keys that never leave a site, requests that nobody can forge, renewal, a new authority, and their time."""

import importlib
import ssl
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from colonnade.errors import BadInput, CertificateExpired, LoosePermissions
from colonnade.secure.keys import Identity
from colonnade.service import federation_setup as setup
from colonnade.service.federation_setup import CertificateAuthority, SiteRequest
from colonnade.transport.kit import Kit
from tests.cli.studies import call
from tests.service.certificates import DAY, START, Clock, certified, connects, named_files
from tests.service.served import Site, unserved


@pytest.fixture
def site(tmp_path):
    return unserved(tmp_path)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def authority(tmp_path, clock):
    return CertificateAuthority.create(tmp_path / "authority", clock=clock)


# Keys stay where they were made --------------------------------------------------------------------------------------


def test_what_is_handed_out_holds_no_key(site):
    for name in site.members:
        assert named_files(site.folder / "kits" / name) == {"client.crt", "rootCA.pem"}
    keys = {(member.kit.key_file).read_bytes() for member in site.members.values()}
    assert len(keys) == len(site.members)
    made_here = b"".join(path.read_bytes() for path in setup.authority_folder(site.folder).iterdir())
    assert not any(key in made_here for key in keys)


def test_a_request_that_the_member_did_not_sign_is_refused(site, tmp_path):
    bank = site.members["bank"]
    stranger = Identity.from_seed(b"s" * 32)
    own = bank.certificate_request()
    forged = SiteRequest.made("bank", Kit(tmp_path / "theirs").request("bank"), stranger)
    spliced = SiteRequest("bank", forged.request, own.request_signature)
    other = SiteRequest.made("bank", site.members["telco"].kit.request("telco"), bank.identity())
    for request, words in ((forged, "identity key"), (spliced, "identity key"), (other, "another name")):
        path = tmp_path / "request.toml"
        path.write_text(request.text())
        with pytest.raises(BadInput, match=words):
            setup.renew(site.folder, setup.Renewal(requests=[path]))


def test_a_member_installs_only_a_certificate_to_a_key_of_its_own(site):
    with pytest.raises(BadInput, match="is for telco"):
        site.members["bank"].install(site.folder / "kits" / "telco")
    site.members["bank"].kit.key_file.unlink()
    with pytest.raises(BadInput, match="does not have"):
        site.members["bank"].install(site.folder)


# Renewal -------------------------------------------------------------------------------------------------------------


def certificates(site: Site) -> dict[str, x509.Certificate]:
    found = {name: site.folder / "kits" / name / "client.crt" for name in site.members}
    found["coordinator"] = site.folder / "kits" / "coordinator" / "server.crt"
    return {name: x509.load_pem_x509_certificate(path.read_bytes()) for name, path in found.items()}


def public_key(certificate: x509.Certificate) -> bytes:
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    return certificate.public_key().public_bytes(serialization.Encoding.DER, kind)


def test_renewing_makes_new_certificates_to_the_keys_in_use_and_leaves_the_papers(site):
    before, papers = certificates(site), site.papers_path.read_bytes()
    result = call("federation", "renew", str(site.folder), "--days", "400")
    assert result.exit_code == 0, result.output
    after = certificates(site)
    for name in before:
        assert after[name].serial_number != before[name].serial_number
        assert after[name].not_valid_after_utc > before[name].not_valid_after_utc
        assert public_key(after[name]) == public_key(before[name])
    assert site.papers_path.read_bytes() == papers


def test_a_new_key_is_certified_on_request_and_takes_over_when_it_is_installed(site, tmp_path):
    bank, before = site.members["bank"], certificates(site)
    old_key = bank.kit.key_file.read_bytes()
    request = tmp_path / "bank.request.toml"
    request.write_text(call("party", "request", str(bank.path), "--new-key").output)
    assert bank.kit.key_file.read_bytes() == old_key  # the old pair serves until then
    setup.renew(site.folder, setup.Renewal(requests=[request]))
    after = certificates(site)
    assert public_key(after["bank"]) != public_key(before["bank"])
    assert public_key(after["telco"]) == public_key(before["telco"])
    assert call("party", "install", str(bank.path), str(site.folder)).exit_code == 0
    assert bank.kit.key_file.read_bytes() != old_key
    assert named_files(bank.kit.folder) == {"client.key", "client.crt", "rootCA.pem"}
    bank.kit.credentials()


def test_a_new_key_of_the_coordinator_is_its_own_and_takes_over_when_it_is_installed(site, tmp_path):
    before, request = certificates(site)["coordinator"], tmp_path / "coordinator.toml"
    old_key = (site.kit / "server.key").read_bytes()
    request.write_text(call("coordinator", "request", str(site.kit), "--new-key").output)
    setup.renew(site.folder, setup.Renewal(coordinator=request))
    assert named_files(site.folder / "kits" / "coordinator") == {"server.crt", "rootCA.pem"}
    assert public_key(certificates(site)["coordinator"]) != public_key(before)
    Kit(site.kit, "server").credentials()  # the old pair serves until then
    done = call("coordinator", "install", str(site.kit), str(site.folder))
    assert done.exit_code == 0, done.output
    assert (site.kit / "server.key").read_bytes() != old_key
    assert connects(Kit(site.kit, "server"), site.members["bank"].kit)
    setup.renew(site.folder, setup.Renewal())  # and from now on to the key it has
    setup.install_coordinator(site.kit, site.folder)


def test_a_coordinators_card_that_somebody_else_made_is_refused(tmp_path):
    node = unserved(tmp_path, parties=("bank", "telco"))
    host = node.papers.coordinator.host
    other = tmp_path / "other" / "card.toml"
    for name, words in (("elsewhere.example", "not that of the coordinator"), (host, "not that of the coordinator")):
        assert call("coordinator", "init", str(other.parent), "--host", name).exit_code == 0
        with pytest.raises(BadInput, match=words):
            setup.renew(node.folder, setup.Renewal(coordinator=other))
    identity = (node.kit / "card.toml").read_text().splitlines()[-1]
    other.write_text("\n".join([*other.read_text().splitlines()[:-1], identity]))
    with pytest.raises(BadInput, match="not signed with its identity key"):
        setup.renew(node.folder, setup.Renewal(coordinator=other))


# The authority -------------------------------------------------------------------------------------------------------


def test_an_authority_that_would_end_first_is_prolonged_and_sites_of_both_dates_connect(tmp_path):
    clock = Clock(time.time())
    authority = CertificateAuthority.create(tmp_path / "authority", days=300, clock=clock)
    server, late = Kit(tmp_path / "server", "server"), Kit(tmp_path / "late")
    certified(authority, server, "localhost", host="localhost")
    found = certified(authority, late, "late", days=360)
    assert found.days_left(clock.now) == pytest.approx(300, abs=0.01)  # it never outlasts its authority
    assert authority.prolong() is True
    assert authority.prolong() is False
    early = Kit(tmp_path / "early")
    assert certified(authority, early, "early").days_left(clock.now) == pytest.approx(360, abs=0.01)
    assert connects(server, early)  # one end knows the old date only, and the other the new one
    certified(authority, server, "localhost", host="localhost")
    assert connects(server, late)
    assert connects(server, early)


@pytest.mark.full
def test_sites_change_over_to_a_new_authority_one_by_one_until_the_former_is_forgotten(tmp_path):
    authority = CertificateAuthority.create(tmp_path / "authority")
    server, early, late = Kit(tmp_path / "server", "server"), Kit(tmp_path / "early"), Kit(tmp_path / "late")
    for kit, name, host in ((server, "localhost", "localhost"), (early, "early", None), (late, "late", None)):
        certified(authority, kit, name, host=host)
    former = (tmp_path / "authority" / "authority.key").read_bytes()
    authority.replace_key()
    assert (tmp_path / "authority" / "authority.key").read_bytes() != former
    certified(authority, early, "early")
    early.credentials()
    assert connects(server, early)  # the coordinator knows the former authority only
    certified(authority, server, "localhost", host="localhost")
    server.credentials()
    assert connects(server, late)  # the site knows the former authority only
    assert connects(server, early)
    authority.forget_former()
    certified(authority, server, "localhost", host="localhost")
    assert not connects(server, late)
    certified(authority, late, "late")
    assert connects(server, late)


# Their time ----------------------------------------------------------------------------------------------------------


def test_a_certificate_outside_its_time_names_itself_and_the_date(tmp_path, authority, clock):
    kit = Kit(tmp_path / "kit", clock=clock)
    found = certified(authority, kit, "bank")
    kit.credentials()
    assert "renew it" not in found.words(clock.now)
    clock.pass_days(360 - 29)
    kit.credentials()
    assert found.words(clock.now).endswith("in 29 days: renew it")
    clock.pass_days(29)
    with pytest.raises(CertificateExpired) as refused:
        kit.credentials()
    day = time.strftime("%Y-%m-%d", time.gmtime(START + 360 * DAY))
    assert f"The certificate of bank (client.crt) expired on {day}" in refused.value.message
    assert "federation renew" in refused.value.remedy
    assert found.words(clock.now).startswith(f"EXPIRED on {day}")
    clock.now = START - DAY
    with pytest.raises(CertificateExpired, match="not valid before"):
        kit.credentials()


# Broken kits ---------------------------------------------------------------------------------------------------------


def loose_key(kit: Kit) -> None:
    kit.key_file.chmod(0o640)


def loose_folder(kit: Kit) -> None:
    kit.folder.chmod(0o755)


def no_root(kit: Kit) -> None:
    (kit.folder / "rootCA.pem").unlink()


def half_installed(kit: Kit) -> None:
    kit.request("bank", new_key=True)
    (kit.folder / "next.key").replace(kit.key_file)


def other_authority(kit: Kit) -> None:
    other = CertificateAuthority.create(kit.folder.parent / "other")
    (kit.folder / "rootCA.pem").write_bytes(other.certificate.public_bytes(serialization.Encoding.PEM))


def no_certificate(kit: Kit) -> None:
    kit.certificate_file.write_text("nonsense")


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (loose_key, LoosePermissions, "client.key can be read by other users"),
        (loose_folder, LoosePermissions, "kit can be read by other users"),
        (no_root, BadInput, "lacks one of"),
        (half_installed, BadInput, "not the certificate to"),
        (other_authority, BadInput, "different authorities"),
        (no_certificate, BadInput, "no certificate"),
    ],
)
def test_a_kit_that_would_not_connect_says_why(fault, error, words, tmp_path):
    kit = Kit(tmp_path / "kit")
    certified(CertificateAuthority.create(tmp_path / "authority"), kit, "bank")
    kit.credentials()
    fault(kit)
    with pytest.raises(error, match=words):
        kit.credentials()


def test_a_site_trusts_the_federations_authority_and_none_that_its_system_knows(tmp_path):
    pytest.importorskip("nvflare", reason="needs the extra colonnade[network]")
    engine = importlib.import_module("colonnade.transport.flare")
    kit = Kit(tmp_path / "kit")
    certified(CertificateAuthority.create(tmp_path / "authority"), kit, "bank")
    context = engine.tls_context(kit.credentials(), ssl_server=False)
    (trusted,) = context.get_ca_certs(binary_form=True)
    assert trusted == x509.load_pem_x509_certificate((kit.folder / "rootCA.pem").read_bytes()).public_bytes(
        serialization.Encoding.DER
    )
    assert context.verify_mode == ssl.CERT_REQUIRED
