"""Seeded coins for what is public: synthetic data, and simulations on what was released. They protect nobody."""

import numpy as np

from colonnade.errors import BadInput

PublicGenerator = np.random.Generator  # noqa: TID251  # a name for annotations


def public_generator(seed: int) -> PublicGenerator:
    """Return a seeded generator for public simulations.

    Its stream can be predicted from its output. Noise, shares and masks never come from it; they use
    `colonnade.privacy.randomness`.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise BadInput("seed must be a whole number of at least 0.", remedy="For example seed=0.")
    return np.random.default_rng(seed)  # noqa: TID251  # the only place: what is made with it is public
