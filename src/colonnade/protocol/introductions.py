"""Who joins and who leaves after a federation's papers were signed: analysts that members introduce, and those who are revoked.

Both stand beside the papers, as new keys do, and are no part of what everybody signed. So nobody has to sign again, the
federation keeps its name, and what was released under it is not asked for anew.

*An introduction.* A member signs the name and the public key of somebody who asks for studies. The other members can then tell
who asked, and cap it. It gives an analyst no further right: every study is still checked against every party's own policy.

*A revocation.* Any member can say that an analyst or another member is out. It holds for everybody who has the file: a revoked
analyst's signature is worth nothing any more, and no plan that names an expelled member is answered. It is for good.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from colonnade.errors import BadInput, ColonnadeError, ProtocolError
from colonnade.plan import checked_analyst_name
from colonnade.secure.keys import Identity, PublicIdentity, frame

if TYPE_CHECKING:
    from colonnade.protocol.agreement import FederationAgreement

__all__ = ["Introduction", "Revocation", "check_introductions", "introduced", "revoked"]

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
