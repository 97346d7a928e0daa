"""`colonnade bench` and `colonnade audit`: measure, and try to refute."""

import difflib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli import screen
from colonnade.errors import BadInput

if TYPE_CHECKING:
    from colonnade.audit.distinguish import Finding

__all__ = ["ATTACKS", "MECHANISMS", "audit", "bench"]


def bench(
    name: Annotated[str | None, typer.Argument(help="Which benchmark; all of them if none is named.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller, less exact, and nothing is kept.")] = False,
    only_list: Annotated[bool, typer.Option("--list", help="Only list what exists.")] = False,
) -> None:
    """Run benchmarks; each prints published figures beside ours."""
    known = _benchmarks()
    if only_list:
        for one in known:
            screen.line(one)
        return
    for one in list(known) if name is None else [_chosen(name, known)]:
        screen.heading(one)
        _run(_load(one, known[one]), quick=quick)


def _benchmarks() -> dict[str, Path]:
    """Return the benchmarks of this checkout by name, written with hyphens."""
    folder = Path(__file__).parents[3] / "benchmarks"
    found = {path.parent.name.replace("_", "-"): path for path in sorted(folder.glob("*/run.py"))}
    if not found:
        raise BadInput(
            "There are no benchmarks here: they are part of the source checkout, not of the installed package.",
            remedy="Clone the repository, install it with `pip install -e .`, and run this again.",
        )
    return found


def _chosen(name: str, known: dict[str, Path]) -> str:
    wanted = name.replace("_", "-").lower()
    if wanted in known:
        return wanted
    near = difflib.get_close_matches(wanted, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."
    raise typer.BadParameter(f"there is no benchmark {name!r}. {hint}", param_hint="NAME")


def _run(module: ModuleType, *, quick: bool) -> None:
    """Let a benchmark run as it would as a script, which prints its own tables; one without a ``main`` is just run."""
    if not hasattr(module, "main"):
        module.run()
        return
    arguments, sys.argv = sys.argv, [str(module.__file__), *(["--quick"] if quick else [])]
    try:
        module.main()
    finally:
        sys.argv = arguments


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"colonnade_benchmark_{name.replace('-', '_')}", path)
    assert spec is not None  # the path ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CATEGORIES = 5


def audit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="response, laplace, gaussian or shared-keys.")],
    epsilon: Annotated[float, typer.Option(help="The price of one release.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Of the price, for gaussian.")] = 1e-5,
    samples: Annotated[int, typer.Option(min=1_000, help="Outputs a side.")] = 1_000_000,
    alpha: Annotated[
        float, typer.Option(min=1e-15, max=0.1, help="The probability with which a sound mechanism may be convicted.")
    ] = 1e-6,
) -> None:
    """Audit a mechanism: a proved lower bound on its true ε, beside the ε that it claims."""
    if name not in {**MECHANISMS, **ATTACKS}:
        known = ", ".join((*MECHANISMS, *ATTACKS))
        raise typer.BadParameter(f"there is no mechanism {name!r}; there are {known}.", param_hint="NAME")
    if name in ATTACKS:
        found, would_be_found = ATTACKS[name](epsilon, delta, samples, alpha)
        words = "The control is paper 001's own composition"
    else:
        mechanism = MECHANISMS[name](epsilon, delta)
        control = _Claiming(MECHANISMS[name](2 * epsilon, delta), mechanism.loss)
        found, would_be_found = (_finding(one, samples, alpha) for one in (mechanism, control))
        words = "The control has about half the noise"
    screen.line(f"{name:<11} {found}")
    screen.line(f"{'control':<11} {would_be_found}")
    screen.line(f"An audit can convict, never acquit. {words} and makes the same claim.")
    if not would_be_found.caught:
        screen.line("The control was not caught, so this audit shows nothing: take more --samples.")
    if found.caught or not would_be_found.caught:
        raise typer.Exit(1)


def _finding(mechanism: Any, samples: int, alpha: float) -> "Finding":
    """Audit a mechanism on the pair of neighbouring inputs that is hardest to hide."""
    from colonnade.audit.distinguish import audit as convict
    from colonnade.privacy.randomness import SystemRandomness

    return convict(mechanism, 0, 1, randomness=SystemRandomness(), samples=samples, alpha=alpha)


class _Claiming:
    """A mechanism that claims another loss than it has."""

    def __init__(self, inner: Any, loss: Any) -> None:
        self.name, self.loss, self.release = inner.name, loss, inner.release


def _response(epsilon: float, _: float) -> Any:
    from colonnade.privacy.accounting import Price
    from colonnade.privacy.laws.response import RandomizedResponse, best_channel

    return RandomizedResponse(best_channel(CATEGORIES, Price.of(epsilon)))


def _laplace(epsilon: float, _: float) -> Any:
    from colonnade.privacy.accounting import Price
    from colonnade.privacy.laws.additive import DiscreteLaplace

    return DiscreteLaplace(Price.of(epsilon), 1)


def _gaussian(epsilon: float, delta: float) -> Any:
    from colonnade.privacy.accounting import Price
    from colonnade.privacy.laws.additive import DiscreteGaussian

    if not delta > 0:
        raise BadInput("Gaussian noise needs a positive delta.", remedy="For example --delta 1e-5.")
    return DiscreteGaussian(Price.of(epsilon, delta), 1)


def _shared_keys(epsilon: float, delta: float, samples: int, alpha: float) -> "tuple[Finding, Finding]":
    """Look for maxima that two parties have in common; one release of sketches counts for fifty samples."""
    from colonnade.audit.distinguish import ColonnadeSketches, PaperSketches, attack
    from colonnade.privacy.accounting import Price
    from colonnade.privacy.randomness import SystemRandomness

    price = Price.of(epsilon, delta)
    if not delta > 0:
        raise BadInput("Sketches need a positive delta.", remedy="For example --delta 1e-5.")
    ours, theirs = (
        attack(one, randomness=SystemRandomness(), samples=max(samples // 50, 1_000), alpha=alpha)
        for one in (ColonnadeSketches(price), PaperSketches(price))
    )
    return ours, theirs


ATTACKS = {"shared-keys": _shared_keys}

MECHANISMS = {"response": _response, "laplace": _laplace, "gaussian": _gaussian}
