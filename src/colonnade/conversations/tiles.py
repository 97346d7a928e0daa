"""One run of a joint opening that is too wide to be opened at once: as `colonnade.conversations.products`, then tile by tile.

::

    turns 0 … C+2   as for any product, but no noise is dealt and nothing is multiplied yet
    turn C+3        in: everyone's parts of the degree check; verify them
    each tile       deal:   out: noise of the tile, to the nodes
                    ready:  in: noise; multiply the tile and add everybody's noise to it
                    open:   out: my share of the noised tile; as much of my own part as goes with it

The rows are shared once, and the nodes hold their shares until the last tile. No member holds more of the product, or of its
noise, than one tile. What is slow comes before the turn that opens: where a member fails there, nobody has opened the tile.

*Taken up again.* Every tile has turns of its own, whether or not those before it were taken in this run. So in a later run the
coordinator goes on with the first tile that not all members have kept. A step is paid for as a whole, before the first share
leaves, and its noise follows from the seed that the ledger keeps: no tile is unpaid, and none is noised anew.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from colonnade.conversations.conversation import CheckedProduct, Member
from colonnade.conversations.products import Dealer, ProductRun, noise_share
from colonnade.errors import ProtocolError
from colonnade.plan import Plan
from colonnade.protocol import codec
from colonnade.protocol.messages import Array, Blob, Opened, Posted, Reply, pack
from colonnade.secure.rectangles import Rectangle
from colonnade.secure.residues import Arithmetic, Elements
from colonnade.secure.shamir import sums_of
from colonnade.workers import Workers

__all__ = ["TileLetter", "TiledProduct", "TiledRun"]

BEATS = 3
DEAL, READY, OPEN = range(BEATS)
PIECE = 1 << 21
"""Products that are worked out at a time: their sums, modulo every prime, stay small beside a tile."""


class TileLetter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One data party to one node: its noise of a tile, as a 32-byte seed or as elements."""

    tile: int
    noise: Blob


class TiledProduct(CheckedProduct):
    """A node's share of a product, worked out tile by tile from shares that it holds, and its part in the degree checks.

    Parameters
    ----------
    arithmetic
        What the shares are modulo.
    widths
        How many columns each data party's dealing has.
    workers
        Who multiplies, besides this process.
    """

    def __init__(self, arithmetic: Arithmetic, widths: Sequence[int], workers: Workers | None = None) -> None:
        super().__init__(arithmetic, [sum(widths)], workers=workers)  # one block: only the checks are multiplied there
        self._workers = workers
        self._widths = tuple(widths)
        self._held: list[Elements] = []

    def combine(self, shares: Sequence[Elements], challenge: bytes) -> None:
        """Combine one chunk under its challenge, for the checks, and hold it."""
        self._held.append(np.concatenate(list(shares)))
        super().combine([self._held[-1]], challenge)

    def opened(self, tile: Sequence[Rectangle], noise_shares: Sequence[Elements]) -> Elements:
        """Return a tile of the product plus this node's shares of every data party's noise; refuse to go without any."""
        products = [np.empty(0, dtype=np.uint64), *(self._multiplied(piece) for one in tile for piece in _pieces(one))]
        return self._with_noise(np.concatenate(products), noise_shares)

    def _multiplied(self, one: Rectangle) -> Elements:
        rows, columns = one.bottom - one.top, one.right - one.left
        sums = sums_of(self._arithmetic, rows + columns, [Rectangle(0, rows, rows, rows + columns)], self._workers)
        for held in self._held:
            if not sums.add([held[one.top : one.bottom], held[one.left : one.right]]):
                raise ProtocolError("A share is out of the range of its arithmetic.")
        found = sums.blocks()[0].reshape(-1)
        if not sums.in_range():
            raise ProtocolError("A share is out of the range of its arithmetic.")
        return found


def _pieces(one: Rectangle) -> list[Rectangle]:
    rows = max(1, PIECE // (one.right - one.left))
    return [
        Rectangle(top, min(top + rows, one.bottom), one.left, one.right) for top in range(one.top, one.bottom, rows)
    ]


class TiledRun(ProductRun):
    """One member's side of one run. Parameters as for `ProductRun`."""

    name: ClassVar[str] = "tiles"
    _product: TiledProduct

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: Dealer | None, secret: bytes
    ) -> None:
        super().__init__(member, plan, step, run, part=part, secret=secret)
        self._checked = len(self.chunks) + 3
        self._kept_noise: Elements | None = None
        self._answer: Opened | None = None

    def _new_product(self) -> TiledProduct:
        return TiledProduct(self._arithmetic, self.joint.widths, self._me.workers)

    @property
    def last_turn(self) -> int:
        """The turn that opens the last tile."""
        return self._checked + BEATS * len(
            self.joint.tiles
        )  # never reached by `ProductRun.turn`: tiles are opened here

    def follows(self, number: int, last: int) -> bool:
        """Return whether a turn may be taken after the last one: the first tile of a run is any of them."""
        return super().follows(number, last) or (last == self._checked and (number - last - 1) % BEATS == DEAL)

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn."""
        if number < self._checked:
            return super().turn(number, letters, inputs)
        if inputs or number > self.last_turn:
            raise ProtocolError("A turn after the last tile, or one with inputs.")
        if number == self._checked:
            self._take(number - 1, self._open(number - 1, letters))
            return Posted(letters={})
        self.tile, beat = divmod(number - self._checked - 1, BEATS)
        if beat == READY:
            self._add_noise(number - 1, letters)
        elif letters:
            raise ProtocolError("A letter in a turn that has none.")
        if beat == DEAL:
            return Posted(letters=self._deal_tile(number))
        return Posted(letters={}) if beat == READY else self._open_tile()

    def _deal_tile(self, turn: int) -> dict[str, Blob]:
        """Deal our noise."""
        assert self._session is not None  # the members have met
        self._answer = self._kept_noise = None
        if self._dealing is None:
            return {}
        assert self._dealer is not None  # who deals holds data
        if self.point is None:
            own = self._dealer.own(self.tile)
            self._answer = Opened(share=None, own=None if own is None else pack(own))
        shares, sealed = self._dealing.noise(self.tile), {}
        for point, node in enumerate(self.joint.nodes, start=1):
            if node == self._me.name:
                self._kept_noise = shares[point - 1].copy()
                continue
            letter = TileLetter(tile=self.tile, noise=self._dealing.noise_parcel(shares, point))
            sealed[node] = Blob(self._session.seal(node, turn, 0, codec.encode(letter)))
        return sealed

    def _add_noise(self, turn: int, letters: Mapping[str, Blob]) -> None:
        """Multiply the tile and add everybody's noise: only after every dealing was checked, and with all of the noise."""
        assert self._session is not None  # the members have met
        senders = set() if self.point is None else set(self.joint.owners) - {self._me.name}
        if set(letters) != senders:
            raise ProtocolError("The letters of a turn are not one from each sender.")
        if self.point is None:
            return
        if not self._verified:
            raise ProtocolError("A product is opened only after every dealing was checked.")
        noise = [] if self._kept_noise is None else [self._kept_noise]
        for sender in sorted(letters):
            letter = codec.decode(self._session.open(sender, turn, 0, letters[sender].view), TileLetter)
            if letter.tile != self.tile:
                raise ProtocolError("The members are at different tiles.", remedy="Start the study again.")
            noise.append(noise_share(letter.noise, self.joint, self.point, tile=self.tile))
        if len(noise) != len(self.joint.owners):
            raise ProtocolError("A tile is opened with everybody's noise.")
        share = self._product.opened(self.joint.tiles[self.tile].blocks, noise)
        own = None if self._dealer is None else self._dealer.own(self.tile)
        self._kept_noise = None
        self._answer = Opened(share=pack(share), own=None if own is None else pack(own))

    def _open_tile(self) -> Opened:
        answer = self._answer
        if answer is None or (self.point is None) != (answer.share is None):
            raise ProtocolError("A tile is opened once it is noised.")
        self.over = self.tile == len(self.joint.tiles) - 1
        return answer
