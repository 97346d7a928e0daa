"""`colonnade doctor`: sound machines pass, and each fault that it looks for is found."""

import builtins
import os
import socket
import time
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade.errors import LedgerCorrupt
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.privacy import samplers
from colonnade.protocol.agreement import CoordinatorAddress, FederationAgreement
from colonnade.service import checks as doctor
from colonnade.service import health
from colonnade.service.federation_setup import CertificateAuthority
from colonnade.service.health import run_checks
from colonnade.service.party_folder import PartyFolder
from colonnade.transport.kit import Kit
from tests.cli.studies import call
from tests.service.certificates import DAY, Clock, certified


def test_what_is_needed_is_what_the_package_requires() -> None:
    required = {text.partition(">")[0] for text in metadata.requires("colonnade") or [] if "extra ==" not in text}
    assert set(doctor.NEEDED) == required


def test_every_extra_that_an_installation_may_have_is_reported() -> None:
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert set(doctor.OPTIONAL.values()) == set(extras) - {"docs", "dev"}
    for name, extra in doctor.OPTIONAL.items():
        assert any(one.startswith(name) for one in extras[extra]), name


def repeating(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "urandom", lambda count: bytes(count))


def stopped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(time, "monotonic", lambda: 1.0)


def long_ago(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(time, "time", lambda: 86_400.0)


def other_draws(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(doctor.KNOWN_ANSWERS, "gaussian", [0] * 8)


def half_noise(patch: pytest.MonkeyPatch) -> None:
    exact = samplers.discrete_gaussian
    patch.setattr(
        doctor,
        "discrete_gaussian",
        lambda variance, size, source: exact(variance, size, source) // (2 if size == 20_000 else 1),
    )


def no_fsync(patch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise LedgerCorrupt("The ledger cannot be written durably; nothing was released.")

    patch.setattr(SqliteLedger, "debit", fails)


def no_room(patch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    patch.setattr(doctor.tempfile, "TemporaryDirectory", fails)


def wrong_products(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(np, "array_equal", lambda *_: False)


def no_numba(patch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name == "numba":
            raise ImportError(name)
        return real(name, *rest, **more)

    patch.setattr(builtins, "__import__", absent)


def missing_package(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(doctor, "NEEDED", ("a-package-that-nobody-wrote",))


def other_signatures(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(doctor.RFC_8032, "signature", "00" * 64)


def no_ports(patch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise PermissionError

    patch.setattr(doctor.socket.socket, "bind", fails)


def full_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(health, "LEAST_FREE", 2**80)


def old_python(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(doctor, "OLDEST_PYTHON", (99, 0))


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (repeating, "entropy"),
        (stopped, "clock"),
        (long_ago, "clock"),
        (other_draws, "samplers"),
        (half_noise, "samplers"),
        (no_fsync, "disk"),
        (no_room, "disk"),
        (full_disk, "disk"),
        (other_signatures, "keys"),
        (no_ports, "ports"),
        (wrong_products, "algebra"),
        (no_numba, "compiler"),
        (missing_package, "packages"),
        (old_python, "python"),
    ],
)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], check: str, tmp_path: Path) -> None:
    examine = dict(doctor.machine_checks(tmp_path))[check]
    assert next(run_checks([(check, examine)]))[1]
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        name, sound, words = next(run_checks([(check, examine)]))
    assert (name, sound) == (check, False)
    assert words


@pytest.fixture
def member(tmp_path: Path) -> PartyFolder:
    """A party's folder with data, schema, policy, ledger and signed papers of its own."""
    data = tmp_path / "bank.csv"
    data.write_text("person_id,age\n1,40\n2,50\n", encoding="utf-8")
    folder = PartyFolder.create(tmp_path / "bank", name="bank", role="data")
    folder.write_templates(data, "person_id")
    schema = tmp_path / "bank" / "schema.toml"
    schema.write_text(schema.read_text() + "age = { lower = 18, upper = 95 }\n", encoding="utf-8")
    others = {name: PartyFolder.create(tmp_path / name, name=name, role="compute") for name in ("one", "two")}
    members = {"bank": folder.card(), **{name: other.card() for name, other in others.items()}}
    papers = FederationAgreement(
        name="test", coordinator=CoordinatorAddress(host="127.0.0.1", port=1), members=members, collusion=0, threshold=1
    )
    for name, one in {"bank": folder, **others}.items():
        papers = papers.signed_by(name, one.identity())
    folder.papers.write_text(papers.text(), encoding="utf-8")
    return folder


def test_a_member_in_order_passes_and_no_secret_is_printed(member: PartyFolder, tmp_path: Path) -> None:
    result = call("doctor", "--directory", tmp_path, "--party", member.path)
    assert result.exit_code == 0, result.output
    assert "the papers name it" in result.output
    assert "1 columns, as in the papers" in result.output
    assert "all members have signed" in result.output
    assert "AWAY  coordinator  127.0.0.1:1 does not answer" in result.output  # not "ok", and no fault of this machine
    assert (member.path / "identity.key").read_text().strip() not in result.output


def readable(member: PartyFolder) -> None:
    (member.path / "identity.key").chmod(0o644)


def another_key(member: PartyFolder) -> None:
    (member.path / "identity.key").write_text("11" * 32)


def another_schema(member: PartyFolder) -> None:
    path = member.path / "schema.toml"
    path.write_text(path.read_text().replace("upper = 95", "upper = 96"), encoding="utf-8")


def damaged(member: PartyFolder) -> None:
    path = member.path / "ledger.sqlite"
    path.write_bytes(path.read_bytes()[:-4096] + bytes(4096))


@pytest.mark.parametrize(
    ("fault", "check"),
    [(readable, "identity"), (another_key, "identity"), (another_schema, "schema"), (damaged, "ledger")],
)
def test_a_fault_of_a_member_is_found(
    fault: Callable[[PartyFolder], None], check: str, member: PartyFolder, tmp_path: Path
) -> None:
    fault(member)
    result = call("doctor", "--directory", tmp_path, "--party", member.path)
    assert result.exit_code == 1
    assert f"WRONG {check}" in result.output


def expiring(member: PartyFolder, days: float) -> None:
    """Give a member a certificate that has so many days left."""
    clock = Clock(time.time() - (360 - days) * DAY)
    kit = Kit(member.path / "kit", clock=clock)
    certified(CertificateAuthority.create(member.path.parent / "authority", clock=clock), kit, "bank")


def test_a_certificate_that_is_over_is_a_fault(member: PartyFolder, tmp_path: Path) -> None:
    expiring(member, -0.5)
    result = call("doctor", "--directory", tmp_path, "--party", member.path)
    assert result.exit_code == 1
    assert "WRONG certificate" in result.output
    assert "The certificate of bank (client.crt) expired on" in result.output


def test_a_coordinator_that_answers_is_ok_and_one_that_does_not_is_not(member: PartyFolder) -> None:
    """Before, doctor said ok of a coordinator that does not answer."""
    found = dict(doctor.member_checks(member.path))["coordinator"]
    with pytest.raises(doctor.CheckFailed, match="does not answer"):
        found()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        port = listener.getsockname()[1]
        member.papers.write_text(member.papers.read_text().replace("port = 1\n", f"port = {port}\n"))
        assert found() == f"127.0.0.1:{port} answers"
