"""The peer: diffprivlib's quantiles of the same values. ``run.py`` starts it with a Python that has diffprivlib.

Standard input is JSON with ``values``, ``shares``, ``bounds`` and ``epsilon``. Prints one quantile per share.
"""

import json
import sys
import warnings

import numpy as np
from diffprivlib.tools import quantile


def main() -> None:
    asked = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    values, bounds, each = np.array(asked["values"]), tuple(asked["bounds"]), asked["epsilon"] / len(asked["shares"])
    print(json.dumps([float(quantile(values, share, epsilon=each, bounds=bounds)) for share in asked["shares"]]))


if __name__ == "__main__":
    main()
