"""Federations on a wire that tests can spoil."""

from collections.abc import Iterator

import pytest

from tests.conversations.sites import Site


@pytest.fixture
def site(tmp_path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.fixture
def pair(tmp_path) -> Iterator[Site]:
    """Two parties, and the coordinator as the third node."""
    site = Site(tmp_path, parties=("bank", "telco"), nodes=("coordinator",))
    yield site
    site.close()
