"""Three organisations and a coordinator as separate processes on this machine: papers, certificates, a study, shut-down.

    python examples/three-organisations/run.py            (needs colonnade[network])

It runs the thirteen commands of docs/tutorials/first-federation.md, as they stand there, in a temporary folder. Every line that
starts with $ is a command that you would type on the machine of its owner. Here all of them run on one machine and talk over the
loopback interface with real certificates.
"""

import contextlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "tutorials" / "first-federation.md"


def commands() -> list[str]:
    """Return the commands of the page's transcript."""
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = block.replace("\\\n", " ").splitlines()
    return [" ".join(line[2:].split()) for line in lines if line.startswith("$ ")]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def run(work: Path) -> None:
    """Run the transcript in a folder that has the files beside this one; end whatever it started."""
    for path in HERE.iterdir():
        if path.suffix in (".toml", ".py"):
            shutil.copy(path, work / path.name)
    port, served = free_port(), []
    try:
        for command in commands():
            print(f"$ {command}", flush=True)
            words = shlex.split(command.replace("--port 8002", f"--port {port}").removesuffix("&"))
            start = [sys.executable, "-m", "colonnade.cli"] if words[0] == "colonnade" else [sys.executable]
            line = [*start, *words[1:]]
            if not command.endswith("&"):
                subprocess.run(line, cwd=work, check=True)
                continue
            with (work / f"{words[3]}.log").open("ab") as log:
                served.append(subprocess.Popen(line, cwd=work, stdout=log, stderr=log, start_new_session=True))
    finally:
        for process in served:
            process.send_signal(signal.SIGTERM)
        for process in served:
            process.wait(30)
    print("# All processes have ended.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="colonnade-three-") as name, contextlib.chdir(name):
        run(Path(name))
