"""A federation's papers: who takes part, under which key, in which role, on which terms; signed by every one of them.

The papers are one TOML file that a person can read before signing it. What is signed is not the text but its meaning, in one
canonical encoding, so that a comment or the order of keys changes nothing. Its hash names the federation in every plan
(`Plan.federation`): a party answers plans of the papers that it read and found signed, and no others. The coordinator signs
nothing, because nothing rests on its word.

Who joins and who leaves after a federation's papers were signed: analysts that members introduce, and those who are revoked.

Both stand beside the papers, as new keys do, and are no part of what everybody signed. So nobody has to sign again, the
federation keeps its name, and what was released under it is not asked for anew.

*An introduction.* A member signs the name and the public key of somebody who asks for studies. The other members can then tell
who asked, and cap it. It gives an analyst no further right: every study is still checked against every party's own policy.

*A revocation.* Any member can say that an analyst or another member is out. It holds for everybody who has the file: a revoked
analyst's signature is worth nothing any more, and no plan that names an expelled member is answered. It is for good.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from colonnade.errors import BadInput, ColonnadeError, ProtocolError
from colonnade.plan import checked_analyst_name
from colonnade.privacy.accounting import nano_epsilon
from colonnade.secure.keys import Field, Identity, PublicIdentity, digest, frame

Members = Mapping[str, tuple[PublicIdentity, ...]]
"""Every key that a member ever had in these papers, by its name."""


class Introduction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An analyst, introduced by a member.

    Parameters
    ----------
    identity
        The analyst's public key, in hexadecimal.
    member
        Who introduces them.
    signature
        By that member, over the federation, the analyst's name and the key.
    """

    identity: str
    member: str
    signature: str

    @property
    def key(self) -> PublicIdentity:
        """The analyst's public key."""
        return PublicIdentity(_bytes(self.identity))

    def message(self, federation: str, name: str) -> bytes:
        """Return what is signed."""
        return frame("colonnade analyst v1", bytes.fromhex(federation), self.member, name, _bytes(self.identity))


class Revocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Somebody who is out: an analyst or a member.

    Parameters
    ----------
    member
        Who says so.
    signature
        By that member, over the federation and the name.
    """

    member: str
    signature: str

    def message(self, federation: str, name: str) -> bytes:
        """Return what is signed."""
        return frame("colonnade revocation v1", bytes.fromhex(federation), self.member, name)


def introduced(
    papers: "FederationAgreement", member: str, own: Identity, name: str, key: PublicIdentity
) -> "FederationAgreement":
    """Return the papers with an analyst whom a member introduces."""
    _require_own(papers, member, own)
    checked_analyst_name(name)
    if name in papers.members or name in papers.analysts or name in papers.revocations:
        raise BadInput(f"The papers name {name} already.", remedy="Give the analyst another name.")
    unsigned = Introduction(identity=key.key.hex(), member=member, signature="")
    signature = own.sign(unsigned.message(papers.identity, name)).hex()
    added = {**papers.analysts, name: msgspec.structs.replace(unsigned, signature=signature)}
    return msgspec.structs.replace(papers, analysts=added)


def revoked(papers: "FederationAgreement", member: str, own: Identity, name: str) -> "FederationAgreement":
    """Return the papers with a member's word that an analyst, or another member, is out."""
    _require_own(papers, member, own)
    if name not in papers.members and name not in papers.analysts:
        raise BadInput(
            f"The papers name nobody called {name}.",
            remedy=f"They name {', '.join((*papers.members, *papers.analysts))}.",
        )
    if name == member or name in papers.revocations:
        raise BadInput(f"{name} is out already, or is who says so.", remedy="Name another analyst or member.")
    unsigned = Revocation(member=member, signature="")
    signature = own.sign(unsigned.message(papers.identity, name)).hex()
    added = {**papers.revocations, name: msgspec.structs.replace(unsigned, signature=signature)}
    return msgspec.structs.replace(papers, revocations=added)


def check_introductions(papers: "FederationAgreement", keys: Members) -> None:
    """Refuse papers with an introduction or a revocation that its member has not signed."""
    said: list[tuple[str, Introduction | Revocation]] = [*papers.analysts.items(), *papers.revocations.items()]
    for name, one in said:
        if not any(_verifies(key, one, papers.identity, name) for key in keys.get(one.member, ())):
            raise ProtocolError(
                f"What the papers say about {name} is not signed by the member that they name.",
                remedy="Use the file that the member itself wrote: colonnade federation introduce, or revoke.",
            )
    if not {*papers.revocations} <= {*papers.members, *papers.analysts} or {*papers.members} & {*papers.analysts}:
        raise ProtocolError(
            "The papers revoke somebody whom they do not name, or give an analyst the name of a member.",
            remedy="Use the file that the member itself wrote: colonnade federation revoke.",
        )


def _verifies(key: PublicIdentity, one: Introduction | Revocation, federation: str, name: str) -> bool:
    try:
        key.verify(one.message(federation, name), _bytes(one.signature))
    except ColonnadeError:
        return False
    return True


def _require_own(papers: "FederationAgreement", member: str, own: Identity) -> None:
    if papers.pinned().get(member) != PublicIdentity(own.public):
        raise ProtocolError(
            "The papers have no member of that name and key, or it was expelled.",
            remedy="Use the folder of a member of this federation.",
        )


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadInput("A key or signature is not written in hexadecimal.", remedy="Copy the whole file.") from None


COORDINATOR = "coordinator"
VERSION = 2
"""The version of papers."""
MAKE_AGAIN = (
    "Make them again with `colonnade federation init`, from the same cards, and have every member sign them. Keys and ledgers "
    "stay as they are."
)
_HEX_32 = re.compile(r"[0-9a-f]{64}")
_HEX_16 = re.compile(r"[0-9a-f]{32}")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of all parts of the papers: immutable, with no unknown fields."""


class Signatory(_Part, frozen=True, kw_only=True):
    """One member: a party with data, or a node that computes on shares.

    Parameters
    ----------
    role
        ``"data"`` or ``"compute"``.
    identity
        Its public Ed25519 key, in hexadecimal.
    ledger, schema
        The identity of its ledger and the hash of its public schema (`colonnade.protocol.messages.schema_digest`); both empty
        for a compute node. A new key comes with the same ledger: rotating a key does not reset a budget.
    computes
        Whether it may compute on shares, its own data's included. A node without data always may.
    direct
        Where the other members reach it directly, ``"host:port"`` (`colonnade.transport.links`); empty where they do not.
    """

    role: str
    identity: str
    ledger: str = ""
    schema: str = ""
    computes: bool = True
    direct: str = ""

    def __post_init__(self) -> None:
        PublicIdentity(_bytes_of(self.identity, "identity"))
        if self.direct:
            address_of(self.direct)
        if self.role == "data" and not (_HEX_16.fullmatch(self.ledger) and _HEX_32.fullmatch(self.schema)):
            raise BadInput(
                "A party with data needs a ledger (32 hexadecimal digits) and a schema (64).",
                remedy="Copy both from the member's card: colonnade party card.",
            )
        if self.role not in ("data", "compute") or (self.role == "compute" and (self.ledger or self.schema)):
            raise BadInput('A role is "data" or "compute", and a compute node has neither ledger nor schema.')
        if self.role == "compute" and not self.computes:
            raise BadInput("A compute node computes.", remedy="Leave out computes, or leave out the node.")


class Rotation(_Part, frozen=True, kw_only=True):
    """A member's next identity key, signed with the one before it.

    Rotations stand beside the papers and are no part of what is signed: nobody else has to sign again. The member's ledger
    stays the one in the papers, so a new key never brings a new budget. Anybody who has a member's key can sign one, so a key
    that leaked is replaced by new papers.

    Parameters
    ----------
    identity
        The new public key, in hexadecimal.
    signature
        By the key before it, over the federation, the member, the number of the rotation and both keys.
    """

    identity: str
    signature: str

    def __post_init__(self) -> None:
        PublicIdentity(_bytes_of(self.identity, "identity"))


class CoordinatorAddress(_Part, frozen=True, kw_only=True):
    """Where the coordinator listens; the host is also the name in its certificate."""

    host: str
    port: int
    scheme: str = "tcp"

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.host) or not 1 <= self.port < 65536 or self.scheme not in ("tcp", "grpc"):
            raise BadInput(
                "A coordinator has a plain host name, a port, and the scheme 'tcp' or 'grpc'.",
                remedy="For example coordinator init --host coordinator.example.org, federation init --port 8002.",
            )

    @property
    def address(self) -> str:
        """What sites dial."""
        return f"{self.scheme}://{self.host}:{self.port}"


class AgreedAlignment(_Part, frozen=True, kw_only=True):
    """Which order of rows studies start from: the hash of a public list that every party holds, and its length."""

    identity: str
    people: int

    def __post_init__(self) -> None:
        if not _HEX_32.fullmatch(self.identity) or self.people < 1:
            raise BadInput(
                "An alignment is a hash (64 hexadecimal digits) and a positive number of people.",
                remedy="Make the papers again with `colonnade federation init --cohort FILE`.",
            )


class Floor(_Part, frozen=True, kw_only=True):
    """The least that every member's policy asks for besides collusion and threshold; a party may ask for more."""

    min_people: int = 1
    max_epsilon: float | None = None
    max_delta: float | None = None

    def __post_init__(self) -> None:
        if self.min_people < 1 or not 0 <= (self.max_delta or 0.0) < 1:
            raise BadInput(
                "The policy floor is made of whole numbers, and of a delta between 0 and 1.",
                remedy="For example --min-people 1000.",
            )
        if self.max_epsilon is not None:
            nano_epsilon(self.max_epsilon, what="max_epsilon")


class FederationAgreement(_Part, frozen=True, kw_only=True):
    """What every member signs.

    Parameters
    ----------
    name
        What the federation calls itself.
    coordinator
        Where its coordinator is reached.
    members
        Everyone, by name; the order of the data parties is that of their columns.
    collusion
        c: how many parties may pool what they see with the coordinator. The noise of every plan covers as many, or all but one of
        the plan's parties.
    threshold
        The least threshold t of any plan: t compute nodes together learn nothing. At least c.
    floor
        The least that every policy asks for.
    alignment
        The order of rows that parties open with; ``None`` where they agree on one later.
    signatures
        By member, in hexadecimal; not part of what is signed.
    rotations
        By member, the keys that replaced its key since, oldest first; not part of what is signed.
    analysts
        Who may sign requests, each introduced by a member; not part of what is signed.
    revocations
        Analysts and members that are out, each by a member's word; not part of what is signed.
    """

    version: int = VERSION
    name: str
    coordinator: CoordinatorAddress
    members: dict[str, Signatory]
    collusion: int
    threshold: int
    floor: Floor = Floor()
    alignment: AgreedAlignment | None = None
    signatures: dict[str, str] = {}
    rotations: dict[str, list[Rotation]] = {}
    analysts: dict[str, Introduction] = {}
    revocations: dict[str, Revocation] = {}

    def __post_init__(self) -> None:
        if self.version != VERSION or not self.name or not self.name.isprintable():
            raise BadInput("These papers have another version, or no name.", remedy=MAKE_AGAIN)
        roles = [member.role for member in self.members.values()]
        if "data" not in roles or any(not _is_name(name) for name in self.members):
            raise BadInput(
                "The papers name no party with data, or one whose name is not a plain word.",
                remedy="Give the card of at least one party with data; names are words such as 'bank'.",
            )
        if len({member.identity for member in self.members.values()}) != len(self.members):
            raise BadInput(
                "Two members have the same identity key.",
                remedy="Make each member's folder with its own `colonnade party init`; never copy identity.key.",
            )
        if len({member.ledger for member in self.members.values() if member.ledger}) != roles.count("data"):
            raise BadInput(
                "Two parties have the same ledger.",
                remedy="Make each party's folder with its own `colonnade party init`; never copy ledger.sqlite.",
            )
        self._check_floors()

    def _check_floors(self) -> None:
        if self.collusion < 0 or self.threshold < max(1, self.collusion):
            raise BadInput(
                "The threshold is at least 1 and at least the collusion bound, which is not negative.",
                remedy=f"Write threshold = {max(1, self.collusion)}, or lower collusion.",
            )
        nodes, needed = sum(member.computes for member in self.members.values()), 2 * self.threshold + 1
        if (
            nodes < needed and self.threshold > 1
        ):  # without three nodes there are no studies on shares, and no promise to keep
            raise BadInput(
                f"A threshold of {self.threshold} needs {needed} members that compute, and these papers have {nodes}.",
                remedy=f"Add the cards of {needed - nodes} compute node{'s' if needed - nodes > 1 else ''} "
                "(colonnade party init --node), or lower collusion and threshold.",
            )

    # What they say ------------------------------------------------------------------------------------------------------

    @property
    def parties(self) -> tuple[str, ...]:
        """The members with data, in the order of their columns."""
        return tuple(name for name, member in self._present() if member.role == "data")

    @property
    def nodes(self) -> tuple[str, ...]:
        """The members without data, the coordinator last if it is one."""
        helpers = [name for name, member in self._present() if member.role == "compute"]
        return tuple(sorted(helpers, key=lambda name: name == COORDINATOR))

    @property
    def computing(self) -> tuple[str, ...]:
        """The members that may compute on shares."""
        return tuple(name for name, member in self._present() if member.computes)

    @property
    def sites(self) -> tuple[str, ...]:
        """Everyone with a machine of their own."""
        return tuple(name for name, _ in self._present() if name != COORDINATOR)

    def _present(self) -> list[tuple[str, Signatory]]:
        """Return the members that were not expelled."""
        return [(name, member) for name, member in self.members.items() if name not in self.revocations]

    def direct_addresses(self) -> dict[str, str]:
        """Return where present members are reached directly, by name; those without an address are left out."""
        return {name: member.direct for name, member in self._present() if member.direct and name != COORDINATOR}

    def pinned(self) -> dict[str, PublicIdentity]:
        """Return every present member's public identity: the key in the papers, or the last one signed to replace it."""
        return {name: self.keys_of(name)[-1] for name, _ in self._present()}

    def analyst_keys(self) -> dict[str, PublicIdentity]:
        """Return who may sign requests, with their public keys: those introduced and not revoked."""
        return {name: one.key for name, one in self.analysts.items() if name not in self.revocations}

    def _signing(self, name: str) -> PublicIdentity:
        return PublicIdentity(bytes.fromhex(self.members[name].identity))

    def keys_of(self, name: str) -> tuple[PublicIdentity, ...]:
        """Return every key that a member ever had in these papers, the present one last."""
        found, keys = self._signing(name), [self._signing(name)]
        for number, rotation in enumerate(self.rotations.get(name, []), start=1):
            following = PublicIdentity(bytes.fromhex(rotation.identity))
            try:
                found.verify(self._rotation(name, number, found, following), _bytes_of(rotation.signature, "signature"))
            except ColonnadeError:
                raise ProtocolError(
                    f"A new key of {name!r} is not signed with the one before it.",
                    remedy="Use the file that the member itself wrote: colonnade party rotate.",
                ) from None
            found = following
            keys.append(found)
        return tuple(keys)

    def _rotation(self, name: str, number: int, before: PublicIdentity, after: PublicIdentity) -> bytes:
        return frame(
            "colonnade identity rotation v1", bytes.fromhex(self.identity), name, number, before.key, after.key
        )

    def rotated(self, name: str, old: Identity, new: PublicIdentity) -> "FederationAgreement":
        """Return the papers with a member's next key, signed with its present one."""
        present = self.pinned()
        if present.get(name) != PublicIdentity(old.public) or new in present.values():
            raise ProtocolError(
                "The papers have no member of that name and key, or the new key is in use.",
                remedy="Rotate the key of this member's own folder: colonnade party rotate.",
            )
        earlier = self.rotations.get(name, [])
        signature = old.sign(self._rotation(name, len(earlier) + 1, present[name], new)).hex()
        added = [*earlier, Rotation(identity=new.key.hex(), signature=signature)]
        return msgspec.structs.replace(self, rotations={**self.rotations, name: added})

    @property
    def identity(self) -> str:
        """The hash that names this federation in every plan, in hexadecimal."""
        return digest("colonnade federation v2", *self._fields()).hex()

    def _fields(self) -> tuple[Field, ...]:
        members = tuple(
            (
                *(name, member.role, member.identity, member.ledger, member.schema, int(member.computes)),
                *((member.direct,) if member.direct else ()),  # papers without addresses keep their name
            )
            for name, member in self.members.items()
        )
        floor = tuple(repr(getattr(self.floor, name)) for name in self.floor.__struct_fields__)
        where = (self.coordinator.host, self.coordinator.port, self.coordinator.scheme)
        order = () if self.alignment is None else (self.alignment.identity, self.alignment.people)
        return self.version, self.name, where, members, self.collusion, self.threshold, floor, order

    # Signatures ---------------------------------------------------------------------------------------------------------

    def signed_by(self, name: str, identity: Identity) -> "FederationAgreement":
        """Return the papers with one member's signature; refuse a key that is not the member's."""
        if name not in self.members or self.members[name].identity != identity.public.hex():
            raise ProtocolError(
                "The papers have no member of that name and key.",
                remedy="Have your own card put into the papers, then sign them.",
            )
        signature = identity.sign(frame("colonnade federation signature v2", name, bytes.fromhex(self.identity))).hex()
        return msgspec.structs.replace(self, signatures={**self.signatures, name: signature})

    def missing(self) -> tuple[str, ...]:
        """Return who has not signed."""
        return tuple(name for name in self.members if name not in self.signatures)

    def check(self) -> "FederationAgreement":
        """Refuse papers that not every member has signed as they stand."""
        for name in self.members:
            identity = self._signing(name)
            if name not in self.signatures:
                raise ProtocolError(
                    f"The federation's papers are not signed by {name!r}.",
                    remedy="Have every member run `colonnade federation sign`, and use the file with all signatures.",
                )
            message = frame("colonnade federation signature v2", name, bytes.fromhex(self.identity))
            try:
                identity.verify(message, _bytes_of(self.signatures[name], "signature"))
            except ColonnadeError:
                raise ProtocolError(
                    f"The signature of {name!r} is not one of these papers.",
                    remedy="The papers were changed after they were signed: compare them, and have them signed again.",
                ) from None
        present = {self.keys_of(name)[-1] for name in self.members}
        if not set(self.rotations) <= set(self.members) or len(present) != len(self.members):
            raise ProtocolError(
                "The new keys beside the papers are of nobody in them, or of two members at once.",
                remedy="Use the file that the member itself wrote: colonnade party rotate.",
            )
        check_introductions(self, {name: self.keys_of(name) for name in self.members})
        return self

    # As text ------------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, text: str) -> "FederationAgreement":
        """Read papers; whether they are signed is for `check` to say."""
        try:
            return msgspec.convert(tomllib.loads(text), cls)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            cause = error.__cause__
            what = (
                cause.message if isinstance(cause, ColonnadeError) else "A key is missing, unknown or of another type."
            )
            raise BadInput(
                f"This is not a federation's papers. {what}",
                remedy="Use the file that `colonnade federation init` wrote.",
            ) from None

    def text(self) -> str:
        """Return the papers as TOML."""
        lines = [
            "# A federation's papers. Read them, then sign: colonnade federation sign federation.toml --party FOLDER",
            "# What is signed is their meaning: any change but of comments and spacing needs new signatures.",
            *_table("", {"version": self.version, "name": self.name}),
            f"collusion = {self.collusion}        # parties that may pool what they see with the coordinator, in every study",
            f"threshold = {self.threshold}        # compute nodes that learn nothing together, at least, in every study",
            *_table("coordinator", msgspec.structs.asdict(self.coordinator)),
            *_table("floor", msgspec.structs.asdict(self.floor)),
        ]
        if self.alignment is not None:
            lines += _table("alignment", msgspec.structs.asdict(self.alignment))
        for name, member in self.members.items():
            entries = {key: value for key, value in msgspec.structs.asdict(member).items() if value != ""}
            lines += _table(f"members.{name}", entries)
        lines += _table("signatures", self.signatures)
        for name, rotations in self.rotations.items():
            for rotation in rotations:
                lines += _table(f"[rotations.{name}]", msgspec.structs.asdict(rotation))
        for name, introduction in self.analysts.items():
            lines += _table(f"analysts.{json.dumps(name)}", msgspec.structs.asdict(introduction))
        for name, revocation in self.revocations.items():
            lines += _table(f"revocations.{json.dumps(name)}", msgspec.structs.asdict(revocation))
        return "\n".join([*lines, ""])


def read_agreement(path: Path) -> FederationAgreement:
    """Read a federation's papers from a file; whether they are signed is for `FederationAgreement.check` to say."""
    try:
        return FederationAgreement.read(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"{path.name} cannot be read.", remedy="Put the federation's signed papers there.") from None


def _table(title: str, entries: Mapping[str, Any]) -> Iterable[str]:
    head = ["", f"[{title}]"] if title else []
    return [*head, *(f"{key} = {json.dumps(value)}" for key, value in entries.items() if value is not None)]


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of ``"host:port"``.

    Examples
    --------
    >>> address_of("bank.example.org:8010")
    ('bank.example.org', 8010)
    """
    host, _, port = text.rpartition(":")
    if not _HOST.fullmatch(host) or not _PORT.fullmatch(port) or int(port) >= 65_536:
        raise BadInput("A member's address is a host and a port.", remedy="For example bank.example.org:8010.")
    return host, int(port)


def _is_name(name: str) -> bool:
    return name.isidentifier() and name.isascii() and name.lower() not in ("server", "localhost")


def _bytes_of(text: str, what: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadInput(
            f"A member's {what} must be written in hexadecimal.",
            remedy="Copy it from the member's card: colonnade party card.",
        ) from None
