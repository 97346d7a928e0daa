"""The frame that all benchmarks share: what a benchmark is, how it is run, recorded, checked and put on its page."""

from benchmarks.frame.benchmark import Benchmark, Part, Row, Unavailable
from benchmarks.frame.claims import Claim, above, below, better, exponent, faster, near, same, share, within
from benchmarks.frame.intervals import Sample
from benchmarks.frame.pages import Plot, Table
from benchmarks.frame.records import Results
from benchmarks.frame.sets import data_file, data_folder

__all__ = [
    "Benchmark", "Claim", "Part", "Plot", "Results", "Row", "Sample", "Table", "Unavailable", "above", "below", "better",
    "data_file", "data_folder", "exponent", "faster", "near", "same", "share", "within",
]  # fmt: skip
