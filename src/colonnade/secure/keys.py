"""Keys and what is made of them: one canonical encoding, secrets, identities that sign, uniform words, and sealed letters.

*Encoding* (`frame`, `digest`). Everything that is signed, hashed, bound to a key or authenticated is encoded in one way.
Every field carries its kind and its length, so two different lists of fields never have the same bytes: "ab", "c" is not "a",
"bc", and a number is not its own digits. The first field is a label that says what the bytes are for, so that a signature or
a key made for one purpose is worth nothing for another.

*Secrets* (`Secret`) do not show themselves, and other secrets are derived from them by HKDF-SHA256.

*Identities* (`Identity`, `PublicIdentity`): one Ed25519 key per party, pinned by its peers in the federation's signed
agreement. The coordinator is not a trust anchor: a public identity is only ever read from what the parties themselves signed,
never from what the coordinator relays.

*Streams* (`SeedStream`): uniform words from a 32-byte seed, by AES-256 in counter mode. Shares, masks and challenges are
regenerated from a seed after a restart, chunk by chunk, so a stream has *positions*: the counter block is the position (eight
bytes) and a block number (eight bytes), and two positions never meet.

*Handshake.* Members authenticate each other and agree on keys. Each party signs, with its pinned identity, a `Hello`: the hash
of the run's terms (federation, run, parties, plan) and an ephemeral X25519 key. The coordinator relays the hellos. A party
agrees only when every party of the run said the same terms as itself, so a coordinator that shows different plans to different
parties is caught before a share leaves. The hash of all hellos salts every key: parties that saw different hellos cannot read
each other's letters. The ephemeral key is derived from a 32-byte seed *and the terms*. A party that restarts with its seed
sends the same hello again and arrives at the same session, and a seed used twice by mistake still gives each run a key of its
own. Erasing the seed after the run gives forward secrecy.

*Many parties.* Where members exchange letters with a few partners only, such as data parties with a committee, each checks the
signatures of its partners and derives keys with them, and with nobody else. The committee's members have everybody for a
partner and check all signatures. That is enough: the salt is the hash of *all* hellos, so a letter between two partners opens
only if both saw the same ones. If a coordinator invents or changes the hello of a party, an honest member of the committee
refuses it; and if that member is shown another one, it cannot open what the others seal to it. A letter *from* a partner that
opens is therefore that partner's word on every hello that we were shown, signatures included (`Handshake.agree`).

*Letters.* A letter has an address: run, step, sender, receiver, sequence and plan hash. The address is the associated data of
ChaCha20-Poly1305 and the pair (step, sequence) its nonce, so a letter opens at its own address and nowhere else. A counter
alone repeats a nonce when a party restarts and seals something else at the same address. Here it cannot: the encryption key of
a letter is derived from the address *and from a keyed fingerprint of the plaintext* (the binding). The same plaintext gives the
same letter again; another plaintext has another key. This is the synthetic-IV construction::

    hash key   = HKDF(direction key, "hash", address)          a Poly1305 key for this address only
    binding    = HKDF(direction key, "binding", address, Poly1305(hash key, plaintext)), 16 bytes, sent in the clear
    cipher key = HKDF(direction key, "cipher", address, binding)
    letter     = binding ‖ ChaCha20-Poly1305(cipher key, nonce, plaintext, address)

Two plaintexts of up to 2³⁰ bytes at one address collide in Poly1305 with probability below 2⁻⁷⁶ over its secret key
(8⌈length/16⌉/2¹⁰⁶), and in the binding with probability 2⁻¹²⁸; the Poly1305 value itself is never sent. The receiver need not
recompute the binding: a changed one selects another cipher key, under which nothing authenticates. Within one session, a second
plaintext at an address is refused, and so is a second letter.

*Group keys* (`GroupSecret`). All parties of a run share a key that none of them chose, by commit-then-reveal over letters.
First everyone commits to a random contribution, then everyone reveals it; the key is derived from all contributions. As
long as one party is honest nobody can steer the key, because each contribution is fixed before any is shown. The
coordinator relays sealed letters and learns nothing.

A reveal also repeats the hash of all commitments its sender saw. A party that commits to one thing towards one peer and
to another towards the next is thereby found out in the same round, without a third.

The key is only as secret as the least careful party: a guarantee that rests on it holds against the coordinator and not
against a coalition that includes a party.

Examples
--------
>>> frame("greeting", "ab", "c") == frame("greeting", "a", "bc")
False
"""

import builtins
import hashlib
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from io import BytesIO
from typing import NoReturn, Protocol

import msgspec
import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import constant_time, hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.poly1305 import Poly1305
from numpy.typing import NDArray

from colonnade.errors import BadInput, PlanMismatch, ProtocolError

Field = bytes | str | int | tuple["Field", ...]

LARGEST_WORD = 2**64 - 1


def frame(label: str, *fields: Field) -> bytes:
    """Return the canonical bytes of a labelled list of fields.

    Parameters
    ----------
    label
        What the bytes are for; never empty.
    *fields
        Bytes, text (as UTF-8), whole numbers from 0 to `LARGEST_WORD`, and tuples of these.
    """
    if not label:
        raise BadInput("A frame needs a label.")
    return b"".join(_encoded(field) for field in (label, *fields))


def digest(label: str, *fields: Field) -> bytes:
    """Return the SHA-256 of a frame."""
    state = hashes.Hash(hashes.SHA256())
    state.update(frame(label, *fields))
    return state.finalize()


def _encoded(field: Field) -> bytes:
    match field:
        case bytes():
            return _prefixed(b"b", field)
        case str():
            return _prefixed(b"s", field.encode())
        case tuple():
            return _encoded_names(field) if {*map(type, field)} == {str} else _encoded_parts(field)
        case int() if not isinstance(field, bool) and 0 <= field <= LARGEST_WORD:
            return _prefixed(b"n", field.to_bytes(8, "big"))
    raise BadInput("A frame is made of bytes, text, tuples and whole numbers below 2^64.")


def _encoded_parts(fields: tuple[Field, ...]) -> bytes:
    return _prefixed(b"t", b"".join(_encoded(part) for part in fields))


@lru_cache(
    maxsize=64
)  # a run's list of members is part of all that its members sign; no other tuple is kept: True equals 1
def _encoded_names(names: tuple[str, ...]) -> bytes:
    return _encoded_parts(names)


def _prefixed(kind: bytes, content: bytes) -> bytes:
    return kind + len(content).to_bytes(8, "big") + content


SEED_BYTES = 32


def require_seed(seed: bytes) -> bytes:
    """Return a seed of exactly `SEED_BYTES` bytes; refuse anything else."""
    if not isinstance(seed, bytes) or len(seed) != SEED_BYTES:
        raise BadInput(f"A seed is {SEED_BYTES} bytes.")
    return seed


class Secret:
    """Key material with a redacted repr and comparison in constant time.

    Python cannot erase memory for certain. What this type prevents is the ordinary leak: a key in a log line, a traceback or
    a pickled object.

    Parameters
    ----------
    value
        The bytes; uniformity is not needed where the secret is only derived from.
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        if not isinstance(value, bytes) or not value:
            raise BadInput("A secret is made of bytes.")
        self._value = value

    def expose(self) -> bytes:
        """Return the bytes, for the primitive that needs them."""
        return self._value

    def derive(self, label: str, *fields: Field, salt: bytes | None = None) -> "Secret":
        """Return an independent 32-byte secret for one purpose: HKDF-SHA256, the framed label and fields as info."""
        expansion = HKDF(algorithm=hashes.SHA256(), length=SEED_BYTES, salt=salt, info=frame(label, *fields))
        return Secret(expansion.derive(self._value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and constant_time.bytes_eq(self._value, other._value)

    __hash__ = None  # type: ignore[assignment]  # a hash would be a function of the key that shows in a dictionary

    def __repr__(self) -> str:
        return "Secret(<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret is not serialised.")


_FIELD = 2**255 - 19
_ORDER_EIGHT = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_WORTHLESS = frozenset({0, 1, _FIELD - 1, _FIELD, _FIELD + 1, _ORDER_EIGHT, _FIELD - _ORDER_EIGHT})
"""Ed25519's small-order points by y coordinate, unreduced ones included: under such a key anybody signs anything."""


class RandomBytes(Protocol):
    """The one thing that key generation needs of a source of randomness."""

    def bytes(self, count: int, /) -> bytes:
        """Return that many uniform bytes."""
        ...


class PublicIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A party's public Ed25519 key, as pinned in the federation's agreement.

    Parameters
    ----------
    key
        The 32 bytes of the public key. A point of small order is refused.
    """

    key: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.key, bytes) or len(self.key) != SEED_BYTES:
            raise BadInput("A public identity is 32 bytes.")
        if int.from_bytes(self.key, "little") % 2**255 in _WORTHLESS:
            raise BadInput("A public identity is a point of small order.")

    def verify(self, message: bytes, signature: bytes) -> None:
        """Return if this identity signed the message; raise `ProtocolError` otherwise."""
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(signature, message)
        except (InvalidSignature, ValueError) as error:
            raise ProtocolError("A signature is not that of the party it is said to come from.") from error


class Identity:
    """A party's long-lived private key.

    Parameters
    ----------
    private
        The Ed25519 key. Make one with `generate` or `from_seed`.

    Examples
    --------
    >>> identity = Identity.from_seed(bytes(32))
    >>> PublicIdentity(identity.public).verify(b"message", identity.sign(b"message"))
    """

    __slots__ = ("_private",)

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def generate(cls, randomness: RandomBytes) -> "Identity":
        """Draw a new identity."""
        return cls.from_seed(randomness.bytes(SEED_BYTES))

    @classmethod
    def from_seed(cls, seed: bytes) -> "Identity":
        """Return the identity that a stored 32-byte seed stands for (RFC 8032 calls the seed the private key)."""
        return cls(Ed25519PrivateKey.from_private_bytes(require_seed(seed)))

    @property
    def public(self) -> bytes:
        """The 32 bytes of the public key."""
        return self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature of a message, which should be a `colonnade.secure.keys.frame`."""
        return self._private.sign(message)

    def __repr__(self) -> str:
        return "Identity(<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A private identity is not serialised.")


LARGEST_POSITION = 2**64 - 1

_ZEROS = bytes(1 << 16)  # encrypting zeros in blocks that stay in the cache is the fastest way to the key stream


class WordSource(Protocol):
    """A source of independent uniform bits: any randomness of the library, or a `SeedStream`."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` uniform 64-bit words."""

    def bytes(self, count: int) -> builtins.bytes:
        """Return the next ``count`` uniform bytes."""


class SeedStream:
    """The key stream of a seed, from one position on.

    Parameters
    ----------
    seed
        32 secret uniform bytes.
    position
        Which of the 2⁶⁴ disjoint stretches of the stream; a chunk of rows has its own.

    Examples
    --------
    >>> first, again = SeedStream(bytes(32), 7), SeedStream(bytes(32), 7)
    >>> bool((first.words(5) == again.words(5)).all())
    True
    """

    __slots__ = ("_encryptor",)

    def __init__(self, seed: builtins.bytes, position: int = 0) -> None:
        if type(position) is not int or not 0 <= position <= LARGEST_POSITION:
            raise BadInput("A position of a stream is a whole number from 0 to 2^64 - 1.")
        counter = position.to_bytes(8, "big") + bytes(8)
        self._encryptor = Cipher(AES(require_seed(seed)), CTR(counter)).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` words of the stream."""
        words = np.empty(count, dtype=np.uint64)
        self.fill(words)
        return words

    def bytes(self, count: int) -> builtins.bytes:
        """Return the next ``count`` bytes of the stream."""
        return self._encryptor.update(builtins.bytes(count))

    def fill(self, words: NDArray[np.uint64]) -> None:
        """Overwrite a contiguous array with the next words of the stream (little-endian on every machine)."""
        view = words.reshape(-1).view(np.uint8).data
        for start in range(0, len(view), len(_ZEROS)):
            part = view[start : start + len(_ZEROS)]
            self._encryptor.update_into(_ZEROS[: len(part)], part)
        if words.dtype.newbyteorder("<") != words.dtype:
            words.byteswap(inplace=True)

    def __repr__(self) -> str:
        return "SeedStream(<seed hidden>)"


def subseed(seed: builtins.bytes, label: str, index: int = 0) -> builtins.bytes:
    """Return a seed for one purpose, independent of the seeds of all other purposes and indices."""
    return Secret(require_seed(seed)).derive(label, index).expose()


Payload = bytes | bytearray | memoryview | np.ndarray

LARGEST_LETTER = 2**30
"""The largest plaintext, in bytes; what is larger travels as several letters."""

LARGEST_STEP = 2**32 - 1
_BINDING = 16
_TAG = 16

OVERHEAD = _BINDING + _TAG
"""How many bytes a sealed letter is longer than its plaintext."""


class Session:
    """What a party holds after the handshake: a key for each direction to each peer, and who has sent what.

    Made by `Handshake.agree`, not by hand. Steps and sequences are numbers: a step is a
    place in the protocol, and within a step the letters to one peer are numbered 0, 1, 2, … Letters of different steps
    may be opened in any order, because the receiver says which step it is at. After a restart a step is received again
    from its first letter.

    Parameters
    ----------
    party, parties
        This party, and all parties of the run in canonical order.
    run, plan, transcript
        The run's name, the plan's hash, the hash of all hellos: public.
    outgoing, incoming
        The key for each peer and direction.
    """

    def __init__(
        self,
        *,
        party: str,
        parties: tuple[str, ...],
        run: bytes,
        plan: bytes,
        transcript: bytes,
        outgoing: Mapping[str, Secret],
        incoming: Mapping[str, Secret],
    ) -> None:
        self.party = party
        self.parties = parties
        self.run = run
        self.plan = plan
        self.transcript = transcript
        self._outgoing = dict(outgoing)
        self._incoming = dict(incoming)
        self._sealed: dict[tuple[str, int, int], bytes] = {}
        self._opened: dict[tuple[str, int], list[bytes]] = {}
        self._exchanged: list[bytes] = []

    @property
    def peers(self) -> tuple[str, ...]:
        """With whom this party exchanges letters, in canonical order."""
        return tuple(name for name in self.parties if name in self._outgoing)

    def exchanged(self) -> tuple[bytes, ...]:
        """Return a hash of every letter that was sealed or opened since the last call, in order: of its words, under no key."""
        found, self._exchanged = tuple(self._exchanged), []
        return found

    def _note(self, way: str, peer: str, words: memoryview) -> None:
        self._exchanged.append(digest("colonnade letter exchanged v1", way, peer, hashlib.sha256(words).digest()))

    def shared(self, peer: str, label: str) -> Secret:
        """Return a secret of this party and one peer, the same at both, for one purpose; letters never use it.

        It follows from the key of the letters from whichever name comes first to the other.
        """
        keys = self._outgoing if self.party < peer else self._incoming
        return _key(keys, peer).derive("colonnade pair secret v1", label)

    def seal(self, to: str, step: int, sequence: int, plaintext: Payload) -> bytes:
        """Return a letter that only ``to`` can open, and only at this step and sequence.

        Parameters
        ----------
        to
            A peer.
        step, sequence
            Where in the protocol the letter belongs. Sealing the same plaintext there again returns the same bytes.
        plaintext
            Bytes or any C-contiguous buffer, such as a numpy array of shares. It is read in place, twice: nobody may
            write to it meanwhile.
        """
        key, address = _key(self._outgoing, to), self._address(step, self.party, to, sequence)
        body = _buffer(plaintext)
        if body.nbytes > LARGEST_LETTER:
            raise BadInput("A letter is too long.", remedy="Send it as several letters.")
        binding = _binding(key, address, body)
        if self._sealed.setdefault((to, step, sequence), binding) != binding:
            raise ProtocolError("Another letter was already sealed for this step and sequence.")
        self._note("said", to, body)
        return _encrypted(key, address, binding, _nonce(step, sequence), body)

    def open(self, sender: str, step: int, sequence: int, sealed: Payload, *, retried: bool = False) -> bytes:
        """Return the plaintext of the letter that ``sender`` sealed to this party for this step and sequence.

        Parameters
        ----------
        sender
            A peer.
        step, sequence
            Where the receiver is in the protocol; within a step, letters are opened in order from 0, each once.
        sealed
            What the coordinator delivered.
        retried
            Whether this is a request asked again, which may bring letters already opened; they must be the same ones.

        Raises
        ------
        ProtocolError
            The letter was altered, cut, replayed, reordered, misdelivered or belongs elsewhere. The session is then as
            it was before.
        """
        key, address = _key(self._incoming, sender), self._address(step, sender, self.party, sequence)
        letter = _buffer(sealed)
        if not OVERHEAD <= letter.nbytes <= LARGEST_LETTER + OVERHEAD:
            raise ProtocolError("A letter has an impossible length.")
        binding = bytes(letter[:_BINDING])
        self._expect(sender, step, sequence, binding, retried=retried)
        plaintext = _decrypted(key, address, binding, _nonce(step, sequence), letter[_BINDING:])
        if sequence == len(lane := self._opened.setdefault((sender, step), [])):
            lane.append(binding)  # only now: a forged letter must not use up the place of the true one
        self._note("heard", sender, memoryview(plaintext))
        return plaintext

    def _expect(self, sender: str, step: int, sequence: int, binding: bytes, *, retried: bool) -> None:
        lane = self._opened.get((sender, step), [])
        again = retried and sequence < len(lane) and lane[sequence] == binding
        if sequence != len(lane) and not again:
            raise ProtocolError("A letter was replayed or came out of order.")

    def _address(self, step: int, sender: str, receiver: str, sequence: int) -> bytes:
        if not _is_number(step, LARGEST_STEP) or not _is_number(sequence, LARGEST_WORD):
            raise BadInput("Steps and sequences are whole numbers from 0.")
        return frame("colonnade letter v1", self.run, step, sender, receiver, sequence, self.plan)

    def __repr__(self) -> str:
        return f"Session(party={self.party!r}, peers={self.peers!r}, <redacted>)"


def _is_number(value: int, largest: int) -> bool:
    return type(value) is int and 0 <= value <= largest


def _key(keys: Mapping[str, Secret], peer: str) -> Secret:
    if peer not in keys:
        raise ProtocolError("Letters are exchanged only with partners in the run.")
    return keys[peer]


def _buffer(payload: Payload) -> memoryview:
    try:
        view = memoryview(payload)  # type: ignore[arg-type]  # numpy arrays are buffers
        if "O" in view.format:  # an array of objects would travel as addresses in memory
            raise BadInput("A letter is not made from objects.")
        return view.cast("B") if view.nbytes else memoryview(b"")
    except (TypeError, ValueError) as error:
        raise BadInput("A letter is made from bytes or from a contiguous buffer.") from error


def _binding(key: Secret, address: bytes, body: memoryview) -> bytes:
    hash_key = key.derive("colonnade letter hash v1", address).expose()
    fingerprint = Poly1305.generate_tag(hash_key, body)
    return key.derive("colonnade letter binding v1", address, fingerprint).expose()[:_BINDING]


def _cipher(key: Secret, address: bytes, binding: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(key.derive("colonnade letter cipher v1", address, binding).expose())


def _nonce(step: int, sequence: int) -> bytes:
    return step.to_bytes(4, "big") + sequence.to_bytes(8, "big")


def _encrypted(key: Secret, address: bytes, binding: bytes, nonce: bytes, body: memoryview) -> bytes:
    cipher = _cipher(key, address, binding)
    if not hasattr(cipher, "encrypt_into"):  # cryptography before 47
        return b"".join((binding, cipher.encrypt(nonce, body, address)))
    # a second copy of a large letter costs more than encrypting it (fresh pages): write into the bytes to be returned,
    # which a BytesIO hands over without copying
    letter = BytesIO(bytes(body.nbytes + OVERHEAD))
    with letter.getbuffer() as view:
        view[:_BINDING] = binding
        cipher.encrypt_into(nonce, body, address, view[_BINDING:])
    return letter.getvalue()


def _decrypted(key: Secret, address: bytes, binding: bytes, nonce: bytes, ciphertext: memoryview) -> bytes:
    try:
        return _cipher(key, address, binding).decrypt(nonce, ciphertext, address)
    except InvalidTag as error:
        raise ProtocolError("A letter was altered, cut or meant for elsewhere.") from error


_HASH_BYTES = 32
_KEY_BYTES = 32
_SIGNATURE_BYTES = 64
_LARGEST_NAME = 255
NONCE_BYTES = 16
LARGEST_QUESTION = 2**16


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

    @property
    def digest(self) -> bytes:
        """The hash by which hellos name these terms."""
        return digest("colonnade run terms v1", self.federation, self.run, self.parties, self.plan)

    @classmethod
    def of(cls, *, federation: bytes, run: bytes, parties: Iterable[str], plan: bytes) -> "RunTerms":
        """Return the terms with the parties put in canonical order."""
        return cls(federation, run, tuple(sorted(parties)), plan)


def _is_name(party: str) -> bool:
    # isprintable also rules out lone surrogates, which have no UTF-8
    return bool(party) and party.isprintable() and len(party.encode()) <= _LARGEST_NAME


class Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One party's signed ephemeral key for one run, whose terms are named by their hash. It travels through the coordinator."""

    terms: bytes
    party: str
    ephemeral: bytes
    signature: bytes

    def __post_init__(self) -> None:
        if len(self.terms) != _HASH_BYTES:
            raise BadInput("A hello names the terms of its run by a hash of 32 bytes.")
        if len(self.ephemeral) != _KEY_BYTES or len(self.signature) != _SIGNATURE_BYTES:
            raise BadInput("A hello holds a key of 32 bytes and a signature of 64.")

    def signed(self) -> bytes:
        """Return the bytes that the signature is over."""
        return _signed(self.terms, self.party, self.ephemeral)


def _signed(terms: bytes, party: str, ephemeral: bytes) -> bytes:
    return frame("colonnade hello v3", terms, party, ephemeral)


def nonces_digest(nonces: Mapping[str, bytes]) -> bytes:
    """Return the hash of everybody's nonces.

    What its issuer remembers may follow a nonce (`colonnade.conversations.memory.LedgerHeads.issue`), and is not hashed.
    """
    if any(not NONCE_BYTES <= len(nonce) <= LARGEST_QUESTION for nonce in nonces.values()):
        raise ProtocolError("A nonce is too short or too long.")
    named = sorted((name, nonce[:NONCE_BYTES]) for name, nonce in nonces.items())
    return digest("colonnade nonces v1", *named)


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
    """

    def __init__(self, identity: Identity, party: str, terms: RunTerms, seed: bytes) -> None:
        if party not in terms.parties:
            raise BadInput("A party takes part only in a run that names it.")
        self._named = terms.digest
        derived = Secret(require_seed(seed)).derive("colonnade ephemeral v2", self._named, party)
        self._private = X25519PrivateKey.from_private_bytes(derived.expose())
        self.party = party
        self.terms = terms
        ephemeral = self._private.public_key().public_bytes_raw()
        self.hello = Hello(self._named, party, ephemeral, identity.sign(_signed(self._named, party, ephemeral)))

    def agree(
        self,
        hellos: Mapping[str, Hello],
        pinned: Mapping[str, PublicIdentity],
        partners: Collection[str] | None = None,
    ) -> Session:
        """Check every hello and return the session.

        Parameters
        ----------
        hellos
            Exactly one hello per party of the run, this party's own included, by name, as relayed.
        pinned
            The identities from the federation's agreement; it may hold parties outside this run.
        partners
            With whom this party exchanges letters; by default with everybody. The signatures of the others are not checked
            here: a member that exchanges letters with them has done so, if it can open ours or writes one that we can open.

        Raises
        ------
        PlanMismatch
            A party has other terms: another plan, run, federation or list of parties.
        ProtocolError
            A hello is missing, extra, reflected, forged, or holds a key that agrees on nothing.
        """
        self._check_roster(hellos, pinned)
        partners = frozenset(self.terms.parties if partners is None else partners)
        for name in self.terms.parties:  # canonical order: every honest party stops at the same fault
            self._check(name, hellos[name], pinned[name] if name in partners else None)
        transcript = _transcript(self.terms, self._named, hellos, pinned)
        shared = {
            name: self._shared(hellos[name]) for name in self.terms.parties if name != self.party and name in partners
        }
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

    def _check(self, name: str, hello: Hello, identity: PublicIdentity | None) -> None:
        if hello.party != name:
            raise ProtocolError("A hello is delivered under another party's name.")
        if identity is not None:
            identity.verify(hello.signed(), hello.signature)
        if hello.terms != self._named:  # after the signature: only the party itself can accuse itself of another plan
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


def _transcript(
    terms: RunTerms, named: bytes, hellos: Mapping[str, Hello], pinned: Mapping[str, PublicIdentity]
) -> bytes:
    """Return the hash of everything that all hellos say. The terms name the parties in order, so the fields need no names."""
    fields: list[bytes] = []
    for name in terms.parties:
        hello = hellos[name]
        fields += (pinned[name].key, hello.terms, hello.ephemeral, hello.signature)
    return digest("colonnade transcript v3", named, *fields)


def _letter_key(shared: Secret, transcript: bytes, sender: str, receiver: str) -> Secret:
    return shared.derive("colonnade letter key v1", sender, receiver, salt=transcript)


_DIGEST = 32


class GroupSecret:
    """One party's side of agreeing on a group key: `commit`, then `reveal`, then `settle`, each safe to repeat.

    Parameters
    ----------
    session
        The party's letters of this run.
    purpose
        What the key is for, the same at every party; different purposes give independent keys.
    step
        The protocol's step of the commitments; the reveals use the next one.
    seed
        32 secret random bytes, kept until the run ends if the party is to survive a restart.
        A peer that has read this party's reveal must not be let in again with another commitment: a member that runs this again
        sees to it that every letter is the same (`colonnade.conversations.memory.RunRecords`).

    Examples
    --------
    Letters are mappings from receiver to bytes when they leave and from sender to bytes when they arrive::

        letters = secret.commit()
        letters = secret.reveal(commitments)
        key = secret.settle(reveals)
    """

    def __init__(self, session: Session, purpose: str, step: int, seed: bytes) -> None:
        if not purpose:
            raise BadInput("A group key needs a purpose.")
        drawn = Secret(require_seed(seed))
        context = (session.plan, session.party, purpose, step)
        self._session = session
        self._purpose = purpose
        self._step = step
        self._nonce = drawn.derive("colonnade group nonce v1", *context)
        self._contribution = drawn.derive("colonnade group contribution v1", *context)
        self._commitments: dict[str, bytes] = {}
        self._view = b""

    def commit(self) -> dict[str, bytes]:
        """Return a sealed commitment for each peer."""
        return self._sealed(self._step, self._own_commitment())

    def reveal(self, commitments: Mapping[str, bytes]) -> dict[str, bytes]:
        """Open every peer's commitment and return a sealed reveal for each peer."""
        seen = self._opened(self._step, commitments, _DIGEST)
        seen[self._session.party] = self._own_commitment()
        view = self._digest_of(seen)
        if self._view and not constant_time.bytes_eq(self._view, view):
            raise ProtocolError("A party changed its commitment.")
        self._commitments, self._view = seen, view
        return self._sealed(self._step + 1, self._nonce.expose() + self._contribution.expose() + view)

    def settle(self, reveals: Mapping[str, bytes]) -> Secret:
        """Open every peer's reveal, check it against its commitment, and return the key."""
        if not self._commitments:
            raise ProtocolError("A reveal arrived before all commitments.")
        opened = self._opened(self._step + 1, reveals, 2 * SEED_BYTES + _DIGEST)
        contributions = {name: self._checked(name, opened[name], self._view) for name in self._session.peers}
        contributions[self._session.party] = self._contribution.expose()
        ordered = tuple((name, contributions[name]) for name in self._session.parties)
        joined = Secret(frame("colonnade group contributions v1", *ordered))
        return joined.derive("colonnade group key v2", self._session.plan, self._purpose, salt=self._view)

    def _checked(self, name: str, reveal: bytes, view: bytes) -> bytes:
        nonce, contribution = reveal[:SEED_BYTES], reveal[SEED_BYTES : 2 * SEED_BYTES]
        if not constant_time.bytes_eq(self._commitment(name, nonce, contribution), self._commitments[name]):
            raise ProtocolError("A party revealed a value that it had not committed to.")
        if not constant_time.bytes_eq(reveal[2 * SEED_BYTES :], view):
            raise ProtocolError("A party committed differently towards different peers.")
        return contribution

    def _own_commitment(self) -> bytes:
        return self._commitment(self._session.party, self._nonce.expose(), self._contribution.expose())

    def _commitment(self, party: str, nonce: bytes, contribution: bytes) -> bytes:
        return digest("colonnade group commitment v2", self._session.plan, self._purpose, party, nonce, contribution)

    def _digest_of(self, commitments: Mapping[str, bytes]) -> bytes:
        ordered = tuple((name, commitments[name]) for name in self._session.parties)
        return digest("colonnade group view v2", self._session.plan, self._purpose, *ordered)

    def _sealed(self, step: int, plaintext: bytes) -> dict[str, bytes]:
        return {peer: self._session.seal(peer, step, 0, plaintext) for peer in self._session.peers}

    def _opened(self, step: int, letters: Mapping[str, bytes], length: int) -> dict[str, bytes]:
        if set(letters) != set(self._session.peers):
            raise ProtocolError("The letters are not one from each peer.")
        opened = {peer: self._session.open(peer, step, 0, letters[peer], retried=True) for peer in self._session.peers}
        if any(len(plaintext) != length for plaintext in opened.values()):
            raise ProtocolError("A commitment or reveal has the wrong length.")
        return opened

    def __repr__(self) -> str:
        return f"GroupSecret(purpose={self._purpose!r}, <redacted>)"
