"""kill -9 of anything at any time under a loop of all estimators: guards, relays, supervisors, the coordinator and a node.

Every study ends right, or with a typed error; asked for again it ends right, and nothing is lost. What it cost is in the ledgers
once, and is what the error says.
"""

import collections
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import Cost
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.privacy.accounting import total
from tests import kit
from tests.service import every_study
from tests.service.lines import until
from tests.service.served import Site
from tests.service.test_members import alive

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

KILLS = int(os.environ.get("COLONNADE_KILLS", "40"))
WITHIN = 180.0
TYPED = {"party-away", "protocol-error", "busy"}
NODE = "auditor"


class Coordinator:
    """A process that runs studies one after the other, and may be killed."""

    def __init__(self, papers: Path, log: Path) -> None:
        self._papers, self._log = papers, log
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.service.every_study", str(self._papers)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert "ready" in self.answer()

    def ask(self, name: str, repeat: int) -> None:
        self._process.stdin.write(json.dumps({"name": name, "repeat": repeat}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict:
        """Return the next outcome; fail where none comes."""
        line = self._process.stdout.readline()
        assert line, self._log.read_text()[-2000:]
        return json.loads(line)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()


class Disturbed:
    """A served federation, its coordinator, and what has been killed."""

    def __init__(self, folder: Path) -> None:
        self.site = Site(
            folder,
            nodes=(NODE,),
            epsilon=10_000.0,
            test_key=None,
            schemas=every_study.SCHEMAS,
            tables=every_study.tables(),
        )
        for party in self.site.parties:
            path = self.site.members[party].path / "policy.toml"
            path.write_text(path.read_text() + 'nonprivate = ["Coreset"]\n')
        self.site.start()
        self.site.ready()
        self.coordinator = Coordinator(self.site.papers_path, folder / "coordinator.log")
        self.killed: collections.Counter[str] = collections.Counter()

    def close(self) -> None:
        self.coordinator.stop()
        self.site.stop()

    def kill(self, role: str, member: str) -> None:
        """Kill one process. A supervisor is started again by whoever runs the machine, as is a coordinator."""
        self.killed[role] += 1
        if role == "coordinator":
            self.coordinator.kill()
        elif role == "supervisor":
            processes = {child: self.site.pid(member, child) for child in ("guard", "relay")}
            os.kill(parent_of(processes["guard"]), signal.SIGKILL)
            until(lambda: not any(map(alive, processes.values())), what="its children ending with it")
            self.site.start(member)
        else:
            self.site.kill(member, role)

    def settled(self) -> None:
        """Wait until every member has a guard and a relay again."""
        for member in self.site.members:
            for child in ("guard", "relay"):
                until(lambda m=member, c=child: alive(self.site.pid(m, c)), 60, what=f"{member} coming back")

    def rows(self) -> dict[str, list]:
        """Every row of every ledger that says what was spent or told."""
        found = {}
        for party in self.site.parties:
            with SqliteLedger.open(self.site.members[party].path / "ledger.sqlite") as ledger:
                found[party] = [one for one in ledger.entries() if one.kind in ("debit", "reserve", "nonprivate")]
        return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@pytest.fixture(scope="module")
def truth() -> dict[str, tuple[np.ndarray, float]]:
    """What every study finds undisturbed, in one process, and how far from it is right: twenty times the spread of four draws."""
    tables, found = every_study.tables(), {}
    parties = {name: cn.Party(tables[name], schema=schema) for name, schema in every_study.SCHEMAS.items()}
    with cn.Federation.simulate(parties, id="person_id", budget=cn.Budget(epsilon=10_000.0, delta=1e-5)) as f:
        for name in every_study.STUDIES:
            draws = np.array([every_study.outcome(f, name, repeat)["figures"] for repeat in (1, 2, 3, 4)])
            spread = np.abs(draws - draws.mean(axis=0)).max()
            found[name] = draws.mean(axis=0), 20 * spread + 1e-3 * np.abs(draws).max()
    return found


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory):
    made = Disturbed(tmp_path_factory.mktemp("n"))
    try:
        yield made
    finally:
        made.close()


def check(name: str, result: dict, truth: dict, paid: dict[str, list]) -> None:
    """Right, and every row once."""
    for rows in paid.values():
        assert max(collections.Counter(row.label for row in rows).values(), default=0) <= 1
    assert "figures" in result, result
    expected, within = truth[name]
    np.testing.assert_allclose(result["figures"], expected, rtol=0, atol=within)
    assert all(paid[party] for party in result["parties"])


def check_failure(result: dict, paid: dict[str, list]) -> None:
    """Nothing is lost: what was cut short can be asked for again. And the text says what the ledgers say."""
    assert result["code"] in TYPED, result
    spent = {
        party: total(row.loss for row in rows if row.loss).epsilon(1e-5)
        for party, rows in paid.items()
        if party not in result["unknown"] and any(row.loss for row in rows)
    }
    cost = Cost(spent, tuple(result["unknown"]))
    assert (f"Spent: {cost.words}." if cost != Cost() else "Nothing was spent.") in result["text"], (result, spent)


@pytest.mark.full
def test_nothing_is_lost_and_everything_is_paid_once_whatever_is_killed(disturbed, truth, capsys):
    """COLONNADE_KILLS says how many; 40 by default. A study that was cut short is asked for again, and ends right."""
    generator, usual, ends = kit.generator("kills"), {}, collections.Counter()
    names, members = list(every_study.STUDIES), list(disturbed.site.members)
    for name in names:  # how long each takes undisturbed
        start = time.monotonic()
        disturbed.coordinator.ask(name, 1)
        assert "figures" in disturbed.coordinator.answer(), name
        usual[name] = time.monotonic() - start
    for number in range(KILLS):
        name = names[number % len(names)]
        role = str(generator.choice(["guard", "relay", "supervisor", "coordinator"], p=[0.4, 0.25, 0.15, 0.2]))
        member = NODE if generator.random() < 0.25 else str(generator.choice(members))
        before = {party: len(rows) for party, rows in disturbed.rows().items()}
        disturbed.coordinator.ask(name, number + 2)
        time.sleep(float(generator.uniform(0.0, usual[name])))
        disturbed.kill(role, member)
        if role == "coordinator":
            disturbed.coordinator.start()
            disturbed.coordinator.ask(name, number + 2)
        result = disturbed.coordinator.answer()
        disturbed.settled()
        ends[result.get("code", "right")] += 1
        if "code" in result:
            if role != "coordinator":  # of the first call nobody was left to say what it cost
                check_failure(result, {party: rows[before[party] :] for party, rows in disturbed.rows().items()})
            disturbed.coordinator.ask(name, number + 2)
            result = disturbed.coordinator.answer()
        check(name, result, truth, {party: rows[before[party] :] for party, rows in disturbed.rows().items()})
    statuses = {
        event["status"]
        for member in members
        for event in disturbed.site.events(member, "exited")
        if event["child"] in ("guard", "relay")
    }
    assert statuses <= {-signal.SIGKILL}
    with capsys.disabled():
        sys.stdout.write(f"\n{KILLS} kills {dict(disturbed.killed)}: {dict(ends)}\n")
