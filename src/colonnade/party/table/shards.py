"""Parties whose rows are in several hands (paper 000, Appendix H): each shard perturbs its own people before it hands over.

Only statistics that take one value a person, perturbed by itself, can be released so: randomised reports and values with noise.
Coins are drawn person by person in the agreed order, whoever holds the person, so the release has the same bytes as that of an
undivided table with the same randomness. Everything else a party computes from all its rows together, as ever.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colonnade.party.steps import Statistic
from colonnade.party.table.private_table import PrivateTable
from colonnade.privacy.laws import Mechanism, Sampler

__all__ = ["load", "perturbed"]


@runtime_checkable
class _OneByOne(Protocol):
    """A statistic of one value a person."""

    taking_part: NDArray[np.bool_] | None

    def everyone(self, table: PrivateTable) -> NDArray[Any]: ...


@runtime_checkable
class _LocalRandomiser(Protocol):
    """A mechanism that perturbs people one by one, with coins drawn before."""

    block: int

    def draw(self, people: int, sampler: Sampler) -> NDArray[Any]: ...

    def apply(self, nonprivate: NDArray[Any], coins: NDArray[Any], sampler: Sampler) -> NDArray[Any]: ...


def load(statistic: Statistic, table: PrivateTable, columns: Sequence[str]) -> None:
    """Read the columns where they will be used; a source that cannot be read fails here."""
    for part in [part for _, part in table.shards()] if _by_shard(statistic, table) else [table]:
        part.load(columns)


def perturbed(statistic: Statistic, mechanism: Mechanism, table: PrivateTable, sampler: Sampler) -> NDArray[Any]:
    """Compute and perturb: shard by shard where rows are divided and the statistic allows it, else at once."""
    if isinstance(mechanism, _LocalRandomiser) and _by_shard(statistic, table):
        return _by_hand(statistic, mechanism, table, sampler)
    nonprivate = statistic.compute(table)
    return mechanism.release(nonprivate, sampler)


def _by_shard(statistic: Statistic, table: PrivateTable) -> bool:
    return table.sharded and isinstance(statistic, _OneByOne)


def _by_hand(statistic: Any, mechanism: Any, table: PrivateTable, sampler: Sampler) -> NDArray[Any]:
    parts = [_taking_part(statistic, places, part) for places, part in table.shards()]
    people = sum(len(ranks) for ranks, _ in parts)
    released: NDArray[Any] | None = None
    for start in range(0, people, mechanism.block):
        coins = mechanism.draw(min(mechanism.block, people - start), sampler)
        for ranks, nonprivate in parts:
            some = slice(*np.searchsorted(ranks, [start, start + len(coins)]))
            reports = mechanism.apply(nonprivate[some], coins[ranks[some] - start], sampler)
            if released is None:
                released = np.empty((people, *reports.shape[1:]), dtype=reports.dtype)
            released[ranks[some]] = reports
    return mechanism.release(np.empty(0, dtype=np.int64), sampler) if released is None else released


def _taking_part(
    statistic: Any, places: NDArray[np.int64], part: PrivateTable
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return a shard's values, and the rank of each of its people among all that take part."""
    nonprivate, some = statistic.everyone(part), statistic.taking_part
    if some is None:
        return places, nonprivate
    ranks = np.cumsum(some) - 1
    return ranks[places][some[places]], nonprivate[some[places]]
