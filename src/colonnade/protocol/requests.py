"""Who asks for a study, and what for: words beside a plan (`colonnade.plan.About`), signed by an analyst.

The coordinator is not a trust anchor, so what it says about a study is worth as much as the coordinator. An *analyst* has a key.
A member of the federation introduces the analyst, and the public key then stands in the federation's papers. The analyst signs
title, purpose and name together with the hash of the plan. Nobody else can put these words beside another plan, or other words
beside this one.

The signature is kept with the words, and the public key with the signature (`About.signature` is the key's 32 bytes and the
signature's 64). So a ledger can be checked years later by somebody who has nothing but the file. The papers say whose key it is.
"""

import re
from collections.abc import Mapping

import msgspec

from colonnade.errors import BadInput, ColonnadeError, ProtocolError
from colonnade.plan import About
from colonnade.secure.keys import Identity, PublicIdentity, frame

__all__ = ["checked_analyst_name", "require_requester", "sign_request", "signer_of"]

KEY_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


def checked_analyst_name(name: object) -> str:
    """Return an analyst's name; refuse one that is not a plain word such as ``analyst@telco``."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(
            "An analyst's name has letters, digits and the signs . _ @ + - only, and at most 100 of them.",
            remedy="For example 'analyst@telco'.",
        )
    return name


def _message(about: About, plan: bytes) -> bytes:
    return frame("colonnade study request v1", plan, about.title, about.purpose, about.requester)


def sign_request(about: About, plan: bytes, identity: Identity) -> About:
    """Return the words with the requester's signature under them.

    Parameters
    ----------
    about
        The words, with the requester's name.
    plan
        The plan's hash (`colonnade.protocol.codec.digest`).
    identity
        The analyst's key.

    Examples
    --------
    >>> identity = Identity.from_seed(bytes(32))
    >>> signed = sign_request(About(title="Churn", requester="analyst@telco"), bytes(32), identity)
    >>> signer_of(signed, bytes(32)) == PublicIdentity(identity.public)
    True
    >>> signer_of(signed, bytes(31) + b"1") is None
    True
    """
    return msgspec.structs.replace(about, signature=identity.public + identity.sign(_message(about, plan)))


def signer_of(about: About, plan: bytes) -> PublicIdentity | None:
    """Return the key that signed these words for this plan; ``None`` if nobody did."""
    try:
        key = PublicIdentity(about.signature[:KEY_BYTES])
        key.verify(_message(about, plan), about.signature[KEY_BYTES:])
    except ColonnadeError:
        return None
    return key


def require_requester(about: About | None, plan: bytes, analysts: Mapping[str, PublicIdentity]) -> str:
    """Return who asks: an analyst of the papers who has signed, or an empty text where only the coordinator says so.

    Words with a signature that is not the named analyst's are refused: somebody has changed them, or speaks for somebody else.

    Parameters
    ----------
    about
        What is said about the study.
    plan
        The plan's hash.
    analysts
        The analysts that the federation's papers name, by name.
    """
    if about is None or not about.signature:
        return ""
    known = analysts.get(about.requester)
    if known is None or signer_of(about, plan) != known:
        raise ProtocolError(
            "What is said about the study is signed by nobody whom this party knows as its requester.",
            remedy="Ask with the key of an analyst in the federation's papers (colonnade federation check), or without one.",
        )
    return about.requester
