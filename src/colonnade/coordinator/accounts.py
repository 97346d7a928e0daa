"""What the parties' accounts say together: a line for each ledger, and what all of them cost one person."""

from collections.abc import Iterable

from colonnade.privacy.loss import NOTHING, Loss, total
from colonnade.privacy.price import NANO
from colonnade.protocol.messages import Accounted

__all__ = ["account_row", "person_loss"]


def account_row(reply: Accounted) -> dict[str, object]:
    """Return one party's line of `Federation.budget`."""
    spent = Loss.from_bytes(reply.spent)
    return {
        "party": reply.party,
        "spent": spent.epsilon(reply.cap_delta),
        "remaining": _room(spent, reply.cap_nano, reply.cap_delta),
        "epsilon": reply.cap_nano / NANO,
        "delta": reply.cap_delta,
        "releases": sum(entry.loss is not None for entry in reply.entries),
        "nonprivate": sum(entry.loss is None for entry in reply.entries),
    }


def _room(spent: Loss, cap_nano: int, delta: float) -> float:
    """Return the largest pure ε that one more release may cost: composition, not subtraction, decides."""
    low, high = 0, cap_nano
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if (spent + Loss.of_pure(middle)).fits(cap_nano, delta) else (low, middle - 1)
    return low / NANO


def person_loss(accounts: Iterable[Accounted]) -> Loss:
    """Compose all parties' releases; one that several parties paid for together counts once, at its largest."""
    alone: list[Loss] = []
    joint: dict[str, Loss] = {}
    for reply in accounts:
        for entry in reply.entries:
            if entry.loss is None:
                continue
            loss = Loss.from_bytes(entry.loss)
            if entry.joint is None:
                alone.append(loss)
            else:
                joint[entry.joint] = max(joint.get(entry.joint, NOTHING), loss, key=lambda one: one.renyi)
    return total([*alone, *joint.values()])
