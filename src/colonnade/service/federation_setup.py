"""Setting up a federation: the papers that every member signs (federation.toml), and certificates for the network.

Every site makes its own key and sends a signing request with its card. The federation's authority
(`colonnade.service.authority`) signs requests; its private key stays in the folder of the person who draws up the papers. What
is handed out holds no secret. Certificates last about a year. Renewing makes new ones, to the same keys or to new ones, while the
federation runs. They open a connection and nothing else: towards its peers a party is known by the identity key in the signed
papers.
"""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from colonnade.errors import BadInput
from colonnade.privacy.randomness import SystemRandomness
from colonnade.private_files import write_new
from colonnade.protocol import agreement, introductions
from colonnade.secure.keys import Identity, PublicIdentity
from colonnade.secure.shamir import FEWEST_NODES
from colonnade.service import served_party, toml_parts
from colonnade.service.authority import REQUEST_KEYS, VALID_DAYS, CertificateAuthority, SiteRequest
from colonnade.service.party_folder import PartyFolder
from colonnade.transport.kit import Certificate, Kit

__all__ = [
    "PublicList",
    "Renewal",
    "create_federation",
    "introduce_analyst",
    "provision",
    "renew",
    "revoke_name",
    "sign",
]


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
    _certify_coordinator(authority, kits, host, None)
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


def _certify_coordinator(
    authority: CertificateAuthority, kits: Path, host: str, request: Path | None, *, days: float = VALID_DAYS
) -> None:
    """Certify the coordinator's key: the one it asks for, the one it had, or one made here, where it will run."""
    kit = Kit(kits / agreement.COORDINATOR, "server")
    if request is not None:
        asked = SiteRequest.read(request)
        if asked.name != host:
            raise BadInput(
                f"The coordinator's certificate request is for {asked.name}, and the papers say {host}.",
                remedy=f"Have it made again: colonnade coordinator request FOLDER --host {host}.",
            )
        key = asked.key()
    else:
        key = _key_in_use(kit) or SiteRequest(host, kit.request(host).decode()).key()
    issued = authority.issue(key, host, host=host, days=days)
    if not kit.key_file.exists():
        issued.write(kit.folder, "server")
        return
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # its process may be running: a new key and its certificate change together
        issued.write(Path(folder), "server")
        kit.install(Path(folder), host)


def _key_in_use(kit: Kit) -> rsa.RSAPublicKey | None:
    """Return the key that a site's last certificate was made for."""
    if not kit.certificate_file.is_file():
        return None
    key = x509.load_pem_x509_certificate(kit.certificate_file.read_bytes()).public_key()
    return key if isinstance(key, rsa.RSAPublicKey) else None


@dataclass(frozen=True)
class PublicList:
    """A public list of the people who take part: a file, and its id column."""

    path: Path
    column: str

    def alignment(self) -> agreement.AgreedAlignment:
        """Return the order of rows that the list fixes."""
        return served_party.public_alignment(self.path, self.column)


def create_federation(
    folder: Path,
    cards: Iterable[Path],
    *,
    name: str,
    host: str,
    port: int,
    collusion: int,
    threshold: int | None = None,
    not_computing: Sequence[str] = (),
    committee: Sequence[str] = (),
    min_people: int,
    max_epsilon: float | None,
    people: PublicList | None,
    coordinator_request: Path | None = None,
    days: float = VALID_DAYS,
) -> dict[str, Path]:
    """Write the papers and sign one certificate per site; return the folder of each by site.

    With two parties and no compute node among the cards, the coordinator becomes the third node, with an identity of its own.

    Parameters
    ----------
    folder
        Where papers, kits and the certificate authority are put.
    cards
        The members' cards (``colonnade party card``); parties in the order of their columns.
    name, host, port
        What the federation calls itself, and where its coordinator listens.
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
    people
        A public list of people; ``None`` where the parties align their rows by themselves.
    coordinator_request
        The coordinator's certificate request; without one, the coordinator runs here, and its key is made here.
    days
        How long the certificates last.
    """
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
    keys = {one.name: one.key_of_member(_public(signatory)) for one, signatory in found}
    seed = SystemRandomness().bytes(32)
    third = _third_node(members, seed)
    papers = agreement.FederationAgreement(
        name=name,
        coordinator=agreement.CoordinatorAddress(host=host, port=port),
        members=members,
        collusion=collusion,
        threshold=max(1, collusion) if threshold is None else threshold,
        floor=agreement.Floor(min_people=min_people, max_epsilon=max_epsilon),
        alignment=None if people is None else people.alignment(),
    )
    (folder / "kits").mkdir(mode=0o700, parents=True, exist_ok=True)
    if third is not None:
        papers = papers.signed_by(agreement.COORDINATOR, third)
        _write_key(folder / "kits" / agreement.COORDINATOR, seed)
    authority = _authority(folder / "authority")
    authority.prolong(days=days)
    made = _certify(authority, papers, keys, folder / "kits", coordinator_request, days)
    (folder / "federation.toml").write_text(papers.text(), encoding="utf-8")
    return made


def _certify(
    authority: CertificateAuthority,
    papers: agreement.FederationAgreement,
    keys: Mapping[str, rsa.RSAPublicKey],
    kits: Path,
    coordinator: Path | None,
    days: float,
) -> dict[str, Path]:
    _certify_coordinator(authority, kits, papers.coordinator.host, coordinator, days=days)
    for site in papers.sites:
        authority.issue(keys[site], site, days=days).write(kits / site, "client")
    return {site: kits / site for site in (agreement.COORDINATOR, *papers.sites)}


def sign(path: Path, folder: Path) -> tuple[str, agreement.FederationAgreement]:
    """Add a member's signature to the papers, if they describe it as its own card does; return its name and the papers."""
    member = PartyFolder(folder)
    found = agreement.read_agreement(path)
    mine = found.members.get(member.name)
    if mine is None or msgspec.structs.replace(mine, computes=True) != member.card():  # the papers say who computes
        raise BadInput(
            f"The papers describe {member.name} otherwise than its own card does.",
            remedy="Compare them with `colonnade party card`, and have new papers made from the current card.",
        )
    signed = found.signed_by(member.name, member.identity())
    path.write_text(signed.text(), encoding="utf-8")
    return member.name, signed


def introduce_analyst(path: Path, card: Path, folder: Path) -> tuple[str, str]:
    """Add an analyst to the papers, signed by the member of a folder; return the analyst's name and the member's."""
    member = PartyFolder(folder)
    document = toml_parts.parse(card)
    toml_parts.refuse_unknown(document, ("name", "identity"), card.name)
    name, key = (toml_parts.text_of(document, field, card.name) for field in ("name", "identity"))
    try:
        identity = PublicIdentity(bytes.fromhex(key))
    except ValueError:
        raise BadInput(f"{card.name} is not an analyst's card.", remedy="Use what `analyst init` wrote.") from None
    found = agreement.read_agreement(path).check()
    introduced = introductions.introduced(found, member.name, member.identity(), name, identity)
    path.write_text(introduced.text(), encoding="utf-8")
    return name, member.name


def revoke_name(path: Path, name: str, folder: Path) -> str:
    """Say in the papers, signed by the member of a folder, that an analyst or a member is out; return who says so."""
    member = PartyFolder(folder)
    found = agreement.read_agreement(path).check()
    path.write_text(introductions.revoked(found, member.name, member.identity(), name).text(), encoding="utf-8")
    return member.name


@dataclass(frozen=True)
class Renewal:
    """What to make new besides certificates.

    Parameters
    ----------
    requests
        Members' requests: certificates to the keys in them. Everybody else's are to the key they had.
    coordinator_request
        The same for the coordinator.
    days
        How long the certificates last.
    new_authority
        Go over to a new authority; the former one stays trusted, so that sites can change over one by one.
    forget_former
        Trust the present authority alone: once every site has a kit of it.
    """

    requests: Sequence[Path] = ()
    coordinator_request: Path | None = None
    days: float = VALID_DAYS
    new_authority: bool = False
    forget_former: bool = False


def renew(folder: Path, wanted: Renewal) -> dict[str, Certificate]:
    """Make a new certificate for every site, and for the authority if it would end first; return them by site.

    The papers, and what was signed, stay as they are.
    """
    papers, kits = agreement.read_agreement(folder / "federation.toml"), folder / "kits"
    found = {site: _key_in_use(Kit(kits / site)) for site in papers.sites}
    keys = {site: key for site, key in found.items() if key is not None}
    pinned = papers.pinned()
    for path in wanted.requests:
        request = SiteRequest.read(path)
        if request.name not in papers.sites:
            raise BadInput(f"The papers name no site {request.name!r}.", remedy="Give the request of a member.")
        keys[request.name] = request.key_of_member(pinned[request.name])
    missing = [site for site in papers.sites if site not in keys]
    if missing:
        raise BadInput(
            f"There is no earlier certificate of {', '.join(missing)} in {kits.name}.",
            remedy="Give the request of each of them: --request FILE, from `colonnade party request`.",
        )
    authority = CertificateAuthority(folder / "authority")
    if wanted.new_authority:
        authority.replace_key()
    if wanted.forget_former:
        authority.forget_former()
    authority.prolong(days=wanted.days)
    made = _certify(authority, papers, keys, kits, wanted.coordinator_request, wanted.days)
    roles = dict.fromkeys(made, "client") | {agreement.COORDINATOR: "server"}
    return {site: Kit(path, roles[site]).certificates()[f"{roles[site]}.crt"] for site, path in made.items()}


def _card(path: Path) -> tuple[SiteRequest, agreement.Signatory]:
    """Read a member's card: what the papers say of it, and its request for a certificate."""
    document = toml_parts.parse(path)
    fields = ("name", *agreement.Signatory.__struct_fields__)
    toml_parts.refuse_unknown(document, (*fields, *REQUEST_KEYS), path.name)
    entries = {key: value for key, value in document.items() if key in fields and key != "name"}
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


def _public(signatory: agreement.Signatory) -> PublicIdentity:
    return PublicIdentity(bytes.fromhex(signatory.identity))


def _third_node(members: dict[str, agreement.Signatory], seed: bytes) -> Identity | None:
    """Make the coordinator the third node where there are two members; return its identity."""
    if len(members) != FEWEST_NODES - 1:
        return None
    identity = Identity.from_seed(seed)
    members[agreement.COORDINATOR] = agreement.Signatory(role="compute", identity=identity.public.hex())
    return identity


def _write_key(kit: Path, seed: bytes) -> None:
    kit.mkdir(mode=0o700, exist_ok=True)
    write_new(kit / "identity.key", f"{seed.hex()}\n".encode())
