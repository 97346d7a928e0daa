"""What a deliberate bug is, and how its victim is run."""

import importlib.util
import inspect
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

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
        The test, with its parameters filled in. Its fixtures are made from its module's own and its folder's.
    slow
        Whether planting it takes long, so that only ``make test-all`` does.
    """

    name: str
    plant: Plant
    victim: Callable[..., object]
    slow: bool = False

    @property
    def test(self) -> Callable[..., object]:
        return self.victim.func if isinstance(self.victim, partial) else self.victim

    @property
    def lacks(self) -> list[str]:
        """The arguments that the victim needs and that nobody makes."""
        module = inspect.getmodule(self.test)
        return [name for name in _wanted(self.victim) if name not in _BUILT_IN and _fixture(name, module) is None]

    def run(self) -> None:
        """Run the victim with fixtures of its own; a property is not made smaller once it is refuted."""
        with ExitStack() as stack:
            own = stack.enter_context(pytest.MonkeyPatch.context())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if hasattr(self.test, _SETTINGS):
                changed = settings(
                    getattr(self.test, _SETTINGS), phases=(Phase.explicit, Phase.generate), report_multiple_bugs=False
                )
                own.setattr(self.test, _SETTINGS, changed)
            made: dict[str, Any] = {"monkeypatch": own, "tmp_path": folder, "tmp_path_factory": _Folders(folder)}
            module = inspect.getmodule(self.test)
            self.victim(**{name: _made(name, module, made, stack) for name in _wanted(self.victim)})


_BUILT_IN = ("monkeypatch", "tmp_path", "tmp_path_factory")


@dataclass
class _Folders:
    place: Path

    def mktemp(self, name: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=name, dir=self.place))


def _wanted(call: Callable[..., object]) -> list[str]:
    given = inspect.signature(call).parameters.values()
    return [
        one.name
        for one in given
        if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]


def _fixture(name: str, module: ModuleType | None) -> Callable[..., object] | None:
    """What a test's own module, or the conftest beside it, makes under a name."""
    places = [module]
    if importlib.util.find_spec(beside := f"{module.__package__}.conftest"):
        places.append(importlib.import_module(beside))
    found = next((vars(place)[name] for place in places if name in vars(place)), None)
    return inspect.unwrap(found) if type(found).__name__ == "FixtureFunctionDefinition" else None


def _made(name: str, module: ModuleType | None, made: dict[str, Any], stack: ExitStack) -> object:
    if name not in made:
        make = _fixture(name, module)
        value = make(**{one: _made(one, module, made, stack) for one in _wanted(make)})
        made[name] = stack.enter_context(_until_the_end(value)) if inspect.isgenerator(value) else value
    return made[name]


@contextmanager
def _until_the_end(steps: Iterator[object]) -> Iterator[object]:
    try:
        yield next(steps)
    finally:
        next(steps, None)


def replaced(owner: object, name: str, value: object) -> Plant:
    """Put something else in a place."""
    return lambda patch: patch.setattr(owner, name, value)


def wrapped(owner: object, name: str, change: Callable[..., object]) -> Plant:
    """Replace a function by one that is given the honest one first."""
    honest = getattr(owner, name)
    return lambda patch: patch.setattr(owner, name, lambda *args, **kwargs: change(honest, *args, **kwargs))
