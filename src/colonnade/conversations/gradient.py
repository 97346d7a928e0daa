"""One run of a gradient descent at one member: a handshake, then two turns per step.

::

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
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.conversation import Member, SteppedRun, parcel_of, share_of
from colonnade.errors import ProtocolError
from colonnade.plan import Plan
from colonnade.protocol.messages import Array, Blob, Opened, Posted, Reply, pack, unpack
from colonnade.secure import keys, residues
from colonnade.secure.shamir import Dealing, ShareProduct
from colonnade.steps.gradient import LARGEST_WEIGHT, GradientTerms

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
