"""The peer: diffprivlib's logistic regression on pooled, coded rows. ``run.py`` starts it with a Python that has diffprivlib.

Standard input is JSON with ``train``, ``labels``, ``test``, ``truth``, ``epsilons`` and ``bound`` (of a row's length). Prints
one accuracy per ε.
"""

import json
import sys
import warnings

import numpy as np
from diffprivlib.models import LogisticRegression


def main() -> None:
    asked = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    train, test = np.array(asked["train"]), np.array(asked["test"])
    found = [
        LogisticRegression(epsilon=epsilon, data_norm=asked["bound"], max_iter=1_000)
        .fit(train, asked["labels"])
        .score(test, asked["truth"])
        for epsilon in asked["epsilons"]
    ]
    print(json.dumps([float(one) for one in found]))


if __name__ == "__main__":
    main()
