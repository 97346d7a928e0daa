"""What is installed from `packaging/`: no rights, nothing writable but the data, no secrets; the image's steps, carried out."""

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from colonnade._version import __version__
from colonnade.cli import app
from colonnade.errors import error_for
from colonnade.service.health import METRICS

yaml = pytest.importorskip("yaml", reason="comes with the extra colonnade[network]")

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
FILES = sorted(path for path in PACKAGING.rglob("*") if path.is_file())
USER = 65_532


def instructions() -> list[tuple[str, str]]:
    """The lines of the Containerfile as (instruction, rest)."""
    text = (PACKAGING / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, " ".join(rest.split())) for word, _, rest in (line.partition(" ") for line in lines)]


def stages() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for word, rest in instructions():
        if word == "FROM":
            found[rest.split(" AS ")[1]] = [(word, rest)]
        elif found:
            next(reversed(found.values())).append((word, rest))
    return found


def documents(name: str) -> list[dict]:
    return [one for one in yaml.safe_load_all((PACKAGING / name).read_text()) if one is not None]


def is_a_command(words: list[str]) -> bool:
    """Whether the command line knows these words, up to the first path or option."""
    import typer

    group = typer.main.get_command(app)
    for word in words:
        if not hasattr(group, "commands"):
            known = {option for parameter in group.params for option in parameter.opts}
            assert not word.startswith("--") or word in known, word
            continue
        group = group.commands[word]
    return not hasattr(group, "commands")


# Everything ----------------------------------------------------------------------------------------------------------


def test_nothing_that_is_installed_holds_a_secret():
    for path in FILES:
        text = path.read_text()
        assert not re.search(
            r"PRIVATE KEY|identity\.key\s*[:=]|\b(password|secret|token)\s*[:=]\s*\S", text, flags=re.IGNORECASE
        ), path
        assert not re.search(r"^kind: Secret$", text, flags=re.MULTILINE), path
        assert not re.search(r"\b[0-9a-f]{64}\b", text), path


# The image -----------------------------------------------------------------------------------------------------------


def test_both_images_run_as_a_user_without_rights():
    made = stages()
    assert {"party", "coordinator"} <= set(made)
    users = [rest for word, rest in made["base"] if word == "USER"]
    assert users == [f"{USER}:{USER}"]
    for name in ("party", "coordinator"):
        assert made[name][0] == ("FROM", f"base AS {name}")
        assert not [word for word, _ in made[name] if word in ("USER", "RUN", "COPY", "ADD")]
    last = [word for word, _ in made["base"]]
    assert last.index("USER") > max(number for number, word in enumerate(last) if word in ("RUN", "COPY"))


def test_the_image_is_made_of_the_package_and_the_tested_versions_alone():
    copied = [rest for word, rest in stages()["build"] if word == "COPY"]
    assert copied == [
        "pyproject.toml README.md LICENSE ./",
        "requirements/tested.txt requirements/tested.txt",
        "src src",
    ]
    assert not [word for word, _ in instructions() if word == "ADD"]
    installs = [rest for word, rest in instructions() if word == "RUN" and "pip install" in rest]
    assert len(installs) == 1
    assert "-c requirements/tested.txt" in installs[0]
    assert '".[network]"' in installs[0]
    assert not re.search(r"curl|wget|https?://", (PACKAGING / "Containerfile").read_text())
    assert not [rest for word, rest in instructions() if word == "ARG" and rest.endswith(":latest")]


@pytest.mark.parametrize("name", ["party", "coordinator"])
def test_what_a_container_runs_is_a_command_of_ours(name):
    entry = next(rest for word, rest in stages()["base"] if word == "ENTRYPOINT")
    assert yaml.safe_load(entry) == ["colonnade"]
    assert is_a_command(yaml.safe_load(next(rest for word, rest in stages()[name] if word == "CMD")))
    for word, rest in stages()[name]:
        if word == "HEALTHCHECK":
            command = yaml.safe_load(rest.split("CMD ")[1])
            assert command[0] == "colonnade"
            assert "--live" in command
            assert is_a_command(command[1:])


# Compose -------------------------------------------------------------------------------------------------------------


def test_every_service_is_read_only_and_without_rights_and_reaches_the_coordinator_alone():
    (compose,) = documents("compose.yaml")
    assert set(compose["services"]) == {"bank", "telco", "insurer", "coordinator"}
    for name, service in compose["services"].items():
        assert service["user"] == f"{USER}:{USER}"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["volumes"] == [f"{name}:/data"]
        assert not {"ports", "privileged", "environment", "env_file", "cap_add", "network_mode"} & set(service)
        assert service["build"]["target"] in stages()
        assert (PACKAGING / service["build"]["context"] / service["build"]["dockerfile"]).resolve().is_file()
    members = {name: set(service["networks"]) for name, service in compose["services"].items()}
    coordinator = members.pop("coordinator")
    for name, networks in members.items():
        assert networks == {name}
        assert networks <= coordinator
    assert all(network == {"internal": True} for network in compose["networks"].values())


# Units ---------------------------------------------------------------------------------------------------------------

UNITS = sorted((PACKAGING / "systemd").glob("*.service"))
WANTED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "UMask": "0077",
    "StateDirectoryMode": "0700",
    "User": "colonnade",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
}


def unit(path: Path) -> configparser.ConfigParser:
    read = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    read.optionxform = str
    read.read_string(path.read_text())
    return read


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_gives_its_service_nothing_but_its_folder(path):
    service = unit(path)["Service"]
    for key, value in WANTED.items():
        assert service[key] == value, key
    words = service["ExecStart"].split()
    assert words[0] == "/opt/colonnade/bin/colonnade"
    assert is_a_command(words[1:])
    assert not {"EnvironmentFile", "LoadCredential", "ReadWritePaths"} & set(service)


# Kubernetes ----------------------------------------------------------------------------------------------------------


def test_a_pod_is_read_only_without_rights_listens_to_nobody_and_is_never_two():
    found = {one["kind"]: one for one in documents("kubernetes/party.yaml")}
    assert set(found) == {"ServiceAccount", "PersistentVolumeClaim", "StatefulSet", "NetworkPolicy"}
    assert found["ServiceAccount"]["automountServiceAccountToken"] is False
    assert found["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteOncePod"]
    spec = found["StatefulSet"]["spec"]
    assert spec["replicas"] == 1
    pod = spec["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == USER
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"env", "envFrom", "ports"} & set(container)
    assert container["image"] == f"colonnade-party:{__version__}"
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/data", "/tmp"}
    assert is_a_command(container["args"])
    for probe, word in (("livenessProbe", "--live"), ("readinessProbe", "--ready")):
        command = container[probe]["exec"]["command"]
        assert command[0] == "colonnade"
        assert command[-1] == word
        assert is_a_command(command[1:])
    rules = found["NetworkPolicy"]["spec"]
    assert rules["ingress"] == []
    assert {port["port"] for rule in rules["egress"] for port in rule["ports"]} == {8002, 53}
    labels = spec["template"]["metadata"]["labels"]
    assert rules["podSelector"]["matchLabels"] == labels == spec["selector"]["matchLabels"]


# Alerts and logs -----------------------------------------------------------------------------------------------------


def test_alerts_are_about_metrics_and_codes_that_exist():
    (alerts,) = documents("prometheus/alerts.yaml")
    for rule in alerts["groups"][0]["rules"]:
        names = set(re.findall(r"colonnade_\w+", rule["expr"]))
        assert names
        assert names <= set(METRICS)
        for codes in re.findall(r'code=~"([^"]+)"', rule["expr"]):
            assert all(error_for(code).code == code for code in codes.split("|"))
    assert "colonnade_certificate_days_left < 30" in [rule["expr"] for rule in alerts["groups"][0]["rules"]]


# The image's steps, in an environment of their own -------------------------------------------------------------------


@pytest.mark.full
def test_the_images_steps_make_an_environment_that_works(tmp_path):
    """The build stage line by line: a copy of what it copies, its commands with other paths, then the command line itself."""
    place, target = tmp_path / "build", tmp_path / "colonnade"
    place.mkdir()
    for word, rest in stages()["build"]:
        if word == "COPY":
            *sources, aim = rest.split()
            for source in sources:
                into = place / aim / Path(source).name if aim.endswith("/") else place / aim
                into.parent.mkdir(parents=True, exist_ok=True)
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, into, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / source, into)
        elif word == "RUN":
            command = rest.replace("/opt/colonnade", str(target)).replace("python -m venv", f"{sys.executable} -m venv")
            done = subprocess.run(command, shell=True, cwd=place, capture_output=True, text=True, check=False)
            if done.returncode and re.search(
                r"No matching distribution|Could not find a version|Connection", done.stderr
            ):
                pytest.skip("the packages that an image is made of cannot be fetched here")
            assert done.returncode == 0, done.stderr[-2_000:]
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    clean |= {"NUMBA_CACHE_DIR": str(tmp_path / "numba"), "OPENBLAS_NUM_THREADS": "1"}
    for words in (
        ["--version"],
        ["doctor", "--directory", str(tmp_path)],
        ["party", "init", "a", "--name", "a", "--node"],
    ):
        line = [str(target / "bin" / "colonnade"), *words]
        done = subprocess.run(line, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "a" / "card.toml").is_file()
