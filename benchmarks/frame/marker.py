"""Which benchmarks were recorded for the release: ``benchmarks/recorded.toml``, which recordings fill in and a test reads."""

import tomllib
from pathlib import Path

FILE = Path(__file__).parents[1] / "recorded.toml"
HEAD = """# Written by `colonnade bench`. Benchmarks that were recorded for this release, on the code as it is.
# Where `enforced` is true, a test demands that every benchmark is here, and that neither `src/` nor a benchmark's own files have
# changed since its recording. Set it to false to work on; `colonnade bench all --record` sets it to true when all are recorded.
"""


def read() -> tuple[bool, list[str]]:
    """Return whether it is enforced, and who was recorded."""
    held = tomllib.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return bool(held.get("enforced", False)), list(held.get("benchmarks", []))


def write(*, enforced: bool, names: list[str]) -> None:
    lines = "".join(f'    "{name}",\n' for name in sorted(set(names)))
    FILE.write_text(f"{HEAD}enforced = {str(enforced).lower()}\nbenchmarks = [\n{lines}]\n", encoding="utf-8")


def add(name: str) -> None:
    """Note that a benchmark was recorded."""
    enforced, names = read()
    write(enforced=enforced, names=[*names, name])
