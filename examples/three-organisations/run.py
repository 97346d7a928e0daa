"""Three organisations and a coordinator as separate processes on this machine: papers, certificates, a study, shut-down.

    python examples/three-organisations/run.py            (needs colonnade[network])

Every line that starts with $ is a command that you would type on the machine of its owner. Here all of them run on
one machine, in a temporary folder, and talk over the loopback interface with real certificates.
"""

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from colonnade.cli import app
from colonnade.datasets.synthetic import three_organisations
from colonnade.schema import Category

HERE = Path(__file__).parent


def colonnade(*arguments: str, output: Path | None = None) -> None:
    """Run one command of the command line in this process, which saves the time of importing it again."""
    print(f"$ colonnade {' '.join(arguments)}{f' > {output.name}' if output else ''}", flush=True)
    with contextlib.ExitStack() as stack:
        if output is not None:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(output.open("w"))))
        status = app(list(arguments), standalone_mode=False)
    if status:
        raise SystemExit(status)


def fill_in(folder: Path, columns: dict) -> None:
    """What each organisation does by hand: state public bounds and levels, and a policy of its own."""
    lines = [
        f"{name} = {{ levels = {list(column.levels)!r} }}"
        if isinstance(column, Category)
        else f"{name} = {{ lower = {column.lower}, upper = {column.upper}, integer = {str(column.integer).lower()} }}"
        for name, column in columns.items()
    ]
    schema = folder / "schema.toml"
    schema.write_text(schema.read_text().split("[columns]")[0] + "[columns]\n" + "\n".join(lines) + "\n")

    (folder / "policy.toml").write_text((HERE / "policy.toml").read_text())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="colonnade-three-") as name, contextlib.chdir(name):
        run(Path(name))


def run(work: Path) -> None:
    organisations = three_organisations(people=2_000)

    print("\n# At each organisation: a folder with its key, its schema, its policy, and a checked copy of its table")
    for name, organisation in organisations.items():
        organisation.frame.to_csv(work / f"{name}.csv", index=False)
        colonnade("party", "init", name, "--name", name, "--data", f"{name}.csv", "--id", organisations.id)
        fill_in(work / name, dict(organisation.schema))
        colonnade("party", "load", name, f"{name}.csv")
        colonnade("party", "card", name, output=work / f"{name}.card.toml")

    print("\n# At the member that draws up the papers: federation.toml, and a start-up kit for each site")
    cards = [word for name in organisations for word in ("--card", f"{name}.card.toml")]
    colonnade("federation", "init", "federation", "--host", "localhost", "--port", str(free_port()), *cards)

    print(
        "\n# At each organisation: read the papers, sign them; then everybody gets the signed papers and their own kit"
    )
    for name in organisations:
        colonnade("federation", "sign", "federation/federation.toml", "--party", name)
    colonnade("federation", "check", "federation/federation.toml")
    for name in organisations:
        (work / name / "federation.toml").write_text((work / "federation" / "federation.toml").read_text())
        (work / name / "kit").symlink_to(work / "federation" / "kits" / name)

    print("\n# At each organisation: guard and relay, two processes under one supervisor")
    served = {name: serve(work, name) for name in organisations}
    try:
        print("\n# At the coordinator: align the rows without handing over the lists, then run the studies")
        (work / "study.toml").write_text((HERE / "study.toml").read_text())
        colonnade("coordinator", "run", "study.toml", "--output", "results.json")
        print("\n# Again: everything comes from what the parties kept; nothing is spent")
        colonnade("coordinator", "run", "study.toml", "--output", "again.json")
        colonnade("coordinator", "status", "federation/coordinator-state")
        print("\n# At the bank: what was asked of it, and what its own ledger says")
        colonnade("party", "status", "bank")
        colonnade("ledger", "verify", "bank/ledger.sqlite")
    finally:
        for process in served.values():
            process.send_signal(signal.SIGTERM)
        for process in served.values():
            process.wait(30)
    print("\n# All processes have ended.")


def serve(work: Path, name: str) -> subprocess.Popen[bytes]:
    print(f"$ colonnade party serve {name} &", flush=True)
    with (work / name / "serve.log").open("ab") as log:
        command = [sys.executable, "-m", "colonnade.cli", "party", "serve", name]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


if __name__ == "__main__":
    main()
