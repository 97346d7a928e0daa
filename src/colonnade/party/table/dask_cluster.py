"""A party's own Dask cluster (extra ``dask``): how functions and rows travel to its workers, and results back.

*Trust.* Scheduler and workers are inside the party's trust boundary. They see its rows, and anybody who controls one of them is
the party. So a cluster is reached through TLS, unless it is in this process or, for a party that is no service, on this
machine's loopback interface. Workers come and go, so all of them are looked at again before rows are sent.

*Pickling.* Dask sends functions and results as pickled objects, and unpickling runs code. This is the only module that pickles,
and only between a guard and its own workers: nothing that comes from a coordinator or from a peer is ever unpickled. What holds
keys, the ledger or the gate refuses to be pickled, so none of it can reach a worker.

*What a worker may say.* Dask writes the arguments of a task that raises into a worker's log. A task here never raises: it returns
that it failed, in words without a cell. What is on its way to a worker has no readable form either.

*A worker that is lost.* Dask runs its tasks again elsewhere. They are functions of what they are given: noise is drawn, and paid
for, in the guard alone.

Rows in a Dask dataframe, as a source: partitions are computed by a party's own workers and read one after another.

An alignment refers to rows by number, so partitions have to come with the same rows in the same order every time they are
computed. How many rows each has is asked once; a partition that has another number later is refused. Of what is coded a hash
is kept (`colonnade.party.table.dask_table`).
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

import pyarrow as pa

from colonnade.errors import BadInput, ColonnadeError, error_for
from colonnade.schema.encoders import pandas_kind, pandas_reader

Result = TypeVar("Result")

LOOK = 5.0
"""Seconds between two looks at whether there are any workers left to wait for."""

PATIENCE = 120.0
"""Seconds that a cluster may be without workers before a party gives up."""

RESULT_SECONDS = 6 * 3_600.0
"""Seconds after which a result is given up, though there are workers: one of them hangs."""

FILES = {"tls_ca_file": "ca.pem", "tls_client_cert": "cert.pem", "tls_client_key": "key.pem"}


CONNECT = 'Connect first, client = distributed.Client("tls://HOST:8786", security=...), and pass dask=client.'


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
    loopback
        Whether this machine's loopback interface will do without TLS. Any user of the machine can connect to it.

    Examples
    --------
    >>> from distributed import Client
    >>> with Client(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     Cluster(client).begin(max, [3, 5, 4])()
    5
    """

    def __init__(self, client: Any, *, loopback: bool = True) -> None:
        self._client = client
        self._loopback = loopback
        _require_private([client.scheduler.address], loopback=loopback)
        self._workers()

    @classmethod
    def of(cls, given: Any, files: Path | None = None, *, loopback: bool = True) -> "Cluster":
        """Return a cluster from a client, from a scheduler's address, or (``None``) from the client that is current.

        Parameters
        ----------
        given
            The client or the address.
        files
            For an address with TLS: the folder with ``ca.pem``, ``cert.pem`` and ``key.pem``.
        loopback
            As above.
        """
        if isinstance(given, Cluster):
            return given
        distributed = _distributed()
        if isinstance(given, str):
            _require_private([given], loopback=loopback)
            return cls._connected(distributed, given, files, loopback=loopback)
        if given is None:
            try:
                given = distributed.default_client()
            except ValueError:
                raise BadInput(
                    "A Dask dataframe is read by the workers of a cluster, and there is no client of one.",
                    remedy=CONNECT,
                ) from None
        if not isinstance(given, distributed.Client):
            raise BadInput(f"dask takes a distributed.Client, not a {type(given).__name__}.", remedy=CONNECT)
        return cls(given, loopback=loopback)

    @classmethod
    def _connected(cls, distributed: Any, address: str, files: Path | None, *, loopback: bool) -> "Cluster":
        found = {name: (files or Path()) / file for name, file in FILES.items()}
        security = None
        if address.startswith("tls://"):
            absent = [path.name for path in found.values() if not path.is_file()]
            if files is None or absent:
                raise BadInput(
                    f"To reach a Dask scheduler through TLS a party needs {', '.join(FILES.values())}.",
                    remedy=f"A service has them in the folder `dask` of the party's folder. Elsewhere: {CONNECT}",
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
        try:
            cluster = cls(client, loopback=loopback)
        except BaseException:
            client.close()
            raise
        weakref.finalize(cluster, client.close)
        return cluster

    def __repr__(self) -> str:
        return f"Cluster({len(self._known())} workers)"

    def _known(self) -> dict[str, Any]:
        return dict(self._client.scheduler_info(n_workers=-1)["workers"])

    def _workers(self) -> dict[str, Any]:
        """Return what is known of the workers that are there now, by address; refuse one that is not private."""
        found = self._known()
        _require_private(found, loopback=self._loopback)
        return found

    @property
    def threads(self) -> int:
        """How many tasks run at the same time. Waits for workers, since those that come later are not known to be private."""
        alone_since: float | None = None
        while not (workers := self._workers()):
            alone_since = self._waited(alone_since)
            time.sleep(min(LOOK, 0.2))
        return max(1, sum(int(worker["nthreads"]) for worker in workers.values()))

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
        return self._ahead(self.begin_with(sealed, *inputs) for sealed, inputs in calls)

    def _ahead(self, begun: Iterator[Callable[[], Any]]) -> Iterator[Any]:
        """Yield results in order, of tasks that are begun as they are taken out of an iterator."""
        waiting = deque(islice(begun, 2 * self.threads))
        while waiting:
            found = waiting.popleft()()
            waiting.extend(islice(begun, 1))
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
        coded = [
            _later(work, sealed, *([] if one is None else [one])) for sealed, one in zip(code, partitions, strict=True)
        ]
        ranges = [
            _later(work, sealed, [_later(pick, coded[part], place) for part, place in pieces])
            for sealed, pieces in arrange
        ]
        self.threads  # noqa: B018  # all workers are private, and there are some
        with _any_size():
            return list(self._client.compute(ranges))

    def ask_each(self, function: Callable[[Any], Result], futures: Sequence[Any]) -> list[Result]:
        """Return what a small function makes of each of these, where they are; raise the first failure."""
        sealed = Sealed.of(function)
        return list(self.each((sealed, [future]) for future in futures))

    def partitions_of(self, frame: Any, columns: Sequence[str]) -> list[Any]:
        """Return where the partitions of some columns of a Dask dataframe are."""
        return list(frame[list(columns)].to_delayed())

    def read(self, frame: Any, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the partitions of some columns of a Dask dataframe, as pandas frames, in order."""
        return self._computed(self.partitions_of(frame, columns))

    def of_partitions(self, sealed: Sealed, frame: Any, columns: Sequence[str]) -> Iterator[Any]:
        """Yield what a sealed function makes of the partitions of some columns of a Dask dataframe, in order."""
        return self._computed([_later(work, sealed, part) for part in self.partitions_of(frame, columns)])

    def _computed(self, parts: Sequence[Any]) -> Iterator[Any]:
        return self._ahead(partial(self._result, self._client.compute(part)) for part in parts)

    def lengths(self, frame: Any) -> list[int]:
        """Return how many rows each partition of a Dask dataframe has."""
        counts = [_later(len, part) for part in self.partitions_of(frame, [frame.columns[0]])]
        return [int(found) for found in self._computed(counts)]

    def _result(self, future: Any) -> Any:
        """Wait for a task: as long as there are workers, or might be some soon."""
        alone_since: float | None = None
        give_up = time.monotonic() + RESULT_SECONDS
        while True:
            failure = ""
            try:
                found = future.result(timeout=LOOK)
            except TimeoutError:
                if future.status != "error" and time.monotonic() < give_up:
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
        if self._client.status == "running" and self._workers():
            return None
        now = time.monotonic()
        if alone_since is not None and now - alone_since > PATIENCE:
            raise BadInput(
                "The party's Dask cluster has no workers.", remedy="Start workers, then start the party again."
            )
        return now if alone_since is None else alone_since


def _later(function: Callable[..., Any], *given: Any) -> Any:
    """Return a call that a worker makes when it is asked for."""
    return importlib.import_module("dask").delayed(function, pure=False)(*given)


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


def _require_private(addresses: Iterable[str], *, loopback: bool = True) -> None:
    """Refuse a cluster that is reached without TLS, over a network or where the loopback interface will not do."""
    for address in addresses:
        where = urlsplit(address)
        if where.scheme in ("tls", "inproc"):
            continue
        if where.scheme == "tcp" and _is_loopback(where.hostname or ""):
            if loopback:
                continue
            raise BadInput(
                "A Dask scheduler or worker of this party is reached on the loopback interface without TLS.",
                remedy="Any user of this machine can connect there. Start scheduler and workers with --tls-ca-file, --tls-cert "
                "and --tls-key, and name the scheduler as tls://127.0.0.1:PORT.",
            )
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


class DaskRows:
    """What a Dask dataframe holds, in blocks of rows that always come in the same order.

    Parameters
    ----------
    frame
        The dataframe.
    cluster
        Whose workers compute it; by default those of the client that is current.
    """

    label = "The Dask dataframe"

    def __init__(self, frame: Any, cluster: Cluster | None = None) -> None:
        self.frame = frame
        self.cluster = Cluster.of(None) if cluster is None else cluster
        self._lengths: list[int] | None = None

    @property
    def names(self) -> list[str]:
        """The names of its columns, as often as they occur."""
        return [name for name in self.frame.columns if isinstance(name, str)]

    @property
    def rows(self) -> int | None:
        """How many rows there are, once they were counted."""
        return None if self._lengths is None else sum(self._lengths)

    @property
    def lengths(self) -> list[int]:
        """How many rows each partition has."""
        if self._lengths is None:
            self._lengths = self.cluster.lengths(self.frame)
        return self._lengths

    def kind(self, name: str, *, look: bool) -> Any:
        """Return the Arrow type of a column; ``None`` for Python objects, which are text of no declared type."""
        declared = self.frame._meta[name]  # noqa: SLF001  # what Dask declares about a column, without a row
        if look and declared.dtype == object:
            parts = [pandas_kind(part[name], look=True) for part in self.cluster.read(self.frame, [name])]
            return None if None in parts else pa.large_string()
        return pandas_kind(declared, look=False)

    def batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        """Read some columns in row order."""
        for part, length in zip(self.cluster.read(self.frame, columns), self.lengths, strict=True):
            if len(part) != length:
                raise partition_changed()
            readers = [pandas_reader(part[name]) for name in columns]
            for start in range(0, length, rows):
                yield pa.record_batch([read(start, start + rows) for read in readers], names=columns)

    def each(self, part: Callable[[Any], Result], columns: list[str]) -> Iterator[Result]:
        """Yield what a function makes of some columns of each partition, in order; workers call it."""
        return self.cluster.of_partitions(Sealed.of(part), self.frame, columns)


def partition_changed() -> BadInput:
    """Return what is wrong with a partition that has other rows than before."""
    return BadInput(
        "A partition of the data source has other rows than when it was first read.",
        remedy="Make the party from data that do not change, such as files, and align again.",
    )


def with_cluster(data: Any, dask: Any) -> tuple[Any, Cluster | None]:
    """Return a party's data with its Dask dataframes bound to a cluster, and that cluster; ``None`` where none is needed.

    Parameters
    ----------
    data
        What a party was given.
    dask
        A ``distributed.Client`` or a `Cluster`; ``None`` for the current client, where a Dask dataframe is among the data, and
        for no cluster elsewhere.
    """
    pieces: Sequence[Any] = data if isinstance(data, list | tuple) else [data]
    if dask is None and not any(is_dask_frame(one) for one in pieces):
        return data, None
    cluster = Cluster.of(dask)
    return [DaskRows(one, cluster) if is_dask_frame(one) else one for one in pieces], cluster
