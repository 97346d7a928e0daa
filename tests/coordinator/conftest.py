"""Federations on a wire that tests can spoil."""

from tests.conversations.conftest import site

__all__ = ["site"]
