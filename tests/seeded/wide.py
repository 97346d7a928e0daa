"""Bugs in openings in tiles and in moments that are held once."""

from functools import partial

import numpy as np

import colonnade as cn
from colonnade.conversations.memory import RunRecords
from colonnade.conversations.products import TiledProduct, TiledRun
from colonnade.estimation.moments import MatrixNoise
from colonnade.estimators.methods import moments as methods
from colonnade.privacy.laws.gram import GramNoise
from tests.conversations import test_tiles as tiles
from tests.estimators import test_wide_moments as wide
from tests.seeded.bug import Bug, replaced, wrapped


def _every_tile_the_noise_of_the_first(honest, self, sizes, sampler):
    first = next(honest(self, [max(sizes)], sampler))
    yield from (first[:size] for size in sizes)


def _one_party_left_out(honest, self, tile, noise_shares):
    return honest(self, tile, noise_shares[:-1])


def _checked_or_not(honest, self, turn, letters):
    self._verified = True
    return honest(self, turn, letters)


def _two_levels_are_noise(honest, self, weights):
    known = np.bincount(self.columns, weights)[self.columns] - weights
    return honest(self, weights) + self.within * known


BUGS = [
    Bug(
        "all tiles have the noise of the first",
        wrapped(GramNoise, "draw_tiles", _every_tile_the_noise_of_the_first),
        partial(tiles.test_a_release_in_tiles_is_that_of_one_opening_bit_for_bit, 7, 1 << 20),
    ),
    Bug(
        "a tile is opened without the noise of one party",
        wrapped(TiledProduct, "opened", _one_party_left_out),
        partial(tiles.test_a_release_in_tiles_is_that_of_one_opening_bit_for_bit, 7, 1 << 20),
    ),
    Bug(
        "a tile is multiplied before the dealings were checked",
        wrapped(TiledRun, "_add_noise", _checked_or_not),
        tiles.test_no_tile_is_multiplied_before_every_dealing_was_checked,
    ),
    Bug(
        "members forget which tiles they have opened",
        replaced(RunRecords, "opened", lambda *_: None),
        partial(tiles.test_a_coordinator_that_stops_between_tiles_goes_on_where_it_stopped, 2),
    ),
    Bug(
        "products of two levels count as noise",
        wrapped(MatrixNoise, "times", _two_levels_are_noise),
        wide.test_sums_over_variances_are_those_of_the_matrix_of_variances,
    ),
    Bug(
        "a matrix that does not fit is asked for all the same",
        replaced(methods, "require_memory", lambda load, columns: None),
        partial(
            wide.test_a_matrix_that_does_not_fit_is_refused_before_anybody_is_asked, cn.PCA(1, epsilon=20.0, delta=1e-6)
        ),
    ),
]
