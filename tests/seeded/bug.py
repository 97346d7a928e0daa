"""What a deliberate bug is, and how its victim is run."""

import inspect
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hypothesis import Phase, settings

Plant = Callable[[pytest.MonkeyPatch], object]

_SETTINGS = "_hypothesis_internal_use_settings"


@dataclass(frozen=True)
class Bug:
    """A change to the code, and the test that has to notice it.

    Parameters
    ----------
    name
        What is wrong.
    plant
        Makes the change.
    victim
        The test: a function without arguments, or with ``monkeypatch`` and ``tmp_path`` only.
    slow
        Whether planting it takes long, so that only ``make test-all`` does.
    """

    name: str
    plant: Plant
    victim: Callable[..., object]
    slow: bool = False

    @property
    def lacks(self) -> list[str]:
        """The arguments that the victim needs and is not given."""
        given = inspect.signature(self.victim).parameters.values()
        needed = [one.name for one in given if one.default is one.empty and one.kind <= one.KEYWORD_ONLY]
        return [name for name in needed if name not in ("monkeypatch", "tmp_path", "args")]

    def run(self) -> None:
        """Run the victim with a monkeypatch and a folder of its own; a property is not made smaller once it is refuted."""
        with pytest.MonkeyPatch.context() as own, tempfile.TemporaryDirectory() as folder:
            test = self.victim.func if isinstance(self.victim, partial) else self.victim
            if hasattr(test, _SETTINGS):
                phases = (Phase.explicit, Phase.generate)
                own.setattr(
                    test, _SETTINGS, settings(getattr(test, _SETTINGS), phases=phases, report_multiple_bugs=False)
                )
            given = {"monkeypatch": own, "tmp_path": Path(folder)}
            takes = inspect.signature(self.victim).parameters
            self.victim(**{name: value for name, value in given.items() if name in takes})


def replaced(owner: object, name: str, value: object) -> Plant:
    """Put something else in a place."""
    return lambda patch: patch.setattr(owner, name, value)


def wrapped(owner: object, name: str, change: Callable[..., object]) -> Plant:
    """Replace a function by one that is given the honest one first."""
    honest = getattr(owner, name)
    return lambda patch: patch.setattr(owner, name, lambda *args, **kwargs: change(honest, *args, **kwargs))
