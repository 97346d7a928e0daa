"""Invented people for examples, tutorials and tests."""

from colonnade.datasets.synthetic import Federated, Organisation, three_organisations

__all__ = ["Federated", "Organisation", "three_organisations"]
