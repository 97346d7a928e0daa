"""The peers with differential privacy, on pooled data, each in a Python of its own; asked by ``run.py``.

The folder holds ``train`` and ``test``: the columns as the parties have them (CSV), for boosting; rows coded as
`cn.LogisticRegression` codes them (NumPy), for the regression. Prints the chances of ``test`` as a JSON list, one per ε.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np


def boosting(folder: Path, given: dict, epsilon: float) -> np.ndarray:
    """Return the chances of an explainable boosting machine with differential privacy."""
    import pandas as pd
    from interpret.privacy import DPExplainableBoostingClassifier

    bounds = given["bounds"]
    names = list(pd.read_csv(folder / "train.csv", nrows=0).columns)
    types = {name: float if name in bounds else str for name in names}
    train, test = (
        pd.read_csv(folder / f"{part}.csv", dtype=types, keep_default_na=False) for part in ("train", "test")
    )
    model = DPExplainableBoostingClassifier(
        feature_names=names,
        feature_types=["continuous" if name in bounds else "nominal" for name in names],
        epsilon=epsilon,
        delta=given["delta"],
        privacy_bounds={name: tuple(ends) for name, ends in bounds.items()},
        random_state=None,
        n_jobs=1,
    )
    return model.fit(train, np.array(given["labels"])).predict_proba(test)[:, 1]


def regression(folder: Path, given: dict, epsilon: float) -> np.ndarray:
    """Return the chances of diffprivlib's logistic regression, whose privacy is pure."""
    from diffprivlib.models import LogisticRegression

    train, test = (np.load(folder / f"{part}.npy") for part in ("train", "test"))
    model = LogisticRegression(epsilon=epsilon, data_norm=given["length"], max_iter=1000)
    return model.fit(train, np.array(given["labels"])).predict_proba(test)[:, 1]


def main() -> None:
    """Fit and print."""
    warnings.simplefilter("ignore")
    given = json.load(sys.stdin)
    model, folder = {"boosting": boosting, "regression": regression}[given["model"]], Path(given["folder"])
    chances = [model(folder, given, epsilon) for epsilon in given["epsilons"]]
    print(json.dumps([[round(float(one), 9) for one in chance] for chance in chances]))


if __name__ == "__main__":
    main()
