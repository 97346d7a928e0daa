"""A transport is one method: requests by party in, replies by party out, all of it bytes."""

from collections.abc import Mapping
from typing import Protocol

__all__ = ["Endpoint", "Transport"]


class Endpoint(Protocol):
    """A party, wherever it is."""

    def handle(self, data: bytes) -> bytes:
        """Answer one request."""
        ...


class Transport(Protocol):
    """How requests reach parties."""

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver every request and return every reply.

        The same bytes may be delivered again after a failure: parties answer the same question once.
        """
        ...
