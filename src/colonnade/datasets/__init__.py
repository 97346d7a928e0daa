"""Public data: synthetic federations, and the one generator of public choices."""

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

PublicGenerator = np.random.Generator  # noqa: TID251  # a name for annotations; see below for what it may serve


def public_generator(seed: int) -> PublicGenerator:
    """Return a seeded generator for public choices: synthetic data, and nothing that protects anybody.

    Its stream can be predicted from what it puts out, so noise, shares and masks never come from it: those take
    `colonnade.privacy.randomness`.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise BadInput("The seed of public choices is a whole number, zero or more.")
    return np.random.default_rng(seed)  # noqa: TID251  # the only place: data made here is public by construction


# Last, because the module makes its data with the generator above.
from colonnade.datasets.synthetic import (  # noqa: E402
    Federated,
    Mixture,
    Organisation,
    gaussian_mixture,
    three_organisations,
)
