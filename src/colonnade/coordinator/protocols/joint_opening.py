"""Paper 002, Algorithms 1 and 2, seen from the coordinator: relay the turns of a joint opening, add up the shares,
keep the result.

We differ from the paper in who may know what: noise enters as shares of degree 2t before anything is opened, and
columns of one party are multiplied by that party alone. The coordinator sees sealed letters and, at the end, shares
of an already-noised product.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.protocols.relay import Relay
from colonnade.errors import ProtocolError
from colonnade.plan import Plan
from colonnade.protocol.messages import Array, Conclude, Opened, Recall, Released, Reply, pack, unpack
from colonnade.protocol.rounds import Rounds
from colonnade.secure.shamir import reconstruct
from colonnade.steps.joint import Joint
from colonnade.steps.registry import read_joint

__all__ = ["JointResult", "open_jointly"]


@dataclass(frozen=True)
class JointResult:
    """What a joint opening released, as integers.

    Parameters
    ----------
    joint
        What was opened, read from the plan.
    cross
        One integer for each entry between two parties, in the order of `colonnade.secure.products.entry_pairs`.
    own
        Each party's own part, where the statistic has one.
    """

    joint: Joint
    cross: NDArray[np.int64]
    own: Mapping[str, NDArray[np.int64]]


def open_jointly(plan: Plan, step: str) -> Rounds:
    """Run one joint step, or return what its parties have kept of an earlier run."""
    joint = read_joint(plan, step)
    kept = yield {member: Recall(plan=plan, step=step) for member in joint.members}
    for reply in kept.values():
        if isinstance(reply, Released):
            return _result(joint, {name: unpack(array) for name, array in reply.values.items()})
    if all(isinstance(kept[member], Opened) for member in joint.members):
        replies = kept  # opened before, and lost on the way to us
    else:
        replies = yield from _run(plan, step, joint)
    shares, own = _shares(joint, replies), _own(joint, replies)
    cross = reconstruct(joint.arithmetic, shares, degree=2 * joint.threshold, bound=joint.bound)
    values = {"cross": cross, **{f"own.{party}": value for party, value in own.items()}}
    packed: dict[str, Array] = {name: pack(value) for name, value in values.items()}
    yield {owner: Conclude(plan=plan, step=step, values=packed) for owner in joint.data_parties}
    return _result(joint, values)


def _run(plan: Plan, step: str, joint: Joint) -> Rounds:
    """Relay every turn; return the answers to the last."""
    relay = Relay(plan, step, joint.members)
    yield from relay.greet()
    for _ in range(joint.turns):
        yield from relay.turn()
    return (yield from relay.last())


def _shares(joint: Joint, replies: Mapping[str, Reply]) -> dict[int, NDArray[np.uint64]]:
    shares: dict[int, NDArray[Any]] = {}
    for number, node in enumerate(joint.nodes):
        reply = replies[node]
        if not isinstance(reply, Opened) or reply.share is None:
            raise ProtocolError(f"{node!r} did not open its share.")
        share = unpack(reply.share).copy()  # compiled kernels take writable arrays
        if share.shape != (joint.entries,) or share.dtype != np.uint64:
            raise ProtocolError(f"{node!r} opened a share of another shape.")
        shares[number + 1] = share
    return shares


def _own(joint: Joint, replies: Mapping[str, Reply]) -> dict[str, NDArray[Any]]:
    own = {}
    for owner in joint.owners:
        reply = replies[owner]
        if not isinstance(reply, Opened):
            raise ProtocolError(f"{owner!r} did not open its own part.")
        if reply.own is not None:
            own[owner] = unpack(reply.own)
    return own


def _result(joint: Joint, values: Mapping[str, NDArray[Any]]) -> JointResult:
    own = {name.removeprefix("own."): value for name, value in values.items() if name.startswith("own.")}
    if "cross" not in values or values["cross"].shape != (joint.entries,):
        raise ProtocolError("The kept answer of a joint step is of another shape.")
    return JointResult(joint, values["cross"], own)
