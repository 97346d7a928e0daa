"""Setting up a federation: the papers that every member signs (federation.toml), and certificates for the network.

Every site makes its own key, the coordinator too, and sends a signing request with its card. The federation's authority
(`colonnade.service.authority`) signs requests. It lies beside the federation's folder, not in it: the folder is sent to
everybody, and holds no private key. Certificates last about a year. Renewing makes new ones, to the same keys or to new ones,
while the federation runs. They open a connection and nothing else: towards its peers a party is known by the identity key in
the signed papers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from colonnade.errors import BadInput
from colonnade.privacy.randomness import SystemRandomness
from colonnade.protocol import agreement
from colonnade.runtime.private_files import read_hex, write_new
from colonnade.secure.keys import Identity, PublicIdentity
from colonnade.secure.shamir import FEWEST_NODES
from colonnade.service import served_party, toml_parts
from colonnade.service.authority import REQUEST_KEYS, VALID_DAYS, CertificateAuthority, SiteRequest
from colonnade.service.party_folder import PartyFolder
from colonnade.transport.kit import Certificate, Kit


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
    document = toml_parts.parse(path)
    toml_parts.refuse_unknown(document, ("identity", *REQUEST_KEYS), path.name)
    asked = SiteRequest.taken_from(document, path.name)
    try:
        identity = PublicIdentity(bytes.fromhex(toml_parts.text_of(document, "identity", path.name)))
    except ValueError:
        raise BadInput(
            f"{path.name} is not a coordinator's card.", remedy="Make it again: colonnade coordinator init."
        ) from None
    asked.key_of_member(identity)
    return asked, identity


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
    coordinator: Path,
    port: int,
    collusion: int,
    threshold: int | None = None,
    not_computing: Sequence[str] = (),
    committee: Sequence[str] = (),
    min_people: int,
    max_epsilon: float | None,
    people: PublicList | None,
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
    people
        A public list of people; ``None`` where the parties align their rows by themselves.
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
    keys = {one.name: one.key_of_member(_public(signatory)) for one, signatory in found}
    if len(members) == FEWEST_NODES - 1:
        members[agreement.COORDINATOR] = _third_node(coordinator_identity)
    papers = agreement.FederationAgreement(
        name=name,
        coordinator=agreement.CoordinatorAddress(host=asked.name, port=port),
        members=members,
        collusion=collusion,
        threshold=max(1, collusion) if threshold is None else threshold,
        floor=agreement.Floor(min_people=min_people, max_epsilon=max_epsilon),
        alignment=None if people is None else people.alignment(),
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
    document = toml_parts.parse(card)
    toml_parts.refuse_unknown(document, ("name", "identity"), card.name)
    name, key = (toml_parts.text_of(document, field, card.name) for field in ("name", "identity"))
    try:
        identity = PublicIdentity(bytes.fromhex(key))
    except ValueError:
        raise BadInput(f"{card.name} is not an analyst's card.", remedy="Use what `analyst init` wrote.") from None
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
