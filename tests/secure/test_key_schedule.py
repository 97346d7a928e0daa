"""Known answers of the key schedule: frozen, and computed a second time here from the specification alone.

The second computation shares no code with the library: framing, HKDF (RFC 5869) and Poly1305 (RFC 8439) are written out
with `hashlib`, `hmac` and whole numbers. Only the curve and the cipher come from `cryptography`.
"""

import hashlib
import hmac
import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from tests.secure.make_vectors import PLACE

FROZEN = json.loads(PLACE.read_text())
PARTIES = FROZEN["terms"]["parties"]
RUN, PLAN, FEDERATION = (bytes.fromhex(FROZEN["terms"][name]) for name in ("run", "plan", "federation"))


def field(value: object) -> bytes:
    match value:
        case bytes():
            kind, content = b"b", value
        case str():
            kind, content = b"s", value.encode("utf-8")
        case int():
            kind, content = b"n", value.to_bytes(8, "big")
        case list():
            kind, content = b"t", b"".join(map(field, value))
    return kind + len(content).to_bytes(8, "big") + content


def framed(*values: object) -> bytes:
    return b"".join(map(field, values))


def hashed(*values: object) -> bytes:
    return hashlib.sha256(framed(*values)).digest()


def hkdf(secret: bytes, info: bytes, salt: bytes = bytes(32)) -> bytes:
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def poly1305(key: bytes, message: bytes) -> bytes:
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for start in range(0, len(message), 16):
        total = (total + int.from_bytes(message[start : start + 16] + b"\x01", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(key[16:], "little")) % 2**128).to_bytes(16, "little")


TERMS = hashed("colonnade run terms v1", FEDERATION, RUN, PARTIES, PLAN)


def signed(name: str, ephemeral: bytes) -> bytes:
    return framed("colonnade hello v3", TERMS, name, ephemeral)


def ephemeral_key(name: str) -> X25519PrivateKey:
    seed = bytes.fromhex(FROZEN["ephemeral_seeds"][name])
    return X25519PrivateKey.from_private_bytes(hkdf(seed, framed("colonnade ephemeral v2", TERMS, name)))


def transcript() -> bytes:
    return hashed(
        "colonnade transcript v3",
        TERMS,
        *(
            field
            for name in PARTIES
            for field in (
                bytes.fromhex(FROZEN["identities"][name]),
                TERMS,
                bytes.fromhex(FROZEN["ephemerals"][name]),
                bytes.fromhex(FROZEN["signatures"][name]),
            )
        ),
    )


def test_the_frozen_hellos_follow_from_the_seeds() -> None:
    for name in PARTIES:
        identity = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(FROZEN["identity_seeds"][name]))
        public = ephemeral_key(name).public_key().public_bytes_raw()
        assert identity.public_key().public_bytes_raw().hex() == FROZEN["identities"][name]
        assert public.hex() == FROZEN["ephemerals"][name]
        assert identity.sign(signed(name, public)).hex() == FROZEN["signatures"][name]


def test_the_frozen_letter_keys_follow_from_the_hellos() -> None:
    assert transcript().hex() == FROZEN["transcript"]
    for sender, keys in FROZEN["letter_keys"].items():
        for receiver, key in keys.items():
            peer = X25519PublicKey.from_public_bytes(bytes.fromhex(FROZEN["ephemerals"][receiver]))
            shared = ephemeral_key(sender).exchange(peer)
            info = framed("colonnade letter key v1", sender, receiver)
            assert hkdf(shared, info, transcript()).hex() == key


def test_the_frozen_letter_follows_from_its_key() -> None:
    letter = FROZEN["letter"]
    key = bytes.fromhex(FROZEN["letter_keys"][letter["from"]][letter["to"]])
    body, sealed = bytes.fromhex(letter["plaintext"]), bytes.fromhex(letter["sealed"])
    place = (letter["step"], letter["from"], letter["to"], letter["sequence"])
    address = framed("colonnade letter v1", RUN, *place, PLAN)
    fingerprint = poly1305(hkdf(key, framed("colonnade letter hash v1", address)), body)
    binding = hkdf(key, framed("colonnade letter binding v1", address, fingerprint))[:16]
    assert sealed[:16] == binding
    cipher = ChaCha20Poly1305(hkdf(key, framed("colonnade letter cipher v1", address, binding)))
    nonce = letter["step"].to_bytes(4, "big") + letter["sequence"].to_bytes(8, "big")
    assert cipher.encrypt(nonce, body, address) == sealed[16:]


def test_the_frozen_group_key_follows_from_the_contributions() -> None:
    group = FROZEN["group"]
    drawn = {}
    for name in PARTIES:
        context = (PLAN, name, group["purpose"], group["step"])
        seed = bytes.fromhex(group["seeds"][name])
        labels = ("colonnade group nonce v1", "colonnade group contribution v1")
        drawn[name] = tuple(hkdf(seed, framed(label, *context)) for label in labels)
    where = (PLAN, group["purpose"])
    commitments = [[name, hashed("colonnade group commitment v2", *where, name, *drawn[name])] for name in PARTIES]
    view = hashed("colonnade group view v2", *where, *commitments)
    assert view.hex() == group["view"]
    joined = framed("colonnade group contributions v1", *([name, drawn[name][1]] for name in PARTIES))
    key = hkdf(joined, framed("colonnade group key v2", *where), view)
    assert key.hex() == group["key"]
