"""Runs among made-up parties: what the tests of keys, letters and group secrets share."""

import hashlib

from colonnade.secure.keys import Handshake, Hello, Identity, PublicIdentity, RunTerms, Session

NAMES = ("ana", "bo", "cy", "dee", "eva", "flo", "gus", "hal")


def seed(*words: object) -> bytes:
    return hashlib.sha256(repr(words).encode()).digest()


def identity(name: str) -> Identity:
    return Identity.from_seed(seed("identity", name))


def pinned(count: int = 8) -> dict[str, PublicIdentity]:
    return {name: PublicIdentity(identity(name).public) for name in NAMES[:count]}


def terms(count: int = 3, **changes: object) -> RunTerms:
    fields = {"federation": seed("federation"), "run": seed("run"), "parties": NAMES[:count], "plan": seed("plan")}
    return RunTerms.of(**(fields | changes))


def handshake(name: str, agreed: RunTerms, *, drawn: bytes | None = None) -> Handshake:
    return Handshake(identity(name), name, agreed, drawn or seed("ephemeral", name))


def hellos(agreed: RunTerms) -> dict[str, Hello]:
    return {name: handshake(name, agreed).hello for name in agreed.parties}


def sessions(count: int = 3, **changes: object) -> dict[str, Session]:
    agreed = terms(count, **changes)
    relayed = hellos(agreed)
    return {name: handshake(name, agreed).agree(relayed, pinned()) for name in agreed.parties}
