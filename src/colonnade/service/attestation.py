"""What a member remembers of another's ledger, under its signature: for putting back a ledger that was lost.

Every member remembers the highest head that it has seen of every party's ledger (`peers.heads`), and so does the coordinator,
which has no key to sign with. After a disk was lost, its party asks the others for what they remember. `colonnade ledger
restore` holds the back-up against it: one that is behind is refused, and what is put back has to pass every row that anybody
has seen.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from colonnade.conversations.memory import LedgerHeads
from colonnade.errors import BadInput, ColonnadeError
from colonnade.party.ledger.backup import Evidence, Restored, restore
from colonnade.party.ledger.file import HeadMemory
from colonnade.party.ledger.rows import Head
from colonnade.privacy.accounting import NANO
from colonnade.protocol import agreement
from colonnade.runtime.private_files import lock_folder
from colonnade.secure.keys import Identity, PublicIdentity, frame
from colonnade.service import toml_parts
from colonnade.service.party_folder import PartyFolder


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
        return "\n".join(f"{key} = {json.dumps(value)}" for key, value in msgspec.structs.asdict(self).items())


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
