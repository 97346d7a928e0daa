"""What a gate hands out: quotes, earlier attempts to align, the noise of a step that is paid for, and what leaves for a step.

Beside the gate this is the only module at a party that makes samplers. `Gate.reserve` makes a `Reservation`, after the
debit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NoReturn

from numpy.typing import NDArray

from colonnade.party.ledger.rows import Entry
from colonnade.plan import Step
from colonnade.privacy.accounting import Loss
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.protocol import codec
from colonnade.protocol.messages import Array, Released, unpack
from colonnade.secure.keys import digest
from colonnade.steps.kind import Earlier, nothing_earlier


@dataclass(frozen=True)
class Quoted:
    """What a plan would cost one party."""

    losses: Mapping[str, Loss]
    """The loss of each private step, by its name."""
    unpaid: tuple[str, ...]
    """The steps that the ledger has not paid for yet."""
    disclosed: tuple[str, ...]
    """The steps that are not private, and so not covered by the budget."""


@dataclass(frozen=True)
class Attempt:
    """An attempt to align this party's rows, as its ledger records it. All of it is public."""

    name: bytes
    """What its row is called."""
    body: bytes | None
    """The hash of the request, the same for the same step of the same plan."""
    version: int | None
    """The declared version of the data."""

    @classmethod
    def within(cls, days: float, now: datetime, rows: Sequence[Entry]) -> "list[Attempt]":
        """Return the attempts of the last days from all rows of a ledger."""
        start = now - timedelta(days=days)
        recent = [row for row in rows if row.kind == "list" and row.when > start]
        return [cls(row.request or b"", row.body, row.version) for row in recent]

    @staticmethod
    def named(request: bytes, sequence: int) -> bytes:
        """Name a new attempt at a request, at the place of the ledger where its row will stand."""
        return digest("colonnade alignment row v1", request, sequence)

    @staticmethod
    def telling(name: bytes, whom: str = "peers") -> bytes:
        """Name the row which says that an attempt tells peers, or the coordinator, something exactly."""
        return digest("colonnade alignment told v1", name, whom)


class EarlierSteps:
    """What this party has kept of a plan's earlier steps, by their names; each is read from its ledger once.

    A worker that is sent a step gets what was read of earlier ones, and no way to the ledger.

    Parameters
    ----------
    read
        Reads one; refuses where nothing was kept.
    found
        What was read before.
    """

    def __init__(
        self, read: Earlier = nothing_earlier, found: Mapping[str, Mapping[str, NDArray[Any]]] | None = None
    ) -> None:
        self._read = read
        self._found = dict(found or {})

    def __call__(self, name: str) -> Mapping[str, NDArray[Any]]:
        """Return what was kept of a step."""
        if name not in self._found:
            self._found[name] = self._read(name)
        return self._found[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return EarlierSteps, (nothing_earlier, self._found)


@dataclass(frozen=True)
class Reservation:
    """A step that is paid for. Its noise follows from the seed that the ledger keeps, so a restarted party draws the same."""

    seed: bytes = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("The seed of a step's noise stays with the gate.")

    def secret(self) -> bytes:
        """Return the seed of this party's shares."""
        return KeyedRandomness(self.seed).spawn("shares").bytes(32)

    def noise(self, label: str) -> ExactSampler:
        """Return a sampler on one of the step's own streams."""
        return ExactSampler(KeyedRandomness(self.seed).spawn("noise").spawn(label))

    def stream(self, label: str) -> ExactSampler:
        """Return a sampler on a stream directly under the seed."""
        return ExactSampler(KeyedRandomness(self.seed).spawn(label))


def released(step: Step, values: dict[str, Array], title: str, loss: Loss | None) -> bytes:
    """Encode what leaves for a step."""
    cost = None if loss is None else loss.to_bytes()
    return codec.encode(Released(party=step.party, step=step.name, values=values, mechanism=title, loss=cost))


def released_values(answer: bytes | None) -> Mapping[str, NDArray[Any]] | None:
    """Return the values of a kept answer; ``None`` if there is none, or if it is no release."""
    reply = None if answer is None else codec.decode_reply(answer)
    return {name: unpack(array) for name, array in reply.values.items()} if isinstance(reply, Released) else None
