"""A node's product of shares on an NVIDIA GPU, beside the same GPU's plaintext product, and a regression with and without it.

    python benchmarks/gpu/run.py [--products] [--regression] [--rows 200000]

`--products` needs torch, Triton, numpy and a GPU, and nothing else of Colonnade: it loads ``src/colonnade/secure/gpu.py`` by its
path. Operands are on the device already; transfers are timed apart. The plaintext product is torch's float64 product of the same
shape. `--regression` fits a linear regression over four parties in one process, on the processor and on the GPU, under test
randomness, and compares the coefficients bit for bit. By default both are run.
"""

import argparse
import importlib.util
import json
import platform
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
MODULE = HERE.parents[1] / "src" / "colonnade" / "secure" / "gpu.py"
MODULI = {"46 bits": (2**23 - 15, 2**23 - 21), "63 bits": (2**21 - 9, 2**21 - 19, 2**21 - 21)}
SHAPES = ((45_222, 41), (200_000, 502), (145_585, 816), (2_000_000, 512))
TURNS = 9


def on_the_device(work) -> float:
    """Return the median milliseconds of some work on the GPU."""
    import torch

    work()
    torch.cuda.synchronize()
    times = []
    for _ in range(TURNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return float(np.median(times))


def products() -> list[dict]:
    """Time products of resident operands, and transfers."""
    import torch

    found = importlib.util.spec_from_file_location("gpu", MODULE)
    gpu = importlib.util.module_from_spec(found)
    found.loader.exec_module(gpu)
    rows = []
    for people, columns in SHAPES:
        plain = torch.randn((columns, people), dtype=torch.float64, device="cuda")
        plaintext = on_the_device(lambda plain=plain: plain @ plain.T)
        del plain
        for name, moduli in MODULI.items():
            modulus = int(np.prod(np.array(moduli, dtype=object)))
            shares = torch.randint(0, modulus, (columns, people), dtype=torch.int64, device="cuda")
            sums = gpu.GramOnDevice(moduli, columns)
            ours = on_the_device(lambda sums=sums, shares=shares: sums.add_resident(shares))
            host = shares.cpu()
            transfer = on_the_device(lambda host=host: host.to("cuda"))
            pinned = host.pin_memory()
            fast = on_the_device(lambda pinned=pinned: pinned.to("cuda", non_blocking=True))
            rows.append(
                {
                    "rows": people,
                    "columns": columns,
                    "arithmetic": name,
                    "plaintext_ms": plaintext,
                    "ours_ms": ours,
                    "ratio": ours / plaintext,
                    "transfer_ms": transfer,
                    "transfer_pinned_ms": fast,
                }
            )
            print(
                f"{people:>9,} × {columns}, {name}: plaintext {plaintext:.2f} ms, ours {ours:.2f} ms ({ours / plaintext:.2f} ×); "
                f"transfer {transfer:.0f} ms, pinned {fast:.0f} ms"
            )
            del shares, sums, host, pinned
    return rows


def table(people: int):
    """Four parties with 502 coded columns: numbers, and categories of 25 levels."""
    import pandas as pd

    import colonnade as cn

    rng = np.random.default_rng(1)
    levels = [f"l{place:02}" for place in range(25)]
    parties = {}
    for party in ("bank", "telco", "insurer", "shop"):
        frame = {"id": np.arange(people)}
        schema = {}
        for place in range(4):
            frame[f"c{place}"] = np.array(levels)[rng.integers(len(levels), size=people)]
            schema[f"c{place}"] = cn.Category(levels)
        for place in range(26 if party == "bank" else 25):
            frame[f"x{place}"] = rng.normal(size=people).clip(-3, 3)
            schema[f"x{place}"] = cn.Numeric(-3, 3)
        if party == "shop":
            frame["y"] = (frame["x0"] + rng.normal(size=people)).clip(-5, 5)
            schema["y"] = cn.Numeric(-5, 5)
        parties[party] = cn.Party(pd.DataFrame(frame), schema=cn.Schema(schema))
    return parties


def regression(people: int) -> dict:
    """Time a regression end to end on the processor and on the GPU; compare what it gives."""
    import colonnade as cn

    parties, found = table(people), {}
    for compute in ("cpu", "gpu", "cpu", "gpu"):  # the first turn compiles and warms up
        budget = cn.Budget(epsilon=10.0, delta=1e-5)
        with cn.Federation.simulate(parties, id="id", budget=budget, test_key=b"k" * 32, compute=compute) as federation:
            begin = time.perf_counter()
            model = cn.LinearRegression("shop.y", epsilon=1.0, delta=1e-6).fit(federation)
            found[compute] = {"seconds": time.perf_counter() - begin, "coefficients": model.coef_}
            print(f"{compute}: {found[compute]['seconds']:.2f} s, {len(model.coef_)} coefficients")
    same = bool(np.array_equal(found["cpu"]["coefficients"], found["gpu"]["coefficients"]))
    print(f"bit-identical: {same}; {found['cpu']['seconds'] / found['gpu']['seconds']:.2f} × as fast")
    seconds = {f"{name}_seconds": one["seconds"] for name, one in found.items()}
    return {"rows": people, "columns": len(found["cpu"]["coefficients"]) + 1, "identical": same, **seconds}


def main() -> None:
    """Run what is asked for, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", action="store_true")
    parser.add_argument("--regression", action="store_true")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "latest.json")
    chosen = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        parser.exit(1, "This benchmark needs torch and an NVIDIA GPU: pip install 'colonnade[gpu]'.\n")
    import torch

    if not torch.cuda.is_available():
        parser.exit(1, "There is no NVIDIA GPU here.\n")
    everything = not (chosen.products or chosen.regression)
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "python": platform.python_version()}
    if chosen.products or everything:
        result["products"] = products()
    if chosen.regression or everything:
        result["regression"] = regression(chosen.rows)
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
