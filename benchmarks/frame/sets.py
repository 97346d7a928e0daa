"""Where public data sets are."""

import os
from pathlib import Path

from benchmarks.frame.benchmark import Unavailable
from benchmarks.frame.public import DATA_VARIABLE

ROOT = Path(__file__).parents[2]


def data_folder() -> Path:
    """Return the folder of the data sets: COLONNADE_DATA, or ``shared/data`` beside the checkout."""
    folder = Path(os.environ.get(DATA_VARIABLE, ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        raise Unavailable(f"no data sets here: set {DATA_VARIABLE} to the folder of their Parquet files")
    return folder


def data_file(name: str) -> Path:
    """Return the Parquet file of a set."""
    path = data_folder() / f"{name}.parquet"
    if not path.exists():
        raise Unavailable(f"the data set {name} is not in the folder of the data sets")
    return path
