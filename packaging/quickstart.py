"""Run the first example of the README, from a checkout's README against whatever colonnade is installed."""

import re
from pathlib import Path

page = Path(__file__).parents[1] / "README.md"
exec(re.search(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[1])  # noqa: S102
