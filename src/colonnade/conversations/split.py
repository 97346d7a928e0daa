"""The parties of a plan divide their people in two, the same way at every party, and the coordinator does not learn who is where.

The conversation is that of a group key (`colonnade.conversations.group_key`): with the key every party decides for each
place of the agreed order of rows whether it belongs to the first or to the second part, keeps both parts as orders of rows
of their own, and forgets the key. The places are in the order of the ids, so a place is a person. All parties that keep a
part keep the same one, for the reason given there; its name follows from the plan, so the coordinator can ask for it without
being told anything.
"""

import hashlib

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from colonnade.conversations.group_key import KeyRun
from colonnade.errors import PlanMismatch
from colonnade.plan import Plan
from colonnade.protocol import codec

__all__ = ["PARTS", "SPLIT", "SplitRun", "belongs", "part_identity", "share_of"]

SPLIT = "split"
"""The statistic of the steps."""

PARTS = ("train", "test")


class SplitRun(KeyRun):
    """One party's side of a division."""

    @classmethod
    def members(cls, plan: Plan, step: str) -> tuple[str, ...]:
        """Return the parties that have the step: two or more, none of them asked for a column."""
        steps = [one for one in plan.steps if one.name == step]
        if len(steps) < 2 or any(one.statistic != SPLIT or one.columns or one.price is not None for one in steps):
            raise PlanMismatch("People are divided by two or more parties together, and nothing is released.")
        plan.require_named()
        if len({share_of(plan, one.party, step) for one in steps}) != 1:
            raise PlanMismatch("The parties are asked for different divisions.")
        return tuple(sorted(one.party for one in steps))


def share_of(plan: Plan, party: str, step: str) -> float:
    """Return which share of people belongs to the second part."""
    share = plan.step(party, step).parameters.get("test")
    if type(share) is not float or not 0 < share < 1:
        raise PlanMismatch("A division has a share between 0 and 1.")
    return share


def part_identity(plan: Plan, part: str) -> str:
    """Return the name of a part as an order of rows: a function of the plan, which names the order that is divided."""
    return hashlib.sha256(b"colonnade split 1\0" + codec.digest(plan) + part.encode()).hexdigest()


def belongs(key: bytes, people: int, share: float) -> NDArray[np.bool_]:
    """Return for each place of the order whether it belongs to the second part: a keyed 64-bit hash below a threshold."""
    stream = Cipher(ChaCha20(hashlib.sha256(b"colonnade split places 1\0" + key).digest(), bytes(16)), mode=None)
    words = np.frombuffer(stream.encryptor().update(bytes(8 * people)), dtype="<u8")
    return np.asarray(words < np.uint64(int(share * 2.0**53) << 11))
