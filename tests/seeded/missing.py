"""Bugs in what missing, unreadable and unlisted values count as."""

from functools import partial

import pyarrow as pa

from colonnade.coordinator.protocols import counting
from colonnade.coordinator.protocols.counting import IndependentCounts
from colonnade.estimators import second_moments
from colonnade.party.party import Party
from colonnade.party.table import row_order
from colonnade.party.table.checking import ColumnCheck
from colonnade.schema import cells
from colonnade.schema.encoders import IndicatorEncoder, NumericEncoder
from colonnade.steps import local
from tests import test_coding as coding
from tests.estimators import test_bad_input as bad_input
from tests.estimators import test_missing_values as missing
from tests.party import test_alignment as alignments
from tests.party import test_table_check as checks
from tests.seeded.bug import Bug, replaced, wrapped


def _fills_null_records(honest, self, column):
    honest(self, column)
    self.null = self._fill


def _without_what_cannot_be_read(self):
    return [(what, remedy) for what, remedy in _faults(self) if "readable" not in what]


_faults = ColumnCheck.faults.fget  # type: ignore[attr-defined]  # a property has it

BUGS = [
    Bug(
        "people without a value are spread over the cells",
        replaced(local, "report_cells", lambda size, *, leaves_out: max(size, 2)),
        partial(missing.test_the_counting_methods_agree_with_the_truth_and_so_with_each_other, "response", "excluded"),
    ),
    Bug(
        "a table is made to add up to everybody, also to those it leaves out",
        replaced(counting, "plausible_total", lambda tables, people, *, leaves_out: float(people)),
        partial(missing.test_the_counting_methods_agree_with_the_truth_and_so_with_each_other, "secure", "excluded"),
    ),
    Bug(
        "a histogram is taken to count everybody",
        replaced(IndependentCounts, "_present", lambda self, margin, group: float(self.people)),
        partial(
            missing.test_the_counting_methods_agree_with_the_truth_and_so_with_each_other, "independent", "excluded"
        ),
    ),
    Bug(
        "a null record is filled like a missing value",
        wrapped(NumericEncoder, "__init__", _fills_null_records),
        missing.test_a_null_record_is_zero_and_a_missing_value_is_within_the_bounds,
    ),
    Bug(
        "a person with declared values only has no record",
        wrapped(NumericEncoder, "present", lambda _, self, column: ~self.read(column).empty),
        missing.test_people_with_a_declared_value_have_a_record_and_a_null_record_has_none,
    ),
    Bug(
        "a table is opened without a look at it",
        replaced(Party, "validate", lambda *_: None),
        bad_input.test_values_outside_the_schema_are_refused_and_leak_into_no_message,
    ),
    Bug(
        "what cannot be read counts as missing, without a word",
        replaced(ColumnCheck, "faults", property(_without_what_cannot_be_read)),
        checks.test_a_check_counts_what_is_missing_unreadable_unknown_clipped_constant_and_repeated,
    ),
    Bug(
        "a comma anywhere is a sign between thousands",
        replaced(cells, "number_pattern", lambda column: r"^[+-]?[\d,]+(\.\d*)?$"),
        partial(coding.test_fitting_prediction_and_export_code_every_cell_alike, "English"),
    ),
    Bug(
        "a number that stands for nothing is a number",
        replaced(cells, "na_numbers", lambda column: ()),
        partial(coding.test_fitting_prediction_and_export_code_every_cell_alike, "filled"),
    ),
    Bug(
        "an indicator says where there is a value",
        wrapped(IndicatorEncoder, "__call__", lambda honest, self, column: 1 - honest(self, column)),
        partial(coding.test_fitting_prediction_and_export_code_every_cell_alike, "filled, whether missing"),
    ),
    Bug(
        "whether the target is missing explains the target",
        replaced(second_moments, "indicated", lambda name, column: None),
        missing.test_the_indicator_of_a_target_explains_nothing,
    ),
    Bug(
        "shares are of everybody, also of those who are left out",
        replaced(second_moments, "shares_of_present", lambda means, features, columns: means),
        missing.test_means_are_over_everybody_with_the_declared_value_and_shares_over_people_with_a_level,
    ),
    Bug(
        "ids of another type are compared as they are",
        replaced(row_order, "_normal_text", lambda ids, party: ids.cast(pa.large_string())),
        alignments.test_ids_of_different_kinds_are_compared_as_a_matching_compares_them,
    ),
]
