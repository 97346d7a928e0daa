"""A party on Dask: the same cells, folds, shares and refusals as in memory; what reaches a worker, and what a lost one costs."""

import importlib
from functools import partial

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

import colonnade as cn
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.party.gate import EarlierSteps, Reservation
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.party import Party
from colonnade.party.table import dask_cluster, dask_table
from colonnade.party.table.dask_cluster import Cluster, Failure, Sealed, work
from colonnade.party.table.dask_table import DaskTable
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.party.table.stored_table import common_list, ordered_table, party_ids
from colonnade.privacy.randomness import KeyedRandomness, SystemRandomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.secure import shamir
from colonnade.secure.keys import Identity
from colonnade.secure.residues import Arithmetic
from colonnade.steps.kind import nothing_earlier
from tests import kit
from tests.federations import federation
from tests.golden.record import recomputed, recorded
from tests.party.dask_kills import Deadly, read_part
from tests.party.test_stored_table import FINER, SCHEMA, people
from tests.party.test_table import cells_of

FEW = 64
GOLDEN = recorded()


@pytest.fixture(scope="module")
def client():
    with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as made:
        yield made


@pytest.fixture(scope="module")
def processes():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as made,
    ):
        yield made


def frames(frame: pd.DataFrame, parts: int = 3):
    return dd.from_pandas(frame, npartitions=parts, sort=False)


def both(cluster, frame, common, mode="cohort", source=None):
    """The same alignment in memory and with workers."""
    found = []
    for given, workers in ((Source(frame), None), (source or Source(frames(frame)), cluster)):
        ids = party_ids(given, "id", party="bank", memory=None)
        found.append(ordered_table(given, SCHEMA, ids, common, party="bank", mode=mode, cluster=workers))
    return found


@pytest.fixture
def tables(client, monkeypatch):
    return made_tables(client, monkeypatch)


def made_tables(client, monkeypatch):
    monkeypatch.setattr(dask_table, "RANGE", FEW)
    (order, table), (other_order, other) = both(Cluster(client), people(500), common_list({"l": listed()}))
    assert (other_order.identity, other_order.rows.tolist()) == (order.identity, order.rows.tolist())
    assert isinstance(other, DaskTable)
    assert len(other._ranges) > 3
    return table, other


def listed():
    return party_ids(Source(pd.DataFrame({"id": np.arange(0, 1_000, 2)})), "id", party="list", memory=None)


# The same table ---------------------------------------------------------------------------------------------------------------


def require_same(one: PrivateTable, other: PrivateTable, rows: int = 150) -> None:
    assert one.people == other.people
    for schema in (SCHEMA, FINER):
        first, second = one.read_as(schema), other.read_as(schema)
        for name in schema:
            for start, stop in [*first.ranges(rows), (0, None), (70, 70)]:
                assert np.array_equal(cells_of(first, name, start, stop), cells_of(second, name, start, stop)), name
                assert np.array_equal(first.present([name], start, stop), second.present([name], start, stop)), name
    assert np.array_equal(one.held(), other.held())
    assert np.array_equal(one.joint_codes(["kind", "level"], 3, 90)[0], other.joint_codes(["kind", "level"], 3, 90)[0])


def test_a_table_with_workers_reads_as_in_memory_under_every_reading(tables):
    require_same(*tables)


def count(total, table, start, stop):
    codes = table.codes("level", start, stop)
    total += np.bincount(codes[codes >= 0], minlength=3)


def whose(table, start, stop):
    return np.column_stack([np.arange(start, stop), table.values("income", start, stop)])


def test_what_workers_fold_and_make_of_ranges_is_what_one_process_does(tables):
    one, other = tables
    for rows in (16, FEW, 65_536):
        folded = [table.fold(np.zeros(3, dtype=np.int64), count, rows).tolist() for table in tables]
        assert folded[0] == folded[1]
    assert sum(folded[0]) > 0
    ranges = [(0, 100), (100, 101), (101, 300), (60, 70)]  # not those that workers hold
    for first, second in zip(one.each(whose, ranges), other.each(whose, ranges), strict=True):
        assert np.array_equal(first, second)
    written = [table.written(2, np.float64, whose).read(0, 500) for table in tables]
    assert np.array_equal(*written)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "PCA:secure, unit person" else [pytest.mark.full]) for name in GOLDEN],
)
def test_releases_with_workers_are_those_recorded_in_memory(name, client, monkeypatch):
    opened = Party.__init__

    def on_dask(self, data, **named):
        opened(self, frames(data), **named)

    monkeypatch.setattr(Party, "__init__", on_dask)
    monkeypatch.setattr(dask_table, "RANGE", 1_024 if "sketch" in name else FEW)  # sketched people come by 1,024
    monkeypatch.setattr(shamir, "FEWEST_COLUMNS", 1)
    lines = recomputed(name, GOLDEN[name])
    assert not lines, f"{name}: {len(lines)} values differ from golden.json\n" + "\n".join(lines[:20])


def test_products_of_shares_by_workers_are_those_of_one_process(client, monkeypatch):
    monkeypatch.setattr(shamir, "FEWEST_COLUMNS", 1)
    arithmetic = Arithmetic.for_headroom(10**6, nodes=3)
    drawn = kit.generator("shares")
    products = [shamir.Products(arithmetic, [3, 2], workers=workers) for workers in (None, Cluster(client))]
    for _ in range(5):
        chunk = [drawn.integers(0, arithmetic.modulus, (width, 70)).astype(np.uint64) for width in (3, 2)]
        for product in products:
            product.add(chunk)
        for part in chunk:
            part[:] = 0  # a caller uses its memory again
    assert np.array_equal(products[0].elements(), products[1].elements())
    products[1].add([np.full((width, 1), arithmetic.modulus, dtype=np.uint64) for width in (3, 2)])
    with pytest.raises(cn.errors.ProtocolError, match="out of the range"):
        products[1].elements()


# A worker that is lost --------------------------------------------------------------------------------------------------------

STAGES = {
    "opening": "",
    "coding": "_coded",
    "aligning": "_arranged",
    "folding": "_folded",
    "dealing": "DealtRows",
    "node products": "_multiplied",
}


def counted(monkeypatch) -> dict[str, int]:
    """Count draws and debits from now on."""
    counts = dict.fromkeys(("samplers", "reserve"), 0)

    def watch(owner, name, key):
        honest = getattr(owner, name)

        def called(*given, **named):
            counts[key] += 1
            return honest(*given, **named)

        monkeypatch.setattr(owner, name, called)

    watch(ExactSampler, "__init__", "samplers")
    watch(SqliteLedger, "reserve", "reserve")
    return counts


@pytest.mark.full
@pytest.mark.parametrize("stage", STAGES)
def test_a_worker_killed_at_any_stage_costs_no_second_draw_and_changes_no_bit(stage, processes, tmp_path, monkeypatch):
    name = "PCA:secure, unit person"
    with pytest.MonkeyPatch.context() as patch:
        plain = counted(patch)
        assert not recomputed(name, GOLDEN[name])
    opened, deadly, cluster = Party.__init__, Deadly(STAGES[stage], tmp_path), Cluster(processes)

    def on_dask(self, data, **named):
        data = frames(data)
        if stage == "opening":
            parts = [data.partitions[number].compute(scheduler="sync") for number in range(data.npartitions)]
            data = dd.from_map(partial(read_part, marker=str(deadly.marker)), parts, meta=data._meta)
        opened(self, data, dask=cluster, **named)

    monkeypatch.setattr(Party, "__init__", on_dask)
    monkeypatch.setattr(Sealed, "of", deadly)
    monkeypatch.setattr(dask_table, "RANGE", FEW)
    monkeypatch.setattr(shamir, "FEWEST_COLUMNS", 1)
    counts = counted(monkeypatch)
    assert not recomputed(name, GOLDEN[name])
    assert (tmp_path / "killed").exists()  # somebody died
    assert counts == plain
    assert counts["samplers"] > 0
    assert counts["reserve"] > 0


# What reaches a worker --------------------------------------------------------------------------------------------------------


def test_nothing_with_the_ledger_the_keys_or_the_noise_of_a_party_can_be_sent():
    with federation(200, epsilon=100.0) as f:
        guard = f._driver.transport._endpoints["bank"]
        gate = guard._gate
        kept = [gate, gate._ledger, guard._runs.member, Identity.from_seed(bytes(32)), Reservation(bytes(32))]
        kept += [SystemRandomness(), KeyedRandomness(bytes(32)), ExactSampler(SystemRandomness())]
        for one in kept:
            with pytest.raises(
                TypeError, match=r"stay|drawn|not serialised"
            ):  # and not by accident, such as a lock inside
                Sealed.of(len, one)


def test_a_step_is_sent_with_what_it_has_read_of_earlier_ones_and_no_way_to_the_ledger():
    read = {"centres": {"value": np.arange(3)}, "key": {"key": np.zeros(32)}}
    earlier = EarlierSteps(read.__getitem__)
    earlier("centres")
    sent = Sealed.of(earlier).opened().func
    assert sent("centres")["value"].tolist() == [0, 1, 2]
    assert sent._read is nothing_earlier
    with pytest.raises(cn.errors.ProtocolError):
        sent("key")


def fails(error, *_):
    raise error


def test_a_task_that_fails_says_so_without_a_cell_and_never_raises(client):
    quoting = ValueError("alice earns 17")
    found = work(Sealed.of(fails, quoting))
    assert isinstance(found, Failure)
    assert "alice" not in repr(vars(found))
    ours = work(Sealed.of(fails, SchemaMismatch("In words of ours.", remedy="Do that.")))
    assert work(Sealed.of(len), [ours]) is ours  # what it was to be given has failed
    cluster = Cluster(client)
    with pytest.raises(SchemaMismatch, match="In words of ours"):
        cluster.begin(fails, SchemaMismatch("In words of ours.", remedy="Do that."))()
    with pytest.raises(BadInput) as raised:
        cluster.begin(fails, quoting)()
    assert "alice" not in str(raised.value)
    assert raised.value.__context__ is None


# Refusals ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("tls://scheduler.example:8786", True),
        ("tcp://127.0.0.1:8786", True),
        ("tcp://[::1]:8786", True),
        ("tcp://localhost:8786", True),
        ("inproc://192.0.2.1/3/1", True),
        ("tcp://scheduler.example:8786", False),
        ("tcp://10.0.0.7:8786", False),
        ("tcp://127.0.0.1.example:8786", False),
        ("ucx://127.0.0.1:8786", False),
        ("scheduler:8786", False),
    ],
)
def test_a_cluster_on_a_network_is_reached_through_tls_or_not_at_all(address, allowed):
    if allowed:
        dask_cluster._require_private([address])
    else:
        with pytest.raises(BadInput, match="without TLS"):
            Cluster.of(address)


ABROAD = {"inproc://here": {"nthreads": 1}, "tcp://10.0.0.7:1": {"nthreads": 1}}


def test_every_worker_counts_not_the_scheduler_alone(client, monkeypatch):
    monkeypatch.setattr(Cluster, "_known", lambda self: ABROAD)
    with pytest.raises(BadInput, match="without TLS"):
        Cluster(client)


def test_a_worker_that_comes_later_is_looked_at_before_it_gets_a_row(client, monkeypatch):
    source = Source(frames(people(90)))
    cluster = Cluster(client)
    order = np.arange(90)
    table = DaskTable(source, SCHEMA, order, cluster)
    monkeypatch.setattr(Cluster, "_known", lambda self: ABROAD)
    for way in ("compute", "submit"):
        monkeypatch.setattr(client, way, lambda *_, **__: pytest.fail("something was sent"))
    for asked in (
        lambda: DaskTable(source, SCHEMA, order, cluster),
        lambda: table.load(["level"]),
        lambda: table.values("income"),
        lambda: list(cluster.read(source.split()[0].only.frame, ["income"])),
    ):
        with pytest.raises(BadInput, match="without TLS"):
            asked()


def test_what_a_cluster_cannot_take_is_refused_with_a_remedy(client, monkeypatch):
    frame, age = pd.DataFrame({"id": [1, 2], "age": [3, 4]}), cn.Schema(age=cn.Numeric(0, 120))
    with pytest.raises(BadInput, match="memory="):
        Party(frames(frame), schema=age, memory="2GB")
    with pytest.raises(BadInput, match=r"distributed\.Client"):
        Party(frame, schema=age, dask=object())
    party = Party(frame, schema=age, dask=client)
    with pytest.raises(BadInput, match="no worker can read"):
        DaskTable(party.source, age, np.array([0, 1]), Cluster(client))
    monkeypatch.setattr("distributed.default_client", lambda: fails(ValueError()))
    with pytest.raises(BadInput, match="no client"):
        Party(frames(frame), schema=age)

    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(BadInput) as raised:
        Party(frame, schema=age, dask="tcp://127.0.0.1:1")
    assert "colonnade[dask]" in raised.value.remedy


def test_a_partition_that_changes_is_noticed(client):
    frame = people(90)
    rows = {"now": 30}

    def part(number):
        return frame.iloc[number * 30 : number * 30 + rows["now"]]

    source = Source(dd.from_map(part, range(3), meta=frames(frame)._meta))
    ids = party_ids(source, "id", party="bank", memory=None)
    assert len(ids) == 90
    rows["now"] = 29
    for read in (
        lambda: ordered_table(source, SCHEMA, ids, common_list({"b": ids}), party="b", cluster=Cluster(client)),
        lambda: party_ids(source, "id", party="bank", memory=None),
    ):
        with pytest.raises(BadInput, match="other rows"):
            read()
