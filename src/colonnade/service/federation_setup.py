"""Setting up a federation: the papers that every member signs (federation.toml), and certificates for the network.

Every site makes its own key, the coordinator too, and sends a signing request with its card. The federation's authority
(`CertificateAuthority`) signs requests, and holds no site's key. It lies beside the federation's folder, not in it: the folder
is sent to everybody, and holds no private key. Certificates last about a year. Renewing makes new ones, to the same keys or to
new ones, while the federation runs. They open a connection and nothing else: towards its peers a party is known by the identity
key in the signed papers. So an authority cannot speak for a party to its peers, read letters or draw on a budget.

::

    authority/
    ├── authority.crt   its own certificate
    ├── authority.key   its key; 0600: keep the folder offline
    ├── former.crt      the authority before it, while that is still trusted
    └── bridge.crt      this authority's key, certified by the former one

*The same key, a new date.* An authority that would end before a certificate does is given a new certificate to the same key.
Sites that have only the old one accept what is signed now, and the other way round, until the old date.

*A new key.* The former authority certifies the new key. That bridge travels with every certificate, so a site that knows only
the former authority accepts it; new kits name both. So sites change over one by one, and nothing stops. Once all have, the
former authority is forgotten.
"""

import ipaddress
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from colonnade.errors import BadInput, ColonnadeError
from colonnade.privacy.randomness import SystemRandomness
from colonnade.protocol import agreement
from colonnade.runtime.private_files import read_hex, replace_file, require_private, write_new
from colonnade.secure.keys import Identity, PublicIdentity, frame
from colonnade.secure.shamir import FEWEST_NODES
from colonnade.service import toml_parts
from colonnade.service.party_folder import PartyFolder
from colonnade.transport.kit import (
    Certificate,
    Kit,
    key_bytes,
    new_rsa_key,
    pem,
    read_certificates,
    read_key,
    site_name,
)

VALID_DAYS = 360.0
"""Days that a site's certificate lasts, unless said otherwise."""

AUTHORITY_DAYS = 1_825.0
"""Days that the authority's own certificate lasts."""

REQUEST_KEYS = ("name", "request", "request_signature")

SLACK = timedelta(minutes=5)
"""How far back a certificate begins: a site whose clock is slow can use it at once."""


@dataclass(frozen=True)
class Issued:
    """What a site is given: its certificate, with the bridge to a former authority if there is one, and whom to trust."""

    certificate: bytes
    roots: bytes

    def write(self, folder: Path, role: str) -> None:
        """Put it into a folder for the site to fetch. Nothing in it is secret."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(folder / f"{role}.crt", self.certificate)
        replace_file(folder / "rootCA.pem", self.roots)


class CertificateAuthority:
    """The authority in a folder.

    Parameters
    ----------
    folder
        Where it is kept.
    clock
        Seconds since 1970.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        if not (folder / "authority.key").exists():
            raise BadInput(
                f"There is no certificate authority in {folder}.",
                remedy="Bring the folder back that `colonnade federation init` made, or make a new one with --new-authority.",
            )
        require_private(folder)
        self._key = read_key(folder / "authority.key")
        self.certificate = read_certificates(folder / "authority.crt", "Restore it from a copy.")[0]

    @classmethod
    def create(
        cls, folder: Path, *, days: float = AUTHORITY_DAYS, clock: Callable[[], float] = time.time
    ) -> "CertificateAuthority":
        """Make an authority; refuse a folder that has one."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        key = new_rsa_key()
        write_new(folder / "authority.key", key_bytes(key))
        write_new(folder / "authority.crt", pem(_root(key, _authority_name(key), clock(), days)))
        return cls(folder, clock=clock)

    def issue(self, key: rsa.RSAPublicKey, name: str, *, host: str | None = None, days: float = VALID_DAYS) -> Issued:
        """Certify a site's key in its name. ``host`` makes it the coordinator's: only that one may be connected to.

        It never outlasts the authority. An authority that would end first is given a new date (`prolong`).
        """
        now = datetime.fromtimestamp(self._clock(), UTC)
        ends = min(now + timedelta(days=days), self.certificate.not_valid_after_utc)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if host else [])]
        subject = x509.Name(
            [x509.NameAttribute(NameOID.COMMON_NAME, name), x509.NameAttribute(NameOID.ORGANIZATION_NAME, name)]
        )
        made = (
            _builder(subject, self.certificate.subject, key, self._key.public_key(), now - SLACK, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(x509.SubjectAlternativeName([_host_name(host or name)]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        former, bridge = self._read("former.crt"), self._read("bridge.crt")
        return Issued(pem(made) + bridge, pem(self.certificate) + former)

    def prolong(self, *, days: float = VALID_DAYS) -> bool:
        """Give the authority's key a new certificate if the present one ends before one made now would; return whether."""
        now = self._clock()
        if self.certificate.not_valid_after_utc.timestamp() >= now + days * 86_400:
            return False
        self._become(self._key, _root(self._key, self.certificate.subject, now, max(AUTHORITY_DAYS, days)))
        return True

    def replace_key(self) -> None:
        """Go over to a new key, certified by the one before, which stays trusted until it is forgotten."""
        now = self._clock()
        key = new_rsa_key()
        root = _root(key, _authority_name(key), now, AUTHORITY_DAYS)
        self.forget_former()
        ends = self.certificate.not_valid_after_utc
        if ends > root.not_valid_before_utc:  # one that has ended is trusted by nobody, and vouches for nothing
            bridge = _authority_certificate(
                root.subject,
                key.public_key(),
                self.certificate.subject,
                self._key,
                (root.not_valid_before_utc, ends),
            )
            replace_file(self._folder / "former.crt", pem(self.certificate))
            replace_file(self._folder / "bridge.crt", pem(bridge))
        self._become(key, root)

    def forget_former(self) -> None:
        """Trust the present authority alone: kits that are made from now on do not know the former one."""
        for name in ("former.crt", "bridge.crt"):
            (self._folder / name).unlink(missing_ok=True)

    def _become(self, key: rsa.RSAPrivateKey, certificate: x509.Certificate) -> None:
        replace_file(self._folder / "authority.key", key_bytes(key))
        replace_file(self._folder / "authority.crt", pem(certificate))
        self._key, self.certificate = key, certificate

    def _read(self, name: str) -> bytes:
        path = self._folder / name
        return path.read_bytes() if path.exists() else b""


@dataclass(frozen=True)
class SiteRequest:
    """A site's signing request: the key it made, proved by that key, and said to be its own by its identity key.

    Parameters
    ----------
    name
        The name that the certificate is to be in.
    request
        The signing request, as PEM.
    request_signature
        The member's signature over both, in hexadecimal; empty from a coordinator that has no identity.
    """

    name: str
    request: str
    request_signature: str = ""

    @classmethod
    def made(cls, name: str, request: bytes, identity: Identity) -> "SiteRequest":
        """Sign a request with the member's identity key."""
        return cls(name, request.decode(), identity.sign(_asked(name, request.decode())).hex())

    @classmethod
    def taken_from(cls, document: toml_parts.Table, where: str) -> "SiteRequest":
        """Read a request out of a card, or out of a file of its own."""
        if "request" not in document:
            raise BadInput(
                f"{where} holds no certificate request.",
                remedy="Have the member make it again with this version: colonnade party card, or party request.",
            )
        entries = {key: toml_parts.text_of(document, key, where) for key in REQUEST_KEYS if key in document}
        return cls(**{"name": "", **entries})

    @classmethod
    def read(cls, path: Path) -> "SiteRequest":
        """Read a request from a file."""
        return cls.taken_from(toml_parts.parse(path, REQUEST_KEYS), path.name)

    def text(self) -> str:
        """Return the request as TOML."""
        return toml_parts.lines_of(asdict(self))

    def key_of_member(self, identity: PublicIdentity) -> rsa.RSAPublicKey:
        """Return the key; refuse a request that the member with this identity did not sign."""
        try:
            identity.verify(_asked(self.name, self.request), bytes.fromhex(self.request_signature))
        except (ColonnadeError, ValueError):
            raise BadInput(
                f"The certificate request of {self.name} is not signed with its identity key.",
                remedy=f"Have {self.name} make it again: colonnade party request.",
            ) from None
        return self.key()

    def key(self) -> rsa.RSAPublicKey:
        """Return the key; refuse a request for another name, or that the key itself did not sign."""
        try:
            request = x509.load_pem_x509_csr(self.request.encode())
            key = request.public_key()
            sound = request.is_signature_valid and site_name(request.subject) == self.name
        except (ValueError, TypeError):
            sound, key = False, None
        if not sound or not isinstance(key, rsa.RSAPublicKey) or not 2_048 <= key.key_size <= 8_192:
            raise BadInput(
                f"The certificate request of {self.name} is damaged, in another name, or not for an RSA key of 2048 bits.",
                remedy="Have it made again: colonnade party request.",
            )
        return key


def _asked(name: str, request: str) -> bytes:
    return frame("colonnade certificate request v1", name, request)


def _authority_name(key: rsa.RSAPrivateKey) -> x509.Name:
    """Name an authority after its key, so that two generations are never taken for one."""
    mark = x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest.hex()[:12]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"colonnade authority {mark}")])


def _root(key: rsa.RSAPrivateKey, name: x509.Name, now: float, days: float) -> x509.Certificate:
    begins = datetime.fromtimestamp(now, UTC)
    return _authority_certificate(name, key.public_key(), name, key, (begins - SLACK, begins + timedelta(days=days)))


def _authority_certificate(
    subject: x509.Name,
    key: rsa.RSAPublicKey,
    issuer: x509.Name,
    signer: rsa.RSAPrivateKey,
    time_span: tuple[datetime, datetime],
) -> x509.Certificate:
    usage = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return (
        _builder(subject, issuer, key, signer.public_key(), *time_span)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage), critical=True)
        .sign(signer, hashes.SHA256())
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: rsa.RSAPublicKey,
    signer: rsa.RSAPublicKey,
    begins: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def provision(workspace: str | Path, *, host: str, sites: Sequence[str], kits: str | Path) -> dict[str, Path]:
    """Make whole start-up kits, keys included, for a coordinator and sites that are all on this machine.

    Parameters
    ----------
    workspace
        Where the certificate authority is kept.
    host
        The name in the coordinator's certificate.
    sites
        The names in the other certificates.
    kits
        Where the kits go, one folder per site, ``coordinator`` among them.

    Returns
    -------
    dict
        The folder of each kit by site.
    """
    authority, kits = _authority(Path(workspace)), Path(kits)
    server = Kit(kits / agreement.COORDINATOR, "server")
    key = SiteRequest(host, server.request(host).decode()).key()
    authority.issue(key, host, host=host).write(server.folder, "server")
    for site in sites:
        key = SiteRequest(site, Kit(kits / site).request(site).decode()).key()
        authority.issue(key, site).write(kits / site, "client")
    return {site: kits / site for site in (agreement.COORDINATOR, *sites)}


def _authority(folder: Path) -> CertificateAuthority:
    return (
        CertificateAuthority(folder)
        if folder.exists() and any(folder.iterdir())
        else CertificateAuthority.create(folder)
    )


def authority_folder(folder: Path) -> Path:
    """Return where a federation's authority is: beside its folder. One that an earlier version put inside is moved there."""
    folder = folder.resolve()
    beside, inside = folder.with_name(f"{folder.name}-authority"), folder / "authority"
    if inside.is_dir() and not beside.exists():
        inside.rename(beside)
    return beside


# The coordinator's own folder ------------------------------------------------------------------------------------------------


def coordinator_card(folder: Path, *, host: str | None = None, new_key: bool = False) -> str:
    """Return what is public about a coordinator: its host, its identity, and a request for a certificate to its own key.

    The keys are made in ``folder``, which is the coordinator's alone, and stay there. Keys that are there are kept.

    Parameters
    ----------
    folder
        The coordinator's folder.
    host
        Its host name, as parties will dial it; by default the one in the card that is there.
    new_key
        Make a new key for the network; the old one serves until its certificate is installed.
    """
    host = _card_of_coordinator(folder / "card.toml")[0].name if host is None else host
    request = Kit(folder, "server").request(host, new_key=new_key)
    if not (folder / "identity.key").exists():
        write_new(folder / "identity.key", f"{SystemRandomness().bytes(32).hex()}\n".encode())
    identity = Identity.from_seed(read_hex(folder / "identity.key"))
    return f'{SiteRequest.made(host, request, identity).text()}\nidentity = "{identity.public.hex()}"'


def install_coordinator(folder: Path, source: Path) -> Certificate:
    """Put the coordinator's certificate in place: out of a federation's folder, or out of ``kits/coordinator`` itself."""
    asked, _ = _card_of_coordinator(folder / "card.toml")
    kit = source / "kits" / agreement.COORDINATOR
    return Kit(folder, "server").install(kit if kit.is_dir() else source, asked.name)


def _card_of_coordinator(path: Path) -> tuple[SiteRequest, PublicIdentity]:
    """Read a coordinator's card; refuse one that its own identity did not sign."""
    if not path.is_file():
        raise BadInput(
            f"There is no coordinator's card {path}.",
            remedy="Where the coordinator will run: colonnade coordinator init FOLDER --host HOST.",
        )
    document = toml_parts.parse(path, ("identity", *REQUEST_KEYS))
    asked = SiteRequest.taken_from(document, path.name)
    identity = _identity_in(document, path.name, "Make it again: colonnade coordinator init.")
    asked.key_of_member(identity)
    return asked, identity


def _identity_in(document: toml_parts.Table, name: str, remedy: str) -> PublicIdentity:
    try:
        return PublicIdentity(bytes.fromhex(toml_parts.text_of(document, "identity", name)))
    except ValueError:
        raise BadInput(f"{name} is not a card: its identity is no public key.", remedy=remedy) from None


def _key_in_use(kit: Kit) -> rsa.RSAPublicKey | None:
    """Return the key that a site's last certificate was made for."""
    if not kit.certificate_file.is_file():
        return None
    key = read_certificates(kit.certificate_file)[0].public_key()
    return key if isinstance(key, rsa.RSAPublicKey) else None


def create_federation(
    folder: Path,
    cards: Iterable[Path],
    *,
    name: str,
    coordinator: Path,
    port: int,
    collusion: int,
    threshold: int | None = None,
    not_computing: Sequence[str] = (),
    committee: Sequence[str] = (),
    min_people: int,
    max_epsilon: float | None,
    alignment: agreement.AgreedAlignment | None,
    days: float = VALID_DAYS,
) -> dict[str, Path]:
    """Write the papers and sign one certificate per site; return the folder of each by site.

    With two parties and no compute node among the cards, the coordinator becomes the third node, and signs the papers too.

    Parameters
    ----------
    folder
        Where papers and certificates are put. Nothing in it is secret. The certificate authority is put beside it.
    cards
        The members' cards (``colonnade party card``); parties in the order of their columns.
    name
        What the federation calls itself.
    coordinator
        The coordinator's card (``colonnade coordinator init``), with its host name.
    port
        Where it listens.
    collusion
        How many parties may pool what they see with the coordinator.
    threshold
        How many compute nodes learn nothing together, at least, in every study; by default as many as ``collusion``, and one at
        least.
    not_computing
        Parties that never compute on shares.
    committee
        The only members that compute on shares, where not everybody does: an odd number, 2t + 1.
    min_people, max_epsilon
        The least that every policy asks for.
    alignment
        The order of rows that a public list of people fixes; ``None`` where the parties align their rows by themselves.
    days
        How long the certificates last.
    """
    asked, coordinator_identity = _card_of_coordinator(coordinator)
    found = [_card(path) for path in cards]
    members = {request.name: signatory for request, signatory in found}
    if len(members) != len(found):
        raise BadInput(
            "Two cards have the same name.", remedy="Give one of the members another name, and make its card again."
        )
    for party in (*not_computing, *committee):
        if party not in members:
            raise BadInput(f"No card is that of {party!r}.", remedy=f"The cards are those of {', '.join(members)}.")
    for party in (*not_computing, *(set(members) - set(committee) if committee else ())):
        members[party] = msgspec.structs.replace(members[party], computes=False)
    keys = {one.name: one.key_of_member(PublicIdentity(bytes.fromhex(signatory.identity))) for one, signatory in found}
    if len(members) == FEWEST_NODES - 1:
        members[agreement.COORDINATOR] = _third_node(coordinator_identity)
    papers = agreement.FederationAgreement(
        name=name,
        coordinator=agreement.CoordinatorAddress(host=asked.name, port=port),
        members=members,
        collusion=collusion,
        threshold=max(1, collusion) if threshold is None else threshold,
        floor=agreement.Floor(min_people=min_people, max_epsilon=max_epsilon),
        alignment=alignment,
    )
    (folder / "kits").mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = _authority(authority_folder(folder))
    authority.prolong(days=days)
    made = _certify(authority, papers, keys | {agreement.COORDINATOR: asked.key()}, folder / "kits", days)
    (folder / "federation.toml").write_text(papers.text(), encoding="utf-8")
    return made


def _certify(
    authority: CertificateAuthority,
    papers: agreement.FederationAgreement,
    keys: Mapping[str, rsa.RSAPublicKey],
    kits: Path,
    days: float,
) -> dict[str, Path]:
    host = papers.coordinator.host
    authority.issue(keys[agreement.COORDINATOR], host, host=host, days=days).write(
        kits / agreement.COORDINATOR, "server"
    )
    for site in papers.sites:
        authority.issue(keys[site], site, days=days).write(kits / site, "client")
    return {site: kits / site for site in (agreement.COORDINATOR, *papers.sites)}


def sign(path: Path, folder: Path) -> tuple[str, agreement.FederationAgreement]:
    """Add a member's signature to the papers, if they describe it as its own card does; return its name and the papers."""
    if Kit(folder, "server").key_file.exists():
        name, identity = agreement.COORDINATOR, Identity.from_seed(read_hex(folder / "identity.key"))
        card = _third_node(PublicIdentity(identity.public))
    else:
        member = PartyFolder(folder)
        name, identity, card = member.name, member.identity(), member.card()
    found = agreement.read_agreement(path)
    mine = found.members.get(name)
    if mine is None or msgspec.structs.replace(mine, computes=True) != card:  # the papers say who computes
        raise BadInput(
            f"The papers describe {name} otherwise than its own card does.",
            remedy="Compare them with `colonnade party card`, and have new papers made from the current card.",
        )
    signed = found.signed_by(name, identity)
    path.write_text(signed.text(), encoding="utf-8")
    return name, signed


def introduce_analyst(path: Path, card: Path, folder: Path) -> tuple[str, str]:
    """Add an analyst to the papers, signed by the member of a folder; return the analyst's name and the member's."""
    member = PartyFolder(folder)
    document = toml_parts.parse(card, ("name", "identity"))
    name = toml_parts.text_of(document, "name", card.name)
    identity = _identity_in(document, card.name, "Use what `analyst init` wrote.")
    found = agreement.read_agreement(path).check()
    introduced = agreement.introduced(found, member.name, member.identity(), name, identity)
    path.write_text(introduced.text(), encoding="utf-8")
    return name, member.name


def revoke_name(path: Path, name: str, folder: Path) -> str:
    """Say in the papers, signed by the member of a folder, that an analyst or a member is out; return who says so."""
    member = PartyFolder(folder)
    found = agreement.read_agreement(path).check()
    path.write_text(agreement.revoked(found, member.name, member.identity(), name).text(), encoding="utf-8")
    return member.name


@dataclass(frozen=True)
class Renewal:
    """What to make new besides certificates.

    Parameters
    ----------
    requests
        Members' requests: certificates to the keys in them. Everybody else's are to the key they had.
    coordinator
        The coordinator's card, for a certificate to the key in it.
    days
        How long the certificates last.
    new_authority
        Go over to a new authority; the former one stays trusted, so that sites can change over one by one.
    forget_former
        Trust the present authority alone: once every site has a kit of it.
    """

    requests: Sequence[Path] = ()
    coordinator: Path | None = None
    days: float = VALID_DAYS
    new_authority: bool = False
    forget_former: bool = False


def renew(folder: Path, wanted: Renewal) -> dict[str, Certificate]:
    """Make a new certificate for every site, and for the authority if it would end first; return them by site.

    The papers, and what was signed, stay as they are.
    """
    papers, kits = agreement.read_agreement(folder / "federation.toml"), folder / "kits"
    _refuse_private_keys(kits / agreement.COORDINATOR)
    found = {site: _key_in_use(Kit(kits / site)) for site in papers.sites}
    found[agreement.COORDINATOR] = _key_in_use(Kit(kits / agreement.COORDINATOR, "server"))
    keys = {site: key for site, key in found.items() if key is not None}
    pinned = papers.pinned()
    for path in wanted.requests:
        request = SiteRequest.read(path)
        if request.name not in papers.sites:
            raise BadInput(f"The papers name no site {request.name!r}.", remedy="Give the request of a member.")
        keys[request.name] = request.key_of_member(pinned[request.name])
    if wanted.coordinator is not None:
        keys[agreement.COORDINATOR] = _renewed_key(wanted.coordinator, papers)
    missing = [site for site in found if site not in keys]
    if missing:
        raise BadInput(
            f"There is no earlier certificate of {', '.join(missing)} in {kits.name}.",
            remedy="Give the request of each of them: --request FILE, from `colonnade party request`; for the coordinator "
            "--coordinator CARD, from `colonnade coordinator request`.",
        )
    authority = CertificateAuthority(authority_folder(folder))
    if wanted.new_authority:
        authority.replace_key()
    if wanted.forget_former:
        authority.forget_former()
    authority.prolong(days=wanted.days)
    made = _certify(authority, papers, keys, kits, wanted.days)
    roles = dict.fromkeys(made, "client") | {agreement.COORDINATOR: "server"}
    return {site: Kit(path, roles[site]).certificates()[f"{roles[site]}.crt"] for site, path in made.items()}


def _card(path: Path) -> tuple[SiteRequest, agreement.Signatory]:
    """Read a member's card: what the papers say of it, and its request for a certificate."""
    fields = agreement.Signatory.__struct_fields__
    document = toml_parts.parse(path, (*fields, *REQUEST_KEYS))
    entries = {key: value for key, value in document.items() if key in fields}
    try:
        signatory = msgspec.convert(entries, agreement.Signatory)
    except msgspec.ValidationError as error:
        what = (
            error.__cause__.message
            if isinstance(error.__cause__, BadInput)
            else "A key is missing, or of another type."
        )
        raise BadInput(
            f"{path.name} is not a member's card. {what}", remedy="Make it again: colonnade party card."
        ) from None
    return SiteRequest.taken_from(document, path.name), signatory


def _third_node(identity: PublicIdentity) -> agreement.Signatory:
    """Return how the papers describe a coordinator that is a compute node."""
    return agreement.Signatory(role="compute", identity=identity.key.hex())


def _renewed_key(card: Path, papers: agreement.FederationAgreement) -> rsa.RSAPublicKey:
    """Return the key in a coordinator's card; refuse one for another host, or of another identity than the papers name."""
    asked, identity = _card_of_coordinator(card)
    if asked.name != papers.coordinator.host or papers.pinned().get(agreement.COORDINATOR, identity) != identity:
        raise BadInput(
            f"This card is not that of the coordinator at {papers.coordinator.host} in the papers.",
            remedy="Have it made in the coordinator's own folder: colonnade coordinator request FOLDER.",
        )
    return asked.key()


def _refuse_private_keys(kit: Path) -> None:
    """Refuse a coordinator's kit of an earlier version, whose private keys went to everybody with the federation's folder."""
    if any(kit.glob("*.key")):
        raise BadInput(
            f"{kit} holds a private key of the coordinator, and this folder was sent to every member.",
            remedy="Where the coordinator runs: colonnade coordinator init FOLDER --host HOST. Remove that folder here, and "
            "renew with --coordinator FOLDER/card.toml and --new-authority. If it holds identity.key, have new papers made.",
        )
