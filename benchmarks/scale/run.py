"""Scale: rows, parties, columns, bytes.

Each section has a module of this folder, whose docstring says how it is measured: ``rows.py`` (10⁶ to 10⁸ rows, members as
processes), ``many.py`` (up to 122 parties with one column each), ``gram.py`` (one release beside numpy), ``traffic.py`` (bytes of
a regression beside their lower bound), ``wide.py`` (22,283 columns), ``dask_workers.py`` (a party on Dask, one worker and two).
10⁸ rows are measured only with ``--long``.
"""

from benchmarks.frame import Benchmark
from benchmarks.scale import dask_workers, gram, many, rows, traffic, wide

SECTIONS = (gram, many, traffic, wide, rows, dask_workers)
BENCHMARK = Benchmark(
    name="scale",
    title="Scale: rows, parties, columns, bytes",
    about=__doc__ or "",
    packages=("numpy", "pandas", "pyarrow", "duckdb", "dask"),
    parts=[part for section in SECTIONS for part in section.PARTS],
    shown=[one for section in SECTIONS for one in section.SHOWN],
    claims=[claim for section in SECTIONS for claim in section.CLAIMS],
)
