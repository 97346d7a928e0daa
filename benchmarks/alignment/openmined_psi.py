"""OpenMined PSI on the same lists: both parties in this process, one thread; seconds and bytes as one line of JSON.

Not run by hand: ``run.py`` starts it with a Python that has openmined-psi. Standard input is JSON with ``ids``.
"""

import json
import sys
import time

import private_set_intersection.python as psi


def main() -> None:
    count = json.load(sys.stdin)["ids"]
    half = count // 2
    own = [f"person-{k}" for k in range(half)] + [f"only-0-{k}" for k in range(count - half)]
    other = [f"person-{k}" for k in range(half)] + [f"only-1-{k}" for k in range(count - half)]
    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    begin, clock = time.process_time(), time.perf_counter()
    setup = server.CreateSetupMessage(1e-9, count, other, psi.DataStructure.RAW)
    request = client.CreateRequest(own)
    response = server.ProcessRequest(request)
    found = client.GetIntersection(setup, response)
    used, passed = time.process_time() - begin, time.perf_counter() - clock
    sent = sum(len(message.SerializeToString()) for message in (setup, request, response))
    assert len(found) == half
    print(json.dumps({"processor": used, "seconds": passed, "MB": sent / 1e6}))


if __name__ == "__main__":
    main()
