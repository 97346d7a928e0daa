"""Bugs in how columns are read: past the declared bounds, or otherwise than the plan says."""

from functools import partial

import colonnade.schema
from colonnade.coding.encoders import BinsEncoder
from colonnade.party.table.private_table import PrivateTable
from colonnade.schema import Bins, Numeric
from tests import test_readings as readings
from tests.seeded.bug import Bug, replaced, wrapped


def _keeps_missing_where_it_is_filled(honest, self, column):
    honest(self, column)
    self._missing = None


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
]
