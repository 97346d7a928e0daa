"""A study file: who takes part, with which data and bounds, under which cap, and which studies are run.

The whole file is checked before any data is opened, and every unknown key is refused: a misspelt ``delta`` or
``max_epsilon`` that is silently ignored would change a guarantee. Paths are relative to the file.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import colonnade as cn
from colonnade.errors import BadInput
from colonnade.estimators.study import Study
from colonnade.estimators.synthetic import LARGEST_ROWS, SyntheticTable
from colonnade.estimators.synthetic_file import require_format
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.table.databases import memory_limit
from colonnade.plan import About
from colonnade.private_files import replace_file
from colonnade.schema import Schema
from colonnade.service import study_keys, toml_parts

__all__ = ["CoordinatorFile", "Order", "PartyEntry", "StudyEntry", "StudyFile", "read", "read_for_coordinator"]

ORDERS = "orders.json"
"""Where the names and sizes of row orders are kept, in the folder of the ledgers."""


@dataclass(frozen=True)
class PartyEntry:
    """One party: its data, its public schema, its policy if it has one of its own, the declared version of its data, how its CSV
    files are written, and how many bytes of memory it may use for a table that is larger.
    """

    data: tuple[Path, ...]
    schema: Schema
    policy: "cn.Policy | None" = None
    version: int = 1
    reading: Mapping[str, str] = field(default_factory=dict)
    memory: int | None = None

    def party(self) -> "cn.Party":
        """Return the party."""
        data = self.data[0] if len(self.data) == 1 else list(self.data)
        return cn.Party(data, schema=self.schema, version=self.version, memory=self.memory, **self.reading)


@dataclass(frozen=True)
class StudyEntry:
    """One ``[[study]]``: an estimator with its parameters, the number of its draw (``repeat``), and what it is for.

    A synthetic table also has the file that its rows are written to, and how many rows there are.
    """

    title: str
    estimator: Study
    repeat: int = 1
    purpose: str = ""
    table: Path | None = None
    rows: int | None = None

    def asked_of(self, federation: "cn.Federation") -> "cn.Federation":
        """Return the federation with this study's title and purpose, which the parties keep in their ledgers."""
        return federation.asking(title=self.title, purpose=self.purpose)

    def write_table(self) -> Path | None:
        """Write the rows of a fitted synthetic table where the file says so; return that path."""
        if self.table is not None and isinstance(self.estimator, SyntheticTable):
            self.estimator.write(self.table, n=self.rows)
        return self.table


@dataclass(frozen=True)
class Order:
    """What a coordinator knows of a row order: its name, how many places it has, and whether they are those of a union."""

    identity: str
    people: int
    union: bool = False


@dataclass(frozen=True)
class StudyFile:
    """A checked study file.

    Parameters
    ----------
    id, budget, ledger_dir, members
        The federation, as `Federation.simulate` takes it.
    studies
        What is asked of it, in order.
    align
        How rows are aligned, as `Federation.align` takes it; ``None`` takes the common ids in the clear.
    split
        Who is held out, as `Federation.split` takes it; ``None`` holds nobody out.
    tighten
        Narrower bounds, as `Federation.tightened` takes them; ``None`` keeps the declared ones.
    compute_nodes, committee, collusion
        As `Federation.simulate` takes them.
    title
        What the file is about; empty where it does not say.
    analyst
        The file of the analyst's key; ``None`` where nobody signs what is asked.
    """

    id: str | Mapping[str, str]
    budget: "cn.Budget"
    ledger_dir: Path
    members: Mapping[str, PartyEntry]
    studies: tuple[StudyEntry, ...]
    align: Mapping[str, Any] | None = None
    split: Mapping[str, Any] | None = None
    tighten: Mapping[str, Any] | None = None
    compute_nodes: tuple[str, ...] = ()
    committee: tuple[str, ...] | None = None
    collusion: int = 1
    title: str = ""
    analyst: Path | None = None

    def parts(self, federation: "cn.Federation") -> "tuple[cn.Federation, cn.Federation]":
        """Return the people that studies are fitted on, and those that models are evaluated on: all, without a ``[split]``."""
        if self.split is None:
            return federation, federation
        train, test = federation.split(**self.split)
        self._keep_orders({"train": train, "test": test})
        return train, test

    def require_part(self, name: str) -> None:
        """Refuse a part of the people that the file does not have; they are ``"all"``, ``"train"`` and ``"test"``."""
        if name not in ("all", "train", "test") or (name != "all" and self.split is None):
            raise BadInput(
                f"This study file has no part {name!r}.",
                remedy="Use --part all, or add [split] with test = 0.2 to the study file.",
            )

    def part(self, federation: "cn.Federation", name: str) -> "cn.Federation":
        """Return one part of the people."""
        self.require_part(name)
        return federation if name == "all" else self.parts(federation)[name == "test"]

    @contextmanager
    def federation(self, *, spend: bool, change_cap: bool = False) -> "Iterator[cn.Federation]":
        """Open every party.

        Parameters
        ----------
        spend
            Whether studies will run; otherwise only what is paid for is asked again, on copies of the ledgers.
        change_cap
            Whether ledgers that exist may be given the file's budget as their new cap; otherwise another cap is
            refused, so that a typing error cannot raise it.
        """
        parties = {name: member.party() for name, member in self.members.items()}
        policies = {name: member.policy for name, member in self.members.items() if member.policy is not None}
        if not change_cap:
            self.refuse_another_cap()
        if not spend and self.align is not None and "all" not in self.kept_orders():
            raise BadInput(  # matching lists on copies of ledgers would be a release that no ledger records
                "The rows of this file have not been matched yet, so none of its studies has been run.",
                remedy="Run the file first: colonnade run STUDY.",
            )
        with self.ledgers(spend=spend) as folder:
            federation = cn.Federation.simulate(
                parties,
                id=self.id,
                budget=self.budget,
                compute_nodes=self.compute_nodes,
                committee=self.committee,
                collusion=self.collusion,
                policies=policies,
                ledger_dir=folder,
                analyst=self.analyst,
                change_cap=change_cap,
                aligned=self.align is None,
            )
            with federation:
                if self.align is not None:
                    federation.align(**self.align)
                self._keep_orders({"all": federation})
                yield federation

    # Which row orders a run has fixed: public, and kept beside the ledgers for previews

    def kept_orders(self) -> dict[str, Order]:
        """Return the row orders that a run of this file has fixed, by ``"all"``, ``"train"`` and ``"test"``; those it has."""
        try:
            kept = json.loads((self.ledger_dir / ORDERS).read_text(encoding="utf-8")).get(self._asked_rows(), {})
            return {name: Order(str(one), int(people), bool(union)) for name, (one, people, union) in kept.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _keep_orders(self, federations: "Mapping[str, cn.Federation]") -> None:
        orders = {name: (one.alignment, one.people, one.union) for name, one in federations.items()}
        if (
            not self.ledger_dir.is_dir()
            or {name: Order(*one) for name, one in orders.items()}.items() <= self.kept_orders().items()
        ):
            return
        try:
            kept = json.loads((self.ledger_dir / ORDERS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            kept = {}
        key = self._asked_rows()
        replace_file(self.ledger_dir / ORDERS, json.dumps({**kept, key: {**kept.get(key, {}), **orders}}).encode())

    def _asked_rows(self) -> str:
        """Name what row orders follow from: the ids, how they are matched and divided, and the version of every table."""
        versions = {name: [member.version, list(map(str, member.data))] for name, member in self.members.items()}
        asked = json.dumps([self.id, versions, self.align, self.split], sort_keys=True, default=str)
        return hashlib.sha256(asked.encode()).hexdigest()

    def _files(self) -> dict[str, Path]:
        return {name: self.ledger_dir / f"{name}.sqlite" for name in self.members}

    def refuse_another_cap(self) -> None:
        """Refuse a file whose budget is not the cap that its ledgers have."""
        for name, path in self._files().items():
            if not path.exists():
                continue
            with SqliteLedger.open(path, party=name) as ledger:
                cap = ledger.budget
            if (cap.nano, cap.delta) != (self.budget.nano, self.budget.delta):
                raise BadInput(
                    f"The ledger of {name!r} has another cap (ε={cap.epsilon:g}, δ={cap.delta:g}) than [budget].",
                    remedy="Correct [budget], or record the new cap with `colonnade run --change-cap`.",
                )

    @contextmanager
    def ledgers(self, *, spend: bool) -> Iterator[Path]:
        """Give the folder of the ledgers; unless something is to be spent, one with copies of them, or an empty one."""
        if not spend and not any(path.exists() for path in self._files().values()):
            with tempfile.TemporaryDirectory(prefix="colonnade-preview-") as folder:
                yield Path(folder)
            return
        if not spend:  # declaring a new version of data writes to ledgers: a preview writes to copies
            with tempfile.TemporaryDirectory(prefix="colonnade-preview-") as folder:
                yield Path(shutil.copytree(self.ledger_dir, Path(folder) / "ledgers"))
            return
        try:
            self.ledger_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            raise BadInput(
                "The folder for the ledgers cannot be made.", remedy="Correct ledger_dir, or its permissions."
            ) from None
        yield self.ledger_dir


def read(path: Path) -> StudyFile:
    """Read and check a study file; no data is opened."""
    text = toml_parts.text_in(path)
    with toml_parts.saying_lines(text, path.name):
        return _study_file(toml_parts.parse_text(text, path.name), path.parent)


def _study_file(document: toml_parts.Table, folder: Path) -> StudyFile:
    toml_parts.refuse_unknown(document, study_keys.names(study_keys.FILE), "the file")
    members = toml_parts.table_of(document, "parties", "the file")
    return StudyFile(
        id=_id(document, members),
        budget=toml_parts.budget_of(toml_parts.table_of(document, "budget", "the file")),
        ledger_dir=folder / toml_parts.text_of(document, "ledger_dir", "the file"),
        members={
            name: _member(name, toml_parts.as_table(entry, f"parties.{name}"), folder)
            for name, entry in members.items()
        },
        studies=_studies(document, folder),
        align=_taken(document, "align", study_keys.ALIGN),
        split=_split(document),
        compute_nodes=_names(document, "compute_nodes"),
        committee=_names(document, "committee") or None,
        tighten=_taken(document, "tighten", study_keys.TIGHTEN),
        collusion=_collusion(document),
        title=_line(document, "title", "the file"),
        analyst=_path(document, "analyst", folder),
    )


@dataclass(frozen=True)
class CoordinatorFile:
    """A checked study file of a federation of separate machines.

    Parameters
    ----------
    federation, kit, state, listen
        Where papers, kit and state are, and what the coordinator listens on, as `Federation.connect` takes them.
    align, split, tighten
        How rows are aligned, who is held out and which bounds are narrowed, as in `StudyFile`; without ``align`` the order in
        the papers is kept.
    studies
        What is asked, in order.
    analyst
        The file of the analyst's key.
    """

    federation: Path
    kit: Path | None
    state: Path
    listen: str | None
    align: Mapping[str, Any] | None
    split: Mapping[str, Any] | None
    tighten: Mapping[str, Any] | None
    studies: tuple[StudyEntry, ...]
    analyst: Path | None = None


def read_for_coordinator(path: Path, text: str) -> CoordinatorFile:
    """Read and check a coordinator's study file; ``text`` may be the copy that the journal kept."""
    with toml_parts.saying_lines(text, path.name):
        return _coordinator_file(toml_parts.parse_text(text, path.name), path.parent)


def _coordinator_file(document: toml_parts.Table, here: Path) -> CoordinatorFile:
    toml_parts.refuse_unknown(document, study_keys.names(study_keys.COORDINATOR_FILE), "the file")
    papers = here / toml_parts.text_of(document, "federation", "the file")
    return CoordinatorFile(
        federation=papers,
        kit=_path(document, "kit", here),
        state=_path(document, "state", here) or papers.parent / "coordinator-state",
        listen=toml_parts.text_of(document, "listen", "the file") if "listen" in document else None,
        align=_taken(document, "align", study_keys.ALIGN),
        split=_split(document),
        tighten=_taken(document, "tighten", study_keys.TIGHTEN),
        studies=_studies(document, here),
        analyst=_path(document, "analyst", here),
    )


def _path(document: toml_parts.Table, name: str, folder: Path) -> Path | None:
    """Read a path, relative to the file; ``None`` where there is none."""
    return folder / toml_parts.text_of(document, name, "the file") if name in document else None


def _taken(document: toml_parts.Table, name: str, keys: Iterable[study_keys.Key]) -> dict[str, Any] | None:
    """Read a table that is handed on as it is, such as ``[align]``; ``None`` where the file has none."""
    if name not in document:
        return None
    entry = toml_parts.as_table(document[name], name)
    toml_parts.refuse_unknown(entry, study_keys.names(keys), name)
    return dict(entry)


def _split(document: toml_parts.Table) -> dict[str, Any] | None:
    """Read ``[split]``: the share of people that is held out, and which division it is."""
    entry = _taken(document, "split", study_keys.SPLIT)
    if entry is None:
        return None
    share = entry.get("test")
    if not isinstance(share, float) or not 0 < share < 1:
        raise BadInput("split.test is a share of people between 0 and 1.", remedy="For example test = 0.2.")
    return {"test": share, "repeat": _repeat(entry.get("repeat", 1), "split")}


def _id(document: toml_parts.Table, members: toml_parts.Table) -> str | dict[str, str]:
    """Read ``id``: the name of the id column, or a table with one name per party."""
    entry = document.get("id")
    if not isinstance(entry, Mapping):
        return toml_parts.text_of(document, "id", "the file")
    toml_parts.refuse_unknown(entry, members, "id")
    return {name: toml_parts.text_of(entry, name, "id") for name in members}


def _names(document: toml_parts.Table, key: str) -> tuple[str, ...]:
    entry = document.get(key, [])
    if not isinstance(entry, list) or not all(isinstance(name, str) and name for name in entry):
        raise BadInput(f"{key} is a list of names.", remedy=f'For example {key} = ["auditor"].')
    return tuple(entry)


def _collusion(document: toml_parts.Table) -> int:
    entry = document.get("collusion", 1)
    if type(entry) is not int or entry < 0:
        raise BadInput("collusion is a whole number, zero or more.", remedy="For example collusion = 1.")
    return entry


def _line(entry: toml_parts.Table, name: str, where: str) -> str:
    """Read a line of words, such as a title or a purpose; empty where there is none."""
    if name not in entry:
        return ""
    words = toml_parts.text_of(entry, name, where)
    about = {"title": lambda: About(title=words), "purpose": lambda: About(purpose=words)}[name]
    toml_parts.within(f"{where}: {name}", about)  # refuses what is too long, or more than one line
    return words


def _member(name: str, entry: toml_parts.Table, folder: Path) -> PartyEntry:
    where = f"parties.{name}"
    toml_parts.refuse_unknown(entry, study_keys.names(study_keys.MEMBER), where)
    paths = entry.get("data")
    paths = [paths] if isinstance(paths, str) else paths
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        raise BadInput(f"{where} needs data.", remedy='For example data = "bank.parquet", or a list of such paths.')
    columns = toml_parts.table_of(entry, "columns", where)
    schema = {
        column: toml_parts.column_of(f"{where}.columns.{column}", described) for column, described in columns.items()
    }
    policy = toml_parts.policy_of(toml_parts.as_table(entry["policy"], where), where) if "policy" in entry else None
    version = entry.get("version", 1)
    if type(version) is not int or version < 1:
        raise BadInput(f"{where}.version is a whole number from 1.", remedy="For example version = 2 for new data.")
    public = toml_parts.within(where, lambda: Schema(schema))
    reading = toml_parts.reading_of(entry, where)
    memory = toml_parts.within(f"{where}.memory", lambda: memory_limit(entry.get("memory")))
    return PartyEntry(tuple(folder / path for path in paths), public, policy, version, reading, memory)


def _studies(document: toml_parts.Table, folder: Path) -> tuple[StudyEntry, ...]:
    """Read every ``[[study]]`` of a file; paths in it are relative to the folder."""
    entries = document.get("study")
    if not isinstance(entries, list) or not entries:
        raise BadInput("The file has no [[study]].", remedy="Add a [[study]] table that names an estimator.")
    purpose = _line(document, "purpose", "the file")
    return tuple(
        _study_entry(toml_parts.as_table(entry, "study"), number, purpose, folder)
        for number, entry in enumerate(entries, start=1)
    )


def _study_entry(entry: toml_parts.Table, number: int, purpose: str, folder: Path) -> StudyEntry:
    where = f"study {number}"
    kinds = study_keys.estimators()
    name = toml_parts.text_of(entry, "estimator", where)
    if name not in kinds:
        raise BadInput(f"{where}: there is no estimator {name!r}.", remedy=toml_parts.suggestion(name, kinds))
    kind = kinds[name]
    keys = study_keys.described(kind)
    toml_parts.refuse_unknown(entry, study_keys.names((*study_keys.STUDY, *keys)), f"{where} ({name})")
    given = {key: value for key, value in entry.items() if key in study_keys.names(keys)}
    for key in keys:
        if key.required and key.name not in given:
            raise BadInput(f"{where}: {name} needs {key.name}.", remedy=f"Add {key.name} = … to the table.")
    return StudyEntry(
        _line(entry, "title", where) or f"{number}. {name}",
        toml_parts.within(where, lambda: kind(**given)),
        _repeat(entry.get("repeat", 1), where),
        _line(entry, "purpose", where) or purpose,
        *_table(entry, kind, where, folder),
    )


def _table(entry: toml_parts.Table, kind: type[Study], where: str, folder: Path) -> tuple[Path | None, int | None]:
    """Read where the rows of a synthetic table are written, and how many there are."""
    given = [name for name in ("table", "rows") if name in entry]
    if given and not issubclass(kind, SyntheticTable):
        raise BadInput(
            f"{where}: {kind.__name__} has no {given[0]} to write.",
            remedy="Leave it out. `colonnade run --output` writes results of every kind.",
        )
    if given == ["rows"]:
        raise BadInput(f"{where}: rows needs table.", remedy='For example table = "people.parquet".')
    if not given:
        return None, None
    path = folder / toml_parts.text_of(entry, "table", where)
    toml_parts.within(where, lambda: require_format(path))
    rows = entry.get("rows")
    if rows is not None and (type(rows) is not int or not 1 <= rows <= LARGEST_ROWS):
        raise BadInput(f"{where}: rows is a whole number from 1.", remedy="For example rows = 10000, or leave it out.")
    return path, rows


def _repeat(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"{where}: repeat must be a positive whole number.", remedy="Write repeat = 1, or leave it out.")
    return value
