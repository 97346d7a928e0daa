"""``colonnade evaluate`` and ``colonnade predict``: what a fitted model is good for, on the parties of a study file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import screen
from colonnade.errors import BadInput

if TYPE_CHECKING:
    from colonnade.coordinator.federation import Federation
    from colonnade.service.study_file import StudyEntry

__all__ = ["evaluate", "predict", "save_all"]

ModelPath = Annotated[
    Path, typer.Argument(metavar="MODEL", exists=True, dir_okay=False, help="A model that est.save(...) wrote.")
]
StudyPath = Annotated[
    Path, typer.Argument(metavar="STUDY", exists=True, dir_okay=False, help="The study file with the parties.")
]
Part = Annotated[
    str, typer.Option("--part", help="Whom: everybody (all), or a part of the file's [split] (train, test).")
]

READINGS = ("predict", "predict_proba", "transform")


def evaluate(
    model: ModelPath,
    study: StudyPath,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The price. There is no default.")],
    delta: Annotated[
        float, typer.Option("--delta", help="0 for a pure price, where the model's figures allow it.")
    ] = 0.0,
    part: Part = "test",
    repeat: Annotated[int, typer.Option("--repeat", help="A higher number is a new draw at a new price.")] = 1,
) -> None:
    """Measure how good a model is, privately: figures with intervals, paid for from every party's ledger."""
    import colonnade as cn

    fitted = cn.load(model)
    with _opened(study, part) as federation, screen.progress():
        found = fitted.evaluate(federation, epsilon=epsilon, delta=delta, repeat=repeat)
        screen.heading(f"{type(fitted).__name__} on {federation.people:,} people")
        screen.print_frame(found.table())
        for name, table in found.tables.items():
            screen.heading(name)
            screen.print_frame(table)
        screen.line(f"receipt: {found.receipt_}")
        screen.print_budget(federation)


def predict(
    model: ModelPath,
    study: StudyPath,
    to: Annotated[str, typer.Option("--to", help="The one party that is told; every policy must allow it by name.")],
    what: Annotated[str, typer.Option("--what", help=f"One of {', '.join(READINGS)}.")] = "predict",
    part: Part = "all",
) -> None:
    """Score everybody and open the scores to one party alone. Not differentially private: an individual-level output."""
    import colonnade as cn

    fitted = cn.load(model)
    if what not in READINGS or not hasattr(fitted, what):
        raise BadInput(f"This model has no {what!r}.", remedy=f"Use one of {', '.join(READINGS)} that it has.")
    with _opened(study, part) as federation, screen.progress():
        delivery = getattr(fitted, what)(federation, to=to)
        screen.heading(f"{federation.people:,} people scored for {to}")
        screen.line(f"kept for the operator of {to}: {delivery.place()}")
        screen.line(f"receipt: {delivery.receipt_}")
        screen.print_budget(federation)


def save_all(finished: "list[StudyEntry]", folder: Path) -> None:
    """Save every fitted model of a study file, by its number and estimator."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise BadInput("The folder for the models cannot be made.", remedy="Correct --models.") from None
    for number, entry in enumerate(finished, start=1):
        path = folder / f"{number}-{type(entry.estimator).__name__}.json"
        entry.estimator.save(path)
        screen.line(f"model: {path}")


@contextmanager
def _opened(path: Path, part: str) -> "Iterator[Federation]":
    from colonnade.service import study_file

    asked = study_file.read(path)
    asked.require_part(part)
    with asked.federation(spend=True) as federation:
        yield asked.part(federation, part)
