"""Members of a benchmark as processes of their own: a transport to their sockets, and the processor time that they took."""

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from colonnade.protocol.messages import read_frame, write_frame

__all__ = ["Sockets", "processor_seconds"]


FRESH = 60.0
"""Seconds of silence after which a guard is connected to anew. It hangs up after two minutes: see `colonnade.party.serving`."""


class Sockets:
    """A transport to guards on Unix sockets, all asked at once."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self._paths = paths
        self._streams: dict[str, BinaryIO] = {}
        self._heard: dict[str, float] = {}
        self._pool = ThreadPoolExecutor(len(paths))

    def exchange(self, requests: dict[str, bytes]) -> dict[str, bytes]:
        def ask(name: str) -> bytes:
            stream = self._stream(name)
            write_frame(stream, requests[name])
            reply = read_frame(stream)
            assert reply is not None
            self._heard[name] = time.monotonic()
            return reply

        return dict(zip(requests, self._pool.map(ask, requests), strict=True))

    def _stream(self, name: str) -> BinaryIO:
        if name in self._streams and time.monotonic() - self._heard[name] < FRESH:
            return self._streams[name]
        if name in self._streams:
            self._streams[name].close()
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.connect(str(self._paths[name]))
        self._streams[name], self._heard[name] = line.makefile("rwb"), time.monotonic()
        line.close()  # the stream keeps the connection
        return self._streams[name]

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()


def processor_seconds(process: int | str) -> float:
    """Return the processor time of a process so far, from the system's own count."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
