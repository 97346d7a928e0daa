"""A federation on hosts of its own: network namespaces with an address each, a bridge between them, and a link that can be cut.

Run as a program inside a fresh network and mount namespace (`unshare -n -m`), so that everything it makes goes with it.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

COORDINATOR = "10.77.0.1"
NAME = "coordinator.test"


def sh(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)


def lay_cables(folder: Path, parties: tuple[str, ...]) -> None:
    """One bridge, and one namespace with an address for each party."""
    Path("/run/netns").mkdir(parents=True, exist_ok=True)
    sh("mount", "-t", "tmpfs", "none", "/run/netns")
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{COORDINATOR} {NAME}\n")
    sh("mount", "--bind", str(folder / "hosts"), "/etc/hosts")
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "link", "add", "bridge0", "type", "bridge")
    sh("ip", "addr", "add", f"{COORDINATOR}/24", "dev", "bridge0")
    sh("ip", "link", "set", "bridge0", "up")
    for number, party in enumerate(parties):
        sh("ip", "netns", "add", party)
        sh("ip", "link", "add", f"v-{party}", "type", "veth", "peer", "name", "eth0", "netns", party)
        sh("ip", "link", "set", f"v-{party}", "master", "bridge0", "up")
        sh("ip", "netns", "exec", party, "ip", "addr", "add", f"10.77.0.{10 + number}/24", "dev", "eth0")
        sh("ip", "netns", "exec", party, "ip", "link", "set", "eth0", "up")


def main() -> None:
    folder = Path(sys.argv[1])
    parties = ("bank", "telco", "insurer")
    lay_cables(folder, parties)
    if sys.argv[2] == "probe":
        sys.stdout.write("able\n")
        return
    import numpy as np

    import colonnade as cn
    from tests.service.served import Site, simulated
    from tests.service.test_survival import At

    site = Site(folder / "site", host=NAME, port=8002)
    served = []
    for party in parties:
        with (folder / f"{party}.log").open("wb") as log:
            command = [sys.executable, "-m", "colonnade.cli", "party", "serve", str(site.members[party].path)]
            words = ["ip", "netns", "exec", party, *command]
            served.append(subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT))

    def cut() -> None:
        sh("ip", "link", "set", "v-telco", "down")
        threading.Timer(3.0, sh, ("ip", "link", "set", "v-telco", "up")).start()

    try:
        with simulated(site) as here, site.connect(patience=120.0) as there:
            there._driver.transport = At(there._driver.transport, 1, cut)
            start = time.monotonic()
            one, other = (cn.PCA(1, epsilon=1.0, delta=1e-6).fit(federation) for federation in (here, there))
            agree = bool(np.array_equal(one.components_, other.components_))
            spent = bool(here.budget().equals(there.budget()))
            seconds = time.monotonic() - start
        sys.stdout.write(json.dumps({"agree": agree, "spent": spent, "seconds": seconds}) + "\n")
        sys.stdout.flush()
    finally:
        for process in served:
            process.terminate()
        for process in served:
            process.wait(30)
    os._exit(0)


if __name__ == "__main__":
    main()
