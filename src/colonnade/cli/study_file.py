"""Reads ``study.toml``: who takes part, with which data and bounds, under which cap, and what is asked of them.

The whole file is checked before any data is opened, and every unknown key is refused: a misspelt ``delta`` or
``max_epsilon`` that is silently ignored would change a guarantee. Paths are relative to the file.
"""

import difflib
import inspect
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from colonnade.errors import BadInput, BoundsRequired, ColonnadeError
from colonnade.schema import Category, Column, Numeric, Schema

if TYPE_CHECKING:
    from colonnade.coordinator.federation import Federation

__all__ = ["Asked", "Member", "StudyFile", "read"]

Table = Mapping[str, Any]
Part = TypeVar("Part")


@dataclass(frozen=True)
class Member:
    """One party: its data, its public schema, its policy if it has one of its own."""

    data: tuple[Path, ...]
    schema: Schema
    policy: Any = None


@dataclass(frozen=True)
class Asked:
    """One ``[[study]]``: an estimator with its parameters, and which draw of it."""

    title: str
    estimator: Any
    repeat: int = 1


@dataclass(frozen=True)
class StudyFile:
    """A checked study file.

    Parameters
    ----------
    id, budget, ledger_dir, members
        The federation, as `Federation.simulate` takes it.
    studies
        What is asked of it, in order.
    """

    id: str
    budget: Any
    ledger_dir: Path
    members: Mapping[str, Member]
    studies: tuple[Asked, ...]

    @contextmanager
    def federation(self, *, spend: bool, change_cap: bool = False) -> "Iterator[Federation]":
        """Open every party.

        Parameters
        ----------
        spend
            Whether studies will run. A preview of a file without ledgers yet shows fresh ones and leaves none behind.
        change_cap
            Whether ledgers that exist may be given the file's budget as their new cap; otherwise another cap is
            refused, since a slip of the pen must not raise it.
        """
        import colonnade as cn

        parties = {name: cn.Party(_paths(member.data), schema=member.schema) for name, member in self.members.items()}
        policies = {name: member.policy for name, member in self.members.items() if member.policy is not None}
        if not change_cap:
            self._refuse_another_cap()
        with self._ledgers(spend=spend) as folder:
            federation = cn.Federation.simulate(
                parties, id=self.id, budget=self.budget, policies=policies, ledger_dir=folder
            )
            with federation:
                yield federation

    def _files(self) -> dict[str, Path]:
        return {name: self.ledger_dir / f"{name}.sqlite" for name in self.members}

    def _refuse_another_cap(self) -> None:
        from colonnade.party.ledger import SqliteLedger

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
    def _ledgers(self, *, spend: bool) -> Iterator[Path]:
        if not spend and not any(path.exists() for path in self._files().values()):
            with tempfile.TemporaryDirectory(prefix="colonnade-preview-") as folder:
                yield Path(folder)
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
    document = _parse(path)
    _refuse_unknown(document, ("id", "ledger_dir", "budget", "parties", "study"), "the file")
    folder = path.parent
    members = _table(document, "parties", "the file")
    return StudyFile(
        id=_text(document, "id", "the file"),
        budget=_budget(_table(document, "budget", "the file")),
        ledger_dir=folder / _text(document, "ledger_dir", "the file"),
        members={name: _member(name, _as_table(entry, f"parties.{name}"), folder) for name, entry in members.items()},
        studies=_studies(document),
    )


def _parse(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path.name} is not valid TOML: {error}.", remedy="Correct the file.") from None
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"{path.name} cannot be read as UTF-8 text.", remedy="Check the path and the file.") from None


def _budget(entry: Table) -> Any:
    from colonnade.privacy.price import Budget

    _refuse_unknown(entry, ("epsilon", "delta"), "budget")
    return _within("budget", lambda: Budget(epsilon=entry.get("epsilon"), delta=entry.get("delta", 0.0)))  # type: ignore[arg-type]


def _member(name: str, entry: Table, folder: Path) -> Member:
    where = f"parties.{name}"
    _refuse_unknown(entry, ("data", "columns", "policy"), where)
    paths = entry.get("data")
    paths = [paths] if isinstance(paths, str) else paths
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        raise BadInput(f"{where} needs data.", remedy='For example data = "bank.parquet", or a list of such paths.')
    columns = _table(entry, "columns", where)
    schema = {column: _column(f"{where}.columns.{column}", described) for column, described in columns.items()}
    policy = _policy(_as_table(entry["policy"], where), where) if "policy" in entry else None
    return Member(tuple(folder / path for path in paths), _within(where, lambda: Schema(schema)), policy)


def _column(where: str, entry: object) -> Column:
    if not isinstance(entry, Mapping) or not entry:
        raise BoundsRequired(
            f"{where} has no public bounds.",
            remedy='Write { lower = 0, upper = 120 } for a number or { levels = ["no", "yes"] } for a category.',
        )
    if "levels" in entry:
        _refuse_unknown(entry, ("levels",), where)
        return _within(where, lambda: Category(entry["levels"]))
    _refuse_unknown(entry, ("lower", "upper", "integer", "levels"), where)
    integer = entry.get("integer", False)
    if not isinstance(integer, bool):
        raise BadInput(f"{where}: integer is true or false.")
    return _within(where, lambda: Numeric(entry.get("lower"), entry.get("upper"), integer))


def _policy(entry: Table, where: str) -> Any:
    from colonnade.party.policy import Policy

    _refuse_unknown(entry, [field.name for field in fields(Policy)], f"{where}.policy")
    return _within(f"{where}.policy", lambda: Policy(**entry))


def _studies(document: Table) -> tuple[Asked, ...]:
    entries = document.get("study")
    if not isinstance(entries, list) or not entries:
        raise BadInput("The file asks for no study.", remedy="Add a [[study]] table that names an estimator.")
    return tuple(_asked(_as_table(entry, "study"), number) for number, entry in enumerate(entries, start=1))


def _asked(entry: Table, number: int) -> Asked:
    where = f"study {number}"
    kinds = _estimators()
    name = _text(entry, "estimator", where)
    if name not in kinds:
        raise BadInput(f"{where}: there is no estimator {name!r}.", remedy=_suggestion(name, kinds))
    parameters = list(inspect.signature(kinds[name]).parameters)
    _refuse_unknown(entry, ("estimator", "title", "repeat", *parameters), where)
    given = {key: value for key, value in entry.items() if key in parameters}
    required = [p.name for p in inspect.signature(kinds[name]).parameters.values() if p.default is p.empty]
    for missing in required:
        if missing not in given:
            raise BadInput(f"{where}: {name} needs {missing}.", remedy=f"Add {missing} = … to the table.")
    title = str(entry.get("title", f"{number}. {name}"))
    return Asked(title, _within(where, lambda: kinds[name](**given)), _repeat(entry.get("repeat", 1), where))


def _repeat(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"{where}: repeat must be a positive whole number.")
    return value


def _estimators() -> dict[str, Any]:
    """Return every public estimator by name."""
    import colonnade as cn
    from colonnade.estimators.study import Study

    public = {name: getattr(cn, name) for name in cn.__all__}
    return {name: kind for name, kind in public.items() if isinstance(kind, type) and issubclass(kind, Study)}


def _paths(data: tuple[Path, ...]) -> Any:
    return data[0] if len(data) == 1 else list(data)


def _text(table: Table, key: str, where: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise BadInput(f"{where} needs {key}.", remedy=_EXAMPLES.get(key, f"Add {key} = …"))
    return value


def _table(table: Table, key: str, where: str) -> Table:
    if not table.get(key):
        raise BadInput(f"{where} needs [{key}].", remedy=_EXAMPLES.get(key, f"Add the table [{key}]."))
    return _as_table(table[key], key)


def _as_table(value: object, where: str) -> Table:
    if not isinstance(value, Mapping):
        raise BadInput(f"{where} must be a table.", remedy=f"For example [{where}].")
    return value


def _within(where: str, build: Callable[[], Part]) -> Part:
    """Build a part of the file; an error of ours then says which part."""
    try:
        return build()
    except ColonnadeError as error:
        raise type(error)(f"{where}: {error.message}", remedy=error.remedy) from None


def _refuse_unknown(table: Table, known: Iterable[str], where: str) -> None:
    known = list(known)
    for key in table:
        if key not in known:
            raise BadInput(f"{where} has an unknown key {key!r}.", remedy=_suggestion(key, known))


def _suggestion(word: str, known: Iterable[str]) -> str:
    known = sorted(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"Did you mean {near[0]!r}?" if near else f"Known here: {', '.join(known)}."


_EXAMPLES = {
    "id": 'Name the column that all tables share: id = "person_id".',
    "ledger_dir": 'Say where ledgers are kept, so that what is spent is never forgotten: ledger_dir = "ledgers".',
    "budget": "State each party's cap, for example [budget] with epsilon = 4.0 and delta = 1e-6.",
    "parties": "Add a table [parties.NAME] with data and columns for each party.",
    "columns": "Describe each column: [parties.NAME.columns] with age = { lower = 0, upper = 120 }.",
    "estimator": 'Name the estimator, for example estimator = "PatternCount".',
}
