"""The peer: diffprivlib's quantiles of the same values, in a Python of their own.

Not run by hand: ``run.py`` starts it with a Python that has diffprivlib,

    python diffprivlib_quantiles.py values.npz 20 0.1 1

The file holds ``values``, ``shares``, ``low`` and ``high``. Prints a JSON object by epsilon: one list of quantiles per run.
"""

import json
import sys
import warnings

import numpy as np
from diffprivlib.tools import quantile


def main() -> None:
    path, runs, *epsilons = sys.argv[1:]
    data = np.load(path)
    warnings.simplefilter("ignore")
    bounds = float(data["low"]), float(data["high"])
    shares = data["shares"].tolist()
    found = {
        epsilon: [
            [
                float(quantile(data["values"], share, epsilon=float(epsilon) / len(shares), bounds=bounds))
                for share in shares
            ]
            for _ in range(int(runs))
        ]
        for epsilon in epsilons
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
