"""The peer: diffprivlib's regressions on the same coded rows, in a Python of their own.

Not run by hand: ``run.py`` starts it with a Python that has diffprivlib,

    python diffprivlib_models.py logistic rows.npz 0.1 1 10

The file holds ``train``, ``answers``, ``test``, ``truth`` and ``norm``. Prints a JSON object by epsilon.
"""

import json
import sys
import warnings

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression


def main() -> None:
    kind, path, *epsilons = sys.argv[1:]
    data = np.load(path)
    warnings.simplefilter("ignore")
    found = {}
    for epsilon in epsilons:
        if kind == "logistic":
            model = LogisticRegression(epsilon=float(epsilon), data_norm=float(data["norm"]), max_iter=300)
            model.fit(data["train"], data["answers"])
            found[epsilon] = float(model.score(data["test"], data["truth"]))
        else:
            model = LinearRegression(epsilon=float(epsilon), bounds_X=(-1, 1), bounds_y=(-1, 1))
            model.fit(data["train"], data["answers"])
            found[epsilon] = float(np.mean((model.predict(data["test"]) - data["truth"]) ** 2))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
