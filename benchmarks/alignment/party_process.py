"""One party of the benchmark in a process of its own: a list of ids behind its guard, on a Unix socket.

python party_process.py NAME NAMES IDS SOCKET
"""

import sys
import tempfile
from pathlib import Path

import pandas as pd

import colonnade as cn
from colonnade.conversations.conversation import Member
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.serving import serve
from colonnade.party.table.row_order import read_ids
from colonnade.secure.keys import Identity, PublicIdentity

SCHEMA = cn.Schema(value=cn.Numeric(0, 1))


def identity(name: str) -> Identity:
    """Keys for this machine and this run only: what is measured is the protocol."""
    return Identity.from_seed(name.encode().ljust(32, b"."))


def ids_of(number: int, count: int) -> list[str]:
    """Half of everybody's ids are everybody's; the others are nobody else's."""
    half = count // 2
    return [f"person-{k}" for k in range(half)] + [f"only-{number}-{k}" for k in range(count - half)]


def main() -> None:
    name, names, count, path = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), Path(sys.argv[4])
    frame = pd.DataFrame({"id": ids_of(names.index(name), count), "value": 0.5})
    party = cn.Party(frame, schema=SCHEMA)
    pinned = {one: PublicIdentity(identity(one).public) for one in names}
    with tempfile.TemporaryDirectory() as folder:
        ledger = SqliteLedger.create(Path(folder) / "ledger", party=name, budget=cn.Budget(epsilon=1.0))
        guard = party.open(
            name,
            ids=read_ids(party.source, "id", party=name),
            common=None,
            schemas=dict.fromkeys(names, SCHEMA),
            ledger=ledger,
            member=Member(name, identity(name), pinned),
            policy=cn.Policy(capacity=count, nonprivate=("align",), alignments=("intersection", "cohort")),
        )
        serve(guard, path, ready=lambda: print("ready", flush=True))


if __name__ == "__main__":
    main()
