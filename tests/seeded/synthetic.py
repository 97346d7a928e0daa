"""Bugs in synthetic tables: in the model, in rows, in what is said about their quality, and in the order of events."""

import numpy as np
import pandas as pd

from colonnade.estimation import table_model
from colonnade.estimators import synthetic
from tests.estimators import test_synthetic_table as studies
from tests.estimators import test_table_model as models
from tests.seeded.bug import Bug, replaced, wrapped


def _as_eliminated(cliques, tables):
    return list(cliques)


def _as_if_nothing_were_given(honest, chances, group, order, within):
    return honest(chances.sum(axis=0, keepdims=True), np.zeros_like(group), order, within)


def _with_the_noise(found, *, fitted):
    return float(np.abs(found.people).sum()) / (2 * found.count)


def _without_the_last_number(honest, column, codes, uniforms, missing):
    values = honest(column, codes, uniforms, missing)
    return pd.Series(np.minimum(values, column.high if hasattr(column, "high") else np.ceil(column.edges[-1]) - 1))


def _any_distance(self):
    return dict.fromkeys(self.pairs, 1.0)


BUGS = [
    Bug(
        "cliques stand in the order in which columns were eliminated",
        replaced(table_model, "_in_tree_order", _as_eliminated),
        models.test_tables_of_cliques_and_of_any_two_columns_are_those_of_the_whole_distribution,
    ),
    Bug(
        "new columns are drawn as if nothing were given",
        wrapped(table_model, "_stratified", _as_if_nothing_were_given),
        models.test_rows_follow_the_whole_distribution,
    ),
    Bug(
        "the last bin loses its upper edge",
        wrapped(table_model, "_numbers", _without_the_last_number),
        models.test_numbers_are_inside_their_bins_and_whole_where_the_column_is,
    ),
    Bug(
        "pairs are kept whether or not they stand out of the noise",
        replaced(table_model.NoisyTables, "dependences", _any_distance),
        models.test_pairs_that_only_noise_explains_are_left_out,
    ),
    Bug(
        "the quality counts the noise as a distance",
        replaced(models, "fitted_distance", _with_the_noise),
        models.test_the_known_noise_is_taken_out_of_a_distance,
    ),
    Bug(
        "an interval of quality forgets the upper side",
        replaced(table_model.Differences, "squared", property(lambda self: 0.0)),
        models.test_intervals_of_a_measured_quality_cover,
    ),
    Bug(
        "a missing library is noticed once the tables are paid for",
        replaced(synthetic.private_pgm, "require_library", lambda: None),
        studies.test_without_the_library_it_is_refused_before_anything_is_spent_and_the_extra_is_named,
    ),
]
