"""Bugs in how columns are read: past the declared bounds, or otherwise than the plan says."""

from functools import partial

import numpy as np

import colonnade.schema
import colonnade.schema.bins
from colonnade.party.table.private_table import PrivateTable
from colonnade.schema import Bins, Category, Crossed, Numeric, Schema
from colonnade.schema.encoders import BinsEncoder, CrossedEncoder
from tests import test_readings as readings
from tests.seeded.bug import Bug, replaced, wrapped


def _keeps_missing_where_it_is_filled(honest, self, column):
    honest(self, column)
    self._missing = None


def _checks_the_first(honest, self, name, reading):
    if isinstance(reading, Crossed):
        return name == reading.name and honest(self, reading.names[0], reading.of[0])
    return honest(self, name, reading)


BUGS = [
    Bug(
        "a party reads its rows as declared, whatever the plan says",
        replaced(PrivateTable, "read_as", lambda self, schema: self),
        readings.test_a_study_of_bins_counts_what_pandas_counts,
    ),
    Bug(
        "a table goes on with the reading that it was first asked for",
        replaced(PrivateTable, "read_as", lambda self, schema: self.__dict__.setdefault("_first", self)),
        readings.test_a_table_gives_each_reading_its_own_values,
    ),
    Bug(
        "a party accepts any reading of its columns",
        replaced(colonnade.schema, "refines", lambda reading, declared: True),
        partial(
            readings.test_a_party_refuses_a_reading_that_its_schema_does_not_allow,
            {"age": Bins.equal(Numeric(0, 120), 4)},
        ),
    ),
    Bug(
        "a missing number is counted where its fill value is, beside a bin of its own",
        wrapped(BinsEncoder, "__init__", _keeps_missing_where_it_is_filled),
        partial(readings.test_a_missing_number_is_where_its_fill_value_is_or_in_a_bin_of_its_own, "level", 10),
    ),
    Bug(
        "of two columns that are read together a party checks the first",
        wrapped(Schema, "allows", _checks_the_first),
        partial(
            readings.test_a_party_refuses_two_columns_together_of_which_it_would_refuse_one,
            Crossed(names=("age", "segment"), of=(Bins.equal(readings.AGE, 2), Category(["a", "b"]))),
            "age & segment",
        ),
    ),
    Bug(
        "a policy is asked about the first of two columns that are read together",
        wrapped(Schema, "stored", lambda honest, self, name: honest(self, name)[:1]),
        readings.test_a_policy_that_names_columns_is_about_both_of_two_that_are_read_together,
    ),
    Bug(
        "a person without one of two levels has the last combination",
        wrapped(CrossedEncoder, "__call__", lambda honest, self, *read: np.maximum(honest(self, *read), 3)),
        readings.test_two_columns_that_are_read_together_have_a_level_per_combination_and_none_where_one_has_none,
    ),
    Bug(
        "any number may be a code of bins",
        replaced(colonnade.schema.bins, "_checked_codes", lambda codes, of: tuple(codes)),
        partial(readings.test_a_code_that_its_owner_has_not_declared_is_refused, [-1]),
    ),
]
