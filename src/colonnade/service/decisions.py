"""Decisions of a served party's owner, made in the party's folder: approve a study, raise a cap, forget a person.

The party may be running: its guard reads the ledger before each request. Decisions are signed with the party's identity key.

Erasing people from a served party: their rows, the row orders that name them, and scores that were delivered about them.

The table without them is loaded as the next version of the data. So everything that belongs to the old version ends: its copy,
its row orders, its reservations and kept answers. A version is public, so one is declared whether or not these people had a row:
otherwise somebody who knows that they asked to be erased could tell from it whether they were there.

What has left the party cannot be taken back, and the ledger is never rewritten: `WHAT_STAYS` says so, and the command prints it.
"""

import csv
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import feather, parquet

from colonnade.errors import BadInput
from colonnade.party.ledger.decisions import Allowance, Approval, CapDecision, RefusedStudies, RefusedStudy
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.words import Reading, analysts_beside, read_rows
from colonnade.party.policy import Permission, Policy
from colonnade.privacy.accounting import nano_epsilon
from colonnade.runtime.durable_file import replacing
from colonnade.service.party_folder import PartyFolder

if TYPE_CHECKING:
    from colonnade.privacy.accounting import Budget


WHAT_STAYS = (
    "what was released before: counts and models with noise, which do not show whether a person was in them",
    "what was released without differential privacy, if `colonnade ledger show` lists any: it has left the party",
    "the ledger, its back-ups, and the answers in it: they are never rewritten, so that nothing is released twice",
    "the person's id on a public list of people, if the federation's papers name one: new papers are needed for that",
    "your own files: the table that was loaded from, and copies of the folder",
)
"""What erasing does not undo, in words."""


@dataclass(frozen=True)
class Erased:
    """What was erased.

    Parameters
    ----------
    version
        The version of the data without these people.
    rows
        How many rows left the table.
    orders
        How many row orders of the version before were deleted.
    scores
        How many delivered scores were deleted.
    """

    version: int
    rows: int
    orders: int
    scores: int


def rows_of(folder: Path, people: Sequence[str]) -> int:
    """Return how many rows of the table have one of these ids, for its owner to look at before they are erased."""
    terms, files = PartyFolder(folder).loaded()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        target = Path(scratch) / "others"
        return sum(_without(path, target, terms.id, set(people), terms.reading) for path in files)


def erase(folder: Path, people: Sequence[str]) -> Erased:
    """Erase people by their ids; a running party takes the new version over before its next request.

    Parameters
    ----------
    folder
        The party's folder.
    people
        Their ids, as the table has them, written as text.
    """
    member, wanted = PartyFolder(folder), set(people)
    terms, files = member.loaded()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:  # under the folder: nobody else reads it
        kept = [Path(scratch) / f"{number:04d}{path.suffix}" for number, path in enumerate(files)]
        rows = sum(
            _without(path, target, terms.id, wanted, terms.reading) for path, target in zip(files, kept, strict=True)
        )
        loaded = member.load(kept, anew=True)
    orders = list((folder / "alignments").glob("*.alignment"))
    for path in orders:
        path.unlink(missing_ok=True)
    scores = sum(_forget_scores(path, wanted) for path in (folder / "alignments.deliveries").glob("*.feather"))
    return Erased(loaded.version, rows, len(orders), scores)


def _without(source: Path, target: Path, column: str, people: set[str], reading: Mapping[str, str]) -> int:
    """Write a table without some people; return how many rows they had."""
    if source.suffix == ".parquet":
        table = parquet.read_table(source)
        stays = _others(table.column(column), people)
        parquet.write_table(table.filter(stays), target)
        left: int = pc.sum(stays).as_py() or 0
        return int(table.num_rows) - left
    encoding, separator = reading.get("encoding", "utf-8"), reading.get("separator", ",")
    with (
        source.open(encoding=encoding, newline="") as lines,
        target.open("w", encoding=encoding, newline="") as out,
    ):
        found, writer = csv.reader(lines, delimiter=separator), csv.writer(out, delimiter=separator)
        names = next(found)
        writer.writerow(names)
        place, gone = names.index(column), 0
        for row in found:
            if row and row[place] in people:
                gone += 1
            else:
                writer.writerow(row)
    return gone


def _others(ids: pa.ChunkedArray, people: set[str]) -> pa.ChunkedArray:
    """Return which rows are not of these people; a row without an id is nobody's, and stays."""
    listed = pc.is_in(pc.cast(ids, pa.string()), value_set=pa.array(sorted(people), pa.string()))
    return pc.invert(pc.fill_null(listed, False))


def _forget_scores(path: Path, people: set[str]) -> int:
    table = feather.read_table(path)
    stays = _others(table.column("id"), people)
    gone: int = table.num_rows - (pc.sum(stays).as_py() or 0)
    if gone:
        with replacing(path) as file:
            feather.write_feather(table.filter(stays), file, compression="uncompressed")
    return gone


@dataclass(frozen=True)
class Waiting:
    """A study that waits for its approval.

    Parameters
    ----------
    study
        What was asked.
    words
        The same in one line.
    columns
        The columns that it is about.
    remaining
        How much ε the ledger has left.
    """

    study: RefusedStudy
    words: str
    columns: tuple[str, ...]
    remaining: float

    @property
    def name(self) -> str:
        """How it is named on the command line: the beginning of its plan's hash."""
        return self.study.hash.hex()[:12]


def _reading(ledger: SqliteLedger) -> Reading:
    return Reading(ledger.party, ledger.budget.delta, keys=analysts_beside(ledger.path))


def refused_studies(folder: Path) -> list[str]:
    """Return the studies that a party has refused lately, in words, oldest first."""
    member = PartyFolder(folder)
    with member.ledger() as ledger:
        reading = _reading(ledger)
        return [reading.refusal(one) for one in RefusedStudies(ledger.path).read()]


def waiting_studies(folder: Path) -> list[Waiting]:
    """Return the studies that wait for the owner's approval, the latest first."""
    member = PartyFolder(folder)
    with member.ledger() as ledger:
        reading, version = _reading(ledger), ledger.current_version() or 0
        judged = Permission(member.policy(), member.name, ledger.budget.delta, ledger.entries(), ledger.now())
        found = judged.waiting(RefusedStudies(ledger.path).read(), version)
        left = ledger.remaining()
        return [
            Waiting(one, reading.refusal(one), () if one.plan is None else reading.columns(one.plan), left)
            for one in found
        ]


def requests_in_words(folder: Path) -> tuple[str, int, int]:
    """Return the last release in words, how many studies wait for an approval, and how many were refused lately."""
    member = PartyFolder(folder)
    with SqliteLedger.open(member.path / "ledger.sqlite", party=member.name) as ledger:
        released = [row for row in read_rows(ledger, analysts_beside(ledger.path)) if row.price]
        refused = RefusedStudies(ledger.path).read()
        judged = Permission(Policy(), member.name, ledger.budget.delta, ledger.entries(), ledger.now())
        waiting = judged.waiting(refused, ledger.current_version() or 0)
    return released[-1].sentence() if released else "", len(waiting), len(refused)


def approve(folder: Path, study: RefusedStudy, *, days: float, reason: str) -> int:
    """Approve one study, on the present data version, for so many days; return the row that says so."""
    member = PartyFolder(folder)
    with member.ledger() as ledger:
        until = int((ledger.now().timestamp() + days * 86_400) * 1_000_000)
        version = ledger.current_version()
        if version is None:
            raise BadInput("No table was loaded into this folder.", remedy="colonnade party load FOLDER FILE")
        decision = Approval(plan=study.hash.hex(), version=version, until=until, reason=reason)
        return ledger.decide(decision.signed(ledger.identity, member.identity()))


def raise_allowance(folder: Path, of: Literal["requester", "purpose"], name: str, epsilon: float, reason: str) -> int:
    """Set the cap of one requester or purpose in place of the policy's; return the row that says so."""
    member = PartyFolder(folder)
    decision = Allowance(of=of, name=name, nano=nano_epsilon(epsilon), reason=reason)
    with member.ledger() as ledger:
        return ledger.decide(decision.signed(ledger.identity, member.identity()))


def raise_cap(folder: Path, reason: str) -> "tuple[Budget, Budget]":
    """Take policy.toml's [budget] as the ledger's cap, as a signed decision; return the cap before and after."""
    member = PartyFolder(folder)
    wanted = member.budget()
    with SqliteLedger.open(member.path / "ledger.sqlite", party=member.name) as ledger:
        before = ledger.budget
        if (before.nano, before.delta) == (wanted.nano, wanted.delta):
            raise BadInput(
                "policy.toml has the cap that the ledger has already.",
                remedy="Write the new cap into [budget] of policy.toml first; or name --requester or --purpose.",
            )
        decision = CapDecision(nano=wanted.nano, delta=wanted.delta, reason=reason)
        ledger.decide(decision.signed(ledger.identity, member.identity()))
        return before, ledger.budget
