"""A party's own Dask cluster (extra ``dask``): how functions and rows travel to its workers, and results back.

*Trust.* Scheduler and workers are inside the party's trust boundary. They see its rows, and anybody who controls one of them is
the party. So a cluster is reached through TLS, unless it is in this process or on this machine's loopback interface.

*Pickling.* Dask sends functions and results as pickled objects, and unpickling runs code. This is the only module that pickles,
and only between a guard and its own workers: nothing that comes from a coordinator or from a peer is ever unpickled. What holds
keys, the ledger or the gate refuses to be pickled, so none of it can reach a worker.

*What a worker may say.* Dask writes the arguments of a task that raises into a worker's log. A task here never raises: it returns
that it failed, in words without a cell. What is on its way to a worker has no readable form either.

*A worker that is lost.* Dask runs its tasks again elsewhere. They are functions of what they are given: noise is drawn, and paid
for, in the guard alone.
"""

import contextlib
import importlib
import ipaddress
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from colonnade.errors import BadInput, ColonnadeError, error_for

__all__ = ["Cluster", "Failure", "Sealed", "is_dask_frame"]

Result = TypeVar("Result")

LOOK = 5.0
"""Seconds between two looks at whether there are any workers left to wait for."""

PATIENCE = 120.0
"""Seconds that a cluster may be without workers before a party gives up."""

FILES = {"tls_ca_file": "ca.pem", "tls_client_cert": "cert.pem", "tls_client_key": "key.pem"}


class Sealed:
    """A function on its way to a worker, with what it is given: bytes that nothing shows."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    @classmethod
    def of(cls, function: Callable[..., Any], *given: object) -> "Sealed":
        """Seal a function and its first arguments, now: what changes later does not change what was sealed."""
        import cloudpickle

        return cls(cloudpickle.dumps(partial(function, *given)))

    def opened(self) -> Callable[..., Any]:
        """Return the function, at a worker."""
        import cloudpickle

        function: Callable[..., Any] = cloudpickle.loads(self._data)
        return function

    def __repr__(self) -> str:
        return "Sealed(<hidden>)"


class Failure:
    """What a worker says of a task that failed: words of ours, or the kind of another error; never a cell.

    Parameters
    ----------
    code, message, remedy
        As in an error of this package; without a code, the message is the name of another kind of error.
    """

    def __init__(self, code: str, message: str, remedy: str | None = None) -> None:
        self.code, self.message, self.remedy = code, message, remedy

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """Keep of an error what may be kept."""
        if isinstance(error, ColonnadeError):
            return cls(error.code, error.message, error.remedy)
        return cls("", type(error).__name__)

    def error(self) -> ColonnadeError:
        """Return it as an error of this package."""
        if self.code:
            return error_for(self.code)(self.message, remedy=self.remedy)
        return BadInput(
            f"A Dask worker failed ({self.message}).",
            remedy="Check that workers have the same versions of Python and colonnade as the guard, and can read the data.",
        )


def work(sealed: Sealed, *inputs: Any) -> Any:
    """Call a sealed function at a worker; return a `Failure` where it fails, or where what it was to be given has failed."""
    for one in inputs:
        for found in one if isinstance(one, list) else (one,):
            if isinstance(found, Failure):
                return found
    try:
        return sealed.opened()(*inputs)
    except Exception as error:  # noqa: BLE001  # Dask would log the arguments of a task that raises
        return Failure.of(error)


def pick(pieces: Any, place: int) -> Any:
    """Return one of the pieces that a task made."""
    return pieces if isinstance(pieces, Failure) else pieces[place]


def is_dask_frame(data: object) -> bool:
    """Whether something is a Dask dataframe; told by its name, so that Dask need not be installed."""
    return type(data).__module__.split(".")[0] == "dask" and type(data).__name__ == "DataFrame"


class Cluster:
    """A party's Dask cluster: the only thing that Dask is asked through.

    Parameters
    ----------
    client
        A ``distributed.Client``.

    Examples
    --------
    >>> from distributed import Client
    >>> with Client(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     Cluster(client).begin(max, [3, 5, 4])()
    5
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        _require_private([client.scheduler.address, *self._addresses()])

    @classmethod
    def of(cls, given: Any, files: Path | None = None) -> "Cluster":
        """Return a cluster from a client, from a scheduler's address, or (``None``) from the client that is current.

        Parameters
        ----------
        given
            The client or the address.
        files
            For an address of the network: the folder with ``ca.pem``, ``cert.pem`` and ``key.pem`` for TLS.
        """
        if isinstance(given, Cluster):
            return given
        distributed = _distributed()
        if isinstance(given, str):
            _require_private([given])
            return cls._connected(distributed, given, files)
        if given is None:
            try:
                given = distributed.default_client()
            except ValueError:
                raise BadInput(
                    "A Dask dataframe is read by the workers of a cluster, and there is no client of one.",
                    remedy='Connect first: distributed.Client(...), or pass dask="tls://scheduler:8786".',
                ) from None
        if not isinstance(given, distributed.Client):
            raise BadInput(
                f"dask takes the address of a scheduler or a distributed.Client, not a {type(given).__name__}.",
                remedy='For example dask="tls://scheduler:8786".',
            )
        return cls(given)

    @classmethod
    def _connected(cls, distributed: Any, address: str, files: Path | None) -> "Cluster":
        found = {name: (files or Path()) / file for name, file in FILES.items()}
        security = None
        if address.startswith("tls://"):
            absent = [path.name for path in found.values() if not path.is_file()]
            if files is None or absent:
                raise BadInput(
                    f"To reach a Dask scheduler through TLS a party needs {', '.join(FILES.values())}.",
                    remedy="Put them into the folder `dask` of the party's folder, or pass a distributed.Client of your own.",
                )
            paths = {name: str(path) for name, path in found.items()}
            security = distributed.Security(require_encryption=True, **paths)
        failure = ""
        try:
            client = distributed.Client(
                address, security=security, set_as_default=False, direct_to_workers=False, timeout=30
            )
        except Exception as error:  # noqa: BLE001  # it fails in many ways, and ours is raised once theirs is gone
            failure = type(error).__name__
        if failure:
            raise BadInput(
                f"The Dask scheduler does not answer ({failure}).",
                remedy="Start it, and check its address and the certificates of both sides.",
            )
        cluster = cls(client)
        weakref.finalize(cluster, client.close)
        return cluster

    def __repr__(self) -> str:
        return f"Cluster({len(self._addresses())} workers)"

    def _addresses(self) -> list[str]:
        return list(self._client.scheduler_info(n_workers=-1)["workers"])

    @property
    def threads(self) -> int:
        """How many tasks run at the same time."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return max(1, sum(int(worker["nthreads"]) for worker in workers))

    # Tasks --------------------------------------------------------------------------------------------------------------

    def begin(self, function: Callable[..., Result], *given: object) -> Callable[[], Result]:
        """Have a function called by a worker, and return what waits for its result."""
        return self.begin_with(Sealed.of(function, *given))

    def begin_with(self, sealed: Sealed, *inputs: Any) -> Callable[[], Any]:
        """Have a sealed function called with results that lie with the workers."""
        with _any_size():
            future = self._client.submit(work, sealed, *inputs, pure=False)
        return partial(self._result, future)

    def each(self, calls: Iterable[tuple[Sealed, Sequence[Any]]]) -> Iterator[Any]:
        """Yield results in order. Workers are a few calls ahead, so that all of them have something to do."""
        rest, waiting = iter(calls), deque[Callable[[], Any]]()
        ahead = 2 * self.threads
        waiting.extend(self.begin_with(sealed, *inputs) for sealed, inputs in islice(rest, ahead))
        while waiting:
            found = waiting.popleft()()
            waiting.extend(self.begin_with(sealed, *inputs) for sealed, inputs in islice(rest, 1))
            yield found

    def arranged(
        self, partitions: Sequence[Any], code: Sequence[Sealed], arrange: Sequence[tuple[Sealed, list[tuple[int, int]]]]
    ) -> list[Any]:
        """Have partitions coded and their pieces put together; return what stays with the workers.

        Parameters
        ----------
        partitions
            Where rows are: of a Dask dataframe (`partitions_of`); ``None`` where what codes them opens a file itself.
        code
            For each partition what makes a list of pieces of it.
        arrange
            For each range of people what puts pieces together, and which: the partition and the place in its list.
        """
        delayed = importlib.import_module("dask").delayed
        coded = [
            delayed(work, pure=False)(sealed, *([] if one is None else [one]))
            for sealed, one in zip(code, partitions, strict=True)
        ]
        ranges = [
            delayed(work, pure=False)(sealed, [delayed(pick, pure=False)(coded[part], place) for part, place in pieces])
            for sealed, pieces in arrange
        ]
        with _any_size():
            return list(self._client.compute(ranges))

    def require(self, futures: Sequence[Any]) -> None:
        """Wait until all of these are there; raise the first failure."""
        for pending in [self.begin_with(Sealed.of(_arrived), future) for future in futures]:
            pending()

    def partitions_of(self, frame: Any, columns: Sequence[str]) -> list[Any]:
        """Return where the partitions of some columns of a Dask dataframe are."""
        return list(frame[list(columns)].to_delayed())

    def read(self, frame: Any, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the partitions of some columns of a Dask dataframe, as pandas frames, in order."""
        return self._computed(self.partitions_of(frame, columns))

    def of_partitions(self, sealed: Sealed, frame: Any, columns: Sequence[str]) -> Iterator[Any]:
        """Yield what a sealed function makes of the partitions of some columns of a Dask dataframe, in order."""
        delayed = importlib.import_module("dask").delayed
        return self._computed([delayed(work, pure=False)(sealed, part) for part in self.partitions_of(frame, columns)])

    def _computed(self, parts: Sequence[Any]) -> Iterator[Any]:
        rest, waiting = iter(parts), deque[Any]()
        waiting.extend(self._client.compute(part) for part in islice(rest, 2 * self.threads))
        while waiting:
            found = self._result(waiting.popleft())
            waiting.extend(self._client.compute(part) for part in islice(rest, 1))
            yield found

    def lengths(self, frame: Any) -> list[int]:
        """Return how many rows each partition of a Dask dataframe has."""
        delayed = importlib.import_module("dask").delayed
        counts = [delayed(len)(part) for part in self.partitions_of(frame, [frame.columns[0]])]
        return [int(self._result(one)) for one in self._client.compute(counts)]

    def _result(self, future: Any) -> Any:
        """Wait for a task: as long as there are workers, or might be some soon."""
        alone_since: float | None = None
        while True:
            failure = ""
            try:
                found = future.result(timeout=LOOK)
            except TimeoutError:
                if future.status != "error":
                    alone_since = self._waited(alone_since)
                    continue
                failure = "TimeoutError"
            except Exception as error:  # noqa: BLE001  # a reader's message may quote a cell; ours is raised once it is gone
                failure = type(error).__name__
            if failure:
                raise BadInput(
                    f"The party's Dask cluster did not finish a task ({failure}).",
                    remedy="Look at the logs of its scheduler and workers, then start the party again.",
                )
            if isinstance(found, Failure):
                raise found.error()
            return found

    def _waited(self, alone_since: float | None) -> float | None:
        """Return since when there is no worker; refuse to wait for ever."""
        if self._client.status == "running" and self._addresses():
            return None
        now = time.monotonic()
        if alone_since is not None and now - alone_since > PATIENCE:
            raise BadInput(
                "The party's Dask cluster has no workers.", remedy="Start workers, then start the party again."
            )
        return now if alone_since is None else alone_since


def _arrived(_: Any) -> bool:
    return True


def _distributed() -> Any:
    try:
        importlib.import_module("dask.dataframe")
        return importlib.import_module("distributed")
    except ImportError:
        raise BadInput(
            "A party on several machines is worked by Dask, which is not installed.",
            remedy='pip install "colonnade[dask]"',
        ) from None


@contextlib.contextmanager
def _any_size() -> Iterator[None]:
    """Send what is large without a warning: a task has to hold what it is given, or a lost worker would lose it."""
    with importlib.import_module("dask").config.set({"distributed.admin.large-graph-warning-threshold": "1TiB"}):
        yield


def _require_private(addresses: Iterable[str]) -> None:
    """Refuse a cluster that is reached over a network without TLS."""
    for address in addresses:
        where = urlsplit(address)
        if where.scheme in ("tls", "inproc") or (where.scheme == "tcp" and _is_loopback(where.hostname or "")):
            continue
        raise BadInput(
            "A Dask scheduler or worker of this party is reached over a network without TLS.",
            remedy="Start scheduler and workers with --tls-ca-file, --tls-cert and --tls-key, and name the scheduler as "
            "tls://HOST:PORT. Without TLS a cluster is on this machine alone: tcp://127.0.0.1:PORT.",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
