"""A federation's certificate authority: it signs the requests of sites, and holds none of their keys.

::

    authority/
    ├── authority.crt   its own certificate
    ├── authority.key   its key; 0600: keep the folder offline
    ├── former.crt      the authority before it, while that is still trusted
    └── bridge.crt      this authority's key, certified by the former one

*The same key, a new date.* An authority that would end before a certificate does is given a new certificate to the same key.
Sites that have only the old one accept what is signed now, and the other way round, until the old date.

*A new key.* The former authority certifies the new key. That bridge travels with every certificate, so a site that knows only the
former authority accepts it; new kits name both. So sites change over one by one, and nothing stops. Once all have, the former
authority is forgotten.

Certificates open a connection and nothing else: an authority cannot speak for a party to its peers, read letters or draw on a
budget.
"""

import ipaddress
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from colonnade.errors import BadInput, ColonnadeError
from colonnade.runtime.private_files import replace_file, require_private, write_new
from colonnade.secure.keys import Identity, PublicIdentity, frame
from colonnade.service import toml_parts
from colonnade.transport.kit import read_key, site_name

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
        self.certificate = _load(folder / "authority.crt")

    @classmethod
    def create(
        cls, folder: Path, *, days: float = AUTHORITY_DAYS, clock: Callable[[], float] = time.time
    ) -> "CertificateAuthority":
        """Make an authority; refuse a folder that has one."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        write_new(folder / "authority.key", _private(key))
        write_new(folder / "authority.crt", _pem(_root(key, _authority_name(key), clock(), days)))
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
        return Issued(_pem(made) + bridge, _pem(self.certificate) + former)

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
        key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
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
            replace_file(self._folder / "former.crt", _pem(self.certificate))
            replace_file(self._folder / "bridge.crt", _pem(bridge))
        self._become(key, root)

    def forget_former(self) -> None:
        """Trust the present authority alone: kits that are made from now on do not know the former one."""
        for name in ("former.crt", "bridge.crt"):
            (self._folder / name).unlink(missing_ok=True)

    def _become(self, key: rsa.RSAPrivateKey, certificate: x509.Certificate) -> None:
        replace_file(self._folder / "authority.key", _private(key))
        replace_file(self._folder / "authority.crt", _pem(certificate))
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
        document = toml_parts.parse(path)
        toml_parts.refuse_unknown(document, REQUEST_KEYS, path.name)
        return cls.taken_from(document, path.name)

    def text(self) -> str:
        """Return the request as TOML."""
        entries = {key: getattr(self, key) for key in REQUEST_KEYS}
        return "\n".join(f"{key} = {json.dumps(value)}" for key, value in entries.items() if value)

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


def _load(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        raise BadInput(f"{path.name} is missing or damaged.", remedy="Restore it from a copy.") from None


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
