"""Bugs in tables on disk: cells, orders, ranges of people, and rows that are read again."""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from colonnade.party.table import large_ids, stored_table
from colonnade.party.table.sources import DuckRows
from colonnade.party.table.stored_table import StoredTable
from colonnade.runtime import durable_file
from colonnade.runtime.spilled_rows import SpilledRows
from tests import test_temporary_folders as folders
from tests.party import test_stored_table as stored
from tests.seeded.bug import Bug, replaced, wrapped


def _everybody_has_a_row(honest, self, *some):
    return np.ones_like(honest(self, *some))


def _unknown_is_missing(honest, self, numbers):
    return honest(self, np.where(numbers == stored_table.UNKNOWN, stored_table.EMPTY, numbers))


def _next_people(honest, self, name, start, stop):
    return np.roll(honest(self, name, start, stop), 1) if start else honest(self, name, start, stop)


def _last_of_a_block_is_lost(honest, own, listed):
    for block, places, rows in honest(own, listed):
        yield block, places[:-1], [*rows[:-1], *(batch.slice(0, len(batch) - 1) for batch in rows[-1:])]


def _in_a_folder(test):
    def run():
        with tempfile.TemporaryDirectory() as folder:
            test(tmp_path=Path(folder))

    return run


def _among_temporary_folders(test):
    def run():
        with tempfile.TemporaryDirectory() as folder, folders.within(Path(folder)):
            test(temporary=Path(folder))

    return run


BUGS = [
    Bug(
        "a temporary folder that is in use is taken for one that was left behind",
        replaced(durable_file, "_lock", lambda file: True),
        _among_temporary_folders(folders.test_a_folder_that_somebody_holds_stays_and_one_that_nobody_holds_goes),
    ),
    Bug(
        "what a killed process left behind stays for good",
        replaced(durable_file, "_remove_left_behind", lambda: None),
        _among_temporary_folders(folders.test_a_folder_that_somebody_holds_stays_and_one_that_nobody_holds_goes),
    ),
    Bug(
        "null records on disk that hold somebody's values",
        wrapped(StoredTable, "held", _everybody_has_a_row),
        partial(
            stored.test_a_table_on_disk_reads_as_in_memory_in_the_same_order_under_the_same_name,
            ids="whole",
            mode="cohort",
        ),
    ),
    Bug(
        "a stored value outside the list that counts as missing",
        wrapped(stored_table._LevelForm, "restore", _unknown_is_missing),
        stored.test_a_stored_cell_says_what_it_said_under_every_reading,
        full=True,
    ),
    Bug(
        "a block from disk that belongs to other people",
        wrapped(StoredTable, "_some", _next_people),
        stored.test_another_order_of_rows_is_the_same_too,
    ),
    Bug(
        "ids on disk that are compared without their normal form",
        replaced(large_ids, "normal_text", lambda ids: ids.cast("large_string")),
        partial(
            stored.test_a_table_on_disk_reads_as_in_memory_in_the_same_order_under_the_same_name,
            ids="text",
            mode="cohort",
        ),
    ),
    Bug(
        "the last person of a block is left out of an alignment on disk",
        wrapped(stored_table, "matches", _last_of_a_block_is_lost),
        stored.test_another_order_of_rows_is_the_same_too,
    ),
    Bug(
        "rows stand in the order of the source and not in the one that was asked for",
        wrapped(stored_table, "_places_of_rows", lambda honest, order, memory: honest(np.sort(order), memory)),
        stored.test_another_order_of_rows_is_the_same_too,
    ),
    Bug(
        "rows that are read again in the order of their places",
        wrapped(SpilledRows, "take", lambda honest, self, places: honest(self, np.sort(places))),
        partial(stored.test_rows_that_are_read_again_are_those_that_were_written, memory=0),
    ),
    Bug(
        "a database that may change while it is open",
        replaced(DuckRows, "_state", lambda self: (0, 0)),
        _in_a_folder(stored.test_a_database_that_changes_is_noticed),
    ),
]
