"""One member of the benchmark in a process of its own, behind its guard on a Unix socket.

python scale_member.py NAME FOLDER SOCKET MEMORY

Prints one line of JSON once it listens: how long it took to read ids, to sort and to open the table, and its peak memory by then.
"""

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pandas as pd

import colonnade as cn
from colonnade.conversations.conversation import Member
from colonnade.conversations.endpoint import ComputeNode
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.serving import serve
from colonnade.party.table.sources import Source
from colonnade.party.table.stored_table import common_list, party_ids
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.protocol import messages
from colonnade.secure.keys import Identity, PublicIdentity

PARTIES = ("bank", "telco")
NODE = "auditor"
SCHEMA = cn.Schema({f"x{number}": cn.Numeric(-4, 4) for number in range(5)} | {"kind": cn.Category(list("abcd"))})
BUDGET = cn.Budget(epsilon=100.0, delta=1e-4)


def identity(name: str) -> Identity:
    """Keys for this machine and this run only: what is measured is the protocol."""
    return Identity.from_seed(name.encode().ljust(32, b"."))


def peak_bytes(process: int | str = "self") -> int:
    """The largest resident set that a process has had, as the kernel has counted it."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def member_of(name: str) -> Member:
    pinned = {one: PublicIdentity(identity(one).public) for one in (*PARTIES, NODE)}
    return Member(name, identity(name), pinned)


def studies() -> dict:
    """What is asked, by name: each with the numbers that it released.

    The regression has a price of its own, or it would be read off the PCA's release; k-means has a number of local clusters, or a
    larger table would be asked for more of them.
    """
    price = {"epsilon": 1.0, "delta": 1e-7}
    return {
        "PCA": (cn.PCA(2, **price), lambda one: one.components_),
        "LinearRegression": (cn.LinearRegression("telco.x1", epsilon=2.0, delta=1e-7), lambda one: one.coef_),
        "GroupBy": (
            cn.GroupBy(["bank.kind", "telco.kind"], ["telco.x1"], **price),
            lambda one: one.table_.to_numpy(dtype=float),
        ),
        "KMeans": (cn.KMeans(4, n_local_clusters=8, **price), lambda one: one.cluster_centers_),
    }


def warm_up() -> None:
    """Run the studies on a few people, so that compiled code is loaded before anything is measured."""
    warnings.simplefilter("ignore", cn.TemporaryLedgers)
    rows = 40_000
    frame = pd.DataFrame(
        {"id": range(rows), "kind": ["a", "b", "c", "d"] * (rows // 4)} | {f"x{one}": 0.5 for one in range(5)}
    )
    parties = {name: cn.Party(frame, schema=SCHEMA) for name in PARTIES}
    with cn.Federation.simulate(parties, id="id", budget=BUDGET, compute_nodes=[NODE]) as federation:
        for study, _ in studies().values():
            study.fit(federation)


def main() -> None:
    name, folder, path, memory = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    warm_up()
    schemas = dict.fromkeys(PARTIES, SCHEMA)
    randomness = KeyedRandomness(name.encode().ljust(32, b"-"))
    if name == NODE:
        node = ComputeNode(member_of(name), messages.federation_digest(schemas), randomness.bytes)
        serve(node, path, ready=lambda: print(json.dumps({"peak": peak_bytes()}), flush=True))
        return
    began, used = time.perf_counter(), time.process_time()
    party = cn.Party(folder / name, schema=SCHEMA, memory=None if memory == "none" else memory)
    ids = party_ids(party.source, "id", party=name, memory=party.memory)
    with_ids = time.perf_counter()
    common = common_list({"list": party_ids(Source(folder / "people"), "id", party="list", memory=party.memory)})
    with_list = time.perf_counter()
    with tempfile.TemporaryDirectory() as kept:
        ledger = SqliteLedger.create(Path(kept) / "ledger", party=name, budget=BUDGET, test=True)
        guard = party.open(
            name,
            ids=ids,
            common=common,
            schemas=schemas,
            ledger=ledger,
            member=member_of(name),
            randomness=randomness,
        )
        seconds = {"ids": with_ids - began, "list": with_list - with_ids, "open": time.perf_counter() - with_list}
        told = {"seconds": seconds, "cpu_seconds": time.process_time() - used, "peak": peak_bytes()}

        def ready() -> None:
            print(json.dumps(told), flush=True)

        serve(guard, path, ready=ready)


if __name__ == "__main__":
    main()
