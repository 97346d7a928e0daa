"""The peer: diffprivlib's quantiles of the same values. ``run.py`` starts it with a Python that has diffprivlib.

Standard input is JSON with ``values``, ``bounds`` and ``asked``: shares, and ε for all of them together. Prints one list of
quantiles for each; null where diffprivlib fails.
"""

import json
import sys
import warnings

import numpy as np
from diffprivlib.tools import quantile


def main() -> None:
    given = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    values, bounds, found = np.array(given["values"]), tuple(given["bounds"]), []
    for shares, epsilon in given["asked"]:
        try:
            each = epsilon / len(shares)
            found.append([float(quantile(values, share, epsilon=each, bounds=bounds)) for share in shares])
        except (ValueError, IndexError, RuntimeError, ZeroDivisionError):
            found.append(None)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
