"""The tutorial on the round trip runs as printed, and prints what its comments say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "round-trip.md"


@pytest.mark.full
def test_every_block_of_the_page_runs_as_printed(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    program = tmp_path / "page.py"
    program.write_text("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), encoding="utf-8")
    done = subprocess.run([sys.executable, "-W", "error", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    promised = re.findall(r"print\(.*\)  # (\S+)$", text, re.MULTILINE)
    assert len(promised) == 5
    shown = [line for line in done.stdout.splitlines() if line in {"True", "False", "nonprivate-refused"}]
    assert shown == promised
