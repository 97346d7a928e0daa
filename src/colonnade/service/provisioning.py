"""One start-up kit per site, made by NVIDIA FLARE's own provisioning: a certificate authority, and a certificate and key each.

The authority's private key stays in the workspace folder, with the person who provisions. Certificates last about a year
(`VALID_DAYS`); provisioning again in the same workspace renews them under the same authority while that lasts. They open a
connection and nothing else: who a party is towards its peers is decided by the identity keys in the signed papers.
"""

import contextlib
import io
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.errors import BadInput

try:
    from nvflare.lighter.prov_utils import prepare_builders
    from nvflare.lighter.provision import prepare_project
    from nvflare.lighter.provisioner import Provisioner
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "Federations across machines need NVIDIA FLARE: pip install 'colonnade[network]'.", name=missing.name
    ) from missing

__all__ = ["VALID_DAYS", "provision"]

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
