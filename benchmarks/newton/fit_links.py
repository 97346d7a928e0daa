"""Fit the sine and cosine series of ``colonnade.families.logistic``: minimax, by linear programming.

    python benchmarks/newton/fit_links.py

Prints the coefficients in units of 2⁻²⁰, for each window and period, and the largest error.
"""

import numpy as np
from scipy.optimize import linprog

LARGEST = 0.5045
"""The largest |P − ½| over the whole period on the grid; between its points, and rounded, it stays below 0.505."""
SHAPES = ((8, 24, 8), (12, 32, 12), (16, 40, 16))
"""Window, period and terms."""


def minimax(design: np.ndarray, aim: np.ndarray, bounded: np.ndarray) -> tuple[np.ndarray, float]:
    """Return coefficients of the least largest error, with every row of ``bounded`` times them at most `LARGEST`."""
    slack = np.ones((len(aim), 1))
    none = np.zeros((len(bounded), 1))
    rows = [
        np.hstack([design, -slack]),
        np.hstack([-design, -slack]),
        np.hstack([bounded, none]),
        np.hstack([-bounded, none]),
    ]
    limits = np.concatenate([aim, -aim, np.full(2 * len(bounded), LARGEST)])
    cost = np.append(np.zeros(design.shape[1]), 1.0)
    found = linprog(cost, np.vstack(rows), limits, bounds=[(None, None)] * len(cost)).x
    return found[:-1], float(found[-1])


def main() -> None:
    """Print all links."""
    for window, period, terms in SHAPES:
        turn = 2 * np.pi / period
        near, far = np.linspace(0, window, 600), np.linspace(0, period / 2, 1200)
        orders = np.arange(terms + 1)
        chance = 1 / (1 + np.exp(-far))
        sine, off = minimax(
            np.sin(np.outer(near, turn * orders[1:])),
            1 / (1 + np.exp(-near)) - 0.5,
            np.sin(np.outer(far, turn * orders[1:])),
        )
        cosines = np.cos(np.outer(far, turn * orders))
        cosine, bent = minimax(cosines, chance * (1 - chance), np.zeros((1, terms + 1)))
        print(f"±{window}, period {period}: errors {off:.6f} and {bent:.6f}")
        print("  sine", tuple(round(float(one) * 2**20) for one in sine))
        print("  cosine", tuple(round(float(one) * 2**20) for one in cosine))


if __name__ == "__main__":
    main()
