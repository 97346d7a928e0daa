"""Relays as processes, with real certificates on loopback; what is behind them is up to the test."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs the extra colonnade[network]")

HOST = "localhost"

RELAY = """
import os, sys
from colonnade.runtime.event_log import Log
from colonnade.service.relay import SiteRelay
folder, address, kits, host, *names = sys.argv[1:]
for name in names:
    if os.fork() == 0:
        log = Log(sys.stdout, name, "relay")
        SiteRelay(name, guard=f"{folder}/{name}.sock", address=address, kit=f"{kits}/{name}", host=host, log=log)
        break
sys.stdin.read()
os._exit(0)
"""
"""Imports once and forks a relay a site; all of them end when the test closes their standard input."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def until(condition, seconds: float = 30.0, what: str = "what was waited for"):
    """Wait for something that happens in another process."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    pytest.fail(f"{what} did not happen in {seconds:g} s")


class Started:
    """A process of ours in a group of its own, ended by its id and nothing wider."""

    def __init__(self, arguments: list[str], log: Path, **environment: str) -> None:
        self.log = log
        with log.open("ab") as stream:
            self.process = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **environment},
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def events(self, name: str | None = None) -> list[dict]:
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("{")]
        found = [json.loads(line) for line in lines]
        return [one for one in found if name is None or one["event"] == name]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self, seconds: float = 20.0) -> int:
        """Close its standard input, at which all of ours end, and see that it does."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("a process did not end when it was asked to") from None


def relays(folder: Path, *names: str, address: str, kits: Path, host: str = HOST) -> Started:
    """Start a relay for each site, before the guards' sockets in this folder."""
    arguments = [sys.executable, "-c", RELAY, str(folder), address, str(kits), host, *names]
    return Started(arguments, folder / "relays.log")
