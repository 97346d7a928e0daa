"""Per-run key agreement: signed ephemeral keys, one pair of letter keys for each pair of parties.

Each party signs, with its pinned identity, a `Hello`: the terms of the run (federation, run, parties, plan) and an
ephemeral X25519 key. The coordinator relays the hellos. A party agrees only when every party of the run signed the same
terms as itself, so a coordinator that shows different plans to different parties is caught before a share leaves. The
hash of all hellos salts every key: parties that saw different hellos cannot read each other's letters.

The ephemeral key is derived from a 32-byte seed *and the terms*. A party that restarts with its seed sends the same
hello again and arrives at the same session, and a seed used twice by mistake still gives each run a key of its own.
Erasing the seed after the run gives forward secrecy.
"""

from collections.abc import Iterable, Mapping

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from colonnade.errors import BadInput, PlanMismatch, ProtocolError
from colonnade.secure.framing import digest, frame
from colonnade.secure.keys import Identity, PublicIdentity
from colonnade.secure.mail import Session
from colonnade.secure.secret import Secret, require_seed

__all__ = ["Handshake", "Hello", "RunTerms"]

_HASH_BYTES = 32
_KEY_BYTES = 32
_SIGNATURE_BYTES = 64
_LARGEST_NAME = 255
_LARGEST_HEAD = 1024


class RunTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all parties of one run must agree on.

    Parameters
    ----------
    federation, plan
        SHA-256 hashes of the federation's signed agreement and of the plan's canonical bytes.
    run
        16 to 64 bytes that name this run and no other.
    parties
        Every party of the run, compute nodes without data included, in canonical (code point) order.
    """

    federation: bytes
    run: bytes
    parties: tuple[str, ...]
    plan: bytes

    def __post_init__(self) -> None:
        if len(self.federation) != _HASH_BYTES or len(self.plan) != _HASH_BYTES:
            raise BadInput("The federation and the plan are named by 32-byte hashes.")
        if not 16 <= len(self.run) <= 64:
            raise BadInput("A run is named by 16 to 64 bytes.")
        if any(not _is_name(party) for party in self.parties):
            raise BadInput("A party's name is short, printable and not empty.")
        if len(self.parties) < 2 or tuple(sorted(set(self.parties))) != self.parties:
            raise BadInput("A run has at least two parties, each named once, in canonical order.")

    @classmethod
    def of(cls, *, federation: bytes, run: bytes, parties: Iterable[str], plan: bytes) -> "RunTerms":
        """Return the terms with the parties put in canonical order."""
        return cls(federation, run, tuple(sorted(parties)), plan)


def _is_name(party: str) -> bool:
    # isprintable also rules out lone surrogates, which have no UTF-8
    return bool(party) and party.isprintable() and len(party.encode()) <= _LARGEST_NAME


class Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One party's signed ephemeral key for one run. Public; travels through the coordinator.

    ``head`` says where the party's ledger stands, under the same signature; empty where there is none to speak of.
    """

    terms: RunTerms
    party: str
    ephemeral: bytes
    signature: bytes
    head: bytes = b""

    def __post_init__(self) -> None:
        if self.party not in self.terms.parties:
            raise BadInput("A hello comes from a party of its own run.")
        if len(self.ephemeral) != _KEY_BYTES or len(self.signature) != _SIGNATURE_BYTES:
            raise BadInput("A hello holds a key of 32 bytes and a signature of 64.")
        if len(self.head) > _LARGEST_HEAD:
            raise BadInput("A hello says where a ledger stands in a few words.")

    def signed(self) -> bytes:
        """Return the bytes that the signature is over."""
        return _signed(self.terms, self.party, self.ephemeral, self.head)


def _signed(terms: RunTerms, party: str, ephemeral: bytes, head: bytes = b"") -> bytes:
    more = (head,) if head else ()
    return frame("colonnade hello v1", terms.federation, terms.run, party, terms.parties, terms.plan, ephemeral, *more)


class Handshake:
    """One party's side of the key agreement of one run.

    Parameters
    ----------
    identity
        The party's own private identity.
    party
        The party's own name, one of ``terms.parties``.
    terms
        What this party itself takes the run to be; never taken from the coordinator's relayed hellos.
    seed
        32 secret random bytes, kept durably until the run ends if the party is to survive a restart.
    head
        Where this party's ledger stands, for its peers to remember.
    """

    def __init__(self, identity: Identity, party: str, terms: RunTerms, seed: bytes, *, head: bytes = b"") -> None:
        if party not in terms.parties:
            raise BadInput("A party takes part only in a run that names it.")
        context = _signed(terms, party, b"")
        derived = Secret(require_seed(seed)).derive("colonnade ephemeral v1", context)
        self._private = X25519PrivateKey.from_private_bytes(derived.expose())
        self.party = party
        self.terms = terms
        self.hello = self._signed_hello(identity, head)

    def _signed_hello(self, identity: Identity, head: bytes) -> Hello:
        ephemeral = self._private.public_key().public_bytes_raw()
        signature = identity.sign(_signed(self.terms, self.party, ephemeral, head))
        return Hello(self.terms, self.party, ephemeral, signature, head)

    def agree(self, hellos: Mapping[str, Hello], pinned: Mapping[str, PublicIdentity]) -> Session:
        """Check every hello and return the session.

        Parameters
        ----------
        hellos
            Exactly one hello a party of the run, this party's own included, by name, as relayed.
        pinned
            The identities from the federation's agreement; it may hold parties outside this run.

        Raises
        ------
        PlanMismatch
            A party signed other terms: another plan, run, federation or list of parties.
        ProtocolError
            A hello is missing, extra, reflected, forged, or holds a key that agrees on nothing.
        """
        self._check_roster(hellos, pinned)
        for name in self.terms.parties:  # canonical order: every honest party stops at the same fault
            self._check(name, hellos[name], pinned[name])
        transcript = _transcript(self.terms, hellos, pinned)
        shared = {name: self._shared(hellos[name]) for name in self.terms.parties if name != self.party}
        return Session(
            party=self.party,
            parties=self.terms.parties,
            run=self.terms.run,
            plan=self.terms.plan,
            transcript=transcript,
            outgoing={name: _letter_key(secret, transcript, self.party, name) for name, secret in shared.items()},
            incoming={name: _letter_key(secret, transcript, name, self.party) for name, secret in shared.items()},
        )

    def _check_roster(self, hellos: Mapping[str, Hello], pinned: Mapping[str, PublicIdentity]) -> None:
        if set(hellos) != set(self.terms.parties):
            raise ProtocolError("The hellos are not one from each party of the run.")
        if not set(self.terms.parties) <= set(pinned):
            raise ProtocolError("A party of the run has no pinned identity.")
        if len({pinned[name].key for name in self.terms.parties}) < len(self.terms.parties):
            raise ProtocolError("Two parties of the run have the same identity.")
        if len({hello.ephemeral for hello in hellos.values()}) < len(self.terms.parties):
            raise ProtocolError("Two parties of the run sent the same key.")

    def _check(self, name: str, hello: Hello, identity: PublicIdentity) -> None:
        if hello.party != name:
            raise ProtocolError("A hello is delivered under another party's name.")
        identity.verify(hello.signed(), hello.signature)
        if hello.terms != self.terms:  # after the signature: only the party itself can accuse itself of another plan
            raise PlanMismatch("A party signed another plan, run, federation or list of parties.")
        if name == self.party and hello != self.hello:
            raise ProtocolError("This party's own hello came back changed.")

    def _shared(self, hello: Hello) -> Secret:
        try:
            return Secret(self._private.exchange(X25519PublicKey.from_public_bytes(hello.ephemeral)))
        except ValueError as error:  # the result was all zero: a point of small order
            raise ProtocolError("A party sent a key that agrees on nothing.") from error

    def __repr__(self) -> str:
        return f"Handshake(party={self.party!r}, <redacted>)"


def _transcript(terms: RunTerms, hellos: Mapping[str, Hello], pinned: Mapping[str, PublicIdentity]) -> bytes:
    entries = ((pinned[name].key, hellos[name].signed(), hellos[name].signature) for name in terms.parties)
    return digest("colonnade transcript v1", *entries)


def _letter_key(shared: Secret, transcript: bytes, sender: str, receiver: str) -> Secret:
    return shared.derive("colonnade letter key v1", sender, receiver, salt=transcript)
