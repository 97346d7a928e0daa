"""What an operator relies on: health checks, metrics, permissions, one process per folder, logs that can be rotated."""

import re
import urllib.error
import urllib.request

import pytest

import colonnade as cn
from colonnade.errors import AlreadyRunning, DiskFull, LoosePermissions, error_for
from colonnade.protocol import messages
from colonnade.runtime.event_log import read_events, write_status
from colonnade.runtime.private_files import lock_folder, replace_file, write_new
from colonnade.service import health
from tests.cli.studies import call
from tests.service.lines import free_port, until
from tests.service.served import Site, unserved

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("n"), parties=("bank", "telco"), nodes=("auditor",))
    made.port = free_port()
    made.log = made.folder / "bank.log"
    made.start(bank={"health_port": made.port, "log": str(made.log)})
    try:
        yield made
    finally:
        made.stop()


def asked(site: Site, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{site.port}{path}", headers={"Host": f"{host}:{site.port}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError:
        return 0, ""


def shown_of_the_coordinator(site: Site) -> str:
    return call("coordinator", "status", str(site.folder / "coordinator-state")).output


def counts(**options) -> cn.PatternCount:
    return cn.PatternCount(["bank.segment", "telco.plan"], epsilon=0.01, **options)


# Health --------------------------------------------------------------------------------------------------------------


def test_a_member_without_a_coordinator_is_live_and_not_ready_and_both_say_so(site):
    bank = str(site.members["bank"].path)
    until(lambda: asked(site, "/live")[0] == 200, what="the bank being live")
    assert call("party", "status", bank, "--live").exit_code == 0
    until(lambda: "waiting for" in asked(site, "/ready")[1], what="the relay running")
    shown = call("party", "status", bank, "--ready")
    assert shown.exit_code == 1
    assert shown.output == "WRONG connection   waiting for the coordinator\n"
    status, text = asked(site, "/ready")
    assert status == 503
    assert [line.split()[:2] for line in text.splitlines()] == [
        ["ok", "guard"], ["ok", "ledger"], ["WRONG", "connection"], ["ok", "certificate"], ["ok", "disk"], ["ok", "clock"],
    ]  # fmt: skip
    with site.connect() as federation:
        federation.budget()
        until(lambda: asked(site, "/ready")[0] == 200, what="the bank being ready")
        assert call("party", "status", bank, "--ready").exit_code == 0
        assert "client.crt expires on" in call("party", "status", bank).output
        members = ("coordinator", "bank", "telco", "auditor")
        certificates = [f"certificate of {name}: expires on" for name in members]
        until(
            lambda: all(ends in shown_of_the_coordinator(site) for ends in certificates),
            what="every certificate being seen",
        )


def test_a_guard_that_does_not_run_is_not_live(site, tmp_path):
    assert call("party", "status", str(site.members["bank"].path), "--live").exit_code == 0
    made = Site(tmp_path, parties=("bank", "telco"))
    shown = call("party", "status", str(made.members["bank"].path), "--live")
    assert shown.exit_code == 1
    assert "WRONG guard" in shown.output


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (lambda patch: patch.setattr(health, "LEAST_FREE", 2**80), "disk"),
        (lambda patch: patch.setattr(health.time, "time", lambda: 86_400.0), "clock"),
        (lambda patch: patch.setattr(health.time, "time", lambda: 4e9), "certificate"),
    ],
)
def test_each_thing_that_a_study_needs_is_looked_at(fault, check, site, monkeypatch):
    folder = site.members["bank"].path
    until(lambda: asked(site, "/live")[0] == 200, what="the bank being live")
    before = {name for name, sound, _ in health.run_checks(health.ready_checks(folder)) if not sound}
    assert check not in before
    fault(monkeypatch)
    assert check in {name for name, sound, _ in health.run_checks(health.ready_checks(folder)) if not sound}


# Metrics -------------------------------------------------------------------------------------------------------------

KINDS = {kind.__name__ for kind in messages.Request.__args__} | {"malformed"}
LINE = re.compile(r'(\w+)\{member="bank"(?:,(\w+)="([\w.-]+)")?\} (\S+)')


def test_metrics_have_a_fixed_vocabulary_and_count_what_happened(site):
    with site.connect() as federation:
        counts().fit(federation)
        with pytest.raises(cn.ColonnadeError):
            cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1_000.0).fit(federation)
        spent = federation.budget().loc["bank", "spent"]
        until(lambda: asked(site, "/ready")[0] == 200, what="the bank being ready")
        until(lambda: "budget-exceeded" in asked(site, "/metrics")[1], what="the refusal being counted")
        text = asked(site, "/metrics")[1]
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            name, words = line.split()[2], line.split(maxsplit=3)[3]
            assert words in health.METRICS[name]
            continue
        name, label, value, number = LINE.fullmatch(line).groups()
        assert name in health.METRICS
        assert label in (None, "request", "code", "direction", "certificate")
        if label == "request":
            assert value in KINDS
        if label == "code":
            assert error_for(value).code == value
        found[name, value] = float(number)
    assert found["colonnade_up", None] == found["colonnade_connected", None] == 1
    assert found["colonnade_requests_total", "Propose"] >= 2
    assert found["colonnade_rounds_total", None] > 0
    assert found["colonnade_refusals_total", "budget-exceeded"] >= 1
    assert found["colonnade_bytes_total", "in"] > 0
    assert found["colonnade_epsilon_spent", None] == pytest.approx(spent, rel=1e-6)
    assert found["colonnade_epsilon_spent", None] + found["colonnade_epsilon_left", None] == pytest.approx(10.0)
    assert 359 < found["colonnade_certificate_days_left", "client.crt"] <= 360


# Logs ----------------------------------------------------------------------------------------------------------------


def test_a_members_log_says_what_it_answered_and_goes_on_in_a_new_file_when_it_is_rotated(site):
    with site.connect() as federation:
        study = counts().fit(federation, repeat=7)
        first = [event for event in read_events(site.log) if event.event == "answered"]
        assert first
        site.log.rename(site.folder / "bank.log.1")
        counts().fit(federation, repeat=8)
    until(lambda: [event for event in read_events(site.log) if event.event == "answered"], what="the new log")
    assert site.log.stat().st_mode & 0o777 == 0o600
    assert {event.process for event in first} == {"guard"}
    named = {event.fields["study"] for event in first if "study" in event.fields}
    assert messages.digest(study.plan_).hex()[:12] in named
    assert all(re.fullmatch("[0-9a-f]{12}", name) for name in named)
    assert not {event.fields["request"] for event in first} & {"GetAccount", "GetDescription"}
    assert not [line for line in site.log.read_text().splitlines() if "platinum" in line or "basic" in line]


# One process per folder, and permissions -----------------------------------------------------------------------------


def test_a_second_process_on_one_folder_is_refused_and_the_first_goes_on(site):
    until(lambda: asked(site, "/live")[0] == 200, what="the bank being live")
    refused = call("party", "serve", str(site.members["bank"].path))
    assert refused.exit_code == 1
    assert "[already-running]" in refused.output
    holder = (site.members["bank"].path / "serve.lock").read_text().strip()
    assert f"kill {holder}" in refused.output
    assert asked(site, "/live")[0] == 200


def test_a_lock_ends_with_its_process(tmp_path):
    with lock_folder(tmp_path), pytest.raises(AlreadyRunning), lock_folder(tmp_path):
        pass
    with lock_folder(tmp_path):
        pass


LOOSE = {
    ".": 0o755,
    "identity.key": 0o640,
    "test.key": 0o604,
    "policy.toml": 0o664,
    "schema.toml": 0o646,
    "federation.toml": 0o666,
    "member.toml": 0o620,
    "kit": 0o750,
    "kit/client.key": 0o644,
}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", LOOSE)
def test_what_others_could_read_or_change_is_refused_with_the_command_to_type(name, tmp_path):
    member = unserved(tmp_path, parties=("bank", "telco")).members["bank"]
    member.require_safe()
    path = member.path / name
    before = path.stat().st_mode & 0o777
    path.chmod(LOOSE[name])
    with pytest.raises(LoosePermissions) as refused:
        member.require_safe()
    command = re.search(r"chmod (\S+) (\S+)$", refused.value.remedy)
    assert command is not None
    served = call("party", "serve", str(member.path))
    assert served.exit_code == 1
    assert "[loose-permissions]" in served.output
    shown = call("doctor", "--directory", str(tmp_path), "--party", str(member.path))
    assert "WRONG permissions" in shown.output
    path.chmod(before if command[1] == "go-w" else int(command[1], 8))
    member.require_safe()


# A full disk ---------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_reported_as_what_it_is_and_leaves_what_was_there(tmp_path, monkeypatch):
    replace_file(tmp_path / "heads", b"before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DiskFull, match="cannot be written: the disk is full") as refused:
        replace_file(tmp_path / "heads", b"after")
    assert "Make room" in refused.value.remedy
    assert "do not put a back-up in its place" in refused.value.remedy
    with pytest.raises(DiskFull):
        write_new(tmp_path / "new", b"content")
    assert (tmp_path / "heads").read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["heads"]


def test_why_a_guard_has_stopped_is_for_its_owner_and_no_monitor_passes_it_on(tmp_path):
    """The reason may count rows. A monitor is asked by every user of the machine, and hands on what it hears."""
    folder, reason = unserved(tmp_path, parties=("bank", "telco")).members["bank"].path, "of 300 ids, 3 repeated"
    write_status(folder / "guard.status", {"pid": 1, "stopped": reason})
    for checks in (health.live_checks(folder), health.ready_checks(folder)):
        told = {name: words for name, sound, words in health.run_checks(checks) if not sound}
        assert "party status" in told["guard"]
        assert reason not in " ".join(told.values())
    assert reason not in health.metrics(health.member_status(folder))
    assert reason not in call("party", "status", str(folder), "--live").output
    assert reason in call("party", "status", str(folder)).output
