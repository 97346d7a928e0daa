"""A site's start-up kit: its key for the network, the certificate to it, and the authority that certificates come from.

::

    kit/
    ├── client.key   made by the site itself and never sent; 0600 (server.key at the coordinator)
    ├── client.crt   the certificate to it, from the federation's authority (server.crt)
    ├── rootCA.pem   the authority's own certificate
    └── next.key     the key of the next certificate, while one was asked for

A kit opens a connection and nothing else: towards its peers a party is known by the identity key in the signed papers.
"""

import hashlib
import importlib.util
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from colonnade.errors import BadInput, CertificateExpired
from colonnade.runtime.event_log import Log, read_status, write_status
from colonnade.runtime.private_files import replace_file, require_private, write_new

WARNING_DAYS = 30
"""Days before the end of a certificate from which everything that shows it warns."""

ROOTS = "rootCA.pem"
_DAY = 86_400.0
_NOT_A_SITE = "This is not a site's certificate of this federation, or not one that holds today."


def require_engine() -> None:
    """Refuse to go on without NVIDIA FLARE, by the name of the extra that brings it."""
    if importlib.util.find_spec("nvflare") is None:
        raise BadInput(
            "Federations across machines need NVIDIA FLARE.", remedy="Install it: pip install 'colonnade[network]'."
        )


@dataclass(frozen=True)
class Certificate:
    """What a certificate says: to whom it was given, and for which time.

    Parameters
    ----------
    owner
        The common name in it.
    begins, ends
        Its time, in UTC.

    Examples
    --------
    >>> one = Certificate("bank", datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    >>> one.words(datetime(2026, 12, 31, tzinfo=UTC).timestamp())
    'expires on 2027-01-01 00:00 UTC, in 1 day: renew it'
    """

    owner: str
    begins: datetime
    ends: datetime

    @classmethod
    def of(cls, found: x509.Certificate) -> "Certificate":
        """Read a certificate."""
        return cls(site_name(found.subject), found.not_valid_before_utc, found.not_valid_after_utc)

    def days_left(self, now: float) -> float:
        """Return how many days it still holds; negative once it is over."""
        return (self.ends.timestamp() - now) / _DAY

    def refuse_outside(self, now: float, where: str) -> None:
        """Refuse it by name and date outside its time."""
        if now >= self.ends.timestamp():
            raise CertificateExpired(f"The certificate of {self.owner} ({where}) expired on {_shown(self.ends)}.")
        if now < self.begins.timestamp():
            raise CertificateExpired(
                f"The certificate of {self.owner} ({where}) is not valid before {_shown(self.begins)}.",
                remedy="Set the clock of this machine. If it is right, ask for a certificate that holds today.",
            )

    def words(self, now: float) -> str:
        """Say when it ends, and that it is to be renewed from 30 days ahead."""
        left = math.floor(self.days_left(now))
        if now >= self.ends.timestamp():
            return f"EXPIRED on {_shown(self.ends)}: renew it"
        warning = ": renew it" if left < WARNING_DAYS else ""
        return f"expires on {_shown(self.ends)}, in {left} day{'' if left == 1 else 's'}{warning}"


@dataclass(frozen=True)
class Kit:
    """A site's start-up kit.

    Parameters
    ----------
    folder
        Where it is.
    role
        ``"client"`` for a member, ``"server"`` for the coordinator.
    clock
        Seconds since 1970.
    """

    folder: Path
    role: str = "client"
    clock: Callable[[], float] = time.time

    @property
    def key_file(self) -> Path:
        """The site's own key."""
        return self.folder / f"{self.role}.key"

    @property
    def certificate_file(self) -> Path:
        """The site's certificate."""
        return self.folder / f"{self.role}.crt"

    @property
    def _next_key(self) -> Path:
        return self.folder / "next.key"

    # Asking for a certificate -------------------------------------------------------------------------------------------

    def request(self, name: str, *, new_key: bool = False) -> bytes:
        """Return a signing request for a certificate in this name; make the key to it if there is none, or on request.

        A new key waits in ``next.key`` until its certificate is installed: the old pair serves until then.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._next_key if new_key else self.key_file
        if not file.exists():
            write_new(file, key_bytes(new_rsa_key()))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(read_key(file), hashes.SHA256())
        return request.public_bytes(serialization.Encoding.PEM)

    def install(self, source: Path, name: str) -> Certificate:
        """Put a new certificate and its authority in place; refuse one that is not for this name and one of our keys.

        A process that runs with the old pair takes over the new one by itself.
        """
        chain, roots = read_certificates(source / self.certificate_file.name), read_certificates(source / ROOTS)
        found = Certificate.of(chain[0])
        if found.owner != name:
            raise BadInput(
                f"This certificate is for {found.owner}.", remedy=f"Install the one that was made for {name}."
            )
        found.refuse_outside(self.clock(), str(source / self.certificate_file.name))
        _refuse_unsigned(chain, roots)
        key = next((file for file in (self.key_file, self._next_key) if _fits(file, chain[0])), None)
        if key is None:
            raise BadInput(
                "This certificate is to a key that this site does not have.",
                remedy="Have one made from this site's own request: colonnade party request, or coordinator request.",
            )
        replace_file(self.folder / ROOTS, b"".join(pem(one) for one in roots))
        if key == self._next_key:
            replace_file(self.key_file, key.read_bytes())
        replace_file(self.certificate_file, b"".join(pem(one) for one in chain))
        if key == self._next_key:
            key.unlink()
        return found

    # Using it -----------------------------------------------------------------------------------------------------------

    def credentials(self) -> dict[str, str]:
        """Return the paths as FLARE names them; refuse a kit that is not whole, not private, or out of its time."""
        files = {
            "ca_cert": self.folder / ROOTS,
            f"{self.role}_cert": self.certificate_file,
            f"{self.role}_key": self.key_file,
        }
        if not all(path.is_file() for path in files.values()):
            raise BadInput(
                f"The start-up kit lacks one of {', '.join(path.name for path in files.values())}.",
                remedy="Install what `colonnade federation init` made for this site: colonnade party (coordinator) install.",
            )
        require_private(self.folder)
        require_private(self.key_file)
        chain, roots = read_certificates(self.certificate_file), read_certificates(self.folder / ROOTS)
        Certificate.of(chain[0]).refuse_outside(self.clock(), self.certificate_file.name)
        Certificate.of(roots[0]).refuse_outside(self.clock(), ROOTS)
        _refuse_unsigned(chain, roots)
        if not _fits(self.key_file, chain[0]):
            raise BadInput(
                f"{self.certificate_file.name} is not the certificate to {self.key_file.name}.",
                remedy="Install it again: colonnade party install.",
            )
        return {name: str(path) for name, path in files.items()}

    def certificates(self) -> dict[str, Certificate]:
        """Return the site's certificate and its authority's, by file; none where there is no kit yet."""
        files = (self.certificate_file, self.folder / ROOTS)
        return {path.name: Certificate.of(read_certificates(path)[0]) for path in files if path.is_file()}

    def recognise(self, shown: bytes) -> str:
        """Return whose certificate this is, in DER: a site's, which an authority of this kit made and which holds today.

        Any other is refused, the coordinator's included: nobody but a site is at the other end of a direct link.
        """
        now = self.clock()
        try:
            found = x509.load_der_x509_certificate(shown)
            uses = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            signs = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except (ValueError, x509.ExtensionNotFound):
            raise BadInput(_NOT_A_SITE) from None
        if signs or list(uses) != [ExtendedKeyUsageOID.CLIENT_AUTH]:
            raise BadInput(_NOT_A_SITE)
        valid = [root for root in read_certificates(self.folder / ROOTS) if _holds(root, now)]
        if not _holds(found, now) or not any(_is_issued_by(found, root) for root in valid):
            raise BadInput(_NOT_A_SITE)
        return site_name(found.subject)

    def mark(self) -> str:
        """Return what tells this kit from the one that was here before."""
        state = hashlib.sha256()
        for path in (self.certificate_file, self.folder / ROOTS):
            state.update(hashlib.sha256(path.read_bytes() if path.is_file() else b"").digest())
        return state.hexdigest()


class KitWatch:
    """Says when a new certificate has come into a kit, once all of its files are there."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._taken = self._seen = kit.mark()

    def changed(self) -> bool:
        """Return whether the kit is another one than at the last time, and has been for two looks."""
        mark = self._kit.mark()
        settled, self._seen = mark == self._seen, mark  # three files do not change in one moment
        if mark == self._taken or not settled:
            return False
        self._taken = mark
        return True


class KnownCertificates:
    """What a coordinator remembers of certificates: when each site's ends, as it was when the site connected.

    A site whose certificate is over cannot connect to say so. What is remembered tells it from one that is merely away.

    Parameters
    ----------
    path
        A file that keeps them; ``None`` keeps them in memory.
    clock
        Seconds since 1970.
    log
        Where certificates that end within 30 days are noted.
    """

    def __init__(self, path: Path | None, clock: Callable[[], float], log: Log) -> None:
        self._path = path
        self._clock = clock
        self._log = log
        self._known = {} if path is None else read_known(path)

    def learn(self, site: str, found: Certificate) -> None:
        """Remember a certificate that was seen to be good."""
        self._known[site] = found
        left = found.days_left(self._clock())
        if left < WARNING_DAYS:
            self._log.event("certificate-ends", party=site, days=math.floor(left))
        if self._path is not None:
            content = {
                name: [one.owner, one.begins.timestamp(), one.ends.timestamp()] for name, one in self._known.items()
            }
            write_status(self._path, {"certificates": content})

    def expired(self, site: str) -> CertificateExpired | None:
        """Return the error of a site whose certificate was last seen to end before now."""
        found = self._known.get(site)
        try:
            if found is not None:
                found.refuse_outside(self._clock(), f"with which {site} last connected")
        except CertificateExpired as error:
            return error
        return None


def read_known(path: Path) -> dict[str, Certificate]:
    """Return the certificates that a coordinator has seen, by site."""
    content = (read_status(path) or {}).get("certificates", {})
    return {
        site: Certificate(owner, datetime.fromtimestamp(begins, UTC), datetime.fromtimestamp(ends, UTC))
        for site, (owner, begins, ends) in content.items()
    }


def site_name(subject: x509.Name) -> str:
    """Return the common name in a certificate or a request; empty if there is none."""
    found = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def read_key(path: Path) -> rsa.RSAPrivateKey:
    """Read a site's private key; refuse a file that others could read."""
    require_private(path)
    try:
        found = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        found = None
    if not isinstance(found, rsa.RSAPrivateKey):
        raise BadInput(
            f"{path.name} is missing, damaged, or no RSA key.",
            remedy="Make a new one with a new certificate: colonnade party request --new-key.",
        )
    return found


INSTALL = "Install what `colonnade federation renew` made for this site: colonnade party install."


def read_certificates(path: Path, remedy: str = INSTALL) -> list[x509.Certificate]:
    """Return the certificates in a file, the site's own first."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError):
        raise BadInput(f"{path.name} is missing, or is no certificate.", remedy=remedy) from None


def _fits(key: Path, certificate: x509.Certificate) -> bool:
    return key.exists() and read_key(key).public_key() == certificate.public_key()


def _refuse_unsigned(chain: list[x509.Certificate], roots: list[x509.Certificate]) -> None:
    """Refuse a certificate that the first authority in the kit did not sign; FLARE would refuse it without a reason."""
    if not _is_issued_by(chain[0], roots[0]):
        raise BadInput(
            "The certificate and rootCA.pem are of different authorities.",
            remedy="Install both from one folder, as `colonnade federation renew` wrote them.",
        )


def _is_issued_by(certificate: x509.Certificate, root: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _holds(certificate: x509.Certificate, now: float) -> bool:
    return certificate.not_valid_before_utc.timestamp() <= now < certificate.not_valid_after_utc.timestamp()


def new_rsa_key() -> rsa.RSAPrivateKey:
    """Make a key for the network."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


def key_bytes(key: rsa.RSAPrivateKey) -> bytes:
    """Return a private key as it is kept in a file."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate as it is kept in a file."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def _shown(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
