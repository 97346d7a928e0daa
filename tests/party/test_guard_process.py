"""A party in a process of its own, reached through a Unix socket: the same study, the same answers."""

import signal
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.errors import ProtocolError
from colonnade.transport.direct import Direct, UnixEndpoint
from tests.federations import federation

COLUMNS = ["bank.segment", "telco.plan"]

CHILD = """
import sys
import pyarrow as pa, pandas as pd
from colonnade.party.table.row_order import read_ids
from colonnade.party.serving import serve
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.party import Party, _test_randomness, simulated_members
from colonnade.secure.keys import Identity
from colonnade.steps.kind import NO_FLOOR
from colonnade.privacy.accounting import Budget
from tests.federations import SCHEMAS, TEST_KEY, frames
from pathlib import Path

folder = Path(sys.argv[1])
party = Party(frames()["telco"], schema=SCHEMAS["telco"])
path = folder / "telco.sqlite"
ledger = (
    SqliteLedger.open(path, party="telco") if path.exists()
    else SqliteLedger.create(path, party="telco", budget=Budget(epsilon=10.0, delta=1e-5), test=True)
)
noise = {name: _test_randomness(TEST_KEY, name) for name in SCHEMAS}
guard = party.open(
    "telco",
    ids=read_ids(party.source, "person_id", party="telco"),
    common=pa.array(pd.read_parquet(folder / "cohort.parquet")["id"]),
    schemas=SCHEMAS,
    ledger=ledger,
    member=simulated_members(
        {name: Identity.generate(one) for name, one in noise.items()}, NO_FLOOR, {"telco": ledger}, None
    )["telco"],
    randomness=noise["telco"],
)
serve(guard, folder / "telco.sock", ready=lambda: print("ready", flush=True))
"""


@pytest.fixture
def folder(tmp_path):
    pd.DataFrame({"id": np.arange(300) * 7 + 3}).to_parquet(tmp_path / "cohort.parquet")
    return tmp_path


def start(folder):
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().strip() == "ready"
    return child


def stop(child, how=signal.SIGTERM):
    child.send_signal(how)
    child.wait(timeout=30)
    child.stdout.close()


def over_the_socket(folder, local: cn.Federation) -> cn.Federation:
    endpoints = dict(local._driver.transport._endpoints)
    endpoints["telco"] = UnixEndpoint(folder / "telco.sock", timeout=60)
    for name in ("bank", "insurer"):  # they know the ledger of the telco in this process
        del endpoints[name]._runs.member.heads._ledgers["telco"]
    return cn.Federation(Direct(endpoints), parties=local.parties)


def test_only_its_own_user_can_open_the_socket(folder):
    child = start(folder)
    try:
        assert stat.S_IMODE((folder / "telco.sock").stat().st_mode) == 0o600
    finally:
        stop(child)


def test_a_killed_guard_answers_the_repeated_study_with_the_same_bytes_after_its_restart(folder):
    child = start(folder)
    with federation() as local:
        f = over_the_socket(folder, local)
        first = cn.PatternCount(COLUMNS, method="response", epsilon=1.0).fit(f)
        stop(child, signal.SIGKILL)
        with pytest.raises(ProtocolError):
            cn.PatternCount(COLUMNS, method="response", epsilon=1.0).fit(f)
        child = start(folder)
        try:
            again = cn.PatternCount(COLUMNS, method="response", epsilon=1.0).fit(f)
            pd.testing.assert_series_equal(first.counts_, again.counts_)
            assert f.budget("telco").spent == pytest.approx(0.5)
        finally:
            stop(child)
