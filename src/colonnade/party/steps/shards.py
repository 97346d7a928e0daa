"""Parties whose rows are in several hands (Primitives, Appendix H): each shard perturbs its own people before it hands over.

Only statistics that take one value per person, perturbed by itself, can be released so: randomised reports and values with noise.
Coins are drawn person by person in the agreed order, whoever holds the person, so the release has the same bytes as that of an
undivided table with the same randomness. Everything else a party computes from all its rows together, as always.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colonnade.party.steps.half import Local
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.laws import Mechanism, Sampler

__all__ = ["load", "perturbed"]


@runtime_checkable
class _OneByOne(Protocol):
    """A statistic of one value per person."""

    taking_part: NDArray[np.bool_] | None

    def everyone(self, table: PrivateTable) -> NDArray[Any]: ...


@runtime_checkable
class _LocalRandomiser(Protocol):
    """A law that perturbs people one by one, with coins drawn before."""

    block: int

    def draw(self, people: int, sampler: Sampler) -> NDArray[Any]: ...

    def apply(self, nonprivate: NDArray[Any], coins: NDArray[Any], sampler: Sampler) -> NDArray[Any]: ...


def load(half: Local, table: PrivateTable, columns: Sequence[str]) -> None:
    """Read the columns where they will be used; a source that cannot be read fails here."""
    for part in [part for _, part in table.shards()] if _by_shard(half, table) else [table]:
        part.load(columns)


def perturbed(half: Local, law: Mechanism, table: PrivateTable, sampler: Sampler) -> NDArray[Any]:
    """Compute and perturb: shard by shard where rows are divided and the statistic allows it, else at once."""
    if isinstance(law, _LocalRandomiser) and _by_shard(half, table):
        return _shard_by_shard(half, law, table, sampler)
    nonprivate = half.compute(table)
    return law.release(nonprivate, sampler)


def _by_shard(half: Local, table: PrivateTable) -> bool:
    return table.sharded and isinstance(half, _OneByOne)


def _shard_by_shard(half: Any, law: Any, table: PrivateTable, sampler: Sampler) -> NDArray[Any]:
    parts = [_taking_part(half, places, part) for places, part in table.shards()]
    people = sum(len(ranks) for ranks, _ in parts)
    released: NDArray[Any] | None = None
    for start in range(0, people, law.block):
        coins = law.draw(min(law.block, people - start), sampler)
        for ranks, nonprivate in parts:
            some = slice(*np.searchsorted(ranks, [start, start + len(coins)]))
            reports = law.apply(nonprivate[some], coins[ranks[some] - start], sampler)
            if released is None:
                released = np.empty((people, *reports.shape[1:]), dtype=reports.dtype)
            released[ranks[some]] = reports
    return law.release(np.empty(0, dtype=np.int64), sampler) if released is None else released


def _taking_part(half: Any, places: NDArray[np.int64], part: PrivateTable) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return a shard's values, and the rank of each of its people among all that take part."""
    nonprivate, some = half.everyone(part), half.taking_part
    if some is None:
        return places, nonprivate
    ranks = np.cumsum(some) - 1
    return ranks[places][some[places]], nonprivate[some[places]]
