"""A step at a data party: what the gate needs of it, and its part in openings and sums.

*Private steps.* A `PrivateStep` holds a step of its kind (`colonnade.steps`) and can also compute it from the table.

*Parts.* `JointPart` pays before the first share leaves. `SumPart` records the step by name before the first masked value
leaves.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PolicyRefusal, ProtocolError
from colonnade.party.table.private_table import PrivateTable, require_within
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws import Mechanism, Sampler
from colonnade.protocol.messages import Array, pack, unpack
from colonnade.schema import Schema
from colonnade.secure.residues import Elements
from colonnade.secure.shamir import Dealing
from colonnade.steps.kind import JointStep, StepKind

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep, Reservation


Arrays = Mapping[str, NDArray[Any]]


@runtime_checkable
class LocalStep(Protocol):
    """A statistic of one party's own, which a law perturbs."""

    @property
    def schema(self) -> Schema:
        """What the party's columns are read as."""

    def law(self, price: Price) -> Mechanism:
        """Return the noise that this price buys."""

    def compute(self, table: PrivateTable) -> Any:
        """Return the exact statistic, as its law takes it. It is ``nonprivate`` until the law has released it."""


@runtime_checkable
class Disclosed(Protocol):
    """A statistic without a law: it leaves as it is, where the party's policy allows that by name."""

    @property
    def title(self) -> str:
        """What leaves, in words."""

    @property
    def schema(self) -> Schema:
        """What the party's columns are read as."""

    def accept(self, inputs: Arrays) -> object:
        """Check the coordinator's public inputs, and what the step rests on, before any row is read."""

    def disclose(self, table: PrivateTable) -> Arrays:
        """Return exact values. They follow from the data and from what was accepted."""


@runtime_checkable
class Joined(Protocol):
    """A step that members work out in conversation."""

    def join(self, admitted: "AdmittedStep") -> object:
        """Return what this party brings to the conversation."""


@runtime_checkable
class Prepared(Protocol):
    """A step that can fail on the table, and is asked to before anything is paid."""

    def prepare(self, table: PrivateTable) -> None:
        """Read what will be needed."""


@runtime_checkable
class RestsOnEarlier(Protocol):
    """A step that uses what this party has kept of earlier steps of its plan."""

    def require_earlier(self) -> None:
        """Refuse if it was not kept. No row is read, so the refusal may be said."""


def require_earlier(private: object) -> None:
    """Refuse a step whose earlier steps were not released."""
    if isinstance(private, RestsOnEarlier):
        private.require_earlier()


def prepare(private: object, table: PrivateTable) -> None:
    """Read what a step needs. A step that cannot be answered fails here, before anything is paid."""
    if isinstance(private, Prepared):
        private.prepare(table)


Kind = TypeVar("Kind", bound=StepKind)
JointKind = TypeVar("JointKind", bound=JointStep)


class PrivateStep(Generic[Kind]):
    """A step at a data party: its public terms, and how it is computed from the table.

    It is made from public facts only. Only methods that take a table touch data.

    Parameters
    ----------
    step
        The step as the policy admitted it.
    """

    kinds: ClassVar[tuple[type[StepKind], ...]]
    """The kinds of step that it computes."""

    def __init__(self, step: Kind) -> None:
        self.step = step

    @property
    def schema(self) -> Schema:
        """What the party's columns are read as; of a standardised step, by what its ledger has kept of an earlier one."""
        standardised = self.step.standardised
        return self.step.schema if standardised is None else standardised.schema(self.step.earlier)

    def require_earlier(self) -> None:
        """Refuse a standardised step if the earlier one was not kept."""
        self.schema  # noqa: B018  # it reads what was kept

    @property
    def title(self) -> str:
        """What is released, in words."""
        return self.step.title

    @property
    def loss(self) -> Loss:
        """What this party's ledger is debited."""
        return self.step.loss

    @property
    def keeps_key(self) -> bool:
        """Whether the step ends with a key in the ledger, and with no release."""
        return self.step.keeps_key

    def law(self, price: Price) -> Mechanism:
        """Return the noise that a price buys."""
        return self.step.law(price)


class PrivateJoint(PrivateStep[JointKind], Generic[JointKind]):
    """A step that is opened jointly; what most of them have in common."""

    def join(self, admitted: "AdmittedStep") -> "JointPart":
        """Return this party's part."""
        return JointPart(admitted)

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's integer rows, a column of the table along each row of the result."""
        raise NotImplementedError

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's share of the noise, one number for each entry between two parties."""
        return self.step.joint.noise.draw_share(entries, sampler)  # a kind whose entries differ overrides this

    def noise_in_tiles(self, sizes: Sequence[int], sampler: Sampler) -> Iterator[NDArray[np.int64]]:
        """Yield that noise tile by tile; a kind that has more than one tile says how."""
        (entries,) = sizes
        yield self.cross_noise(entries, sampler)

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64] | None:  # noqa: ARG002
        """Return the part of the release that concerns this party alone, noised by it alone; nothing by default."""
        return None


_NOTHING: Elements = np.empty((0, 0), dtype=np.uint64)


class DealtRows:
    """A function of some people's rows that returns shares of them. Nothing else of the rows leaves it.

    Parameters
    ----------
    step
        The step, which codes rows as integers.
    dealing
        How they are dealt. Its seed is of one party's table in one run of one step.
    chunks
        All ranges of people; a chunk's number is its place among them, from 1.
    """

    def __init__(self, step: PrivateJoint[Any], dealing: Dealing, chunks: Sequence[tuple[int, int]]) -> None:
        self._step = step
        self._dealing = dealing
        self._numbers = {start: number for number, (start, _) in enumerate(chunks, start=1)}
        self._seeded = frozenset(dealing.seeds)
        self._memory = np.empty((dealing.nodes, 0, 0), dtype=np.uint64)

    def __call__(self, table: PrivateTable, start: int, stop: int) -> tuple[Elements, ...]:
        """Code and deal. The shares are valid until the next call: fresh memory costs more than the arithmetic.

        A share that travels as a seed is left out.
        """
        rows = self._step.rows(table, start, stop)
        require_within(rows, self._step.step.joint.largest)
        if self._memory.shape[1:] != rows.shape:
            self._memory = np.empty((len(self._memory), *rows.shape), dtype=np.uint64)
        shares = self._dealing.shares(self._numbers[start], rows.T, self._memory)
        return tuple(_NOTHING if point in self._seeded else share for point, share in enumerate(shares, start=1))


class JointPart:
    """A data party's part in a run.

    Parameters
    ----------
    admitted
        The step.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted
        self._private = cast("PrivateJoint[Any]", admitted.private)
        self._reservation: Reservation | None = None
        self._noise: Iterator[tuple[int, NDArray[np.int64]]] = iter(())
        self._own: NDArray[np.int64] | None = None

    def begin(self) -> bytes:
        """Pay, durably, and return the seed of this party's shares."""
        self._admitted.refuse_if_concluded()
        self._admitted.prepare()
        self._reservation = self._admitted.reserve()
        sizes = [tile.entries for tile in self._private.step.joint.tiles]
        self._noise = enumerate(self._private.noise_in_tiles(sizes, self._reservation.noise("cross")))
        return self._reservation.secret()

    def deal(self, dealing: Dealing, chunks: Sequence[tuple[int, int]]) -> Iterator[tuple[Elements, ...]]:
        """Yield the shares of one chunk of rows after another, the first at position 1; valid until the next one."""
        return self._admitted.each(DealtRows(self._private, dealing, chunks), chunks)

    def noise(self, tile: int = 0) -> NDArray[np.int64]:
        """Return this party's share of the noise of a tile; of those before, what is left is drawn too and dropped."""
        return next(drawn for number, drawn in self._noise if number == tile)

    def own(self, tile: int = 0) -> NDArray[np.int64] | None:
        """Return as much of this party's own part, noised by it alone, as goes with a tile."""
        assert self._reservation is not None  # the run begins first
        if self._own is None:
            self._own = self._admitted.compute(self._private.own, self._reservation.noise("own"))
        return None if self._own is None else self._own[self._private.step.joint.tiles[tile].own]


class Summed(Protocol):
    """What a secure sum needs to know of a step."""

    def accept(self, inputs: Arrays) -> Arrays:
        """Check the coordinator's public inputs and return what of them is fixed for good."""

    @property
    def length(self) -> int:
        """How many values there are, once the inputs are accepted."""

    def summand(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's vector."""


def require_no_price(admitted: "AdmittedStep") -> None:
    """Refuse a price for exact values."""
    if admitted.step.price is not None:
        raise PolicyRefusal("A sum without noise has no price; it is allowed by name or not at all.")


class SumPart:
    """A data party's part in a secure sum without noise.

    What the sum is over is kept in the ledger as the step's answer, in the row that records the release. A later run of the step
    is over the same, or it is refused: a plan opens one sum.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        require_no_price(admitted)
        self._admitted = admitted
        self._private = cast("Summed", admitted.private)

    def begin(self, inputs: Mapping[str, Array]) -> int:
        """Fix what the sum is over, record it, and return how long the vectors are."""
        fixed = self._private.accept({name: unpack(array) for name, array in inputs.items()})
        self._admitted.disclose({name: pack(value) for name, value in fixed.items()})
        self._admitted.prepare()
        return self._private.length

    def values(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's vector; it leaves under masks only."""
        return self._admitted.compute(self._private.summand, start, stop)

    def deliver(self, start: int, sums: NDArray[np.int64]) -> None:  # noqa: ARG002
        """Refuse a stretch of the sum: it is opened to the coordinator."""
        raise ProtocolError("This sum is not opened to a party.")
