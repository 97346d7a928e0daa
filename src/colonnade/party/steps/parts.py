"""What the gate needs of the private half of a kind of step, and a party's part in joint openings and in sums.

A private half is a subclass of its kind (`colonnade.steps`) that can also compute from the table. It is constructed from
public facts only, and only the methods that take a table touch data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import PolicyRefusal, ProtocolError
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.accounting import Loss, Price
from colonnade.privacy.laws import EvenLaw, Mechanism, Sampler
from colonnade.privacy.randomness import KeyedRandomness, Randomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.protocol.messages import Array, pack, unpack
from colonnade.steps.joint import JointStep

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep

__all__ = [
    "Arrays",
    "Disclosed",
    "Joined",
    "JointHalf",
    "JointPart",
    "Local",
    "OpensJointly",
    "Prepared",
    "Reservation",
    "SumHalf",
    "SumPart",
    "prepare",
    "require_no_price",
]


Arrays = Mapping[str, NDArray[Any]]


@runtime_checkable
class Local(Protocol):
    """A statistic of one party's own, which a law perturbs."""

    def law(self, price: Price) -> Mechanism:
        """Return the noise that this price buys."""

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return the exact statistic. Its result is ``nonprivate`` until a law has released it."""


@runtime_checkable
class Disclosed(Protocol):
    """A statistic without a law: it leaves as it is, where the party's policy allows that by name."""

    title: ClassVar[str]

    def disclose(self, table: PrivateTable, inputs: Arrays, randomness: Randomness) -> Arrays:
        """Return exact values. ``inputs`` are the coordinator's; with inputs, the answer must follow from data and inputs."""


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


class JointHalf(Protocol):
    """A statistic that several parties open together."""

    @property
    def loss(self) -> Loss:
        """What this party's ledger is debited."""

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's share of the noise, one number for each entry between two parties."""

    def rows(self, table: PrivateTable, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's integer rows, a column of the table along each row of the result."""

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64] | None:
        """Return the part of the release that concerns this party alone, noised by it alone."""


def prepare(half: object, table: PrivateTable) -> None:
    """Read what a step needs. A step that cannot be answered fails here, before anything is paid."""
    if isinstance(half, Prepared):
        half.prepare(table)


@dataclass(frozen=True)
class Reservation:
    """A step that is paid for. Its noise follows from the seed that the ledger keeps, so a restarted party draws the same."""

    seed: bytes = field(repr=False)

    def secret(self) -> bytes:
        """Return the seed of this party's shares."""
        return KeyedRandomness(self.seed).spawn("shares").bytes(32)

    def noise(self, label: str) -> ExactSampler:
        """Return a sampler on one of the step's own streams."""
        return ExactSampler(KeyedRandomness(self.seed).spawn("noise").spawn(label))

    def stream(self, label: str) -> ExactSampler:
        """Return a sampler on a stream directly under the seed."""
        return ExactSampler(KeyedRandomness(self.seed).spawn(label))


class OpensJointly(JointStep):
    """The private half of a kind that is opened jointly; what most of them have in common."""

    def join(self, admitted: "AdmittedStep") -> "JointPart":
        """Return this party's part."""
        return JointPart(admitted)

    def cross_noise(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Return this party's share of the noise, one number for each entry between two parties."""
        noise = self.joint.noise
        assert isinstance(noise, EvenLaw)  # a kind whose entries differ draws by itself
        return noise.draw_share(entries, sampler)

    def own(self, table: PrivateTable, sampler: Sampler) -> NDArray[np.int64] | None:  # noqa: ARG002
        """Return nothing: no part of the release concerns this party alone."""
        return None


class JointPart:
    """A data party's part in a run.

    Parameters
    ----------
    admitted
        The step.
    """

    def __init__(self, admitted: "AdmittedStep") -> None:
        self._admitted = admitted
        self._half = cast("JointHalf", admitted.half)
        self._reservation: Reservation | None = None

    def begin(self) -> bytes:
        """Pay, durably, and return the seed of this party's shares."""
        self._admitted.refuse_if_answered(
            "This step was opened before, and is opened once.",
            remedy="Run the study again with the next repeat=; it is a new draw at a new price.",
        )
        self._admitted.prepare()
        self._reservation = self._admitted.reserve()
        return self._reservation.secret()

    def rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return some people's integer rows; they leave as shares only."""
        return self._admitted.compute(self._half.rows, start, stop)

    def noise(self, entries: int) -> NDArray[np.int64]:
        """Return this party's share of the noise of the entries between parties."""
        assert self._reservation is not None  # the run begins first
        return self._half.cross_noise(entries, self._reservation.noise("cross"))

    def own(self) -> NDArray[np.int64] | None:
        """Return this party's own part, noised by it alone."""
        assert self._reservation is not None  # the run begins first
        return self._admitted.compute(self._half.own, self._reservation.noise("own"))

    def opening(self, answer: bytes) -> None:
        """Keep, durably, what is about to be opened; a step is opened once."""
        self._admitted.open_once(answer)


class SumHalf(Protocol):
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
        self._half = cast("SumHalf", admitted.half)

    def begin(self, inputs: Mapping[str, Array]) -> int:
        """Fix what the sum is over, record it, and return how long the vectors are."""
        fixed = self._half.accept({name: unpack(array) for name, array in inputs.items()})
        self._admitted.prepare()
        self._admitted.compute(self._half.summand, 0, 1)  # whatever can fail fails here, before anything is recorded
        self._admitted.record_exact({name: pack(value) for name, value in fixed.items()})
        return self._half.length

    def values(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return a stretch of this party's vector; it leaves under masks only."""
        return self._admitted.compute(self._half.summand, start, stop)

    def deliver(self, start: int, sums: NDArray[np.int64]) -> None:  # noqa: ARG002
        """Refuse a stretch of the sum: it is opened to the coordinator."""
        raise ProtocolError("This sum is not opened to a party.")
