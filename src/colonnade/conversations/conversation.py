"""What every kind of conversation shares: one message per turn, a handshake in the first two turns, and a degree check.

A conversation is how members do something together that no single release can: multiply on shares, add up, agree on a key.
The coordinator relays it turn by turn (`Post`); letters are sealed to one receiver each. `colonnade.conversations.endpoint`
drives one side and chooses the conversation by the kind of the step.

*A hub* (`Meeting`). With many data parties and a few compute nodes, all-with-all greetings would be most of a study. There the
nodes are a hub: each of them checks everybody's signature, and a data party those of the nodes, the only ones it writes to
(`colonnade.secure.keys`).

*Degree check* (`ChallengeChain`, `CheckedProduct`). Before anything is opened the nodes check that every dealing is of its
declared degree. They commit to the links of a hash chain. Each link is revealed once all nodes hold a chunk, and gives the
coefficients of a random linear combination of that chunk. A dealing of too high a degree shows in the combination, and
nothing is opened (docs/proofs/secure-arithmetic.md#degree-check).
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
import numpy as np
from cryptography.hazmat.primitives import constant_time
from numpy.typing import NDArray

from colonnade.conversations.memory import LedgerHeads, RunRecords
from colonnade.errors import PlanMismatch, ProtocolError
from colonnade.plan import Plan
from colonnade.protocol import messages
from colonnade.protocol.messages import Accounted, Array, Blob, Greeted, Reply
from colonnade.runtime.workers import Workers
from colonnade.secure.keys import Handshake, Hello, Identity, PublicIdentity, RunTerms, Session, digest, frame, subseed
from colonnade.secure.residues import Arithmetic, Elements
from colonnade.secure.shamir import Dealing, ShareProduct, check_repetitions, expand
from colonnade.steps.kind import NO_FLOOR, SharingFloor, kind_of
from colonnade.steps.newton import LabelledTerms

SEED_BYTES = 32

_Letter = TypeVar("_Letter", bound=msgspec.Struct)


@dataclass(frozen=True)
class Member:
    """Who one member is, who it believes the others are, what it remembers of their ledgers and of its own words, and what the
    federation asks for.

    With ``workers`` of its own a member has its products of shares multiplied there.
    """

    name: str
    identity: Identity
    pinned: Mapping[str, PublicIdentity]
    heads: LedgerHeads = field(default_factory=lambda: LedgerHeads({}))
    floor: SharingFloor = NO_FLOOR
    records: RunRecords = field(default_factory=RunRecords)
    workers: Workers | None = field(default=None, repr=False)

    def signed(self, account: Accounted, nonce: bytes) -> Accounted:
        """Return our account with our signature over it and over the coordinator's nonce; as it is where no nonce came."""
        if not nonce:
            return account
        return msgspec.structs.replace(account, signature=self.identity.sign(_account_words(account, nonce)))


def check_account(account: Accounted, nonce: bytes, identity: PublicIdentity) -> None:
    """Return if this is the account that its party signed over our nonce; raise `ProtocolError` otherwise."""
    identity.verify(_account_words(account, nonce), account.signature)


def _account_words(account: Accounted, nonce: bytes) -> bytes:
    bare = msgspec.structs.replace(account, signature=b"")
    return frame("colonnade account v1", nonce, messages.digest(bare))


class Conversation(Protocol):
    """One member's side of one run of one step."""

    name: ClassVar[str]
    """What kinds of step call it."""
    repeats: ClassVar[bool] = True
    """Whether all runs of a step say the same (`RunRecords`); sums under masks are other sums in every run."""
    meeting: "Meeting"
    over: bool = False
    """Whether the last turn has been taken: nothing more is said in this run."""
    tile: int = 0
    """Which part is opened, where a step is opened in parts."""
    recalled: ClassVar[bool] = True
    """Whether the bytes that are opened are kept too, so that they can be asked for without another run."""

    def __init__(
        self, member: Member, plan: Plan, step: str, run: bytes, *, part: Any | None, secret: bytes
    ) -> None: ...

    def follows(self, number: int, last: int) -> bool:
        """Return whether a turn may be taken after the last one."""
        return number == last + 1

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn. ``inputs`` are public, from the coordinator, and as trustworthy as it is."""
        ...


class SteppedRun(Conversation):
    """One member's side of a run of many steps at public weights.

    Parameters
    ----------
    member, plan, step, run
        Who we are, and what is being run.
    part
        What a data party brings, or ``None`` at a dataless node.
    secret
        32 random bytes of this step: polynomials follow from them.
    """

    terms: LabelledTerms

    def __init__(self, member: Member, plan: Plan, step: str, run: bytes, *, part: Any | None, secret: bytes) -> None:
        self._me = member.name
        self._part = part
        self._secret = secret
        self.meeting = Meeting(member, plan, step, run, self.terms.members, secret)
        self._session: Session | None = None

    @property
    def point(self) -> int | None:
        """Our point, or ``None`` if we hold data and do not compute."""
        return self.terms.point(self._me)

    def turn(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take one turn; a data party pays in turn 1."""
        if number == 0:
            return self.meeting.greet()
        if number == 1:
            self._session, letters = self.meeting.meet(letters), {}
        return self._go_on(number, letters, inputs)

    @abstractmethod
    def _go_on(self, number: int, letters: Mapping[str, Blob], inputs: Mapping[str, Array]) -> Reply:
        """Take a turn after members have met."""

    def _sealed(self, peer: str, turn: int, letter: msgspec.Struct) -> Blob:
        assert self._session is not None
        return Blob(self._session.seal(peer, turn, 0, messages.encode(letter)))

    def _unsealed(self, sender: str, turn: int, letters: Mapping[str, Blob], kind: type[_Letter]) -> _Letter:
        assert self._session is not None
        return messages.decode(self._session.open(sender, turn, 0, letters[sender].view), kind)


def share_of(arithmetic: Arithmetic, parcel: Blob, *, seeded: bool, shape: tuple[int, ...]) -> Elements:
    """Return a share from what travelled: elements, or at the first points a seed of 32 bytes that they follow from."""
    if not seeded:
        return arithmetic.from_bytes(parcel.view, shape)
    if len(parcel) != SEED_BYTES:
        raise ProtocolError("A letter lacks a seed.")
    return expand(arithmetic, bytes(parcel.view), 0, shape)


def parcel_of(arithmetic: Arithmetic, dealing: Dealing, shares: Sequence[Elements], point: int) -> Blob:
    """Return what travels to one point of a dealing: see `share_of`."""
    seed = dealing.seeds.get(point)
    return Blob(arithmetic.to_bytes(shares[point - 1]) if seed is None else seed)


class Meeting:
    """The first two turns of any conversation: everyone greets, then everyone knows everyone's keys.

    Parameters
    ----------
    member
        Who we are.
    plan, step, run
        What is being run; two steps of a plan, or two runs of a step, never understand each other.
    members
        Who takes part, in canonical order.
    secret
        32 random bytes of this step, the same in every run (`RunRecords`); a sum has fresh ones.
    hub
        Members of whom every letter is from or to one; by default everybody.
    """

    def __init__(
        self,
        member: Member,
        plan: Plan,
        step: str,
        run: bytes,
        members: tuple[str, ...],
        secret: bytes,
        hub: Collection[str] | None = None,
    ) -> None:
        self._terms = RunTerms.of(
            federation=bytes.fromhex(plan.federation),
            run=digest("colonnade run v1", run, step),
            parties=members,
            plan=messages.digest(plan),
        )
        self._me = member
        self._seed = subseed(secret, "colonnade handshake")
        self._partners = None if hub is None or member.name in hub else frozenset((*hub, member.name))
        self._handshake: Handshake | None = None
        self._session: Session | None = None

    def seal_with(self, seed: bytes) -> None:
        """Take keys of this run alone, from 32 bytes that are never kept: letters stay closed if a disk is stolen."""
        self._seed = subseed(seed, "colonnade handshake")

    def exchanged(self) -> tuple[bytes, ...]:
        """Return a hash of every letter of this turn, heard or said."""
        return () if self._session is None else self._session.exchanged()

    def greet(self) -> Greeted:
        """Turn 0: our signed ephemeral key."""
        self._handshake = Handshake(self._me.identity, self._me.name, self._terms, self._seed)
        return Greeted(hello=messages.encode(self._handshake.hello))

    def meet(self, hellos: Mapping[str, Blob]) -> Session:
        """Turn 1: everyone's signed keys; from here on, letters can be sealed and opened."""
        if self._handshake is None:
            raise ProtocolError("A turn came before this member has greeted.")
        decoded = {name: messages.decode(blob.view, Hello) for name, blob in hellos.items()}
        self._session = self._handshake.agree(decoded, self._me.pinned, self._partners)
        return self._session


def inputs_digest(inputs: Mapping[str, Array], before: bytes = b"") -> bytes:
    """Return a hash of public inputs, and of all that were shown before."""
    fields = ((name, one.dtype, tuple(one.shape), bytes(one.data.view)) for name, one in sorted(inputs.items()))
    return digest("colonnade sum inputs v1", before, *fields)


def members_of(plan: Plan, name: str) -> tuple[str, ...]:
    """Return who takes part in the step of a given name, in canonical order."""
    first = next((step for step in plan.steps if step.name == name), None)
    if first is None:
        raise PlanMismatch("The plan has no step of that name.")
    return kind_of(first).members(plan, name)


class ChallengeChain:
    """One node's chain of challenges.

    Challenges that nobody can predict, one per chunk of rows. Each node draws a secret and sends the end of the chain
    H(H(…H(secret))) before it has seen anything. After it has received a chunk from every data party it reveals the link
    before. The challenge of a chunk is a hash of all nodes' links. A data party that has yet to deal the chunk does not know
    the honest nodes' links. No node can choose its link late, because the chain fixes it.

    Parameters
    ----------
    secret
        32 fresh random bytes.
    length
        How many challenges there will be.
    """

    def __init__(self, secret: bytes, length: int) -> None:
        links = [secret]
        for _ in range(length):
            links.append(_next(links[-1]))
        self._links = links[::-1]

    @property
    def head(self) -> bytes:
        """The commitment to the whole chain."""
        return self._links[0]

    def link(self, number: int) -> bytes:
        """Return the link revealed after chunk ``number`` (from 1)."""
        return self._links[number]

    def __repr__(self) -> str:
        return f"ChallengeChain({len(self._links) - 1} links, <hidden>)"


def check_link(link: bytes, known: bytes) -> None:
    """Refuse a link that does not lead to the one already known."""
    if not constant_time.bytes_eq(_next(link), known):
        raise ProtocolError("A node revealed a challenge that it had not committed to.")


def challenge(links: Mapping[str, bytes]) -> bytes:
    """Return the challenge that all nodes' links make together."""
    return digest("colonnade challenge v1", *((name, links[name]) for name in sorted(links)))


def commitments(heads: Mapping[str, bytes]) -> bytes:
    """Return what a node was told of all chains, in short.

    A node could commit to one chain towards one node and to another towards the next. Their combinations would then be taken
    under different challenges, and one mask would no longer hide both: together they would tell a combination of raw rows. So
    the nodes show each other what they were told before any combination is shown.
    """
    return digest("colonnade challenge heads v1", *((name, heads[name]) for name in sorted(heads)))


def _next(link: bytes) -> bytes:
    return digest("colonnade challenge link v1", link)


class CheckedProduct(ShareProduct):
    """A node's share of the product, and its part in checking every data party's dealing.

    Every node combines its shares of all dealt values with weights u_row · v_column, adds its share of a random mask that was
    dealt with the same degree, and shows the sums to the other nodes. If they lie on polynomials of the declared degree, so
    does every dealt value, except with probability 2⁻⁴⁰ (`colonnade.secure.shamir.check_repetitions`,
    docs/proofs/secure-arithmetic.md#degree-check). The mask hides what the combination would tell.

    Row weights come from the challenge of the row's own chunk, so that a chunk can be dropped once it is combined. Column
    weights come from the last challenge. Neither was known when the values they weigh were dealt.

    Combining is done in the same pass over the shares as multiplying, and costs little beside it: the row weights are a few
    more columns of the product.

    Parameters
    ----------
    arithmetic
        What the shares are modulo.
    widths
        How many columns each data party's dealing has.
    fold
        For every entry of the product the sum it is added to before anything is opened, −1 for none; by default every entry is
        opened by itself.
    workers
        Who multiplies, besides this process.
    """

    def __init__(
        self,
        arithmetic: Arithmetic,
        widths: Sequence[int],
        fold: NDArray[np.int64] | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._arithmetic = arithmetic
        self._fold = fold
        self._widths = tuple(widths)
        self._repetitions = check_repetitions(arithmetic)
        super().__init__(arithmetic, [*widths, self._repetitions], workers=workers)

    def combine(self, shares: Sequence[Elements], challenge: bytes) -> None:
        """Add one chunk: this node's shares, one array per data party, columns by rows, under the chunk's challenge."""
        shape = (self._repetitions, shares[0].shape[1])
        weights = expand(self._arithmetic, subseed(challenge, "colonnade degree check: rows"), 0, shape)
        self.add([*shares, weights])

    def masked(self, noise_shares: Sequence[Elements]) -> Elements:
        """Return the product plus this node's shares of every data party's noise; refuse to go without any."""
        products = np.concatenate([block[:, : -self._repetitions].reshape(-1) for block in self._products.blocks()])
        if self._fold is not None:
            return self._added_up(products, noise_shares, self._fold)
        return self._with_noise(products, noise_shares)

    def _added_up(self, products: Elements, noise_shares: Sequence[Elements], fold: NDArray[np.int64]) -> Elements:
        """Add entries up on shares: sums are linear, so the degree stays, and only the sums are masked and opened."""
        kept = fold >= 0
        entries, places, sums = products[kept], fold[kept], int(fold.max()) + 1
        low, high = entries & np.uint64(2**32 - 1), entries >> np.uint64(32)
        halves = [np.bincount(places, weights=half.astype(np.float64), minlength=sums) for half in (low, high)]
        total = [(int(one) + (int(other) << 32)) % self._arithmetic.modulus for one, other in zip(*halves, strict=True)]
        return self._with_noise(np.array(total, dtype=np.uint64), noise_shares)

    def checks(self, masks: Sequence[Elements], challenge: bytes) -> list[Elements]:
        """Return what this node shows the others: for each dealing one element per repetition."""
        combined = np.concatenate([block[:, -self._repetitions :] for block in self._products.blocks()])
        dealings = np.split(combined, np.cumsum(self._widths)[:-1])
        return [self._check(*dealing, challenge) for dealing in zip(dealings, masks, strict=True)]

    def _check(self, combined: Elements, mask: Elements, challenge: bytes) -> Elements:
        weights = expand(self._arithmetic, subseed(challenge, "colonnade degree check: columns"), 0, combined.shape)
        sums = (combined.astype(object) * weights.astype(object)).sum(axis=0) % self._arithmetic.modulus
        return self._arithmetic.add(sums.astype(np.uint64), mask)
