"""How members talk about a gradient descent, and about training on a coreset. The end of this module registers both.

*One run of a gradient descent* at one member: a handshake, then two turns per step::

    turn 0        out: hello
    turn 1        in: everyone's hello      out: by which key I choose batches, to the other data parties; paid for by now
    turn 2 + 2k   in: (their keys,) weights out: my batch's rows and scores, and my noise, as shares, to the nodes
    turn 3 + 2k   in: everyone's shares     out: my share of Σ v·x plus everyone's noise

Weights are public and chosen by the coordinator, who may choose any: parties clip what they make of them.

*Why no degree check.* Exactly N = 2t + 1 nodes compute, and an opening takes all their shares. Noise is dealt by
polynomials of degree 2t: any N values lie on one, so there is nothing to check, and a single honest dealer's polynomial makes
the N opened shares uniform but for their interpolated sum. That sum is all that is learnt: Σ_i λ_i·v(i)·x(i) plus noise.
A party that deals values v(i) of no low degree turns an honest party's row into the linear functional x ↦ Σ_i λ_i·v(i)·x(i)
of a random polynomial x of degree t. The adversary knows at most t of its values. Given these, such a functional either is
k·x(0) plus known terms, for some k, or is uniform whatever x(0) is. In the first case the party could as well have shared the
score k by the book, which is the amplification that every statement excludes (parties are semi-honest in their inputs); in
the second it has spoilt a step. With N > 2t + 1 this would fail: the redundant shares carry no noise of their own.

*SAGA on a coreset* (Coresets, Section 6) opens residuals, which are sums over parties (`colonnade.conversations.sums`), batch by
batch::

    turn 0          out: hello
    turn 1          in: everyone's hello; inputs: weights            out: masked squared lengths of my whitened rows
    turn j ≥ 2      inputs: step, residuals of the batch before      out: my masked part of the next batch's residuals
    any turn        inputs: as before, and ``stop``                  out: my block of coefficients

Masks are fresh in every turn and bound to everything that the coordinator has said so far. Were one party fed other residuals
than the rest, to move its coefficients alone, no sum would come out from then on. The coordinator sees residuals, never one
party's part of them. Which rows are in a batch is a public choice from the plan.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.conversation import (
    Conversation,
    Meeting,
    Member,
    SteppedRun,
    inputs_digest,
    parcel_of,
    share_of,
)
from colonnade.conversations.endpoint import CONVERSATIONS
from colonnade.conversations.sums import agreed_masks
from colonnade.errors import ProtocolError
from colonnade.papers.steps import LARGEST_WEIGHT, GradientTerms
from colonnade.plan import Plan
from colonnade.protocol.messages import Array, Blob, Opened, Posted, Reply, pack, unpack
from colonnade.protocol.public_choice import public_subset
from colonnade.result import COORDINATOR
from colonnade.secure import keys, residues
from colonnade.secure.shamir import Dealing, ShareProduct
from colonnade.steps.kind import LARGEST_NUMBER
from colonnade.steps.sums import SumTerms

Integers = NDArray[np.int64]

_FIRST_STEP = 2


class GradientLearner(Protocol):
    """What a data party brings to a descent; a dataless node brings none."""

    def begin(self) -> bytes:
        """Pay, durably; return a fingerprint of the key of the batches."""

    def share(self, position: int, weights: Integers) -> tuple[Integers, Integers]:
        """Return what is shared in a step: scores and rows of its batch, a column each, and the step's noise."""


class BatchKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One data party to another: a fingerprint of the key by which I choose batches."""

    key: bytes


class StepLetter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One data party to one node: its shares of a step, as 32-byte seeds or as elements; the node's point decides which."""

    rows: Blob
    noise: Blob


_Kind = TypeVar("_Kind", BatchKey, StepLetter)


class GradientRun(SteppedRun):
    """One member's side of one descent."""

    terms: GradientTerms
    _part: GradientLearner | None

    name: ClassVar[str] = "gradient"
    recalled: ClassVar[bool] = False

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: GradientLearner | None, secret: bytes
    ) -> None:
        self.terms = GradientTerms.read(plan, step)
        super().__init__(member, plan, step, run, part=part, secret=secret)
        self._key = b""
        self._kept: tuple[residues.Elements, residues.Elements] | None = None

    def _go_on(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        if number == 1:
            return Posted(letters=self._begin())
        position, opening = divmod(number - _FIRST_STEP, 2)
        if position >= self.terms.steps:
            raise ProtocolError("All steps of this descent were taken.", remedy="Conclude the study.")
        if number == _FIRST_STEP and self._part is not None:
            self._compare_keys(letters)
        self.over = bool(opening) and position == self.terms.steps - 1
        return self._open(number - 1, letters) if opening else self._deal(number, inputs, position)

    def _begin(self) -> dict[str, Blob]:
        if self._part is None:
            return {}
        self._key = self._part.begin()
        return {peer: self._sealed(peer, 1, BatchKey(key=self._key)) for peer in self._peers()}

    def _compare_keys(self, letters: Mapping[str, Blob]) -> None:
        if any(self._opened(peer, 1, letters, BatchKey).key != self._key for peer in self._peers()):
            raise ProtocolError("The data parties choose batches by different keys.")

    # A step -------------------------------------------------------------------------------------------------------------

    def _deal(self, turn: int, inputs: Mapping[str, Array], position: int) -> Posted:
        if self._part is None:
            return Posted(letters={})
        values, noise = self._part.share(position, self._weights(inputs))
        rows, noises = self._dealing("rows", self.terms.threshold, turn), self._dealing("noise", self._double, turn)
        shared = rows.shares(0, values.T), noises.shares(0, noise)
        sealed = {}
        for point, node in enumerate(self.terms.nodes, start=1):
            if node == self._me:
                self._kept = shared[0][point - 1], shared[1][point - 1]
                continue
            letter = StepLetter(rows=self._parcel(rows, shared[0], point), noise=self._parcel(noises, shared[1], point))
            sealed[node] = self._sealed(node, turn, letter)
        return Posted(letters=sealed)

    def _open(self, turn: int, letters: Mapping[str, Blob]) -> Reply:
        """Multiply, add the noise of every data party, and open; a node that lacks any of them does not open."""
        if self.point is None:
            return Posted(letters={})
        received = [self._received(owner, turn, letters) for owner in self.terms.owners]
        arithmetic = self.terms.arithmetic
        scores = arithmetic.add(*(rows[:1] for rows, _ in received))
        columns = np.concatenate([rows[1:] for rows, _ in received])
        product = ShareProduct(arithmetic, [1, self.terms.columns])
        product.add([scores, columns])
        return Opened(share=pack(product.masked([noise for _, noise in received])), own=None)

    def _received(
        self, owner: str, turn: int, letters: Mapping[str, Blob]
    ) -> tuple[residues.Elements, residues.Elements]:
        if owner == self._me:
            kept, self._kept = self._kept, None
            if kept is None:
                raise ProtocolError("A step is opened after it was shared.")
            return kept
        letter = self._opened(owner, turn, letters, StepLetter)
        shape = (self.terms.widths[owner] + 1, self.terms.capacity)
        rows = self._element(letter.rows, self.terms.threshold, shape)
        return rows, self._element(letter.noise, self._double, (self.terms.columns,))

    def _element(self, parcel: Blob, degree: int, shape: tuple[int, ...]) -> residues.Elements:
        assert self.point is not None
        return share_of(self.terms.arithmetic, parcel, seeded=self.point <= degree, shape=shape)

    def _parcel(self, dealing: Dealing, shares: tuple[residues.Elements, ...], point: int) -> Blob:
        return parcel_of(self.terms.arithmetic, dealing, shares, point)

    def _dealing(self, what: str, degree: int, turn: int) -> Dealing:
        seed = keys.digest(
            "colonnade gradient dealing v1", keys.subseed(self._secret, f"colonnade gradient {what}"), turn
        )
        bound = self.terms.largest if what == "rows" else None
        return Dealing(self.terms.arithmetic, nodes=len(self.terms.nodes), degree=degree, seed=seed, bound=bound)

    def _weights(self, inputs: Mapping[str, Array]) -> Integers:
        weights: NDArray[Any] | None = unpack(inputs["weights"]) if "weights" in inputs else None
        if weights is None or weights.dtype != np.int64 or weights.shape != (self.terms.columns,):
            raise ProtocolError("A step takes one whole number per weight.")
        if np.any(weights > LARGEST_WEIGHT) or np.any(weights < -LARGEST_WEIGHT):
            raise ProtocolError("A weight is too large.")
        return weights.astype(np.int64)

    # Letters ------------------------------------------------------------------------------------------------------------

    @property
    def _double(self) -> int:
        return 2 * self.terms.threshold

    def _peers(self) -> list[str]:
        return [owner for owner in self.terms.owners if owner != self._me]

    def _opened(self, sender: str, turn: int, letters: Mapping[str, Blob], kind: type[_Kind]) -> _Kind:
        if self._session is None or set(letters) != set(self._peers()):
            raise ProtocolError("The letters of a turn are not one from each data party.")
        return self._unsealed(sender, turn, letters, kind)


LARGEST_TURN = 20_000


BATCHES = 8


SMALLEST_BATCH = 32


class SagaLearner(Protocol):
    """What a data party brings."""

    def begin(self, inputs: Mapping[str, Array]) -> int:
        """Record, durably; return how many rows the sample has."""

    def lengths(self) -> NDArray[np.int64]:
        """Return the squared lengths of this party's rows."""

    def margins(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this party's part of the residuals of a batch."""

    def learn(self, batch: NDArray[np.int64], residuals: NDArray[np.float64], step: float) -> None:
        """Take one step."""

    def coefficients(self) -> NDArray[np.float64]:
        """Return this party's coefficients."""


def batch_of(plan: Plan, turn: int, rows: int) -> NDArray[np.int64]:
    """Return the rows whose residuals are opened in a turn."""
    return public_subset(plan, f"batch {turn}", rows, max(SMALLEST_BATCH, -(-rows // BATCHES)))


class SagaRun(Conversation):
    """One data party's side of vertical SAGA.

    Parameters
    ----------
    member, plan, step, run
        Who we are, and what is being run.
    part
        The party's block of coefficients.
    secret
        32 fresh random bytes, for this run only.
    """

    name: ClassVar[str] = "saga"
    repeats: ClassVar[bool] = False

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: SagaLearner | None, secret: bytes
    ) -> None:
        if part is None:
            raise ProtocolError("Only a data party learns coefficients.")
        self._terms = SumTerms.read(plan, step)
        self._plan = plan
        self._part = part
        self.meeting = Meeting(member, plan, step, run, self._terms.owners, secret)
        self._session: keys.Session | None = None
        self._seen = b""
        self._rows = 0

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn."""
        if number == 0:
            return self.meeting.greet()
        self._seen = inputs_digest(inputs, self._seen)
        if number == 1:
            self._session = self.meeting.meet(letters)
            self._rows = self._part.begin(inputs)
            return self._sum(number, self._part.lengths())
        if self._session is None or number > LARGEST_TURN:
            raise ProtocolError("A turn came after the end of its conversation.")
        if number > 2:
            self._learn(batch_of(self._plan, number - 1, self._rows), inputs)
        if "stop" in inputs:
            self._session = None  # told once, at the end: asked at every turn, it would tell row after row
            self.over = True
            return Opened(share=None, own=pack(self._part.coefficients()))
        return self._sum(number, self._part.margins(batch_of(self._plan, number, self._rows)))

    def _learn(self, batch: NDArray[np.int64], inputs: Mapping[str, Array]) -> None:
        arrays = {name: unpack(array) for name, array in inputs.items()}
        residuals, step = arrays.get("residuals"), arrays.get("step")
        if residuals is None or step is None or residuals.shape != batch.shape or step.shape != (1,):
            raise ProtocolError("A turn of the training lacks its residuals or its step.")
        if not (np.all(np.abs(residuals) <= LARGEST_NUMBER) and abs(step[0]) <= LARGEST_NUMBER):
            raise ProtocolError("A residual or a step of the training is too large, or no number.")
        self._part.learn(batch, residuals.astype(np.float64), float(step.astype(np.float64)[0]))

    def _sum(self, number: int, values: NDArray[np.int64]) -> Posted:
        assert self._session is not None  # turn 1 comes first
        masked = agreed_masks(self._session, self._terms, self._seen).masked(number, values)
        return Posted(letters={COORDINATOR: Blob(masked.view(np.uint8).data)})


CONVERSATIONS.register(__name__, {GradientRun.name: GradientRun, SagaRun.name: SagaRun})
