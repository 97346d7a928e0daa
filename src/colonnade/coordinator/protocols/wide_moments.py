"""Second moments of thousands of columns: the opening of `GramRelease`, written into one matrix tile by tile."""

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.coordinator.protocols.relaying import open_in_tiles
from colonnade.estimation.wide_moments import MatrixNoise, WideMoments
from colonnade.plan import Plan
from colonnade.privacy.laws.gram import GramNoise
from colonnade.protocol.messages import Rounds
from colonnade.steps.joint import Joint, read_joint

__all__ = ["WIDE", "WideRelease"]

WIDE = 1_000
"""Coded columns from which a matrix is held once, and not decomposed."""

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class WideRelease(GramRelease):
    """One joint opening of the second moments of many columns; parameters as for `GramRelease`. Read as `WideMoments`."""

    def rounds(self, plan: Plan) -> Rounds:
        """Open the matrix, tile by tile if it is too wide to be opened at once, and read it as moments."""
        reader = _Reader(read_joint(plan, "gram"), float(self.gamma) ** 2)
        yield from open_in_tiles(plan, "gram", reader.take)
        noise = self.matrix_noise(reader.joint)
        return WideMoments.of_release(reader.matrix, reader.sums, noise, reader.joint.people, self.features)

    def matrix_noise(self, joint: Joint) -> MatrixNoise:
        """Return the variance of every entry."""
        noise = joint.noise
        assert isinstance(noise, GramNoise)  # the step's kind decided
        unit = float(self.gamma) ** 4
        return MatrixNoise.of(self.features[1:], noise.opened_variance / unit, float(noise.own_variance) / unit)


def _square(size: int) -> NDArray[np.float64]:
    """Return a square of zeros whose pages take memory once they are written, and are small: half of it is never written."""
    memory = mmap.mmap(-1, 8 * size * size)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory).reshape(size, size)


class _Reader:
    """Writes what is opened into the upper triangle of a matrix, and the columns' sums beside it."""

    def __init__(self, joint: Joint, unit: float) -> None:
        self.joint = joint
        self._unit = unit
        ends = list(accumulate(joint.widths))
        self._places = dict(zip(joint.owners, zip([0, *ends], ends, strict=False), strict=True))
        self.matrix = _square(ends[-1])
        self.sums = np.zeros(ends[-1])

    def take(self, number: int, cross: Integers, own: Mapping[str, Integers]) -> None:
        """Write one tile."""
        tile, start = self.joint.tiles[number], 0
        for one in tile.blocks:
            block = cross[start : start + one.entries].reshape(one.bottom - one.top, one.right - one.left)
            np.divide(block, self._unit, out=self.matrix[one.top : one.bottom, one.left : one.right])
            start += one.entries
        for party, part in ((party, part) for party, part in own.items() if len(part)):
            self._take_own(party, 1 + (tile.own.start or 0), part / self._unit)

    def _take_own(self, party: str, place: int, part: NDArray[np.float64]) -> None:
        """Write a stretch of a party's own triangle, row by row; its first row are the sums, whose first is not released."""
        first, last = self._places[party]
        size, row, start = last - first + 1, 0, 0
        while place >= start + size - row:
            start, row = start + size - row, row + 1
        while len(part):
            taken = min(len(part), start + size - row - place)
            column = first + row + place - start - 1  # columns are counted from the constant one
            target = self.sums if row == 0 else self.matrix[first + row - 1]
            target[column : column + taken], part = part[:taken], part[taken:]
            place += taken
            start, row = start + size - row, row + 1
