"""A study file: who takes part, with which data and bounds, under which cap, and which studies are run.

The whole file is checked before any data is opened, and every unknown key is refused: a misspelt ``delta`` or
``max_epsilon`` that is silently ignored would change a guarantee. Paths are relative to the file.

*Narrower bounds* (``[tighten]``) are paid for before the studies. A preview reads no data, so it cannot know bounds that nobody
has released yet. It prices them like any other study, because they rest on the release of a `Describe` with the same columns and
price, and previews the other studies with the declared bounds.

*Previews* are priced at parties without tables (`colonnade.party.party`). No row is read and nothing is drawn. What a run has
fixed, the names and sizes of row orders, is kept beside the ledgers (``orders.json``), and previews use it. Before the first run
nobody knows how many people all parties have, and no id is read to find out. Figures are then for the declared capacity, or else
for `ASSUMED_PEOPLE`, and the preview says so.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

import colonnade as cn
from colonnade.constraints import Optional, Real, Whole, checked
from colonnade.coordinator.alignment import alignment_plan
from colonnade.errors import BadInput, BudgetExceeded
from colonnade.estimators.answers import Preview, budget_after
from colonnade.estimators.study import Study
from colonnade.estimators.synthetic import LARGEST_ROWS, SyntheticTable, require_format
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.party import StandIn
from colonnade.party.table.sources import memory_limit
from colonnade.plan import About
from colonnade.privacy.accounting import NOTHING, Loss, of_several
from colonnade.protocol.messages import Accounted
from colonnade.runtime.private_files import replace_file
from colonnade.schema import Schema
from colonnade.service import study_keys, toml_parts
from colonnade.service.toml_parts import within
from colonnade.steps.alignment import IdRules

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
        if not change_cap:
            self.refuse_another_cap()
        if not spend and self.align is not None and "all" not in self.kept_orders():
            raise BadInput(  # matching lists on copies of ledgers would be a release that no ledger records
                "The rows of this file have not been matched yet, so none of its studies has been run.",
                remedy="Run the file first: colonnade run STUDY.",
            )
        with self.ledgers(spend=spend) as folder:
            aligned = self.align is None
            with self.simulated(parties, folder, change_cap=change_cap, aligned=aligned) as federation:
                if self.align is not None:
                    federation.align(**self.align)
                self._keep_orders({"all": federation})
                yield federation

    def simulated(self, parties: "Mapping[str, cn.Party | StandIn]", ledger_dir: Path, **more: Any) -> "cn.Federation":
        """Return the file's federation, of these parties and with ledgers in this folder."""
        return cn.Federation.simulate(
            parties,
            id=self.id,
            budget=self.budget,
            compute_nodes=self.compute_nodes,
            committee=self.committee,
            collusion=self.collusion,
            policies={name: member.policy for name, member in self.members.items() if member.policy is not None},
            ledger_dir=ledger_dir,
            analyst=self.analyst,
            **more,
        )

    # Which row orders a run has fixed: public, and kept beside the ledgers for previews

    def kept_orders(self) -> dict[str, Order]:
        """Return the row orders that a run of this file has fixed, by ``"all"``, ``"train"`` and ``"test"``; those it has."""
        try:
            kept = self._orders_file().get(self._asked_rows(), {})
            return {name: Order(str(one), int(people), bool(union)) for name, (one, people, union) in kept.items()}
        except (ValueError, TypeError, AttributeError):
            return {}

    def _orders_file(self) -> Any:
        try:
            return json.loads((self.ledger_dir / ORDERS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    def _keep_orders(self, federations: "Mapping[str, cn.Federation]") -> None:
        orders = {name: (one._driver.alignment, one.people, one._driver.union) for name, one in federations.items()}
        known = {name: Order(*one) for name, one in orders.items()}.items() <= self.kept_orders().items()
        if known or not self.ledger_dir.is_dir():
            return
        kept, key = self._orders_file(), self._asked_rows()
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
        if not spend:  # declaring a new version of data writes to ledgers: a preview writes to copies
            with tempfile.TemporaryDirectory(prefix="colonnade-preview-") as folder:
                if any(path.exists() for path in self._files().values()):
                    shutil.copytree(self.ledger_dir, Path(folder) / "ledgers")  # its mode is not the folder's above it
                yield Path(folder) / "ledgers"
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
        compute_nodes=_names(document, "compute_nodes"),
        committee=_names(document, "committee") or None,
        collusion=_whole(document, "collusion", "the file", low=0),
        title=_line(document, "title", "the file"),
        **_asked(document, folder),
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
        **_asked(document, here),
    )


def _asked(document: toml_parts.Table, folder: Path) -> dict[str, Any]:
    """Read what both kinds of file say: how people are matched, divided and bounded, the studies, and who asks."""
    return {
        "align": _taken(document, "align", study_keys.ALIGN),
        "split": _split(document),
        "tighten": _taken(document, "tighten", study_keys.TIGHTEN),
        "studies": _studies(document, folder),
        "analyst": _path(document, "analyst", folder),
    }


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
    share = checked("split.test", entry.get("test"), Real(0, 1, closed="neither"), remedy="For example test = 0.2.")
    return {"test": share, "repeat": _whole(entry, "repeat", "split")}


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
    version = _whole(entry, "version", where)
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
        _whole(entry, "repeat", where),
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
    limit = Optional(Whole(1, LARGEST_ROWS))
    rows = checked(f"{where}.rows", entry.get("rows"), limit, remedy="For example rows = 10000.")
    return path, rows


def _whole(entry: toml_parts.Table, name: str, where: str, low: int = 1) -> int:
    """Read a whole number; 1 where there is none."""
    return int(checked(f"{where}.{name}", entry.get(name, 1), Whole(low), remedy=f"For example {name} = {low + 1}."))


@dataclass(frozen=True)
class FilePreview:
    """The previews of a file's studies, and what they would cost together.

    Parameters
    ----------
    previews
        Each study, and its preview.
    accounts
        The parties' accounts now.
    charges
        What all studies together would still be debited, by party. What is paid for before costs nothing again, and a study that
        the file has twice is paid once.
    """

    previews: tuple[tuple[StudyEntry, Preview], ...]
    accounts: Mapping[str, Accounted]
    charges: Mapping[str, Loss]

    def table(self) -> pd.DataFrame:
        """Return one row per party: what it has spent, what this file would add, what would then remain, and its cap."""
        now, then = budget_after(self.accounts, {}), budget_after(self.accounts, self.charges)
        added = {party: self.charges[party].epsilon(reply.cap_delta) for party, reply in self.accounts.items()}
        return pd.DataFrame(
            {
                "spent": now["spent"],
                "this file": pd.Series(added),
                "would remain": then["remaining"].where(pd.Series({party: self._fits(party) for party in then.index})),
                "cap": now["epsilon"],
            }
        ).rename_axis("party")

    def require_room(self) -> None:
        """Refuse a file whose studies do not fit a party's budget together."""
        short = [party for party in self.accounts if not self._fits(party)]
        if not short:
            return
        row = self.table().loc[short[0]]
        asking = [entry.title for entry, preview in self.previews if preview.charges.get(short[0], NOTHING) != NOTHING]
        raise BudgetExceeded(
            f"The {len(asking)} studies of this file that ask {short[0]!r} do not fit its budget together: they would add "
            f"ε={row['this file']:.4g}, and it has spent ε={row['spent']:.4g} of ε={row['cap']:.4g}.",
            remedy=f"Lower their epsilon, or leave one of them out ({', '.join(asking)}). `colonnade preview` shows the charges.",
        )

    def _fits(self, party: str) -> bool:
        reply = self.accounts[party]
        after = of_several((Loss.from_bytes(reply.spent), self.charges[party]))
        return after.fits(reply.cap_nano, reply.cap_delta)


def preview_studies(studies: Iterable[StudyEntry], federation: "cn.Federation") -> FilePreview:
    """Preview all studies of a file. A mistake in one of them is refused here; the error says which study it is in."""
    previews = tuple((entry, _preview(entry, federation)) for entry in studies)
    accounts = federation._driver.accounts()
    unpaid: dict[str, dict[bytes, Loss]] = {party: {} for party in accounts}
    for number, (_, preview) in enumerate(previews):
        for party, steps in preview.unpaid.items():
            unpaid[party] |= {key: loss.of_plan(b"plan %d" % number) for key, loss in steps.items()}
    charges = {party: sum(steps.values(), start=NOTHING) for party, steps in unpaid.items()}
    return FilePreview(previews, accounts, charges)


def _preview(entry: StudyEntry, federation: "cn.Federation") -> Preview:
    return within(entry.title, lambda: entry.estimator.preview(federation, repeat=entry.repeat))


TITLE = "Narrower bounds"


@dataclass(frozen=True)
class Bounds:
    """The narrower bounds that a study file asks for.

    Parameters
    ----------
    asked
        The table ``[tighten]``, as `Federation.tightened` takes it; ``None`` keeps the declared bounds.
    federation
        The people that studies are fitted on.
    """

    asked: Mapping[str, Any] | None
    federation: "cn.Federation"

    def entry(self) -> StudyEntry | None:
        """Return the release that they rest on, as a study; ``None`` without a table."""
        if self.asked is None:
            return None
        described = self.federation.describe(self.asked.get("columns"))
        numbers = [name for name, column in described.items() if column.is_measured]
        price = {key: self.asked[key] for key in ("epsilon", "delta", "unit") if key in self.asked}
        return StudyEntry(
            TITLE, within("tighten", lambda: cn.Describe(numbers, **price)), self.asked.get("repeat", 1), ""
        )

    @property
    def released(self) -> bool:
        """Whether the bounds have been paid for, so that asking for them again is free."""
        entry = self.entry()
        if entry is None:
            return True
        plan = entry.estimator.prepared(self.federation, entry.repeat)[1]
        return not any(self.federation._driver.quote(plan).unpaid.values())

    def with_bounds(self, studies: Sequence[StudyEntry]) -> tuple[StudyEntry, ...]:
        """Return the studies of a file, behind that of the bounds."""
        entry = self.entry()
        return (*studies,) if entry is None else (entry, *studies)

    def if_released(self) -> "cn.Federation":
        """Return the federation with narrower bounds if these are free; as it is otherwise."""
        return self.tightened() if self.released else self.federation

    def paid(self, studies: Sequence[StudyEntry]) -> "cn.Federation":
        """Pay for the bounds and return the federation with them. Refuse first if bounds and studies do not fit a budget."""
        if not self.released:
            preview_studies(self.with_bounds(studies), self.federation).require_room()
        return self.tightened()

    def tightened(self) -> "cn.Federation":
        """Return the federation with narrower bounds."""
        if self.asked is None:
            return self.federation
        asked = dict(self.asked)
        if isinstance(asked.get("quantiles"), list):
            asked["quantiles"] = tuple(asked["quantiles"])
        return within("tighten", lambda: self.federation.tightened(**asked))


ASSUMED_PEOPLE = 10_000
"""People in a preview of rows that no run has matched yet, where no capacity is declared."""

_RULES = ("kind", "form", "strip", "case")


@dataclass(frozen=True)
class PreviewedPeople:
    """Whom a preview is about: everybody, those that studies are fitted on, and whether that is known or assumed."""

    everybody: Order
    fitted: Order
    known: bool


def preview_of(file: StudyFile) -> tuple[FilePreview, PreviewedPeople]:
    """Return what a file's studies would cost, and whom the figures are about."""
    file.refuse_another_cap()
    with file.ledgers(spend=False) as folder:
        people, matching = _people(file, folder)
        with _stand_ins(file, folder, people.fitted) as federation:
            bounds = Bounds(file.tighten, federation)
            asked = file.studies if bounds.released else bounds.with_bounds(file.studies)
            found = preview_studies(asked, bounds.if_released())
    charges = {party: found.charges[party] + matching.get(party, NOTHING) for party in found.charges}
    return replace(found, charges=charges), people


def _people(file: StudyFile, folder: Path) -> tuple[PreviewedPeople, Mapping[str, Loss]]:
    """Return who takes part, and what matching their lists would cost."""
    kept, known = file.kept_orders(), True
    matching: Mapping[str, Loss] = {}
    if "all" in kept:
        everybody = kept["all"]
    else:
        everybody, matching = _to_be_matched(file, folder, file.align)
        known = file.align is not None and file.align.get("mode") == "cohort"
    if file.split is None:
        return PreviewedPeople(everybody, everybody, known), matching
    share = round(everybody.people * (1 - file.split["test"]))
    fitted = kept.get("train") or Order("to be divided", max(1, share), everybody.union)
    return PreviewedPeople(everybody, fitted, known), matching


def _to_be_matched(file: StudyFile, folder: Path, align: Mapping[str, Any] | None) -> tuple[Order, Mapping[str, Loss]]:
    """Return an order of assumed size, and what fixing it would cost each party: nothing without ``[align]``."""
    if align is None:
        with _stand_ins(file, folder, Order("unaligned", 0)) as federation:
            people = min(reply.capacity for reply in federation._driver.descriptions().values())
        return Order("to be matched", people), {}
    asked: dict[str, Any] = {
        "mode": "intersection",
        "epsilon": None,
        "size": None,
        "capacity": None,
        "repeat": 1,
        **align,
    }
    rules = IdRules(**{name: asked.pop(name) for name in _RULES if name in asked})
    listed = asked.pop("ids", None)
    with _stand_ins(file, folder, Order("unaligned", 0)) as federation:
        described = federation._driver.descriptions()
        _, plan, _ = alignment_plan(
            federation._driver, described, cohort=listed, rules=rules, announce=lambda _: None, **asked
        )
        quote = federation._driver.quote(plan)
        charges = {party: quote.charge(party) for party in plan.parties}
    lengths = [reply.capacity for reply in described.values()]
    people = {"cohort": len(set(map(str, listed or ()))), "union": sum(lengths)}.get(asked["mode"], min(lengths))
    return Order("to be matched", people, asked["mode"] == "union"), charges


def _stand_ins(file: StudyFile, folder: Path, order: Order) -> "cn.Federation":
    least = max([ASSUMED_PEOPLE, *(one.policy.min_people for one in file.members.values() if one.policy is not None)])
    given = (file.align or {}).get("capacity")
    capacities = given if isinstance(given, Mapping) else dict.fromkeys(file.members, given)
    parties = {
        name: StandIn(
            member.schema, member.version, order.identity, order.people, order.union, capacities.get(name) or least
        )
        for name, member in file.members.items()
    }
    return file.simulated(parties, folder)
