"""A node's product of shares on an NVIDIA GPU, beside the same GPU's plaintext product, and a regression with and without it.

Operands of products are on the device already; transfers are timed apart. The plaintext product is torch's float64 product of
the same shape. The regression is a linear one over four parties in one process, on the processor and on the GPU, under test
randomness; its coefficients are compared bit for bit. It needs torch, Triton and a GPU; where there is none, nothing is
measured.
"""

import time
from collections.abc import Iterator

import numpy as np
from benchmarks.frame import Benchmark, Claim, Part, Row, Table, Unavailable, below, near

MODULI = {"46 bits": (2**23 - 15, 2**23 - 21), "63 bits": (2**21 - 9, 2**21 - 19, 2**21 - 21)}
SHAPES = ((45_222, 41), (200_000, 502), (145_585, 816), (2_000_000, 512))
TURNS = 9


def need_a_gpu() -> None:
    try:
        import torch
    except ModuleNotFoundError as missing:
        raise Unavailable("torch is not installed: pip install colonnade[gpu]") from missing
    if not torch.cuda.is_available():
        raise Unavailable("there is no NVIDIA GPU here")


def device() -> str:
    """Return the name of the GPU."""
    try:
        need_a_gpu()
    except Unavailable as missing:
        return str(missing)
    import torch

    return str(torch.cuda.get_device_name(0))


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


def products(_run: int, people: int, columns: int) -> Iterator[Row]:
    """Time products of resident operands, and transfers."""
    need_a_gpu()
    import torch

    from colonnade.secure import gpu

    plain = torch.randn((columns, people), dtype=torch.float64, device="cuda")
    plaintext = on_the_device(lambda plain=plain: plain @ plain.T)
    del plain
    for name, moduli in MODULI.items():
        modulus = int(np.prod(np.array(moduli, dtype=object)))
        shares = torch.randint(0, modulus, (columns, people), dtype=torch.int64, device="cuda")
        sums = gpu.GramOnDevice(moduli, columns)
        ours = on_the_device(lambda sums=sums, shares=shares: sums.add_resident(shares))
        pinned = shares.cpu().pin_memory()
        transfer = on_the_device(lambda pinned=pinned: pinned.to("cuda", non_blocking=True))
        values = {"plaintext ms": plaintext, "ours ms": ours, "ratio": ours / plaintext, "transfer ms": transfer}
        yield Row({"size": f"{people:,} × {columns}", "arithmetic": name}, values)


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


def regression(_run: int, people: int) -> Iterator[Row]:
    """Time a regression end to end on the processor and on the GPU; compare what it gives."""
    need_a_gpu()
    import colonnade as cn

    parties, seconds, found = table(people), {}, {}
    for compute in ("cpu", "gpu", "cpu", "gpu"):  # the first turn compiles and warms up
        budget = cn.Budget(epsilon=10.0, delta=1e-5)
        with cn.Federation.simulate(parties, id="id", budget=budget, test_key=b"k" * 32, compute=compute) as federation:
            begin = time.perf_counter()
            found[compute] = cn.LinearRegression("shop.y", epsilon=1.0, delta=1e-6).fit(federation).coef_
            seconds[compute] = time.perf_counter() - begin
    values = {f"{compute} seconds": one for compute, one in seconds.items()}
    same = float(np.array_equal(found["cpu"], found["gpu"]))
    yield Row({"people": people, "columns": len(found["cpu"]) + 1}, {**values, "bit-identical": same})


BENCHMARK = Benchmark(
    name="gpu",
    title="A node's product on a GPU",
    about=__doc__ or "",
    needs="an NVIDIA GPU",
    device=device,
    packages=("numpy", "torch"),
    parts=[
        Part(
            "products",
            products,
            [{"people": people, "columns": columns} for people, columns in SHAPES],
            3,
            1.0,
            machine=frozenset({"plaintext ms", "ours ms", "ratio", "transfer ms"}),
        ),
        Part(
            "regression", regression, [{"people": 200_000}], 3, 2.0, machine=frozenset({"cpu seconds", "gpu seconds"})
        ),
    ],
    shown=[
        "## Products",
        Table(
            "products",
            {"plaintext ms": "plaintext, ms", "ours ms": "ours, ms", "ratio": "×", "transfer ms": "transfer, ms"},
            {"size": "size", "arithmetic": "arithmetic"},
            digits=3,
        ),
        "## A regression end to end",
        Table(
            "regression",
            {"cpu seconds": "processor, s", "gpu seconds": "GPU, s", "bit-identical": "bit-identical"},
            {"people": "people", "columns": "columns"},
            digits=3,
        ),
    ],
    claims=[
        Claim(
            "large products take at most twice the plaintext product",
            "at most 2 ×",
            lambda found: [
                below(found.sample("products", "ratio", size=size, arithmetic=name), 2.0)
                for size in ("145,585 × 816", "2,000,000 × 512")
                for name in MODULI
            ],
            "the issue",
        ),
        Claim(
            "coefficients with and without the GPU are bit-identical",
            "always",
            lambda found: [near(samples["bit-identical"], 1.0, 0.0) for _, samples in found.rows("regression")],
            "our bar",
        ),
    ],
)
