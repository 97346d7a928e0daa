"""Bugs in a party on Dask: ranges of people, folds, what a worker is sent and says, and clusters that are not private."""

from contextlib import nullcontext
from functools import partial

import numpy as np
from distributed import Client

from colonnade.party.handles import EarlierSteps, Reservation
from colonnade.party.table import checking, dask_cluster, dask_table
from colonnade.party.table.dask_cluster import Cluster, DaskRows, Failure, Sealed
from colonnade.party.table.dask_table import DaskTable
from colonnade.privacy.randomness import SystemRandomness
from colonnade.secure import shamir
from tests.party import test_dask as dask
from tests.party import test_dask_failures as failures
from tests.seeded.bug import Bug, replaced, wrapped


def _on_a_cluster(test, *, tables: bool = False):
    def run(monkeypatch):
        with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0") as client:
            if tables:
                test(dask.made_tables(client, monkeypatch))
            else:
                test(client, monkeypatch)

    return run


def _next_people(honest, declared, start, stop, pieces):
    held, columns = honest(declared, start, stop, pieces)
    return held, {name: np.roll(column, 1) for name, column in columns.items()}


def _last_partition_only(honest, declared, start, stop, pieces):
    return honest(declared, start, stop, pieces[-1:])


def _first_block_twice(honest, add, shape, rows, table, start, stop):
    total = honest(add, shape, rows, table, start, stop)
    add(total, table, start, min(start + rows, stop))
    return total


def _quoting(error):
    return Failure("", str(error))


def _forgets_the_last_chunk(honest, self):
    self._under_way = type(self._under_way)(list(self._under_way)[:-1])
    return honest(self)


BUGS = [
    Bug(
        "a range of a worker that belongs to other people",
        wrapped(dask_table, "_arranged", _next_people),
        _on_a_cluster(dask.test_a_table_with_workers_reads_as_in_memory_under_every_reading, tables=True),
    ),
    Bug(
        "pieces of a range that are left out",
        wrapped(dask_table, "_arranged", _last_partition_only),
        _on_a_cluster(dask.test_another_order_of_rows_is_the_same_too, tables=True),
        full=True,
    ),
    Bug(
        "a fold by workers that counts some people twice",
        wrapped(dask_table, "_folded", _first_block_twice),
        _on_a_cluster(dask.test_what_workers_fold_and_make_of_ranges_is_what_one_process_does, tables=True),
    ),
    Bug(
        "a check of a table that forgets all partitions but the last",
        replaced(checking._Tally, "merge", lambda self, other: vars(self).update(vars(other))),
        _on_a_cluster(lambda client, _: dask.test_a_table_is_checked_by_workers_as_in_memory(client)),
    ),
    Bug(
        "products of workers without the last chunk",
        wrapped(shamir.TilesOfWorkers, "in_range", _forgets_the_last_chunk),
        _on_a_cluster(dask.test_products_of_shares_by_workers_are_those_of_one_process),
    ),
    Bug(
        "the seed of a step's noise on its way to a worker",
        replaced(Reservation, "__reduce__", object.__reduce__),
        dask.test_nothing_with_the_ledger_the_keys_or_the_noise_of_a_party_can_be_sent,
    ),
    Bug(
        "a worker that is sent a way to the ledger",
        replaced(EarlierSteps, "__reduce__", lambda self: (EarlierSteps, (self._read, self._found))),
        dask.test_a_step_is_sent_with_what_it_has_read_of_earlier_ones_and_no_way_to_the_ledger,
    ),
    Bug(
        "a task that shows what it is given",
        replaced(Sealed, "__repr__", lambda self: repr(self._data)),
        dask.test_what_is_on_its_way_to_a_worker_shows_nothing,
    ),
    Bug(
        "a worker that quotes a cell when it fails",
        replaced(Failure, "of", _quoting),
        _on_a_cluster(lambda client, _: dask.test_a_task_that_fails_says_so_without_a_cell_and_never_raises(client)),
    ),
    Bug(
        "workers that are reached over a network without TLS",
        replaced(dask_cluster, "_require_private", lambda addresses, **_: None),
        _on_a_cluster(dask.test_every_worker_counts_not_the_scheduler_alone),
    ),
    Bug(
        "a partition that is read with other rows than were counted",
        replaced(DaskRows, "lengths", property(lambda self: self.cluster.lengths(self.frame))),
        _on_a_cluster(lambda client, _: dask.test_a_partition_that_changes_is_noticed(client)),
        full=True,
    ),
    Bug(
        "a party that says how its workers failed at others' products",
        replaced(shamir, "asking_workers", nullcontext),
        partial(
            failures.test_a_party_whose_workers_fail_at_products_says_what_a_stopped_party_says,
            "no workers",
            at_once=False,
        ),
    ),
    Bug(
        "a node that says how its workers failed",
        replaced(shamir, "asking_workers", nullcontext),
        failures.test_a_node_whose_workers_fail_has_one_constant_message,
        full=True,
    ),
    Bug(
        "workers that are looked at once, when a party starts",
        replaced(Cluster, "_workers", Cluster._known),
        _on_a_cluster(dask.test_a_worker_that_comes_later_is_looked_at_before_it_gets_a_row),
    ),
    Bug(
        "a service whose cluster is open to every user of the machine",
        wrapped(dask_cluster, "_require_private", lambda honest, addresses, **_: honest(addresses)),
        dask.test_a_service_needs_tls_on_the_loopback_interface_too,
    ),
    Bug(
        "a cluster that is lost after a release was paid for",
        replaced(DaskTable, "load", lambda self, names: None),
        _on_a_cluster(failures.test_a_cluster_that_is_lost_costs_nothing),
    ),
    Bug(
        "a lost range that comes back with other rows",
        replaced(dask_table, "_hash_of", lambda cells: b""),
        _on_a_cluster(dask.test_rows_that_are_others_when_a_lost_range_is_computed_again_are_noticed),
    ),
    Bug(
        "a source of noise on its way to a worker",
        replaced(SystemRandomness, "__reduce__", lambda self: (SystemRandomness, ())),
        dask.test_nothing_with_the_ledger_the_keys_or_the_noise_of_a_party_can_be_sent,
        full=True,
    ),
    Bug(
        "chunks of every study in memory at once",
        replaced(shamir.TilesOfWorkers, "_bytes_under_way", staticmethod(lambda: 0)),
        _on_a_cluster(failures.test_chunks_under_way_are_bounded_over_all_studies),
        full=True,
    ),
]
