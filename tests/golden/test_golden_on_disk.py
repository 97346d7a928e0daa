"""Every release from tables on disk, in blocks of a few people, has the values that it had when columns were in memory."""

import pytest

from colonnade.conversations import newton
from colonnade.papers.draws import PEOPLE
from colonnade.party.party import Party
from colonnade.party.table import stored_table
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import SMALLEST_MEMORY
from colonnade.party.table.stored_table import StoredTable
from colonnade.runtime.spilled_rows import SpilledRows
from tests.golden.record import recomputed, recorded
from tests.golden.studies import STUDIES

GOLDEN = recorded()
FEW = 64
SOME = (
    "PCA:secure, unit person",
    "LogisticRegression:newton, two steps, unit person",
    "KMeans:sketch",
    "Quantiles:local, pure",
    "Coreset:importance, k-means",
)


@pytest.mark.every(6)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SOME else [pytest.mark.full]) for name in STUDIES]
)
def test_releases_from_disk_are_those_recorded_in_memory(name, monkeypatch):
    opened, ranges, read = Party.__init__, PrivateTable.ranges, []

    def limited(self, *given, **named):
        opened(self, *given, **{**named, "memory": SMALLEST_MEMORY})

    def few(self, rows=PEOPLE if "sketch" in name else FEW):  # a block of sketched people is a multiple of those
        read.append(type(self))
        return ranges(self, rows)

    monkeypatch.setattr(Party, "__init__", limited)
    monkeypatch.setattr(PrivateTable, "ranges", few)
    monkeypatch.setattr(PrivateTable.fold, "__defaults__", (PEOPLE if "sketch" in name else FEW,))
    monkeypatch.setattr(stored_table, "BLOCK", FEW)
    monkeypatch.setattr(StoredTable, "scratch", lambda self, *one: SpilledRows(self.people, *one, memory=0))
    monkeypatch.setattr(newton, "SHARES_IN_MEMORY", 0)
    lines = recomputed(name, GOLDEN[name])
    assert not lines, f"{name}: {len(lines)} values differ from golden.json\n" + "\n".join(lines[:20])
    assert set(read) <= {StoredTable}
