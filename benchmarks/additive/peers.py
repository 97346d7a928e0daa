"""The best central model a user could pick instead: differentially private explainable boosting (`interpret-core`), pooled data.

It gets the public bounds and levels that the parties declare, so that none of its price goes to finding them.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import brier_score_loss, roc_auc_score

import colonnade as cn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from additive_sets import Joined  # noqa: E402

EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-6


def boosting(train: Joined, test: Joined, epsilon: float) -> dict[str, float]:
    """Return the figures of one fit."""
    from interpret.privacy import DPExplainableBoostingClassifier

    names = list(train.explaining)
    numbers = {name: column for name, column in train.explaining.items() if isinstance(column, cn.Numeric)}
    model = DPExplainableBoostingClassifier(
        feature_names=names,
        feature_types=["continuous" if name in numbers else "nominal" for name in names],
        epsilon=epsilon,
        delta=DELTA,
        privacy_bounds={name: (column.low, column.high) for name, column in numbers.items()},
        random_state=None,
        n_jobs=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chance = model.fit(train.frame[names], train.labels.astype(int)).predict_proba(test.frame[names])[:, 1]
    return {
        "auc": float(roc_auc_score(test.labels, chance)),
        "brier": float(brier_score_loss(test.labels, np.clip(chance, 0, 1))),
    }
