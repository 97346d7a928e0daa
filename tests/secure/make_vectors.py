"""The program that wrote ``vectors/key_schedule.json``: run ``python -m tests.secure.make_vectors`` to write it again.

A change of these vectors is a change of the protocol: raise the version in the labels, never overwrite in silence.
"""

import json
from pathlib import Path

from colonnade.secure.keys import GroupSecret
from tests.secure import runs

PLACE = Path(__file__).parent / "vectors" / "key_schedule.json"
PLAINTEXT = bytes(range(48))
STEP, SEQUENCE, GROUP_STEP = 5, 2**40 + 1, 9


def vectors() -> dict[str, object]:
    """Everything that follows from the seeds of three parties, as hexadecimal text."""
    terms = runs.terms(3)
    sessions = runs.sessions(3)
    return {
        "terms": {
            "federation": terms.federation.hex(),
            "run": terms.run.hex(),
            "parties": list(terms.parties),
            "plan": terms.plan.hex(),
        },
        "identity_seeds": {name: runs.seed("identity", name).hex() for name in terms.parties},
        "ephemeral_seeds": {name: runs.seed("ephemeral", name).hex() for name in terms.parties},
        "identities": {name: runs.identity(name).public.hex() for name in terms.parties},
        "ephemerals": {name: hello.ephemeral.hex() for name, hello in runs.hellos(terms).items()},
        "signatures": {name: hello.signature.hex() for name, hello in runs.hellos(terms).items()},
        "transcript": sessions["ana"].transcript.hex(),
        "letter_keys": {
            name: {peer: key.expose().hex() for peer, key in session._outgoing.items()}
            for name, session in sessions.items()
        },
        "letter": {
            "from": "ana",
            "to": "bo",
            "step": STEP,
            "sequence": SEQUENCE,
            "plaintext": PLAINTEXT.hex(),
            "sealed": sessions["ana"].seal("bo", STEP, SEQUENCE, PLAINTEXT).hex(),
        },
        "group": _group(),
    }


def _group() -> dict[str, object]:
    sessions = runs.sessions(3)
    group = {
        name: GroupSecret(session, "sketches", GROUP_STEP, runs.seed("group", name))
        for name, session in sessions.items()
    }
    commits = {name: member.commit() for name, member in group.items()}
    reveals = {name: member.reveal(_to(name, commits)) for name, member in group.items()}
    return {
        "purpose": "sketches",
        "step": GROUP_STEP,
        "seeds": {name: runs.seed("group", name).hex() for name in group},
        "view": group["ana"]._view.hex(),
        "key": group["ana"].settle(_to("ana", reveals)).expose().hex(),
    }


def _to(receiver: str, sent: dict[str, dict[str, bytes]]) -> dict[str, bytes]:
    return {sender: letters[receiver] for sender, letters in sent.items() if sender != receiver}


if __name__ == "__main__":
    PLACE.write_text(json.dumps(vectors(), indent=1) + "\n")
