"""Decisions of a served party's owner, made in the party's folder: approve a study, raise a cap, erase a person, put back a
lost ledger.

The party may be running: its guard reads the ledger before each request. Decisions are signed with the party's identity key.

*Erasing people* deletes their rows, the row orders that name them, and scores that were delivered about them. The table without
them is loaded as the next version of the data. So everything that belongs to the old version ends: its copy, its row orders,
its reservations and kept answers. A version is public, so one is declared whether or not these people had a row: otherwise
somebody who knows that they asked to be erased could tell from it whether they were there.

What has left the party cannot be taken back, and the ledger is never rewritten: `WHAT_STAYS` says so, and the command prints
it.

*Putting back a ledger.* Every member remembers the highest head that it has seen of every party's ledger (`peers.heads`), and
so does the coordinator, which has no key to sign with. After a disk was lost, its party asks the others for what they remember.
`colonnade ledger restore` holds the back-up against it: one that is behind is refused, and what is put back has to pass every
row that anybody has seen.
"""

import csv
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import feather, parquet

from colonnade.conversations.memory import LedgerHeads
from colonnade.errors import BadInput, ColonnadeError
from colonnade.party.ledger.backup import Evidence, Restored, restore
from colonnade.party.ledger.decisions import Allowance, Approval, CapDecision, RefusedStudies, RefusedStudy
from colonnade.party.ledger.file import HeadMemory
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import Head
from colonnade.party.ledger.words import LedgerNarrator, analysts_beside, read_rows
from colonnade.party.policy import Permission, Policy
from colonnade.privacy.accounting import NANO, nano_epsilon
from colonnade.protocol import agreement
from colonnade.runtime.private_files import lock_folder, replacing
from colonnade.secure.keys import Identity, PublicIdentity, frame
from colonnade.service import toml_parts
from colonnade.service.party_folder import PartyFolder, loaded_version

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


def _narrator(ledger: SqliteLedger) -> LedgerNarrator:
    return LedgerNarrator(ledger.party, ledger.budget.delta, keys=analysts_beside(ledger.path))


def refused_studies(folder: Path) -> list[str]:
    """Return the studies that a party has refused lately, in words, oldest first."""
    member = PartyFolder(folder)
    with member.ledger() as ledger:
        narrator = _narrator(ledger)
        return [narrator.refusal(one) for one in RefusedStudies(ledger.path).read()]


def waiting_studies(folder: Path) -> list[Waiting]:
    """Return the studies that wait for the owner's approval, the latest first."""
    member = PartyFolder(folder)
    with member.ledger() as ledger:
        narrator, version = _narrator(ledger), ledger.current_version() or 0
        judged = Permission(member.policy(), member.name, ledger.budget.delta, ledger.entries(), ledger.now())
        found = judged.waiting(RefusedStudies(ledger.path).read(), version)
        left = ledger.remaining()
        return [
            Waiting(one, narrator.refusal(one), () if one.plan is None else narrator.columns(one.plan), left)
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
    """Approve one study for some days, on the present data version; return the row that says so."""
    member = PartyFolder(folder)
    with member.ledger() as ledger:
        until = int((ledger.now().timestamp() + days * 86_400) * 1_000_000)
        decision = Approval(plan=study.hash.hex(), version=loaded_version(ledger), until=until, reason=reason)
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


class Attestation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One member's word on how far another's ledger had come.

    Parameters
    ----------
    by, about
        Who says it, and about whom.
    federation
        The hash of the papers that both signed.
    ledger, sequence, root, total
        The highest head that was seen: the ledger's identity, its last row, the root of all rows, and its total ε in
        nano-units. Row 0 and no root where none was ever seen.
    refused
        Whether it holds two signed heads that cannot share one history: then no memory of the party's own is complete.
    signature
        Of the member that says it, in hexadecimal; empty from the coordinator.
    """

    by: str
    about: str
    federation: str
    ledger: str
    sequence: int = 0
    root: str = ""
    total: int = 0
    refused: bool = False
    signature: str = ""

    def signed(self, identity: Identity) -> "Attestation":
        """Return it with a signature."""
        return msgspec.structs.replace(self, signature=identity.sign(self._said()).hex())

    def check(self, identity: PublicIdentity) -> None:
        """Refuse it if the member did not sign it."""
        try:
            identity.verify(self._said(), bytes.fromhex(self.signature))
        except (ColonnadeError, ValueError):
            raise BadInput(
                f"What {self.by} attests is not signed with its key.",
                remedy=f"Have {self.by} print it again: colonnade party attest.",
            ) from None

    def _said(self) -> bytes:
        fields = (self.by, self.about, self.federation, self.ledger, self.sequence, self.root, self.total)
        return frame("colonnade ledger attestation v2", *fields, int(self.refused))

    @property
    def head(self) -> Head | None:
        """The head that was seen, if one was."""
        if not self.root:
            return None
        return Head(self.ledger, self.sequence, b"", self.total, bytes.fromhex(self.root))

    def text(self) -> str:
        """Return it as TOML."""
        return toml_parts.lines_of(msgspec.structs.asdict(self))


def attest(folder: PartyFolder, about: str) -> Attestation:
    """Return what a member remembers of a party's ledger, signed."""
    papers = agreement.read_agreement(folder.papers).check()
    if about == folder.name:
        raise BadInput("A party's own memory is its ledger.head.", remedy="Name another party with --about.")
    return _remembered(papers, folder.name, about, [folder.path / "peers.heads"]).signed(folder.identity())


def attest_as_coordinator(papers: agreement.FederationAgreement, state: Path, about: str) -> Attestation:
    """Return what the coordinator remembers of a party's ledger. Nobody signs it: it can only make a charge larger."""
    files = [state / "studies.heads", state / "node.heads"]
    return _remembered(papers, agreement.COORDINATOR, about, files)


def _remembered(papers: agreement.FederationAgreement, by: str, about: str, files: Iterable[Path]) -> Attestation:
    if about not in papers.parties:
        raise BadInput(f"The papers name no party {about!r}.", remedy=f"Use one of {', '.join(papers.parties)}.")
    ledgers = {name: papers.members[name].ledger for name in papers.parties}
    said = Attestation(by=by, about=about, federation=papers.identity, ledger=ledgers[about])
    for path in files:
        heads = LedgerHeads(ledgers, path)
        found, refused = heads.known(about), said.refused or heads.evidence(about) is not None
        if found is not None and found.sequence >= said.sequence:
            said = msgspec.structs.replace(said, sequence=found.sequence, root=found.root.hex(), total=found.total)
        said = msgspec.structs.replace(said, refused=refused)
    return said


def restore_ledger(
    folder: PartyFolder, backup: Path | None, attested: Iterable[Path], *, forfeit: bool, spent: float | None = None
) -> Restored:
    """Put a back-up of a party's ledger in place, held against what the party itself and the others remember of it.

    Without ``backup`` the ledger that is in place stays, and what it has forgotten is written off: it is the one that went back,
    so its own memory says nothing. ``spent`` is the total that the party's owner knows from records of its own.
    """
    if backup is None and not forfeit:
        raise BadInput("Name the back-up to put in place.", remedy="Or write off what the ledger forgot: --forfeit.")
    with lock_folder(folder.path):
        path = folder.path / "ledger.sqlite"
        papers = agreement.read_agreement(folder.papers).check() if folder.papers.exists() else None
        own = HeadMemory(path).read()
        words = [_read(one, folder.name, papers) for one in attested]
        heads = [head for head in (own, *(one.head for one in words)) if head is not None]
        # a memory that others have seen more than was put back from somewhere, and says nothing of what came after it
        newest = own is not None and all(head.sequence <= own.sequence for head in heads)
        trusted = newest and backup is not None and not any(one.refused for one in words)
        total = own.nano / NANO if own is not None and trusted else None
        evidence = Evidence(heads, total, folder.budget().delta, spent)
        owner = folder.identity() if forfeit else None
        return restore(backup or path, path, party=folder.name, evidence=evidence, forfeit=owner)


def _read(path: Path, about: str, papers: agreement.FederationAgreement | None) -> Attestation:
    try:
        found = msgspec.convert(dict(toml_parts.parse(path)), Attestation)
        sound = found.head is None or len(found.head.root) == 32
    except (msgspec.ValidationError, ValueError):
        sound = False
    if not sound:
        raise BadInput(f"{path.name} is not what `colonnade party attest` prints.", remedy="Have it printed again.")
    known = () if papers is None else (agreement.COORDINATOR, *papers.members)
    if papers is None or found.federation != papers.identity or found.about != about or found.by not in known:
        raise BadInput(
            f"{path.name} is about another federation or party.", remedy=f"Have it printed with --about {about}."
        )
    if found.by != agreement.COORDINATOR:
        found.check(papers.pinned()[found.by])
    return found
