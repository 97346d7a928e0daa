"""A supervisor that is told to stop says so, whoever tells it, and ends its children in order."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

PROGRAM = """
import sys, time
from colonnade.runtime.event_log import Log
from colonnade.service.processes import Supervisor
children = {name: lambda: time.sleep(60) for name in ("guard", "relay")}
sys.exit(Supervisor(children, Log(sys.stdout, "bank", "supervisor"), print).run())
"""


def started(program=PROGRAM, **options) -> subprocess.Popen:
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, **options)
    for _ in range(2):
        assert json.loads(process.stdout.readline())["event"] == "started"
    return process


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
@pytest.mark.parametrize("everybody", [False, True])
def test_a_signal_that_ends_a_member_leaves_a_line_that_names_it(name, everybody):
    """Before, SIGHUP ended a supervisor without a line in the log. A terminal that closes sends it to the children too."""
    heeds = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)  # also where these tests run under nohup
    process = started(start_new_session=True, preexec_fn=heeds)
    os.killpg(process.pid, signal.Signals[name]) if everybody and name != "SIGTERM" else process.send_signal(
        signal.Signals[name]
    )
    said = [json.loads(line) for line in process.communicate(timeout=30)[0].splitlines()]
    assert [(one["event"], one.get("reason"), one.get("child")) for one in said] == [
        ("stopping", name, None), ("stopped", None, "relay"), ("stopped", None, "guard"),
    ]  # fmt: skip
    assert process.returncode == 0


def test_a_child_that_is_told_to_stop_before_it_has_begun_ends_at_once():
    """Before, the supervisor's own handler swallowed the signal in a child that had just been forked, which was killed later."""
    late = "honest = Supervisor._live\nSupervisor._live = lambda *given: time.sleep(0.5) or honest(*given)\nsys.exit("
    with started(PROGRAM.replace("sys.exit(", late)) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(8) == 0  # and a child that does not end is killed after 10 seconds


def test_a_member_under_nohup_outlives_its_terminal():
    process = started(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    process.stdout.close()
