"""Vertical SAGA on a coreset (paper 004, §6), seen from the coordinator: it opens residuals and sends them back.

Each turn every party sends its masked part of a batch's residuals; their sum goes back, and every party steps. In the whitened
coordinates of `colonnade.party.steps.coreset_training` the gradient of row i is u_i·r_i with ‖u_i‖² its leverage, so the
smoothness of a batch of b of m rows is L(b) = m(b−1)/(b(m−1))·L + (m−b)/(b(m−1))·m·max‖u_i‖² with L ≤ the number of parties
[Gower, Richtárik and Bach 2021], and the step is 1/(3·L(b)).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.saga import LARGEST_TURN, batch_of
from colonnade.coordinator.protocols.relay import Relay
from colonnade.coordinator.protocols.secure_sum import added
from colonnade.errors import ProtocolError
from colonnade.plan import Plan
from colonnade.protocol.messages import Array, Opened, pack, unpack
from colonnade.protocol.rounds import Rounds
from colonnade.steps.sums import SumTerms

__all__ = ["BlockCoefficients", "vertical_saga"]

BlockCoefficients = Mapping[str, NDArray[np.float64]]
MARGIN_SCALE = 2**32
EPOCHS = 300
SETTLED = 1e-4
"""Relative change of residuals over an epoch, below which the training ends; the loss is then within about 10⁻⁴ of the best."""


def vertical_saga(plan: Plan, step: str, weights: NDArray[np.float64], widths: Mapping[str, int]) -> Rounds:
    """Train, and return each party's coefficients of its coded columns.

    Parameters
    ----------
    plan, step
        What is run.
    weights
        Of the sampled rows.
    widths
        How many coefficients each party has.
    """
    terms, rows = SumTerms.read(plan, step), len(weights)
    relay = Relay(plan, step, terms.owners)
    yield from relay.greet()
    replies = yield from relay.last({"weights": pack(weights)})
    lengths = added(terms, replies, rows) / MARGIN_SCALE
    batch = len(batch_of(plan, 2, rows))
    length = _step_length(lengths, batch, len(terms.owners))
    known = np.full(rows, np.nan)
    inputs: dict[str, Array] = {}
    turns = -(-rows // batch)
    moved, size = np.zeros(turns), np.ones(turns)
    for number in range(2, min(LARGEST_TURN - 1, EPOCHS * turns)):
        replies = yield from relay.last(inputs)
        places = batch_of(plan, number, rows)
        residuals = added(terms, replies, batch) / MARGIN_SCALE
        change = residuals - np.nan_to_num(known[places])
        moved[number % turns], size[number % turns] = change @ change, residuals @ residuals
        known[places] = residuals
        inputs = {"residuals": pack(residuals), "step": pack(np.array([length]))}
        if number > 4 * turns and moved.sum() <= SETTLED**2 * max(float(size.sum()), 1e-300):
            break
    replies = yield from relay.last({**inputs, "stop": pack(np.zeros(1))})
    return {party: _block(party, replies[party], widths[party]) for party in terms.owners}


def _step_length(lengths: NDArray[np.float64], batch: int, parties: int) -> float:
    rows = len(lengths)
    whole, single = float(parties), rows * float(max(lengths.max(), 1e-12))
    if rows == batch:
        return 1 / whole
    smoothness = rows * (batch - 1) * whole + (rows - batch) * single
    return batch * (rows - 1) / (3 * smoothness)


def _block(party: str, reply: object, width: int) -> NDArray[np.float64]:
    own = unpack(reply.own) if isinstance(reply, Opened) and reply.own is not None else None
    if own is None or own.shape != (width,) or not np.all(np.isfinite(own)):
        raise ProtocolError(f"Party {party!r} sent coefficients of another shape.")
    return own.astype(np.float64)
