"""The peer: differentially private explainable boosting on pooled rows. ``run.py`` starts it with a Python that has interpret.

Standard input is JSON: ``train`` and ``test`` by column, the labels under the empty name; ``numbers`` has the declared bounds
of numbers, ``epsilons`` and ``delta`` the prices. Bounds are given, so that none of the price goes to finding them. Prints
one accuracy per ε.
"""

import json
import sys
import warnings

import pandas as pd
from interpret.privacy import DPExplainableBoostingClassifier


def main() -> None:
    asked = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    train, test = pd.DataFrame(asked["train"]), pd.DataFrame(asked["test"])
    labels, truth = train.pop(""), test.pop("")
    numbers, found = asked["numbers"], []
    for epsilon in asked["epsilons"]:
        model = DPExplainableBoostingClassifier(
            feature_names=list(train),
            feature_types=["continuous" if name in numbers else "nominal" for name in train],
            epsilon=epsilon,
            delta=asked["delta"],
            privacy_bounds={name: tuple(bounds) for name, bounds in numbers.items()},
            n_jobs=1,
        )
        found.append(float((model.fit(train, labels).predict(test) == truth).mean()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
