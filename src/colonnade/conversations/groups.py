"""One run of counts and sums by group over three parties, at one member: a joint opening with a product in the middle of it.

::

    turn j + 1      besides what a joint opening says: my products of two parties' columns of chunk j, dealt again
    turn j + 2      from everyone's: my share of the products; multiplied by the third party's columns of chunk j

(`colonnade.conversations.products` has the turns.) A product of two shares of degree t is one of degree 2t. Nodes deal it again
by fresh polynomials of degree t, so a product with a third share has degree 2t again, and is opened as any other
(`colonnade.secure.link_shares`).

*What is checked, and what is not.* Every data party's dealing is checked before anything is opened, as in any joint opening. What
nodes deal again is not: they are trusted to compute as written, as in `colonnade.conversations.newton`, and statements name them.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.conversation import CheckedProduct, parcel_of, share_of
from colonnade.conversations.products import ProductLetter, ProductRun
from colonnade.errors import ProtocolError
from colonnade.protocol.messages import Blob
from colonnade.secure import keys, link_shares
from colonnade.secure.residues import Arithmetic, Elements
from colonnade.secure.shamir import Dealing, Products
from colonnade.steps.groups import Chain, GroupTerms
from colonnade.workers import Workers

__all__ = ["GroupLetter", "GroupRun"]


class GroupLetter(ProductLetter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A letter of a joint opening, and from a node: this node's share of the products that the sender has dealt again."""

    again: Blob | None = None


class GroupRun(ProductRun):
    """One member's side of one run."""

    name: ClassVar[str] = "groups"
    letter_kind: ClassVar[type[ProductLetter]] = GroupLetter
    _product: "ChainedProduct"

    def _new_product(self) -> CheckedProduct:
        self._chain_of_products = GroupTerms.read(self.joint.steps).chain
        self._dealt_again: tuple[Dealing, tuple[Elements, ...]] | None = None
        assert self.joint.fold is not None  # its kind has one
        return ChainedProduct(
            self._arithmetic, self.joint.widths, self.joint.fold, self._chain_of_products, self._me.workers
        )

    def _compose(self, turn: int) -> dict[str, Blob]:
        self._dealt_again = self._deal_again(turn)
        return super()._compose(turn)

    def _deal_again(self, turn: int) -> tuple[Dealing, tuple[Elements, ...]] | None:
        """Multiply the columns of two parties that came with the turn before, and deal the products by fresh polynomials."""
        if self.point is None or not 2 <= turn <= len(self.chunks) + 1:
            return None
        chain, held = self._chain_of_products, self._pending[turn - 1]
        first, second = (held[self.joint.owners.index(part.party)] for part in chain.pair)
        products = _products(self._arithmetic, first[chain.first], second[chain.second])
        dealing = Dealing(
            self._arithmetic,
            nodes=len(self.joint.nodes),
            degree=self.joint.threshold,
            seed=keys.digest("colonnade groups v1", keys.subseed(self._secret, "colonnade groups again"), turn),
        )
        return dealing, link_shares.redealt(dealing, products)

    def _further_parts(self, point: int) -> Mapping[str, object]:
        if self._dealt_again is None:
            return {}
        return {"again": parcel_of(self._arithmetic, *self._dealt_again, point)}

    def _take(self, turn: int, letters: Mapping[str, ProductLetter]) -> None:
        """Before a chunk is combined, and forgotten, multiply it."""
        if self.point is not None and 2 <= turn <= len(self.chunks) + 1:
            self._multiply(turn - 1, cast("Mapping[str, GroupLetter]", letters))
        super()._take(turn, letters)

    def _multiply(self, chunk: int, letters: Mapping[str, "GroupLetter"]) -> None:
        start, stop = self.chunks[chunk - 1]
        shape = (len(self._chain_of_products.first), stop - start)
        shares: dict[int, Elements] = {}
        for point, node in enumerate(self.joint.nodes, start=1):
            if node == self._me.name:
                assert self._dealt_again is not None  # we dealt it in the turn before
                shares[point] = self._dealt_again[1][point - 1]
                continue
            parcel = letters[node].again
            if parcel is None:
                raise ProtocolError("A letter lacks a share.")
            assert self.point is not None  # only nodes multiply
            shares[point] = share_of(self._arithmetic, parcel, seeded=self.point <= self.joint.threshold, shape=shape)
        reduced = link_shares.reduced_degree(self._arithmetic, shares, self.joint.threshold)
        self._product.multiply(
            reduced, self._pending[chunk][self.joint.owners.index(self._chain_of_products.last.party)]
        )


class ChainedProduct(CheckedProduct):
    """A node's share of a product of three parties' columns, and its part in checking every data party's dealing.

    Parameters
    ----------
    arithmetic, widths, fold
        As in `CheckedProduct`; ``fold`` is over products of re-dealt values and the last party's columns.
    chain
        Which columns are multiplied.
    workers
        Who multiplies, besides this process.
    """

    def __init__(
        self,
        arithmetic: Arithmetic,
        widths: Sequence[int],
        fold: NDArray[np.int64],
        chain: Chain,
        workers: Workers | None = None,
    ) -> None:
        super().__init__(arithmetic, [sum(widths)], fold, workers)  # one block: only the checks are multiplied there
        self._widths = tuple(widths)
        self._whole = Products(arithmetic, [len(chain.first), chain.last.width], workers=workers)

    def combine(self, shares: Sequence[Elements], challenge: bytes) -> None:
        """Combine one chunk under its challenge, for the checks."""
        super().combine([np.concatenate(list(shares))], challenge)

    def multiply(self, reduced: Elements, columns: Elements) -> None:
        """Add one chunk: our shares of the products that were dealt again, and of the last party's columns."""
        self._whole.add([reduced, columns])

    def masked(self, noise_shares: Sequence[Elements]) -> Elements:
        """Return the sums that are opened plus this node's shares of every data party's noise; refuse to go without any."""
        assert self._fold is not None  # given above
        return self._added_up(self._whole.elements(), noise_shares, self._fold)


def _products(arithmetic: Arithmetic, first: Elements, second: Elements) -> Elements:
    """Return products of shares, column by column and person by person: of degree 2t, to be dealt again."""
    residues = [np.stack([(one % np.uint64(p)).astype(np.int64) for p in arithmetic.moduli]) for one in (first, second)]
    return arithmetic.from_residues(residues[0] * residues[1])
