"""The peers with differential privacy, on pooled data, in a Python of their own.

Not run by hand: ``run.py`` starts it with a Python that has interpret-core, diffprivlib and pyarrow,

    python peer_models.py FOLDER MODEL EPSILON SEED [EPSILON SEED ...]

The folder holds ``frame.parquet`` (names as the parties have them), ``rows.npy`` (coded as `cn.LogisticRegression`
codes them, the constant left out), ``labels.npy`` and ``public.json``: the bounds of numbers and the largest length
of a coded row. Both models get what the parties declare, so that none of their price goes to finding it. Prints one
JSON object per fit.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from additive_figures import figures, parts

DELTA = 1e-6


def boosting(folder: Path, public: dict, kept: np.ndarray, labels: np.ndarray, left: np.ndarray, epsilon: float):
    """Return the chances of an explainable boosting machine with differential privacy."""
    from interpret.privacy import DPExplainableBoostingClassifier

    frame, bounds = pd.read_parquet(folder / "frame.parquet"), public["bounds"]
    names = list(frame.columns)
    model = DPExplainableBoostingClassifier(
        feature_names=names,
        feature_types=["continuous" if name in bounds else "nominal" for name in names],
        epsilon=epsilon,
        delta=DELTA,
        privacy_bounds={name: tuple(ends) for name, ends in bounds.items()},
        random_state=None,
        n_jobs=1,
    )
    return model.fit(frame.iloc[kept], labels[kept]).predict_proba(frame.iloc[left])[:, 1]


def diffprivlib(folder: Path, public: dict, kept: np.ndarray, labels: np.ndarray, left: np.ndarray, epsilon: float):
    """Return the chances of diffprivlib's logistic regression, whose privacy is pure."""
    from diffprivlib.models import LogisticRegression

    rows = np.load(folder / "rows.npy")
    model = LogisticRegression(epsilon=epsilon, data_norm=public["length"], max_iter=1000)
    return model.fit(rows[kept], labels[kept]).predict_proba(rows[left])[:, 1]


MODELS = {"DP-EBM": boosting, "diffprivlib": diffprivlib}


def main() -> None:
    """Fit and print."""
    warnings.simplefilter("ignore")
    folder, model, *rest = sys.argv[1:]
    where = Path(folder)
    labels = np.load(where / "labels.npy").astype(int)
    public = json.loads((where / "public.json").read_text())
    for epsilon, seed in zip(rest[::2], rest[1::2], strict=True):
        kept, left = parts(len(labels), int(seed))
        begin = time.perf_counter()
        chance = MODELS[model](where, public, kept, labels, left, float(epsilon))
        found = {"epsilon": float(epsilon), "seed": int(seed), **figures(chance, labels[left])}
        print(json.dumps({**found, "seconds": round(time.perf_counter() - begin, 2)}), flush=True)


if __name__ == "__main__":
    main()
