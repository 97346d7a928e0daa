"""One member's folder on disk: its key, public schema, policy and ledger, and how they become a guard.

::

    bank/
    ├── member.toml      name and role
    ├── identity.key     the private identity key; 0600
    ├── schema.toml      where the data is, and what is public about its columns
    ├── policy.toml      the cap of the ledger, and what this party agrees to answer
    ├── ledger.sqlite    what was ever released; made by `colonnade party card`
    ├── federation.toml  the signed papers
    └── kit/             the relay's certificate and key

A compute node has no data, and so neither schema nor policy nor ledger.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import colonnade as cn
from colonnade.errors import BadInput
from colonnade.privacy.randomness import KeyedRandomness, Randomness, SystemRandomness
from colonnade.protocol import agreement, codec
from colonnade.secure.keys import Identity
from colonnade.service import toml_parts

if TYPE_CHECKING:
    from colonnade.conversations.endpoint import ComputeNode
    from colonnade.party.guard import Guard
    from colonnade.party.ledger.ledger import SqliteLedger
    from colonnade.party.table.checking import TableCheck

__all__ = ["PartyFolder"]

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

data = {data}
id = {id}              # the column by which people are known; the same at every party
{separator}  # what stands between the columns of a CSV file, if it is no comma
{encoding}  # how its letters are stored, if it is not UTF-8
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
min_collusion = 1   # secure studies are noised against at least this many colluding parties
nonprivate = []     # what may be answered WITHOUT differential privacy, such as "Coreset": nothing
event_level = false # refuse studies that hide only steps in a value, and not the value
# columns = ["age"] # allow these columns only; all of schema.toml otherwise
# allow = ["PCA"]   # answer these studies only; all private ones otherwise
"""


@dataclass(frozen=True)
class PartyFolder:
    """A member's folder.

    Parameters
    ----------
    path
        Where it is.
    """

    path: Path

    # Making one ---------------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path, *, name: str, role: str, test_key: bytes | None = None) -> "PartyFolder":
        """Make a folder with a fresh identity; refuse one that exists with something in it."""
        if not name.isidentifier() or not name.isascii() or name in ("coordinator", "server", "localhost"):
            raise BadInput(
                f"A member's name must be a plain word, and {name!r} is not, or is reserved.",
                remedy="For example 'bank'.",
            )
        if path.exists() and any(path.iterdir()):
            raise BadInput(f"The folder {path} is not empty.", remedy="Name a folder that does not exist yet.")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = cls(path)
        (path / "member.toml").write_text(f"name = {json.dumps(name)}\nrole = {json.dumps(role)}\n", encoding="utf-8")
        if test_key is not None:
            _write_secret(path / "test.key", test_key.hex())
        identity = folder.randomness().bytes(32)
        _write_secret(path / "identity.key", identity.hex())
        return folder

    def write_templates(self, data: Path, id: str, **reading: str) -> None:  # noqa: A002  # as in the files
        """Write a policy with safe defaults, and a schema from the names and declared types of columns, never from values."""
        from colonnade.party.table.sources import Source

        source = Source(data, **reading)
        if id not in source.columns:
            raise BadInput(
                f"The data has no id column {id!r}.", remedy=" ".join(["Name it with --id.", *source.doubts()])
            )
        lines = [_template(column, source.kinds(column, look=False)) for column in source.columns if column != id]
        usual = {"separator": ";", "encoding": "cp1252"}
        written = {
            name: f"{'' if name in reading else '# '}{name} = {json.dumps(reading.get(name, value))}"
            for name, value in usual.items()
        }
        text = SCHEMA.format(
            name=self.name, data=json.dumps(str(data)), id=json.dumps(id), columns="\n".join(lines), **written
        )
        (self.path / "schema.toml").write_text(text, encoding="utf-8")
        (self.path / "policy.toml").write_text(POLICY.format(name=self.name), encoding="utf-8")

    # What is in it ------------------------------------------------------------------------------------------------------

    def _member(self) -> toml_parts.Table:
        document = toml_parts.parse(self.path / "member.toml")
        toml_parts.refuse_unknown(document, ("name", "role"), "member.toml")
        return document

    @property
    def name(self) -> str:
        """The member's name."""
        return toml_parts.text_of(self._member(), "name", "member.toml")

    @property
    def role(self) -> str:
        """``"data"`` or ``"compute"``."""
        return toml_parts.text_of(self._member(), "role", "member.toml")

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
        return Identity.from_seed(_read_secret(self.path / "identity.key"))

    def randomness(self) -> Randomness:
        """Return the source of noise: the operating system, or a stored key where the folder was made for tests."""
        path = self.path / "test.key"
        if not path.exists():
            return SystemRandomness()
        return KeyedRandomness(hashlib.sha256(_read_secret(path) + self.name.encode()).digest())

    def budget(self) -> "cn.Budget":
        """Return the cap in the policy file."""
        return toml_parts.budget_of(toml_parts.table_of(self._policy_file(), "budget", "policy.toml"))

    def policy(self) -> "cn.Policy":
        """Return the rules in the policy file."""
        return toml_parts.policy_of(toml_parts.as_table(self._policy_file().get("policy", {}), "policy"), "policy.toml")

    def _policy_file(self) -> toml_parts.Table:
        document = toml_parts.parse(self.path / "policy.toml")
        toml_parts.refuse_unknown(document, ("budget", "policy"), "policy.toml")
        return document

    def _schema_file(self) -> toml_parts.Table:
        document = toml_parts.parse(self.path / "schema.toml")
        toml_parts.refuse_unknown(document, ("data", "id", "cohort", "columns", *toml_parts.READING), "schema.toml")
        return document

    def schema(self) -> cn.Schema:
        """Return the public schema."""
        columns = toml_parts.table_of(self._schema_file(), "columns", "schema.toml")
        described = {
            name: toml_parts.column_of(f"schema.toml: columns.{name}", entry) for name, entry in columns.items()
        }
        return toml_parts.within("schema.toml", lambda: cn.Schema(described))

    def party(self, data: Path | None = None) -> "cn.Party":
        """Return the table and its schema, not opened: that of schema.toml, or another file that would take its place."""
        settings = self._schema_file()
        named = settings.get("data")
        paths = [self.path / path for path in ([named] if isinstance(named, str) else named or [])]
        files = [data] if data is not None else paths
        reading = toml_parts.reading_of(settings, "schema.toml")
        return cn.Party(files[0] if len(files) == 1 else files, schema=self.schema(), **reading)

    def check(self, data: Path | None = None) -> "TableCheck":
        """Return what the owner should know about the table; for the owner alone."""
        return self.party(data).check(toml_parts.text_of(self._schema_file(), "id", "schema.toml"))

    def ledger(self, *, change_cap: bool = False) -> "SqliteLedger":
        """Open the ledger, or make one; refuse a cap that differs from the policy file's unless it is to be recorded."""
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
                    "The ledger has another cap than policy.toml.",
                    remedy="Correct [budget] in policy.toml, or record the new cap: colonnade party serve --change-cap.",
                )
            ledger.set_budget(budget)
        return ledger

    def card(self) -> agreement.Signatory:
        """Return what is public about this member, for the federation's papers; makes the ledger if there is none."""
        identity = self.identity().public.hex()
        if self.role == "compute":
            return agreement.Signatory(role="compute", identity=identity)
        with self.ledger() as ledger:
            number = ledger.identity
        return agreement.Signatory(
            role="data", identity=identity, ledger=number, schema=codec.schema_digest(self.schema())
        )

    def card_text(self) -> str:
        """Return the card as TOML."""
        entries = {"name": self.name, **msgspec.structs.asdict(self.card())}
        return "\n".join(f"{key} = {json.dumps(value)}" for key, value in entries.items() if value)

    # Opening it ---------------------------------------------------------------------------------------------------------

    def guard(self, *, change_cap: bool = False) -> "Guard | ComputeNode":
        """Open table, policy and ledger behind a guard, on the terms of the federation's papers."""
        from colonnade.service import served_party

        papers = agreement.read_agreement(self.papers)
        noise = self.randomness()
        if noise.deterministic:
            noise.bytes(32)  # skip the identity's bytes: what follows is what a simulated party draws
        if self.role == "compute":
            return served_party.serve_node(
                self.name, papers, identity=self.identity(), folder=self.path, randomness=noise
            )
        settings = self._schema_file()
        column = toml_parts.text_of(settings, "id", "schema.toml")
        party = self.party()
        return served_party.serve_party(
            self.name,
            party,
            papers,
            identity=self.identity(),
            ledger=self.ledger(change_cap=change_cap),
            policy=self.policy(),
            id=column,
            cohort=served_party.cohort_of(self.path / settings["cohort"], column) if "cohort" in settings else None,
            folder=self.path,
            randomness=noise,
        )


def _template(column: str, kinds: Iterable[object]) -> str:
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


def _write_secret(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())


def _read_secret(path: Path) -> bytes:
    try:
        if path.stat().st_mode & 0o077:
            raise BadInput(f"{path.name} can be read by other users of this machine.", remedy=f"chmod 600 {path.name}")
        return bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path.name} is missing or damaged.", remedy="Restore it from your copy of the key.") from None
