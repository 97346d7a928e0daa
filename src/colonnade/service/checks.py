"""Checks of a machine and of a member's folder: `colonnade doctor`."""

import os
import platform
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from importlib import metadata
from pathlib import Path

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from colonnade.errors import BadInput, ColonnadeError, SchemaMismatch
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.privacy.accounting import Budget, Loss
from colonnade.privacy.randomness import KeyedRandomness, SystemRandomness
from colonnade.privacy.samplers import discrete_gaussian, discrete_laplace
from colonnade.protocol import agreement, messages
from colonnade.secure.keys import Identity
from colonnade.service.health import CLOCK_SLACK, THIS_SOFTWARE_EXISTS, Check, CheckFailed, require_room
from colonnade.service.party_folder import PartyFolder

OLDEST_PYTHON = (3, 11)
NEEDED = (
    "numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "numba", "msgspec", "cryptography", "pynacl", "dp-accounting",
    "mpmath", "rich", "typer",
)  # fmt: skip
OPTIONAL = {
    "matplotlib": "plots", "nvflare": "network", "duckdb": "large", "dask": "dask", "mbi": "synthetic", "torch": "gpu",
    "polars": "polars", "fastapi": "dashboard", "opentelemetry-api": "traces", "opendp": "bench",
}  # fmt: skip


def machine_checks(directory: Path) -> list[tuple[str, Check]]:
    """Return every check by name; ledgers are to be kept in ``directory``."""
    return [*((check.__name__, check) for check in MACHINE_CHECKS), ("disk", lambda: disk(directory))]


def python() -> str:
    """Check the interpreter's version."""
    if sys.version_info < OLDEST_PYTHON:
        raise CheckFailed(f"Python {platform.python_version()} is too old; install 3.11 or newer")
    return f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} {platform.machine()}"


def packages() -> str:
    """Check that what is needed is installed."""
    found = {name: _version(name) for name in ("colonnade", *NEEDED)}
    missing = [name for name, version in found.items() if version is None]
    if missing:
        raise CheckFailed(f"{', '.join(missing)} missing; pip install colonnade")
    return ", ".join(f"{name} {version}" for name, version in found.items())


def extras() -> str:
    """Report what is optional."""
    words = []
    for name, extra in OPTIONAL.items():
        version = _version(name)
        words.append(f"{name} {version}" if version else f"{name} absent (pip install 'colonnade[{extra}]')")
    return ", ".join(words)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def entropy() -> str:
    """Check that the operating system's randomness does not repeat itself."""
    source = SystemRandomness()
    draws = [source.bytes(32) for _ in range(64)] + [os.urandom(32) for _ in range(64)]
    if len(set(draws)) != len(draws):
        raise CheckFailed("the operating system's randomness repeats itself; do not release anything from this machine")
    return "the system's randomness answers and does not repeat itself"


def samplers() -> str:
    """Compare draws under a fixed key with known answers, and fresh draws with the variance they should have."""
    keyed = KeyedRandomness(bytes(range(32)))
    answers = {
        "stream": keyed.spawn("stream").bytes(8).hex(),
        "laplace": discrete_laplace(Fraction(5), 8, keyed.spawn("laplace")).tolist(),
        "gaussian": discrete_gaussian(Fraction(25), 8, keyed.spawn("gaussian")).tolist(),
    }
    if answers != KNOWN_ANSWERS:
        raise CheckFailed("a sampler gives other draws than it should; do not release anything; reinstall")
    fresh = discrete_gaussian(Fraction(25), 20_000, SystemRandomness())
    if not 22.5 < float(fresh.var()) < 27.5:  # ten standard errors
        raise CheckFailed("fresh noise has the wrong variance; do not release anything from this machine")
    return "known answers match; fresh noise has the variance it should"


def clock() -> str:
    """Check that time is plausible and does not stand still."""
    now, start = time.time(), time.monotonic()
    if now < THIS_SOFTWARE_EXISTS:
        raise CheckFailed("the clock is set to a time before this software existed; set it")
    time.sleep(0.01)
    if not (time.monotonic() > start and time.time() > now):
        raise CheckFailed("the clock does not advance; ledgers record when they were written")
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))


def keys() -> str:
    """Check signatures and sealing against known answers: an Ed25519 vector of RFC 8032, and a letter that must not open."""
    identity = Identity.from_seed(bytes.fromhex(RFC_8032["seed"]))
    if identity.public.hex() != RFC_8032["public"] or identity.sign(b"").hex() != RFC_8032["signature"]:
        raise CheckFailed("the cryptography library signs otherwise than it should; reinstall cryptography")
    cipher, nonce = ChaCha20Poly1305(bytes(32)), bytes(12)
    sealed = cipher.encrypt(nonce, b"letter", b"to bank")
    try:
        cipher.decrypt(nonce, sealed, b"to telco")
    except InvalidTag:
        return "signing keys match RFC 8032; a letter opens for nobody but its receiver"
    raise CheckFailed("a sealed letter opens for another receiver; do not release anything; reinstall cryptography")


def ports() -> str:
    """Check that local sockets work: a guard listens on one, and so does a dashboard."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1)
        except OSError:
            raise CheckFailed("no port can be opened on the loopback interface; check the machine's firewall") from None
    if not hasattr(socket, "AF_UNIX"):
        raise CheckFailed("there are no Unix sockets here, which guards listen on; simulations work all the same")
    with tempfile.TemporaryDirectory(prefix="cn-") as folder, socket.socket(socket.AF_UNIX) as guard:
        try:
            guard.bind(str(Path(folder, "guard.sock")))
        except OSError:
            raise CheckFailed(
                "no Unix socket can be made in the temporary directory; set TMPDIR to a shorter path"
            ) from None
    return "loopback ports and Unix sockets can be opened"


def disk(directory: Path) -> str:
    """Write a ledger in the directory as a party would, synced to disk, and read it back."""
    try:
        with tempfile.TemporaryDirectory(prefix=".colonnade-doctor-", dir=directory) as folder:
            path = Path(folder, "check.ledger")
            with SqliteLedger.create(path, party="doctor", budget=Budget(epsilon=1.0), test=True) as ledger:
                start = time.perf_counter()
                ledger.debit(b"check", bytes(32), Loss.of_pure(1_000_000), label="check")
                seconds = time.perf_counter() - start
            with SqliteLedger.open(path) as ledger:
                if ledger.head().sequence != 1:
                    raise CheckFailed("what was written to disk is not there")
    except (OSError, ColonnadeError):
        raise CheckFailed("ledgers cannot be kept in this directory; choose another with --directory") from None
    free = require_room(directory)
    return f"a ledger can be kept in {directory}; a durable debit takes {seconds * 1000:.1f} ms; {free:,} MB free"


def compiler() -> str:
    """Check that numba compiles."""
    import numba

    @numba.njit
    def triangle(count: int) -> int:
        total = 0
        for value in range(count):
            total += value
        return total

    if triangle(1_000) != 499_500:
        raise CheckFailed("numba compiles wrongly; reinstall numba and llvmlite")
    return f"numba {numba.__version__} compiles"


def algebra() -> str:
    """Report the linear algebra library and its threads."""
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    ones = np.ones((64, 64))
    if not np.array_equal(ones @ ones, np.full((64, 64), 64.0)):
        raise CheckFailed("numpy multiplies wrongly; reinstall it")
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    found = ", ".join(f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads" for pool in pools)
    busy = any(pool["num_threads"] > 1 for pool in pools)
    advice = "; on a busy machine one is faster: OPENBLAS_NUM_THREADS=1" if busy else ""
    return (found or "no BLAS that reports its threads") + advice


RFC_8032 = {
    "seed": "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "public": "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    "signature": "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
    "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
}
"""The first test vector of section 7.1: everybody's, and so nobody's key."""

KNOWN_ANSWERS: dict[str, object] = {
    "stream": "ecc684dd75017246",
    "laplace": [0, -3, 12, -3, 7, 9, 11, 1],
    "gaussian": [0, -2, 2, -4, 4, 0, 5, 3],
}
"""Under the key 00 01 … 1f: eight bytes of the stream, eight draws of scale 5, eight of variance 25."""

MACHINE_CHECKS = (python, packages, extras, entropy, samplers, keys, clock, ports, compiler, algebra)


def member_checks(folder: Path) -> list[tuple[str, Check]]:
    """Return the checks of one member's folder by name; each returns words, or raises `CheckFailed` with what to do."""

    def guarded(check: MemberCheck) -> Check:
        def run() -> str:
            try:
                return check(PartyFolder(folder))
            except ColonnadeError as error:
                raise CheckFailed(f"{error.message} {error.remedy}") from None

        return run

    return [(check.__name__, guarded(check)) for check in MEMBER_CHECKS]


MemberCheck = Callable[[PartyFolder], str]
NO_PAPERS = "there are no papers yet"
NO_DATA = "a compute node has none"


def _papers_of(member: PartyFolder) -> agreement.FederationAgreement | None:
    return agreement.read_agreement(member.papers) if member.papers.exists() else None


def identity(member: PartyFolder) -> str:
    """Check that the identity key is there, readable by its owner alone, and the one that the papers name."""
    public, papers = member.identity().public.hex(), _papers_of(member)
    if papers is None:
        return f"{member.name}: identity.key is private and sound; {NO_PAPERS}"
    pinned = papers.pinned().get(member.name)
    if pinned is None or pinned.key.hex() != public:
        raise BadInput(
            "The papers name another key than identity.key.", remedy="Have new papers made with this member's card."
        )
    return f"{member.name}: identity.key is private and sound, and the papers name it"


def schema(member: PartyFolder) -> str:
    """Check that schema.toml says what the papers say was agreed."""
    if member.role == "compute":
        return NO_DATA
    described, papers = member.schema(), _papers_of(member)
    if papers is None:
        return f"{len(described)} columns are described; {NO_PAPERS}"
    signatory = papers.members.get(member.name)
    if signatory is None or signatory.schema != messages.schema_digest(described):
        raise SchemaMismatch(
            "schema.toml is not the schema of the papers.",
            remedy="Restore it, or have all members sign new papers: bounds are part of what was agreed.",
        )
    return f"{len(described)} columns, as in the papers"


def permissions(member: PartyFolder) -> str:
    """Check that no other user of the machine can read a key, or change a folder or a policy."""
    member.require_safe()
    return "keys, folders, policy and schema are this user's alone to change"


def certificate(member: PartyFolder) -> str:
    """Check that the relay can connect with its certificate, and say until when."""
    if not member.kit.certificate_file.exists():
        return "there is none yet: colonnade party install"
    member.kit.credentials()
    return "; ".join(f"{file} {found.words(time.time())}" for file, found in member.kit.certificates().items())


def signatures(member: PartyFolder) -> str:
    """Check that every member has signed the papers."""
    papers = _papers_of(member)
    if papers is None:
        return NO_PAPERS
    missing = papers.missing()
    return "all members have signed" if not missing else f"still to sign: {', '.join(missing)}"


def ledger(member: PartyFolder) -> str:
    """Check that the ledger is whole, has the policy's cap, and does not lie in the future."""
    if member.role == "compute" or not (member.path / "ledger.sqlite").exists():
        return "there is none yet" if member.role == "data" else NO_DATA
    with member.ledger() as opened:
        last = max((entry.when.timestamp() for entry in opened.entries()), default=0.0)
        rows, remaining = opened.head().sequence, opened.remaining()
    if last > time.time() + CLOCK_SLACK:
        raise BadInput("The ledger's last row lies in the future.", remedy="Set the clock: it has gone back.")
    return f"{rows} rows check; remaining ε={remaining:.4g}"


def data(member: PartyFolder) -> str:
    """Check that a table is loaded, and that its copy is what was loaded and fits schema, policy and papers."""
    if member.role == "compute":
        return NO_DATA
    people = member.check_data() if (member.path / "ledger.sqlite").exists() else None
    return "no table is loaded yet" if people is None else f"{data_version(member.path)}; {people:,} people check"


def data_version(path: Path) -> str:
    """Return which version of a party's data is current, in words."""
    try:
        with PartyFolder(path.resolve()).ledger() as opened:
            return version_in_words(opened)
    except ColonnadeError as error:
        return f"{error.message} {error.remedy}"


def version_in_words(opened: SqliteLedger) -> str:
    """Return which data version a ledger has declared last, and when."""
    declared = [entry.when for entry in opened.entries() if entry.kind == "version"]
    if not declared:
        return "no version was declared; a party that is served needs one: colonnade party load FOLDER FILE"
    return f"version {opened.current_version()}, declared {declared[-1]:%Y-%m-%d %H:%M:%S} UTC"


def coordinator(member: PartyFolder) -> str:
    """Check that the coordinator's port answers from here."""
    papers = _papers_of(member)
    if papers is None:
        return NO_PAPERS
    where = papers.coordinator
    try:
        with socket.create_connection((where.host, where.port), timeout=3.0):
            return f"{where.host}:{where.port} answers"
    except OSError:
        raise CheckFailed(
            f"{where.host}:{where.port} does not answer: no study runs there now, or a firewall is in between"
        ) from None


MEMBER_CHECKS: tuple[MemberCheck, ...] = (
    permissions, identity, certificate, schema, signatures, ledger, data, coordinator
)  # fmt: skip
