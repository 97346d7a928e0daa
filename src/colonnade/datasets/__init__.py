"""Public data: synthetic federations, and loaders of public data sets in `colonnade.datasets.public`."""

from colonnade.datasets.synthetic import Federated, Mixture, Organisation, gaussian_mixture, three_organisations

__all__ = ["Federated", "Mixture", "Organisation", "gaussian_mixture", "three_organisations"]
