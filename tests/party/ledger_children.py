"""Processes that are killed, starved and raced against each other, each forked from one small single-threaded parent.

A task is the name of a function here and its arguments. It reports every call that *returned*, through a pipe, before
the next one begins; so whatever happens to the process, the test knows what it had been promised.
"""

import contextlib
import hashlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    signal: int
    """What killed the process, or 0."""
    reports: list


class Nursery:
    """Starts tasks together and waits for all of them."""

    def __enter__(self):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.party.ledger_children"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *exception):
        self._parent.stdin.close()
        self._parent.stdout.close()
        assert self._parent.wait(60) == 0

    def run(self, *tasks) -> list[Outcome]:
        self._parent.stdin.write(json.dumps(tasks) + "\n")
        self._parent.stdin.flush()
        outcomes = json.loads(self._parent.stdout.readline())
        return [Outcome(number, reports) for number, reports in outcomes]


def _serve() -> None:
    for line in sys.stdin:
        children = [_start(name, arguments) for name, arguments in json.loads(line)]
        texts = _drain([pipe for _, pipe in children])
        outcomes = []
        for (process, _), text in zip(children, texts, strict=True):
            status = os.waitpid(process, 0)[1]
            reports = [json.loads(report) for report in text.decode().splitlines()]
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                reports.append(["broken", os.WEXITSTATUS(status)])
            outcomes.append((os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, reports))
        sys.stdout.write(json.dumps(outcomes) + "\n")
        sys.stdout.flush()


def _start(name, arguments):
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        TASKS[name](lambda *report: os.write(writing, json.dumps(report).encode() + b"\n"), **arguments)
        status = 0
    finally:
        os._exit(status)


def _drain(pipes):
    texts = dict.fromkeys(pipes, b"")
    while pipes:
        for pipe in select.select(pipes, [], [])[0]:
            data = os.read(pipe, 65536)
            texts[pipe] += data
            if not data:
                os.close(pipe)
                pipes = [other for other in pipes if other != pipe]
    return list(texts.values())


# What a party does with its ledger, call by call; a report follows each call that returned.


def set_cap(ledger, budget) -> None:
    """Change a cap as its owner does: by a signed decision."""
    from colonnade.party.ledger.decisions import CapDecision
    from colonnade.secure.keys import Identity

    decision = CapDecision(nano=budget.nano, delta=budget.delta)
    ledger.decide(decision.signed(ledger.identity, Identity.from_seed(b"o" * 32)))


def play(report, ledger, script, cost) -> None:
    from colonnade.errors import ColonnadeError

    calls = {
        "debit": lambda name: ledger.debit(name, BODY, cost, label="x"),
        "seal": lambda name: brief(ledger.seal(name, answer_of(name))),
        "reserve": lambda name: ledger.reserve(name, BODY, cost, label="x", seed=seed_of(name)),
        "commit": lambda name: brief(ledger.commit(name, answer_of(name))),
        "nonprivate": lambda name: ledger.record_nonprivate(name, BODY, label="x"),
        "raise": lambda name: set_cap(ledger, _budget(2.0)),
        "remaining": lambda name: ledger.remaining(),
        "answer": lambda name: brief(ledger.answer_to(name, BODY) or b""),
    }
    for call, name in script:
        try:
            report("done", call, name, calls[call](name.encode()))
        except ColonnadeError as error:
            report("refused", call, name, error.code, error.message, error.spent)
            _refuses_everything(report, ledger, calls, error)
            return


def _refuses_everything(report, ledger, calls, first) -> None:
    """After a fatal failure no call may succeed, not even a read."""
    from colonnade.errors import ColonnadeError

    if first.code != "ledger-corrupt":
        return
    for call in calls:
        try:
            calls[call](b"another")
        except ColonnadeError as error:
            if error.code == "ledger-corrupt":
                continue
        report("not poisoned", call)


BODY = bytes(range(32))


def answer_of(name: bytes) -> bytes:
    return (b"answer to " + name) * 700


def brief(answer: bytes) -> str:
    return hashlib.sha256(answer).hexdigest()


def seed_of(name: bytes) -> bytes:
    return name.ljust(32, b"\xa5")


def _budget(epsilon):
    from colonnade.privacy.accounting import Budget

    return Budget(epsilon=epsilon, delta=1e-6)


def _cost(nano=100_000_000):
    from colonnade.privacy.accounting import Loss

    return Loss.of_pure(nano)


def _open(path, **keywords):
    from colonnade.party.ledger.ledger import SqliteLedger

    return SqliteLedger.open(path, **keywords)


def at_each_statement(ledger, act) -> list[int]:
    """Call ``act(n)`` before the n-th SQL statement; return a counter."""
    count = [0]

    def begin(statement):
        count[0] += 1
        act(count[0])

    ledger._file._connection.set_trace_callback(begin)
    return count


def killed_at_statement(report, path, script, statement) -> None:
    ledger = _open(path)

    def act(number):
        if number == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    count = at_each_statement(ledger, act)
    play(report, ledger, script, _cost())
    report("statements", count[0])


def killed_at_size(report, path, script, size) -> None:
    ledger = _open(path)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    play(report, ledger, script, _cost())


def killed_at_time(report, path, prefix, seconds) -> None:
    ledger = _open(path)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    for number in range(1_000_000):
        name = f"{prefix}{number}"
        play(report, ledger, [("debit", name), ("seal", name)], _cost(1))


def full_at_size(report, path, script, size) -> None:
    ledger = _open(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    play(report, ledger, script, _cost())


def device_fails_at_statement(report, path, script, statement, device, suffix) -> None:
    """From one statement on, the file (or its journal) is a device that takes no data, or cannot be synced."""
    ledger = _open(path)

    def act(number):
        if number == statement:
            swapped = 0
            for descriptor in Path("/proc/self/fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(descriptor.readlink()) == os.path.realpath(path) + suffix:
                        broken = os.open(device, os.O_RDWR)
                        os.dup2(broken, int(descriptor.name))
                        os.close(broken)
                        swapped += 1
            report("swapped", swapped)

    count = at_each_statement(ledger, act)
    play(report, ledger, script, _cost())
    report("statements", count[0])


def races(report, path, name, start, calls, nano) -> None:
    from colonnade.errors import ColonnadeError

    ledger = _open(path)
    time.sleep(max(0.0, start - time.time()))
    for call in range(calls):
        request = f"{name}{call}".encode()
        try:
            report("done", ledger.debit(request, BODY, _cost(nano), label="x"), request.decode())
        except ColonnadeError as error:
            report("refused", error.code)


def asks_the_same(report, path, start, times) -> None:
    """Do what a gate does, again and again: the kept answer, or else pay, draw and keep."""
    from colonnade.errors import ColonnadeError

    ledger = _open(path)
    time.sleep(max(0.0, start - time.time()))
    for _ in range(times):
        try:
            answer = ledger.answer_to(b"same", BODY)
            if answer is None:
                ledger.debit(b"same", BODY, _cost(), label="x")
                answer = ledger.seal(b"same", os.urandom(16))
            report("answer", answer.hex())
        except ColonnadeError as error:
            report("refused", error.code)


TASKS = {
    task.__name__: task
    for task in (
        killed_at_statement,
        killed_at_size,
        killed_at_time,
        full_at_size,
        device_fails_at_statement,
        races,
        asks_the_same,
    )
}


if __name__ == "__main__":
    import colonnade.party.ledger.ledger  # noqa: F401  # once, before the forks

    _serve()
