"""Which device multiplies a node's shares: the processor, or an NVIDIA GPU where there is one.

The elements are the same, bit for bit, so the choice is each node's own: no plan names it, and members may differ. Torch is
imported when a product is large enough to gain from a GPU, and never where ``"cpu"`` was chosen.
"""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from colonnade.errors import BadInput

if TYPE_CHECKING:
    from colonnade.secure.gpu import GramOnDevice


Compute = Literal["auto", "cpu", "gpu"]

FEWEST_COLUMNS = 96
"""Below this a processor has multiplied a block before it has crossed to a GPU."""

_chosen: dict[str, str] = {"compute": "auto"}


def compute_on(compute: str) -> None:
    """Choose what this process multiplies shares on from now on.

    Parameters
    ----------
    compute
        ``"auto"``: a GPU where there is one and a product is large enough; ``"cpu"``; ``"gpu"``: refused where there is none.

    Examples
    --------
    >>> compute_on("auto")
    """
    if compute not in ("auto", "cpu", "gpu"):
        raise BadInput('compute is "auto", "cpu" or "gpu".', remedy='For example compute="auto".')
    if compute == "gpu" and _gpu() is None:
        raise BadInput(
            "There is no NVIDIA GPU here that torch can multiply with.",
            remedy="Install 'colonnade[gpu]' on a machine with one, or choose compute=\"auto\".",
        )
    _chosen["compute"] = compute


def gram_on_device(moduli: Sequence[int], columns: int) -> "GramOnDevice | None":
    """Return what multiplies on the GPU, if it was chosen and gains; else ``None``."""
    compute = _chosen["compute"]
    if compute == "cpu" or (compute == "auto" and columns < FEWEST_COLUMNS) or _gpu() is None:
        return None
    from colonnade.secure.gpu import GramOnDevice

    return GramOnDevice(moduli, columns)


@cache
def _gpu() -> str | None:
    """Return the name of the GPU; ``None`` without torch, without Triton, or without a GPU that both can use."""
    if find_spec("torch") is None or find_spec("triton") is None:
        return None
    try:
        from colonnade.secure.gpu import device_name

        return device_name()
    except (ImportError, OSError, RuntimeError):  # a library that is there and does not work is no reason to stop
        return None
