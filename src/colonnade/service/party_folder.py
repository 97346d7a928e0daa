"""One member's folder on disk: its key, public schema, policy and ledger, and how they become a guard.

::

    bank/
    ├── member.toml      name and role, and where the other members may reach it directly
    ├── identity.key     the private identity key; 0600
    ├── schema.toml      what is public about the data: the id column, and bounds and levels of the others
    ├── policy.toml      the cap of the ledger, and what this party agrees to answer
    ├── data/            the copy of the table that is answered from; made by `colonnade party load`
    ├── ledger.sqlite    what was ever released; made by `colonnade party load` or `colonnade party card`
    ├── ledger.head      the highest head of the ledger that was ever shown
    ├── ledger.refused   studies that were refused lately, and those that wait for an approval
    ├── federation.toml  the signed papers
    ├── dask/            ca.pem, cert.pem and key.pem for its own Dask cluster, where it has one
    ├── kit/             the relay's key, made here, and its certificate
    └── mail/            sealed letters that came directly from other members, for the next turn

A compute node has no data, and so neither schema nor policy nor ledger.

*Copies of a served party's table* (`Snapshots`), one per declared version of its data.

::

    bank/data/
    └── 0002/             the table of data version 2
        ├── 0000.parquet  the id and the declared columns of the owner's file, cell by cell; 0600
        └── SHA256SUMS    what the copy must be

A column that schema.toml does not declare is not copied: nobody may ask about it, and it could only be lost.

A party answers from such a copy and never from the owner's file: one version is one table, whatever happens to that file
later. A copy is never changed. It is compared with its hashes when the party opens it; they never leave the folder.

The order of writing is the argument. A copy is made under another name, checked there, synced to disk and put in place at once;
only then is its version declared in the ledger. So a declared version has its copy, whenever a crash comes. A copy whose version
was never declared is one that nobody answers from, and the next load replaces it.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import msgspec

import colonnade as cn
from colonnade.errors import BadInput
from colonnade.privacy.randomness import KeyedRandomness, Randomness, SystemRandomness
from colonnade.protocol import agreement, messages
from colonnade.runtime.private_files import (
    read_hex,
    replace_file,
    replacing,
    require_private,
    require_unchangeable,
    sync_folder,
    write_new,
)
from colonnade.secure.keys import Identity, PublicIdentity
from colonnade.service import toml_parts
from colonnade.transport.kit import Certificate, Kit

if TYPE_CHECKING:
    from colonnade.conversations.endpoint import ComputeNode
    from colonnade.party.ledger.ledger import SqliteLedger
    from colonnade.party.table.checking import TableCheck
    from colonnade.party.table.dask_cluster import Cluster
    from colonnade.service.federation_setup import SiteRequest
    from colonnade.service.served_party import ServedParty, TableTerms


SUMS = "SHA256SUMS"

Copy = Callable[[Path, BinaryIO], None]
"""Writes what a party keeps of one of its owner's files."""


class Snapshots:
    """The copies in one folder.

    Parameters
    ----------
    folder
        Where they are; made when the first table is loaded.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def adding(self, version: int, files: Sequence[Path], copy: Copy) -> Iterator[list[Path]]:
        """Copy the files of a table; once the block is left, the copy is in place, on disk. After an error there is none.

        Parameters
        ----------
        version
            The version that the caller declares once the block is left.
        files
            The table: one file, or several whose rows follow one another.
        copy
            Writes what is kept of one of them.

        Yields
        ------
        list of Path
            The copied files, to be checked.
        """
        with self._locked():
            part = self._folder / f"{version:04d}.part"
            shutil.rmtree(part, ignore_errors=True)  # left by a crash
            part.mkdir(mode=0o700)
            try:
                sums = _copied(files, part, copy)
                yield [part / name for name in sums]
                with replacing(part / SUMS) as file:
                    file.writelines(f"{digest}  {name}\n".encode() for name, digest in sums.items())
                shutil.rmtree(self._place(version), ignore_errors=True)  # a crash came before its version was declared
                part.rename(self._place(version))
                sync_folder(self._folder)
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise

    def files(self, version: int) -> list[Path]:
        """Return the files of a version; refuse a copy that is not what was loaded."""
        place = self._place(version)
        try:
            sums = [line.split("  ", 1) for line in (place / SUMS).read_text(encoding="utf-8").splitlines()]
            sound = bool(sums) and all(_digest(place / name) == digest for digest, name in sums)
        except (OSError, ValueError):
            sound = False
        if not sound:
            raise BadInput(
                f"The copy of data version {version} in {self._folder.name}/ is missing, damaged or changed.",
                remedy="Restore the copy, or load the table again as a new version: colonnade party load FOLDER FILE.",
            )
        return [place / name for _, name in sums]

    def name_of(self, version: int) -> bytes:
        """Return a hash of the copy of a version: the same table has the same."""
        return hashlib.sha256((self._place(version) / SUMS).read_bytes()).digest()

    def rename(self, version: int, kept: int) -> None:
        """Let a copy be that of an earlier version, which has the same table."""
        shutil.rmtree(self._place(kept), ignore_errors=True)
        self._place(version).rename(self._place(kept))
        sync_folder(self._folder)

    def remove_before(self, version: int) -> None:
        """Remove the copies of earlier versions: nobody answers from one again."""
        for path in self._folder.glob("[0-9]*"):
            if path.name.isdecimal() and int(path.name) < version:
                shutil.rmtree(path, ignore_errors=True)

    def _place(self, version: int) -> Path:
        return self._folder / f"{version:04d}"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Refuse a second load at the same time: both would take the same version."""
        if not self._folder.exists():
            self._folder.mkdir(mode=0o700)
            sync_folder(self._folder.parent)
        lock = os.open(self._folder, os.O_RDONLY)
        try:
            _take(lock)
            yield
        finally:
            os.close(lock)


def _take(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BadInput("Another load into this folder is under way.", remedy="Wait until it has ended.") from None


def _copied(files: Sequence[Path], folder: Path, copy: Copy) -> dict[str, str]:
    """Copy files, synced to disk and for this user alone; return the hash of each copy by its name."""
    from colonnade.party.table.sources import files_in  # late: a supervisor loads nothing of the party's code

    sums = {}
    for number, path in enumerate(cast("list[Path]", [path for given in files for path in files_in(given)])):
        kind = path.suffix.lower()
        name = f"{number:04d}{'.parquet' if kind == '.duckdb' else kind}"
        try:
            with replacing(folder / name) as target:
                copy(path, target)
        except OSError as error:
            raise BadInput(
                f"The file {path.name!r} cannot be copied ({error.strerror or type(error).__name__}).",
                remedy="Check the file, and room on disk.",
            ) from None
        sums[name] = _digest(folder / name)
    return sums


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


SCHEMA = """\
# What is public about the columns of {name}. Only a column that is described here is ever read.
#
# Bounds and levels must hold for any data whatever: never take them from the data, whose extremes are private. A number outside
# is clipped. What becomes of a missing value, and of a level that is not listed, is declared too; otherwise a table that has some
# is refused:
#   income  = {{ lower = 0, upper = 250000, missing = 30000, indicator = true, na_values = ["?"], thousands = "," }}
#   answer  = {{ levels = ["no", "yes"], missing = "excluded", other = "other" }}    # or missing = "level"
#   opened  = {{ first = 2000-01-01, last = 2030-12-31, missing = 2010-01-01 }}
# `colonnade party check` shows which columns need one.

id = {id}              # the column by which people are known; the same at every party
{separator}  # what stands between the columns of a CSV file, if it is no comma
{encoding}  # how its letters are stored, if it is not UTF-8
# memory = "2GB"         # how much memory the guard may use, for a table that is larger; needs the extra `large`
# dask = "tls://scheduler:8786"  # a Dask cluster of its own; needs the extra `dask`, and ca.pem, cert.pem and key.pem in dask/
# cohort = "cohort.csv"  # a public list of the people who take part, with the same id column, if the papers name one

[columns]
{columns}
"""

POLICY = """\
# What {name} agrees to answer. Everything here is checked by this party's own guard, whatever a coordinator asks for.

[budget]            # the cap of this party's ledger, over all studies, for good
epsilon = 1.0
delta = 1e-6

[policy]
max_epsilon = 1.0   # the most that one release may cost
min_people = 1000   # studies of fewer people are refused
min_collusion = 1   # secure studies withstand at least this many colluding parties
nonprivate = []     # what may be answered WITHOUT differential privacy, such as "Coreset": nothing
event_level = false # refuse studies that hide only steps in a value, and not the value
# columns = ["age"] # allow these columns only; all of schema.toml otherwise
# allow = ["PCA"]   # answer these studies only; all private ones otherwise

alignments = ["cohort"]  # rows are put in the order of a public list. "intersection" shows every party which of its own ids
                         # the others have, and is not differentially private: allow it by name, or not at all
# capacity = 100000      # how long the list of ids looks to others, who never see it; without it no lists are matched. Choose
                         # one that future lists fit into: a longer one is refused when it is loaded
# compute_for_others = true     # compute on shares in studies that ask nothing about this party's data
# compute_nodes = ["auditor"]   # share columns with these nodes only; with all that the papers name otherwise
# direct_links = false          # have every letter to other members relayed, also where `party serve --direct` is asked for

# approve_above = 0.5                          # studies that take their requester's total above this wait for `party approve`
# requesters = {{ "analyst@telco" = 1.0 }}       # the most that each analyst's studies may cost; anybody else is refused
# purposes = {{ "fraud prevention" = 1.0 }}      # the same for each purpose, by its exact words
"""


def column_line(column: str, kinds: Iterable[object]) -> str:
    """Return a line of the schema, commented out: its owner fills it in."""
    kind = next((str(kind) for kind in kinds if kind is not None), "")
    name = json.dumps(column)
    if kind.startswith(("int", "uint")):
        return f"# {name} = {{ lower = , upper = , integer = true }}  # {kind}"
    if kind.startswith(("float", "double", "half", "decimal")):
        return f"# {name} = {{ lower = , upper =  }}  # {kind}"
    if kind in ("", "bool") or "string" in kind or "dictionary" in kind:
        declared = kind.split("<")[0] or "no declared type: a number needs {{ lower = , upper = }} instead"
        return f"# {name} = {{ levels = [] }}  # {declared}".replace("{{", "{").replace("}}", "}")
    if kind.startswith(("date", "timestamp")):
        return f"# {name} = {{ first = , last =  }}  # {kind.split('[')[0]}"
    return f"# {name} = {{ lower = , upper =  }}  # {kind}: not a number, a text, a date or a truth value"


def loaded_version(ledger: "SqliteLedger") -> int:
    """Return the data version that a ledger has declared last; refuse if no table was ever loaded."""
    version = ledger.current_version()
    if version is None:
        raise BadInput("No table was loaded into this folder.", remedy="colonnade party load FOLDER FILE")
    return version


@dataclass(frozen=True)
class PartyFolder:
    """A member's folder.

    Parameters
    ----------
    path
        Where it is.
    memory
        How much memory its guard may use, such as ``"2GB"``, in place of what schema.toml says.
    dask
        The scheduler of its own Dask cluster, such as ``"tls://scheduler:8786"``, in place of what schema.toml says.
    """

    path: Path
    memory: str | None = None
    dask: str | None = None

    # Making one ---------------------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls, path: Path, *, name: str, role: str, test_key: bytes | None = None, direct: str = ""
    ) -> "PartyFolder":
        """Make a folder with a fresh identity; refuse one that exists with something in it.

        ``direct`` is where the other members may reach this one directly, ``"host:port"``.
        """
        if direct:
            agreement.address_of(direct)
        if not name.isidentifier() or not name.isascii() or name in ("coordinator", "server", "localhost"):
            raise BadInput(
                f"A member's name must be a plain word, and {name!r} is not, or is reserved.",
                remedy="For example 'bank'.",
            )
        if path.exists() and any(path.iterdir()):
            raise BadInput(f"The folder {path} is not empty.", remedy="Name a folder that does not exist yet.")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
        folder = cls(path)
        entries = {"name": name, "role": role, "direct": direct}
        (path / "member.toml").write_text(toml_parts.lines_of(entries) + "\n", encoding="utf-8")
        if test_key is not None:
            write_new(path / "test.key", f"{test_key.hex()}\n".encode())
        identity = folder.randomness().bytes(32)
        write_new(path / "identity.key", f"{identity.hex()}\n".encode())
        return folder

    @classmethod
    @contextlib.contextmanager
    def creating(cls, path: Path, **facts: Any) -> "Iterator[PartyFolder]":
        """Make a folder (`create`) and fill it in the block; if either is refused, nothing is left of it."""
        stood = path.exists()
        folder = None
        try:
            folder = cls.create(path, **facts)
            yield folder
        except BaseException:
            if folder is not None:  # it was empty, or not there: everything in it was made just now
                shutil.rmtree(path, ignore_errors=True)
                if stood:
                    path.mkdir(mode=0o700, exist_ok=True)
            raise

    def write_templates(self, data: Path, id: str, **reading: str) -> None:  # noqa: A002  # as in the files
        """Write a policy with safe defaults, and a schema from the names and declared types of columns, never from values."""
        from colonnade.party.table.sources import Source

        source = Source(data, **reading)
        if id not in source.columns:
            raise BadInput(
                f"The data has no id column {id!r}.", remedy=" ".join(["Name it with --id.", *source.doubts()])
            )
        lines = [column_line(column, source.kinds(column, look=False)) for column in source.columns if column != id]
        usual = {"separator": ";", "encoding": "cp1252"}
        written = {
            name: f"{'' if name in reading else '# '}{name} = {json.dumps(reading.get(name, value))}"
            for name, value in usual.items()
        }
        text = SCHEMA.format(name=self.name, id=json.dumps(id), columns="\n".join(lines), **written)
        (self.path / "schema.toml").write_text(text, encoding="utf-8")
        (self.path / "policy.toml").write_text(POLICY.format(name=self.name), encoding="utf-8")

    def fill_in(self, schema: Path, policy: Path) -> None:
        """Take over a schema and a policy that somebody has filled in."""
        for source, name in ((schema, "schema.toml"), (policy, "policy.toml")):
            replace_file(self.path / name, source.read_bytes())

    # What is in it ------------------------------------------------------------------------------------------------------

    def _member(self) -> toml_parts.Table:
        return toml_parts.parse(self.path / "member.toml", ("name", "role", "direct"))

    @property
    def name(self) -> str:
        """The member's name."""
        return toml_parts.text_of(self._member(), "name", "member.toml")

    @property
    def role(self) -> str:
        """``"data"`` or ``"compute"``."""
        return toml_parts.text_of(self._member(), "role", "member.toml")

    @property
    def direct(self) -> str:
        """Where the other members may reach this one directly; empty where they may not."""
        document = self._member()
        return toml_parts.text_of(document, "direct", "member.toml") if "direct" in document else ""

    @property
    def socket(self) -> Path:
        """Where the guard listens, for this user alone."""
        return self.path / "guard.sock"

    @property
    def papers(self) -> Path:
        """The federation's signed papers."""
        return self.path / "federation.toml"

    def identity(self) -> Identity:
        """Return the private identity; refuse a key file that others could read."""
        return Identity.from_seed(read_hex(self.path / "identity.key"))

    def randomness(self) -> Randomness:
        """Return the source of noise: the operating system, or a stored key where the folder was made for tests."""
        path = self.path / "test.key"
        if not path.exists():
            return SystemRandomness()
        return KeyedRandomness(hashlib.sha256(read_hex(path) + self.name.encode()).digest())

    def budget(self) -> "cn.Budget":
        """Return the cap in the policy file."""
        return toml_parts.budget_of(toml_parts.table_of(self._policy_file(), "budget", "policy.toml"))

    def policy(self) -> "cn.Policy":
        """Return the rules in the policy file."""
        return toml_parts.policy_of(toml_parts.as_table(self._policy_file().get("policy", {}), "policy"), "policy.toml")

    def _policy_file(self) -> toml_parts.Table:
        return toml_parts.parse(self.path / "policy.toml", ("budget", "policy"))

    def _schema_file(self) -> toml_parts.Table:
        document = toml_parts.parse(self.path / "schema.toml")
        if "data" in document:
            raise BadInput(
                "schema.toml names a data file, and a party answers from a table that was loaded.",
                remedy="Remove the line `data = …`, then load the file: colonnade party load FOLDER FILE.",
            )
        toml_parts.refuse_unknown(
            document, ("id", "cohort", "memory", "dask", "columns", *toml_parts.READING), "schema.toml"
        )
        return document

    def schema(self) -> cn.Schema:
        """Return the public schema."""
        columns = toml_parts.table_of(self._schema_file(), "columns", "schema.toml")
        described = {
            name: toml_parts.column_of(f"schema.toml: columns.{name}", entry) for name, entry in columns.items()
        }
        return toml_parts.within("schema.toml", lambda: cn.Schema(described))

    def check(self, files: Sequence[Path] = ()) -> "TableCheck":
        """Return what the owner should know about a table, by default the one that was loaded; for the owner alone."""
        terms = self._table_terms(self._papers_so_far())
        return terms.party(files or self.loaded()[1], 1).check(terms.id)

    def loaded(self) -> "tuple[TableTerms, list[Path]]":
        """Return how tables are opened, and the copy of the table of the current version; refuse if none was loaded."""
        with self.ledger() as ledger:
            version = loaded_version(ledger)
        return self._table_terms(self._papers_so_far()), self._snapshots.files(version)

    def ledger(self, *, change_cap: bool = False) -> "SqliteLedger":
        """Open the ledger, or make one; refuse a cap that differs from the policy file's unless it is to be recorded."""
        from colonnade.party.ledger.decisions import CapDecision
        from colonnade.party.ledger.ledger import SqliteLedger

        path, budget = self.path / "ledger.sqlite", self.budget()
        if not path.exists():
            test = (self.path / "test.key").exists()
            return SqliteLedger.create(path, party=self.name, budget=budget, test=test)
        ledger = SqliteLedger.open(path, party=self.name)
        if (ledger.budget.nano, ledger.budget.delta) != (budget.nano, budget.delta):
            if not change_cap:
                ledger.close()
                raise BadInput(
                    "The ledger's cap is not the one in policy.toml.",
                    remedy="Correct [budget] in policy.toml, or record the new cap: colonnade ledger raise FOLDER.",
                )
            decision = CapDecision.by_user(budget, "party serve --change-cap")
            ledger.decide(decision.signed(ledger.identity, self.identity()))
        return ledger

    def card(self) -> agreement.Signatory:
        """Return what is public about this member, for the federation's papers; makes the ledger if there is none."""
        identity = self.identity().public.hex()
        if self.role == "compute":
            return agreement.Signatory(role="compute", identity=identity, direct=self.direct)
        with self.ledger() as ledger:
            number = ledger.identity
        schema = messages.schema_digest(self.schema())
        return agreement.Signatory(role="data", identity=identity, ledger=number, schema=schema, direct=self.direct)

    def card_text(self) -> str:
        """Return the card as TOML, with a request for a certificate to the site's own key."""
        entries = {"name": self.name, **msgspec.structs.asdict(self.card()), **asdict(self.certificate_request())}
        del entries["computes"]  # the papers say who computes
        return toml_parts.lines_of(entries)

    # Its certificate ----------------------------------------------------------------------------------------------------

    @property
    def kit(self) -> Kit:
        """What the relay connects with."""
        return Kit(self.path / "kit")

    def certificate_request(self, *, new_key: bool = False) -> "SiteRequest":
        """Return a request for a certificate, signed with the identity key; the key to it is made here, and stays here."""
        from colonnade.service.federation_setup import SiteRequest

        return SiteRequest.made(self.name, self.kit.request(self.name, new_key=new_key), self.identity())

    def install(self, source: Path) -> tuple[bool, Certificate | None]:
        """Put in place what a federation's folder has for this member; return whether there were papers, and the certificate.

        A relay that runs takes the certificate over by itself. Papers are read when a guard starts.
        """
        papers, kit = source / "federation.toml", source / "kits" / self.name
        kit = kit if kit.is_dir() else source
        certified = (kit / self.kit.certificate_file.name).is_file()
        if not papers.is_file() and not certified:
            raise BadInput(
                f"{source} holds neither papers nor a certificate of {self.name}.",
                remedy="Name the federation's folder, with federation.toml and kits/, or this member's kit.",
            )
        if papers.is_file():
            self._install_papers(agreement.read_agreement(papers).check())
        return papers.is_file(), self.kit.install(kit, self.name) if certified else None

    def _install_papers(self, found: agreement.FederationAgreement) -> None:
        if found.pinned().get(self.name) != PublicIdentity(self.identity().public):
            raise BadInput(
                f"The papers do not name {self.name} with this member's key.",
                remedy="Have new papers made with its own card: colonnade party card.",
            )
        if self.papers.exists():
            present = agreement.read_agreement(self.papers)
            older = [
                name for name, keys in present.rotations.items() if found.rotations.get(name, [])[: len(keys)] != keys
            ]
            back = set(present.revocations) - set(found.revocations)
            if found.identity == present.identity and back:
                raise BadInput(
                    f"These papers forget that {', '.join(sorted(back))} is out.",
                    remedy="Use the newest file; a revocation is for good.",
                )
            if found.identity == present.identity and older:
                raise BadInput(
                    f"These papers have an older key of {', '.join(older)} than those in place.",
                    remedy="Use the newest file; a key that was replaced does not come back.",
                )
        replace_file(self.papers, found.text().encode())

    def rotate(self) -> agreement.FederationAgreement:
        """Make a new identity key, signed with the present one; return the papers with it. The ledger, and its budget, stay.

        The present key is kept as ``identity.old``. After a crash on the way, doing it again finishes it.
        """
        following, present = self.path / "identity.next", self.path / "identity.key"
        papers = agreement.read_agreement(self.papers).check()
        if not following.exists():
            write_new(following, f"{SystemRandomness().bytes(32).hex()}\n".encode())
        new = PublicIdentity(Identity.from_seed(read_hex(following)).public)
        if papers.pinned().get(self.name) != new:
            papers = papers.rotated(self.name, self.identity(), new)
            replace_file(self.papers, papers.text().encode())
        replace_file(self.path / "identity.old", present.read_bytes())
        following.replace(present)
        return papers

    def require_safe(self) -> None:
        """Refuse a folder, key or policy that other users of this machine can read or change, by the command to type."""
        secrets = ("identity.key", "identity.old", "identity.next", "test.key", "dask/key.pem")
        for path in (self.path, *(self.path / name for name in secrets), self.kit.folder, self.kit.key_file):
            require_private(path)
        for name in ("member.toml", "policy.toml", "schema.toml", "federation.toml"):
            require_unchangeable(self.path / name)

    # Opening it ---------------------------------------------------------------------------------------------------------

    def guard(self, *, change_cap: bool = False) -> "ServedParty | ComputeNode":
        """Open table, policy and ledger behind a guard, on the terms of the federation's papers."""
        from colonnade.service import served_party

        papers = agreement.read_agreement(self.papers)
        noise = self.randomness()
        if noise.deterministic:
            noise.bytes(32)  # skip the identity's bytes: what follows is what a simulated party draws
        cluster = self._cluster()
        if self.role == "compute":
            return served_party.serve_node(
                self.name, papers, identity=self.identity(), folder=self.path, randomness=noise, workers=cluster
            )
        ledger = self.ledger(change_cap=change_cap)
        try:
            return served_party.serve_party(
                replace(self._table_terms(papers), cluster=cluster),
                self._snapshots,
                papers,
                identity=self.identity(),
                ledger=ledger,
                folder=self.path,
                randomness=noise,
            )
        except BaseException:
            ledger.close()
            raise

    @property
    def scheduler(self) -> str | None:
        """The address of the scheduler of this member's own Dask cluster; ``None`` if it has none."""
        if self.dask is not None or self.role == "compute":
            return self.dask
        named = self._schema_file().get("dask")
        return named if named is None else toml_parts.text_of({"dask": named}, "dask", "schema.toml")

    def _cluster(self) -> "Cluster | None":
        if self.scheduler is None:
            return None
        from colonnade.party.table.dask_cluster import Cluster

        return Cluster.of(self.scheduler, self.path / "dask", loopback=False)

    def load(self, files: Sequence[Path], *, anew: bool = False) -> "Loaded":
        """Check a table, keep a copy of it, and declare it as the next version of this party's data.

        A running party takes it over before its next request. If the table is refused, or on a crash before the end, the version
        before stays the current one. The first table that is loaded after a ledger was restored keeps its version if it is that
        version's: otherwise a restored party would look like one whose people came and went.

        Parameters
        ----------
        files
            The table: one file, or several whose rows follow one another.
        anew
            Whether it gets a new version in any case.
        """
        if self.role != "data":
            raise BadInput("A compute node has no data.", remedy="Load a table into the folder of a party.")
        terms = self._table_terms(self._papers_so_far())
        with self.ledger() as ledger:
            version = ledger.next_version()
            with self._snapshots.adding(version, files, terms.copy) as copies:
                people = terms.check(copies, version)
            table = self._snapshots.name_of(version)
            kept = None if anew else ledger.restored_version(table)
            if kept is None:
                ledger.declare_version(version, table)
                ledger.remember_head()
            else:
                self._snapshots.rename(version, kept)
                version = kept
        if not self.listening:  # a running guard removes them itself, once it has taken the new version over
            self._snapshots.remove_before(version)
        return Loaded(version, people, len(terms.schema))

    def check_data(self) -> int | None:
        """Check the table of the current version again; return how many people it has, or ``None`` if none was loaded."""
        with self.ledger() as ledger:
            version = ledger.current_version()
        if version is None:
            return None
        return self._table_terms(self._papers_so_far()).check(self._snapshots.files(version), version)

    @property
    def listening(self) -> bool:
        """Whether a guard listens on the socket of this folder."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(self.socket))
            except OSError:
                return False
        return True

    def _papers_so_far(self) -> agreement.FederationAgreement | None:
        return agreement.read_agreement(self.papers) if self.papers.exists() else None

    @property
    def _snapshots(self) -> Snapshots:
        return Snapshots(self.path / "data")

    def _table_terms(self, papers: agreement.FederationAgreement | None) -> "TableTerms":
        from colonnade.party.table.sources import memory_limit
        from colonnade.service.served_party import TableTerms, cohort_of

        settings = self._schema_file()
        column = toml_parts.text_of(settings, "id", "schema.toml")
        memory = toml_parts.within("schema.toml", lambda: memory_limit(self.memory or settings.get("memory")))
        cohort = cohort_of(self.path / settings["cohort"], column, memory) if "cohort" in settings else None
        reading = toml_parts.reading_of(settings, "schema.toml")
        return TableTerms(self.name, self.schema(), column, self.policy(), cohort, papers, reading, memory)


@dataclass(frozen=True)
class Loaded:
    """What was loaded, for the owner's eyes: the version, how many people the table has, and how many columns are read."""

    version: int
    people: int
    columns: int
