"""A transport to parties far away, and endpoints in this process beside it: a coordinator that is itself a compute node."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from colonnade.transport.base import Endpoint, Transport

__all__ = ["Beside"]


class Beside:
    """Carry requests to far parties by another transport, and hand the others over here, all of a round at the same time.

    Parameters
    ----------
    far
        The transport to everybody else; it refuses names it does not know.
    near
        Endpoints in this process, by name.
    """

    def __init__(self, far: Transport, near: Mapping[str, Endpoint]) -> None:
        self.far = far
        self._near = dict(near)
        self._pool = ThreadPoolExecutor(max(len(self._near), 1), thread_name_prefix="colonnade")

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver one round."""
        here = {
            name: self._pool.submit(self._near[name].handle, data)
            for name, data in requests.items()
            if name in self._near
        }
        there = self.far.exchange({name: data for name, data in requests.items() if name not in self._near})
        return {name: here[name].result() if name in here else there[name] for name in requests}

    def close(self) -> None:
        """Close the far side."""
        self._pool.shutdown()
        close = getattr(self.far, "close", None)
        if close is not None:
            close()
