"""Alignment: seconds and bytes to find out who is in every list, beside OpenMined PSI on two parties in the same run.

*Ours.* One process per party, behind its guard on a Unix socket, and the coordinator in this one: agreement, ledgers
(durable), normal forms, hashing to points, blinding, checks of every received point, maps, sealing, codec, relaying and
keeping the order. Every party learns which of its rows are common, in one row order; with three or more, nobody learns more.
Processor seconds are those of all parties and the coordinator together (what one core would take); the clock is that of a
machine which other work shares.

*OpenMined PSI* (``openmined_psi.py``, two parties in one process, exact data structure): one party learns which of its ids
the other has. It seals, records and relays nothing, and fills up no list.

Bytes of ours are those to and from the coordinator, so a letter counts twice; theirs are those of its three messages. Both
are linear in the number of ids.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.frame import Benchmark, Claim, Part, Row, Table, faster
from benchmarks.frame.members import Sockets, processor_seconds
from benchmarks.frame.peers import OPENMINED

import colonnade as cn

HERE = Path(__file__).parent
NAMES = ("ana", "bo", "cy", "dee", "eva")


def ours(parties: int, ids: int) -> dict[str, float]:
    """One alignment, each party a process."""
    names = NAMES[:parties]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / name for name in names}
        processes = [
            subprocess.Popen(
                [sys.executable, str(HERE / "party_process.py"), name, ",".join(names), str(ids), str(paths[name])],
                stdout=subprocess.PIPE,
                env=environment,
            )
            for name in names
        ]
        try:
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n"
            federation = cn.Federation(Sockets(paths), parties=names)
            members = ["self", *(process.pid for process in processes)]
            before = [processor_seconds(member) for member in members]
            clock = time.perf_counter()
            federation.align(size="public", capacity=ids)
            seconds = time.perf_counter() - clock
            used = [after - start for after, start in zip(map(processor_seconds, members), before, strict=True)]
            assert federation.people == ids // 2
            transcript = federation.aligned_.findings.transcript
            federation.close()
        finally:
            for process in processes:
                process.terminate()
                process.wait()
    return {
        "seconds": seconds,
        "processor": sum(used),
        "busiest": max(used[1:]),
        "MB": transcript.bytes / 1e6,
        "rounds": transcript.rounds,
    }


def aligned(_run: int, ids: int, parties: int, who: str) -> Iterator[Row]:
    found = ours(parties, ids) if who == "ours" else OPENMINED.ask(HERE / "openmined_psi.py", ids=ids)
    yield Row({"ids": ids, "parties": parties, "who": who}, found)


CASES = [
    {"ids": ids, "parties": parties, "who": who}
    for ids in (10_000, 100_000)
    for parties in (2, 3, 5)
    for who in ("ours", "OpenMined PSI")
    if (parties == 2 or who == "ours") and (parties == 2 or ids == 10_000)
]
WHERE = {"ids": "ids per party", "parties": "parties"}
BENCHMARK = Benchmark(
    name="alignment",
    title="Alignment: who is in every list",
    about=__doc__ or "",
    packages=("numpy", "cryptography", "pynacl"),
    parts=[
        Part("aligned", aligned, CASES, 3, 5.5, quick=CASES[:2], machine=frozenset({"seconds", "processor", "busiest"}))
    ],
    shown=[
        "## Ours",
        Table(
            "aligned",
            {
                "processor": "processor seconds",
                "busiest": "busiest party's",
                "seconds": "seconds by the clock",
                "MB": "MB relayed",
                "rounds": "rounds",
            },
            WHERE,
            where={"who": "ours"},
            digits=3,
        ),
        "## Beside OpenMined PSI, two parties",
        Table(
            "aligned",
            {"processor": "processor seconds"},
            WHERE,
            across="who",
            where={"parties": 2},
            words="Processor seconds.",
            digits=3,
            roles={"ours": "ours", "OpenMined PSI": "peer"},
            higher=False,
            costs=True,
        ),
        Table(
            "aligned",
            {"MB": "MB"},
            WHERE,
            across="who",
            where={"parties": 2},
            words="Megabytes.",
            digits=3,
            roles={"ours": "ours", "OpenMined PSI": "peer"},
            higher=False,
            costs=True,
        ),
    ],
    claims=[
        Claim(
            "two parties, 100,000 ids: at least as fast as OpenMined PSI, in processor seconds",
            "at least 1 ×",
            lambda found: [
                faster(
                    *(
                        found.sample("aligned", "processor", ids=100_000, parties=2, who=w)
                        for w in ("ours", "OpenMined PSI")
                    )
                )
            ],
            "the issue",
        )
    ],
)
