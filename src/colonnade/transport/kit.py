"""A site's start-up kit: what it takes to make a connection, and nothing else."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from colonnade.errors import BadInput

__all__ = ["Kit", "require_engine"]


def require_engine() -> None:
    """Refuse to go on without NVIDIA FLARE, by the name of the extra that brings it."""
    if importlib.util.find_spec("nvflare") is None:
        raise BadInput(
            "Federations across machines need NVIDIA FLARE.", remedy="Install it: pip install 'colonnade[network]'."
        )


@dataclass(frozen=True)
class Kit:
    """A site's start-up kit: the certificate authority, its own certificate and the key to it.

    Parameters
    ----------
    folder
        Where `colonnade federation init` put the kit.
    """

    folder: Path

    def credentials(self, role: str) -> dict[str, str]:
        """Return the paths as FLARE names them; refuse a kit that is not whole."""
        files = {"ca_cert": "rootCA.pem", f"{role}_cert": f"{role}.crt", f"{role}_key": f"{role}.key"}
        paths = {name: self.folder / file for name, file in files.items()}
        if not all(path.is_file() for path in paths.values()):
            raise BadInput(
                f"The start-up kit lacks one of {', '.join(files.values())}.",
                remedy="Use the folder that `colonnade federation init` made for this site.",
            )
        return {name: str(path) for name, path in paths.items()}
