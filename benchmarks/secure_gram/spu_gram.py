"""The peer: SecretFlow's SPU multiplies the same matrix, all parties in one process, by its own simulator.

Not run by hand: ``run.py`` starts it with a Python that has spu. Standard input is JSON with ``rows``, ``columns``,
``parties`` and ``protocol``. Prints seconds, processor seconds and the largest error of an entry.
"""

import json
import sys
import time

import jax.numpy as jnp
import numpy as np
import spu
import spu.utils.simulation as simulation


def main() -> None:
    asked = json.load(sys.stdin)
    protocol = {"ABY3": spu.ProtocolKind.ABY3, "semi2k": spu.ProtocolKind.SEMI2K}[asked["protocol"]]
    simulator = simulation.Simulator.simple(asked["parties"], protocol, spu.FieldType.FM64)
    table = np.random.default_rng(0).uniform(-1, 1, (asked["rows"], asked["columns"])).astype(np.float32)
    gram = simulation.sim_jax(simulator, lambda held: jnp.matmul(held.T, held))
    gram(table[:100])  # compiles
    begin, used = time.perf_counter(), time.process_time()
    found = np.asarray(gram(table))
    elapsed, used = time.perf_counter() - begin, time.process_time() - used
    exact = table.astype(float).T @ table.astype(float)
    print(json.dumps({"elapsed": elapsed, "processor": used, "error": float(np.abs(found - exact).max())}))


if __name__ == "__main__":
    main()
