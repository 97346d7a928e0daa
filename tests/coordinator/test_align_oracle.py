"""The same intersections as another implementation: OpenMined PSI, which lives in an environment of its own."""

import json
import os
import subprocess

import pytest

from tests import kit
from tests.coordinator.test_align import shown_order, unaligned

CODE = """
import json, sys
import private_set_intersection.python as psi
own, other = json.load(sys.stdin)
client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
setup = server.CreateSetupMessage(1e-9, len(own), other, psi.DataStructure.RAW)
found = client.GetIntersection(setup, server.ProcessRequest(client.CreateRequest(own)))
print(json.dumps(sorted(own[place] for place in found)))
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("seed", range(3))
def test_the_oracle_finds_the_same_people(seed):
    python = os.environ.get("COLONNADE_PSI_PYTHON")
    if not python:
        pytest.skip("set COLONNADE_PSI_PYTHON to a Python that has openmined-psi; its pins are its own")
    rng = kit.generator(f"oracle {seed}")
    lists = {
        name: [f"person {one}" for one in rng.choice(200, size=size, replace=False)]
        for name, size in (("bank", 90), ("telco", 120))
    }
    answer = subprocess.run(
        [python, "-c", CODE], input=json.dumps(list(lists.values())), capture_output=True, text=True, check=True
    )
    with unaligned(lists) as federation:
        federation.align(size="public")
        assert sorted(shown_order(federation, lists)["bank"]) == json.loads(answer.stdout)
