"""Logistic regression: the chance of a level rises with the score as the sigmoid does, and scores are log-odds.

The weight of a person is the variance of the target, μ·(1 − μ), and at most ¼.

*Series* are minimax fits by linear programming (benchmarks/newton/fit_links.py): of the mean to the sigmoid within ±window, with
|μ − ½| ≤ 0.505 over the whole period; of the weight to the sigmoid's derivative over the whole period.
"""

import math
from typing import ClassVar

import numpy as np

from colonnade.families.family import Array, Family, Numbers
from colonnade.secure.sine_link import Series, SineLink

HALF = 1 << 19


class Logistic(Family):
    """Log-odds that are linear in the columns.

    Examples
    --------
    >>> family = Logistic()
    >>> scores = np.linspace(-12, 12, 1_000)
    >>> bool(np.max(np.abs(family.link(12).mean(scores) - family.mean(scores))) < 0.0002)
    True
    """

    name = "logistic"
    title = "A logistic regression"
    unit = "log-odds"
    steepest = 1.0
    steepness = 0.25
    links: ClassVar[dict[int, SineLink]] = {
        8: SineLink(
            8,
            24,
            Series(HALF, sine=(603054, -3188, 89922, 9763, 6659, 9171, -2103, 2487)),
            Series(43690, cosine=(78257, 57636, 36834, 21451, 11768, 6201, 3177, 2097)),
        ),
        12: SineLink(
            12,
            32,
            Series(HALF, sine=(630084, -3307, 133028, 4128, 29782, 10016, 957, 8511, -3068, 3992, -1228, 956)),
            Series(32768, cosine=(61557, 51454, 39083, 27625, 18539, 11988, 7544, 4652, 2824, 1693, 1004, 893)),
        ),
        16: SineLink(
            16,
            40,
            Series(
                HALF,
                sine=(
                    *(643074, -2477, 159401, 1246, 51977, 6996, 12074, 9425),
                    *(-1287, 7916, -3468, 4702, -2103, 1947, -652, 498),
                ),
            ),
            Series(
                26214,
                cosine=(
                    *(50360, 44794, 37250, 29318, 22100, 16117, 11460, 7991),
                    *(5487, 3722, 2499, 1664, 1101, 723, 473, 529),
                ),
            ),
        ),
    }

    def mean(self, scores: Numbers) -> Array:
        return np.asarray(1 / (1 + np.exp(-np.clip(scores, -30, 30))))

    def weights(self, scores: Array) -> tuple[Array, Array]:
        chances = self.mean(scores)
        weights = self.variance(chances)
        return weights, weights * (1 - 2 * chances)

    def variance(self, means: Numbers) -> Array:
        return np.asarray(means * (1 - means))

    def score(self, means: Numbers) -> Array:
        return np.asarray(np.log(means) - np.log1p(-np.asarray(means)))

    def chances(self, scores: Array) -> Array:
        """Return the softmax of the scores; of two classes the first has the score 0."""
        if scores.shape[1] == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def centre(self, mean: float, variance: float) -> float:
        """Take the mean of a sigmoid over normal scores to be a flatter sigmoid [MacKay 1992]."""
        return float(self.score(mean)) * math.sqrt(1 + math.pi * variance / 8)
