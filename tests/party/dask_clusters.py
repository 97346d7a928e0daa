"""Dask clusters on this machine that are reached through TLS, with the files that a party has for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import LocalCluster, Security


@contextmanager
def tls_cluster(**settings) -> Iterator[tuple[LocalCluster, Security]]:
    """A cluster behind certificates of its own."""
    security = Security.temporary()
    with LocalCluster(
        protocol="tls://", security=security, host="127.0.0.1", dashboard_address="127.0.0.1:0", **settings
    ) as made:
        assert made.scheduler_address.startswith("tls://127.0.0.1:")
        yield made, security


def write_files(security: Security, folder: Path) -> Path:
    """Write what a party needs to reach it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    files = {"ca.pem": security.tls_ca_file, "cert.pem": security.tls_client_cert, "key.pem": security.tls_client_key}
    for name, text in files.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    return folder
