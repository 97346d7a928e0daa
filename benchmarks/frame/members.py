"""Members of a benchmark as processes of their own: a transport to their sockets, and the processor time that they took."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from colonnade.protocol.codec import read_frame, write_frame

__all__ = ["Sockets", "processor_seconds"]


class Sockets:
    """A transport to guards on Unix sockets, all asked at once."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self._streams = {}
        for name, path in paths.items():
            line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            line.connect(str(path))
            self._streams[name] = line.makefile("rwb")
        self._pool = ThreadPoolExecutor(len(paths))

    def exchange(self, requests: dict[str, bytes]) -> dict[str, bytes]:
        def ask(name: str) -> bytes:
            write_frame(self._streams[name], requests[name])
            reply = read_frame(self._streams[name])
            assert reply is not None
            return reply

        return dict(zip(requests, self._pool.map(ask, requests), strict=True))

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()


def processor_seconds(process: int | str) -> float:
    """Return the processor time of a process so far, from the system's own count."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
