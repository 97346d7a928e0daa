"""Joint openings at one member: state machines that take turns.

*A product* (`ProductRun`).

::

    turn 0          out: hello
    turn 1          in: everyone's hello                          out: first chunk's shares, noise, masks; end of my chain;
                                                                  to data parties that do not compute: that I checked all hellos
    turn j (2 … C)  in: chunk j-1, links j-2                      out: chunk j, my link j-1; in turn 2, all chains' ends
    turn C+1        in: chunk C, links C-1                        out: my link C
    turn C+2        in: links C                                   out: my part of every degree check
    turn C+3        in: everyone's parts; verify them             out: my share of the noised product; my own part

Nothing is opened before every dealing's degree has been checked and every data party's noise is in: `_finish` is the only way
out, and its order is the argument. Members send letters sealed to one receiver each; the coordinator relays.

*A histogram of scores* is a joint opening with one turn in front of it.

::

    turn 0        out: hello
    turn 1        in: everyone's hello      out (givers): one number per person to left, one to right
    turn 2        in (left, right): these   out: what a joint opening says in turn 1
    turn j > 2    as turn j − 1 of a joint opening

A giver's number is divided as u and number − u modulo a power of two, u uniform and, as everything that a member draws, the same
in every run of the step. Left sees the u's and right the differences: each is uniform whatever the number is, and independent of
the other givers' and of everything else in the step, so neither learns anything, also together with the coordinator. Left and
right together would: the histogram is made for one colluding party at most, and a plan that asks for more is refused
(`colonnade.steps.products`).

*Tiles.* What is too wide to be opened at once is opened tile by tile.

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

*Counts and sums by group* over three parties are a joint opening with a product in the middle of it.

::

    turn j + 1      besides what a joint opening says: my products of two parties' columns of chunk j, dealt again
    turn j + 2      from everyone's: my share of the products; multiplied by the third party's columns of chunk j

A product of two shares of degree t is one of degree 2t. Nodes deal it again
by fresh polynomials of degree t, so a product with a third share has degree 2t again, and is opened as any other
(`colonnade.secure.sine_link`).

*What is checked, and what is not.* Every data party's dealing is checked before anything is opened, as in any joint opening. What
nodes deal again is not: they are trusted to compute as written, as in `colonnade.conversations.newton`, and statements name them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Protocol, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from colonnade.conversations.conversation import (
    ChallengeChain,
    CheckedProduct,
    Conversation,
    Meeting,
    Member,
    challenge,
    check_link,
    commitments,
    parcel_of,
    share_of,
)
from colonnade.errors import ProtocolError
from colonnade.plan import Plan
from colonnade.protocol import messages
from colonnade.protocol.messages import Array, Blob, Opened, Posted, Reply, pack
from colonnade.runtime.workers import Workers
from colonnade.secure import keys, residues, sine_link
from colonnade.secure.keys import digest
from colonnade.secure.residues import Arithmetic, Elements
from colonnade.secure.shamir import Dealing, Products, Rectangle, check_repetitions, expand, sums_of, verify_degree
from colonnade.steps.describing import Chain, GroupTerms
from colonnade.steps.kind import Joint, read_joint

_SEED = 32


class ProductLetter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One member's letter to one node in one turn. Absent parts are empty.

    Parameters
    ----------
    table, noise, mask
        First letter of a data party: this node's share of its table (only where the share travels as a seed), of its noise and
        of the masks of the degree check. A share travels as a 32-byte seed or as elements; which of them follows from the
        sender's point and the receiver's.
    share
        This node's share of the next chunk of rows, where it does not come from a seed.
    head
        First letter of a node: the end of its chain of reveals.
    heads
        Second letter of a node: what it was told of all nodes' chains (`colonnade.conversations.conversation.commitments`).
    reveal
        The next link of the chain: this node has received a chunk, and here is its part of the challenge.
    check
        This node's part of the degree check of every dealing, by data party.
    """

    table: Blob | None = None
    noise: Blob | None = None
    mask: Blob | None = None
    share: Blob | None = None
    head: bytes = b""
    heads: bytes = b""
    reveal: bytes = b""
    check: dict[str, Blob] = {}


class Dealer(Protocol):
    """What a data party brings to a run; a dataless node brings none."""

    def begin(self) -> bytes:
        """Pay, durably, and return a secret of this party's own; it and the noise are the same in every run of this step."""

    def deal(self, dealing: Dealing, chunks: Sequence[tuple[int, int]]) -> Iterator[tuple[residues.Elements, ...]]:
        """Yield the shares of one chunk of rows after another, the first at position 1; valid until the next one.

        Those that travel as seeds may be left empty.
        """

    def noise(self, tile: int = 0) -> NDArray[np.int64]:
        """Return this party's share of the noise of what is opened at a time (`Joint.tiles`)."""

    def own(self, tile: int = 0) -> NDArray[np.int64] | None:
        """Return the part of the release that concerns this party alone, already noised: as much as goes with a tile."""


class ProductRun(Conversation):
    """One member's side of one run.

    Parameters
    ----------
    member
        Who we are.
    plan, step, run
        What is being run.
    part
        What a data party brings, or ``None`` at a dataless node.
    secret
        32 random bytes of this step: polynomials, the masks of the degree check and the chain follow from them. They are the
        same in every run of the step, and so is all that is heard (`RunRecords`): a mask used under two challenges would open
        a combination of rows.
    """

    name: ClassVar[str] = "products"
    letter_kind: ClassVar[type[ProductLetter]] = ProductLetter
    _product: CheckedProduct

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: Dealer | None, secret: bytes
    ) -> None:
        self.joint = read_joint(plan, step)
        self.chunks = self.joint.chunks
        self._me = member
        self._dealer = part
        self._secret = secret
        self._arithmetic = self.joint.arithmetic
        self.meeting = Meeting(member, plan, step, run, self.joint.members, secret, self.joint.hub)
        self._session: keys.Session | None = None
        self._chain = ChallengeChain(keys.subseed(secret, "colonnade chain"), len(self.chunks))
        self._dealing: Dealt | None = None
        self._received: dict[str, Received] = {}
        self._links: dict[str, bytes] = {}
        self._heads = b""
        self._pending: dict[int, list[residues.Elements]] = {}
        if self.point is not None:
            self._product = self._new_product()
        self._checks: dict[str, residues.Elements] = {}
        self._final_challenge = b""
        self._verified = False

    def _new_product(self) -> CheckedProduct:
        return CheckedProduct(self._arithmetic, self.joint.widths, self.joint.fold, self._me.workers)

    @property
    def point(self) -> int | None:
        """Our point, or ``None`` if we hold data and do not compute."""
        return self.joint.nodes.index(self._me.name) + 1 if self._me.name in self.joint.nodes else None

    @property
    def last_turn(self) -> int:
        """The turn whose answer is our share."""
        return len(self.chunks) + 3

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn. A coordinator has no lever on a product but the plan and the letters."""
        if inputs:
            raise ProtocolError("A joint opening takes no inputs.")
        if number == 0:
            return self.meeting.greet()
        if number == 1:
            self._meet(letters)
        else:
            self._take(number - 1, self._open(number - 1, letters))
        if number == self.last_turn:
            return self._finish()
        return Posted(letters=self._compose(number))

    # Letters in ---------------------------------------------------------------------------------------------------------

    def _meet(self, hellos: Mapping[str, Blob]) -> None:
        self._session = self.meeting.meet(hellos)
        self._deal_first()

    def _deal_first(self) -> None:
        """Pay and get ready to deal, if we hold data."""
        if self._dealer is not None:
            self._dealing = Dealt(self.joint, self._dealer, self._secret, self.point)

    def _senders(self, turn: int) -> set[str]:
        """Who writes to us in a turn: data parties while there are chunks, nodes always; to others nodes, once."""
        if self.point is None:
            return set(self.joint.nodes) if turn == 1 and self._me.name not in self.joint.hub else set()
        dealers = set(self.joint.owners) if turn <= len(self.chunks) else set()
        return (dealers | set(self.joint.nodes)) - {self._me.name}

    def _open(self, turn: int, letters: Mapping[str, Blob]) -> dict[str, ProductLetter]:
        if self._session is None or set(letters) != self._senders(turn):
            raise ProtocolError("The letters of a turn are not one from each sender.")
        return {
            sender: messages.decode(self._session.open(sender, turn, 0, letters[sender].view), self.letter_kind)
            for sender in sorted(letters)
        }

    def _take(self, turn: int, letters: Mapping[str, ProductLetter]) -> None:
        if self.point is None:
            return
        if turn == 1:
            self._take_first(letters)
        if turn <= len(self.chunks):
            self._take_chunk(turn, letters)
        if turn == 2 and any(letters[name].heads != self._heads for name in self._other_nodes()):
            raise ProtocolError("The nodes were told of different challenges.")
        if 2 <= turn <= len(self.chunks) + 1:
            self._take_links(turn - 1, {name: letters[name].reveal for name in self._other_nodes()})
        if turn == len(self.chunks) + 2:
            self._verify({name: letters[name].check for name in self._other_nodes()})

    def _take_first(self, letters: Mapping[str, ProductLetter]) -> None:
        assert self.point is not None
        for owner in self.joint.owners:
            if owner == self._me.name:
                assert self._dealing is not None
                self._received[owner] = self._dealing.kept_by(self.point)
            else:
                self._received[owner] = Received.of(letters[owner], self.joint, self.point, owner)
        self._links = {name: letters[name].head for name in self._other_nodes()}
        self._heads = commitments({**self._links, self._me.name: self._chain.head})

    def _take_chunk(self, chunk: int, letters: Mapping[str, ProductLetter]) -> None:
        start, stop = self.chunks[chunk - 1]
        shares = []
        for owner, width in zip(self.joint.owners, self.joint.widths, strict=True):
            mine = owner == self._me.name
            parcel = None if mine else letters[owner].share
            shares.append(self._received[owner].chunk(chunk, parcel, (width, stop - start)))
        self._pending[chunk] = shares

    def _take_links(self, chunk: int, links: Mapping[str, bytes]) -> None:
        """All nodes hold the chunk: its challenge is out, it is multiplied and combined, and its shares can go."""
        for name, link in links.items():
            check_link(link, self._links[name])
        self._links = dict(links)
        self._final_challenge = challenge({**links, self._me.name: self._chain.link(chunk)})
        self._product.combine(self._pending.pop(chunk), self._final_challenge)

    def _verify(self, others: Mapping[str, Mapping[str, Blob]]) -> None:
        points = {name: number + 1 for number, name in enumerate(self.joint.nodes)}
        shape = (check_repetitions(self._arithmetic),)
        for owner in self.joint.owners:
            if any(owner not in parts for parts in others.values()):
                raise ProtocolError("A node left a dealing unchecked.")
            values = {
                points[name]: self._arithmetic.from_bytes(parts[owner].view, shape) for name, parts in others.items()
            }
            values[points[self._me.name]] = self._checks[owner]
            verify_degree(self._arithmetic, values, self.joint.threshold)
        self._verified = True

    # Letters out --------------------------------------------------------------------------------------------------------

    def _compose(self, turn: int) -> dict[str, Blob]:
        assert self._session is not None
        shares = self._deal(turn)
        if self.point is not None and turn == len(self.chunks) + 2:
            self._checks = self._my_checks()
        sealed = {}
        for number, node in enumerate(self.joint.nodes):
            if node == self._me.name or not self._writes(turn):
                continue
            letter = self._letter(turn, number + 1, shares, self._checks)
            sealed[node] = Blob(self._session.seal(node, turn, 0, messages.encode(letter)))
        return sealed | (self._word_to_others() if turn == 1 and self.point is not None else {})

    def _word_to_others(self) -> dict[str, Blob]:
        """Send an empty sealed letter to members that checked only the nodes' hellos.

        Opening it proves to them that we checked all hellos, and the same ones.
        """
        assert self._session is not None
        empty = messages.encode(self.letter_kind())
        others = [name for name in self.joint.members if name not in self.joint.hub]
        return {name: Blob(self._session.seal(name, 1, 0, empty)) for name in others}

    def _writes(self, turn: int) -> bool:
        return self.point is not None or (self._dealing is not None and turn <= len(self.chunks))

    def _deal(self, turn: int) -> tuple[residues.Elements, ...]:
        if self._dealing is None or turn > len(self.chunks):
            return ()
        shares = self._dealing.chunk()
        if self.point is not None:
            self._dealing.keep(turn, shares[self.point - 1])
        return shares

    def _letter(
        self, turn: int, point: int, shares: tuple[residues.Elements, ...], checks: Mapping[str, residues.Elements]
    ) -> ProductLetter:
        arithmetic, first = self._arithmetic, turn == 1
        parts: dict[str, object] = {}
        if self._dealing is not None and first:
            parts = self._dealing.first_parts(point)
        if shares and point not in self.joint.seeded(self._me.name):
            parts["share"] = Blob(arithmetic.to_bytes(shares[point - 1]))
        if self.point is not None:
            parts["head"] = self._chain.head if first else b""
            parts["heads"] = self._heads if turn == 2 else b""
            parts["reveal"] = self._chain.link(turn - 1) if 2 <= turn <= len(self.chunks) + 1 else b""
            parts["check"] = {owner: Blob(arithmetic.to_bytes(check)) for owner, check in checks.items()}
        parts.update(self._further_parts(point))
        return self.letter_kind(**parts)  # type: ignore[arg-type]  # each part is one of the letter's own

    def _further_parts(self, point: int) -> Mapping[str, object]:  # noqa: ARG002  # a longer conversation has some
        return {}

    def _finish(self) -> Opened:
        """Open: only after every dealing has been verified, and with the noise of every data party in the plan."""
        share = None
        if self.point is not None:
            if not self._verified or set(self._received) != set(self.joint.owners):
                raise ProtocolError("A product is opened only after every dealing was checked.")
            noise = [self._received[owner].noise for owner in self.joint.owners]
            share = pack(self._product.masked([one for one in noise if one is not None]))
        own = None if self._dealer is None else self._dealer.own()
        self.over = True
        return Opened(share=share, own=None if own is None else pack(own))

    def _my_checks(self) -> dict[str, residues.Elements]:
        masks = [self._received[owner].mask for owner in self.joint.owners]
        parts = self._product.checks(masks, self._final_challenge)
        return dict(zip(self.joint.owners, parts, strict=True))

    def _other_nodes(self) -> list[str]:
        return [name for name in self.joint.nodes if name != self._me.name]


class Dealt:
    """A data party's dealings: the same values by the same polynomials in every run of the step.

    A peer that dealt its own anew could subtract one opening from the other: noise and randomisation would cancel, and what is
    left tells a combination of raw rows. So a node that hears other shares than in an earlier run stops (`RunRecords`).
    """

    def __init__(self, joint: Joint, dealer: Dealer, secret: bytes, own: int | None) -> None:
        seed = digest("colonnade dealing v1", dealer.begin(), secret)
        arithmetic, nodes = joint.arithmetic, len(joint.nodes)
        self._joint = joint
        self._dealer = dealer
        self._table = Dealing(
            arithmetic,
            nodes=nodes,
            degree=joint.threshold,
            seed=keys.subseed(seed, "colonnade table"),
            bound=joint.largest,
            own=own,
        )
        self._noise = Dealing(
            arithmetic, nodes=nodes, degree=2 * joint.threshold, seed=keys.subseed(seed, "colonnade noise shares")
        )
        self._mask = Dealing(
            arithmetic, nodes=nodes, degree=joint.threshold, seed=keys.subseed(secret, "colonnade degree mask")
        )
        self._noise_shares = () if len(joint.tiles) > 1 else self.noise(0)
        repetitions = check_repetitions(arithmetic)
        hidden = arithmetic.decode(
            expand(arithmetic, keys.subseed(secret, "colonnade degree mask value"), 0, (repetitions,))
        )
        self._mask_shares = self._mask.shares(0, hidden)
        self._kept: dict[int, residues.Elements] = {}
        self._chunks = dealer.deal(self._table, joint.chunks)

    def chunk(self) -> tuple[residues.Elements, ...]:
        """Deal the next chunk. The shares are valid until the one after it."""
        return next(self._chunks)

    def noise(self, tile: int) -> tuple[residues.Elements, ...]:
        """Deal this party's noise of a tile."""
        return self._noise.shares(tile, self._dealer.noise(tile))

    def keep(self, number: int, share: residues.Elements) -> None:
        """Keep our own share of a chunk, where we compute."""
        self._kept[number] = share.copy()

    def kept_by(self, point: int) -> "Received":
        """Return what we keep for ourselves."""
        noise = self._noise_shares[point - 1] if self._noise_shares else None
        return Received(self._joint, point, None, noise, self._mask_shares[point - 1], self._kept)

    def first_parts(self, point: int) -> dict[str, object]:
        """Shares at the first points of a dealing travel as seeds, the others as elements."""
        t, seeds = self._joint.threshold, self._table.seeds
        return {
            "table": Blob(seeds[point]) if point in seeds else None,
            "noise": self.noise_parcel(self._noise_shares, point) if self._noise_shares else None,
            "mask": self._parcel(self._mask, self._mask_shares, point, t),
        }

    def noise_parcel(self, shares: tuple[residues.Elements, ...], point: int) -> Blob:
        """Return what travels to one point of a dealing of noise."""
        return self._parcel(self._noise, shares, point, 2 * self._joint.threshold)

    def _parcel(self, dealing: Dealing, shares: tuple[residues.Elements, ...], point: int, degree: int) -> Blob:
        if point <= degree:
            return Blob(dealing.seeds[point])
        return Blob(self._joint.arithmetic.to_bytes(shares[point - 1]))


class Received:
    """A node's shares of one data party's dealings."""

    def __init__(
        self,
        joint: Joint,
        point: int,
        table_seed: bytes | None,
        noise: residues.Elements | None,
        mask: residues.Elements,
        kept: dict[int, residues.Elements] | None = None,
    ) -> None:
        self._joint = joint
        self._point = point
        self._table_seed = table_seed
        self._kept = kept
        self.noise = noise
        self.mask = mask

    @classmethod
    def of(cls, letter: ProductLetter, joint: Joint, point: int, owner: str) -> "Received":
        """Read a data party's first letter."""
        t = joint.threshold
        seed = _seed(letter.table) if point in joint.seeded(owner) else None
        noise = None if len(joint.tiles) > 1 else noise_share(letter.noise, joint, point, tile=0)
        mask = _from_parcel(letter.mask, joint, seeded=point <= t, count=check_repetitions(joint.arithmetic))
        return cls(joint, point, seed, noise, mask)

    def chunk(self, number: int, parcel: Blob | None, shape: tuple[int, int]) -> residues.Elements:
        """Return our share of a chunk: kept, expanded from its seed, or as it came."""
        if self._kept is not None:
            return self._kept.pop(number)
        if self._table_seed is not None:
            return expand(self._joint.arithmetic, self._table_seed, number, shape)
        if parcel is None:
            raise ProtocolError("A letter lacks a share.")
        return self._joint.arithmetic.from_bytes(parcel.view, shape)


def _seed(parcel: Blob | None) -> bytes:
    if parcel is None or len(parcel) != _SEED:
        raise ProtocolError("A letter lacks a seed.")
    return bytes(parcel.view)


def noise_share(parcel: Blob | None, joint: Joint, point: int, *, tile: int) -> residues.Elements:
    """Return a node's share of one data party's noise of a tile, from what travelled."""
    seeded, count = point <= 2 * joint.threshold, joint.tiles[tile].entries
    return _from_parcel(parcel, joint, seeded=seeded, count=count, position=tile)


def _from_parcel(
    parcel: Blob | None, joint: Joint, *, seeded: bool, count: int, position: int = 0
) -> residues.Elements:
    if seeded:
        return expand(joint.arithmetic, _seed(parcel), position, (count,))
    if parcel is None:
        raise ProtocolError("A letter lacks a share.")
    return joint.arithmetic.from_bytes(parcel.view, (count,))


GIVING = 0
"""The step of the letters that givers write; those of the joint opening are numbered from 1."""


class ScoreDealer(Dealer, Protocol):
    """What a data party brings to a histogram of scores."""

    def give(self) -> tuple[bytes, bytes]:
        """Pay, durably, and return this giver's numbers in two parts, for left and right."""

    def receive(self, giver: str, part: memoryview) -> None:
        """Take one giver's part, at left or right."""


class ScoreRun(ProductRun):
    """One member's side of one run."""

    name: ClassVar[str] = "scores"

    @property
    def _is_giver(self) -> bool:
        return self._me.name in self.joint.givers

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn."""
        if inputs:
            raise ProtocolError("A joint opening takes no inputs.")
        if number == 0:
            return self.meeting.greet()
        if number == 1:
            self._session = self.meeting.meet(letters)
            return Posted(letters=self._give())
        if number == 2:
            self._receive(letters)
            if self._me.name in self.joint.owners:
                self._deal_first()
            return Posted(letters=self._compose(1))
        return super().turn(number - 1, letters, inputs)

    def _give(self) -> dict[str, Blob]:
        if not self._is_giver:
            return {}
        assert self._session is not None  # we have just met
        parts = cast("ScoreDealer", self._dealer).give()
        receivers = self.joint.owners
        return {
            receiver: Blob(self._session.seal(receiver, GIVING, 0, part))
            for receiver, part in zip(receivers, parts, strict=True)
        }

    def _receive(self, letters: Mapping[str, Blob]) -> None:
        takes = self._me.name in self.joint.owners
        if set(letters) != (set(self.joint.givers) if takes else set()):
            raise ProtocolError("The letters of a turn are not one from each sender.")
        assert self._session is not None  # turn 1 comes first
        for giver in sorted(letters):
            part = self._session.open(giver, GIVING, 0, letters[giver].view)
            cast("ScoreDealer", self._dealer).receive(giver, memoryview(part))


TURNS_PER_TILE = 3
DEAL, READY, OPEN = range(TURNS_PER_TILE)
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
        return self._checked + TURNS_PER_TILE * len(
            self.joint.tiles
        )  # never reached by `ProductRun.turn`: tiles are opened here

    def follows(self, number: int, last: int) -> bool:
        """Return whether a turn may be taken after the last one: the first tile of a run is any of them."""
        return super().follows(number, last) or (last == self._checked and (number - last - 1) % TURNS_PER_TILE == DEAL)

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn."""
        if number < self._checked:
            return super().turn(number, letters, inputs)
        if inputs or number > self.last_turn:
            raise ProtocolError("A turn came after the last tile, or with inputs.")
        if number == self._checked:
            self._take(number - 1, self._open(number - 1, letters))
            return Posted(letters={})
        self.tile, phase = divmod(number - self._checked - 1, TURNS_PER_TILE)
        if phase == READY:
            self._add_noise(number - 1, letters)
        elif letters:
            raise ProtocolError("This turn takes no letters.")
        if phase == DEAL:
            return Posted(letters=self._deal_tile(number))
        return Posted(letters={}) if phase == READY else self._open_tile()

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
            sealed[node] = Blob(self._session.seal(node, turn, 0, messages.encode(letter)))
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
            letter = messages.decode(self._session.open(sender, turn, 0, letters[sender].view), TileLetter)
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
        return dealing, sine_link.redealt(dealing, products)

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
        reduced = sine_link.reduced_degree(self._arithmetic, shares, self.joint.threshold)
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
