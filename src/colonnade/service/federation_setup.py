"""Setting up a federation: the papers that every member signs (federation.toml), and one start-up kit per site.

A kit holds a site's certificate and key for the network, made by NVIDIA FLARE's own provisioning. The authority's private key
stays in the workspace folder of the person who provisions. Certificates last about a year (`VALID_DAYS`); provisioning again in
the same workspace renews them under the same authority while that lasts. They open a connection and nothing else: towards its
peers a party is known by the identity key in the signed papers.
"""

import contextlib
import io
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from colonnade.errors import BadInput
from colonnade.privacy.randomness import SystemRandomness
from colonnade.protocol import agreement
from colonnade.secure.keys import Identity
from colonnade.secure.shamir import FEWEST_NODES
from colonnade.service import served_party, toml_parts
from colonnade.service.party_folder import PartyFolder

__all__ = ["VALID_DAYS", "PublicList", "create_federation", "provision", "renew_kits", "sign"]


try:
    from nvflare.lighter.prov_utils import prepare_builders
    from nvflare.lighter.provision import prepare_project
    from nvflare.lighter.provisioner import Provisioner
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "Federations across machines need NVIDIA FLARE: pip install 'colonnade[network]'.", name=missing.name
    ) from missing

VALID_DAYS = 360

_IMPLEMENTATION = "nvflare.lighter.impl"
_PROJECT = "colonnade"


def provision(
    workspace: str | Path, *, host: str, port: int, sites: Sequence[str], kits: str | Path
) -> dict[str, Path]:
    """Make a start-up kit for the coordinator and for every site.

    Parameters
    ----------
    workspace
        Where FLARE keeps the certificate authority; its private key is in there.
    host, port
        The coordinator's, as the sites will dial it; the host becomes the name in its certificate.
    sites
        Parties and compute nodes; each name becomes the name in a certificate.
    kits
        Where the kits go, one folder per site, ``coordinator`` among them.

    Returns
    -------
    dict
        The folder of each kit by site.
    """
    workspace, kits = Path(workspace), Path(kits)
    workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    workspace.chmod(0o700)
    project = _project(host, port, sites)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            context = Provisioner(str(workspace), prepare_builders(project)).provision(prepare_project(project))
    except (ValueError, RuntimeError) as error:
        raise BadInput(
            "FLARE's provisioning refused the names of the federation.",
            remedy="Use a plain host name and plain words as names of parties.",
        ) from error
    made = Path(context.get_result_location())
    folders = {"coordinator": (made / host / "startup", "server")}
    folders |= {site: (made / site / "startup", "client") for site in sites}
    return {site: _copied(folder, role, kits / site) for site, (folder, role) in folders.items()}


def _project(host: str, port: int, sites: Sequence[str]) -> dict[str, Any]:
    server = {"name": host, "type": "server", "org": "coordinator", "fed_learn_port": port, "admin_port": port + 1}
    clients = [{"name": site, "type": "client", "org": site} for site in sites]
    admin = {"name": "admin@colonnade.local", "type": "admin", "org": "coordinator", "role": "project_admin"}
    return {
        "api_version": 3,
        "name": _PROJECT,
        "description": "Start-up kits of a Colonnade federation",
        "participants": [server, *clients, admin],
        "builders": [
            {"path": f"{_IMPLEMENTATION}.workspace.WorkspaceBuilder"},
            {
                "path": f"{_IMPLEMENTATION}.static_file.StaticFileBuilder",
                "args": {"config_folder": "config", "scheme": "tcp"},
            },
            {"path": f"{_IMPLEMENTATION}.cert.CertBuilder", "args": {"root_valid_days": VALID_DAYS}},
            {"path": f"{_IMPLEMENTATION}.signature.SignatureBuilder"},
        ],
    }


def _copied(made: Path, role: str, kit: Path) -> Path:
    """Keep the three files that a line needs, for this user alone."""
    kit.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("rootCA.pem", f"{role}.crt", f"{role}.key"):
        shutil.copyfile(made / name, kit / name)
        (kit / name).chmod(0o600)
    return kit


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
    min_people: int,
    max_epsilon: float | None,
    people: PublicList | None,
) -> dict[str, Path]:
    """Write the papers and make one start-up kit per site; return the folder of each kit by site.

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
    min_people, max_epsilon
        The least that every policy asks for.
    people
        A public list of people; ``None`` where the parties align their rows by themselves.
    """
    cards = list(cards)
    members = dict(_card(path) for path in cards)
    if len(members) != len(cards):
        raise BadInput(
            "Two cards have the same name.", remedy="Give one of the members another name, and make its card again."
        )
    for party in not_computing:
        if party not in members:
            raise BadInput(f"No card is that of {party!r}.", remedy=f"The cards are those of {', '.join(members)}.")
        members[party] = msgspec.structs.replace(members[party], computes=False)
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
    made = provision(folder / "authority", host=host, port=port, sites=papers.sites, kits=folder / "kits")
    (folder / "federation.toml").write_text(papers.text(), encoding="utf-8")
    return made


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


def renew_kits(folder: Path) -> dict[str, Path]:
    """Make the kits of every site again; return the folder of each by site."""
    papers = agreement.read_agreement(folder / "federation.toml")
    where = papers.coordinator
    return provision(folder / "authority", host=where.host, port=where.port, sites=papers.sites, kits=folder / "kits")


def _card(path: Path) -> tuple[str, agreement.Signatory]:
    document = toml_parts.parse(path)
    toml_parts.refuse_unknown(document, ("name", "role", "identity", "ledger", "schema"), path.name)
    entries = {key: toml_parts.text_of(document, key, path.name) for key in document if key != "name"}
    return toml_parts.text_of(document, "name", path.name), toml_parts.within(
        path.name,
        lambda: agreement.Signatory(**entries),  # type: ignore[arg-type]  # texts only: refuse_unknown
    )


def _third_node(members: dict[str, agreement.Signatory], seed: bytes) -> Identity | None:
    """Make the coordinator the third node where there are two members; return its identity."""
    if len(members) != FEWEST_NODES - 1:
        return None
    identity = Identity.from_seed(seed)
    members[agreement.COORDINATOR] = agreement.Signatory(role="compute", identity=identity.public.hex())
    return identity


def _write_key(kit: Path, seed: bytes) -> None:
    kit.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(os.open(kit / "identity.key", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(seed.hex() + "\n")
