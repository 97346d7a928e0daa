"""Public data: synthetic federations, and the generator that makes them."""

import numpy as np

from colonnade.errors import BadInput

__all__ = [
    "Federated",
    "Mixture",
    "Organisation",
    "PublicGenerator",
    "gaussian_mixture",
    "public_generator",
    "three_organisations",
]

PublicGenerator = np.random.Generator  # noqa: TID251  # a name for annotations


def public_generator(seed: int) -> PublicGenerator:
    """Return a seeded generator for synthetic data.

    Its stream can be predicted from its output. Noise, shares and masks never come from it; they use
    `colonnade.privacy.randomness`.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise BadInput("seed must be a whole number of at least 0.", remedy="For example seed=0.")
    return np.random.default_rng(seed)  # noqa: TID251  # the only place: data made here are public


# Last, because the module makes its data with the generator above.
from colonnade.datasets.synthetic import (  # noqa: E402
    Federated,
    Mixture,
    Organisation,
    gaussian_mixture,
    three_organisations,
)
