"""``colonnade report SOURCE``: the privacy report of a study file that was run, or of a saved model. Spends nothing."""

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen

__all__ = ["report"]


def report(
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", exists=True, dir_okay=False, help="study.toml, or what est.save() wrote."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Where to; by default beside the source.")
    ] = None,
) -> None:
    """Write one self-contained HTML file to read, print and sign: who could see what, at what price, and the ledgers."""
    target = source.with_suffix(".html") if output is None else output
    written = _of_study_file(source, target) if source.suffix == ".toml" else _of_model(source, target)
    screen.line(f"written: {written}")


def _of_study_file(source: Path, target: Path) -> Path:
    """Report on studies that were run: what they released is kept, and is returned at no further price."""
    from colonnade.report import document
    from colonnade.service import study_file

    asked = study_file.read(source)
    with asked.federation(spend=False) as federation, screen.progress():
        asked.require_finished(federation)
        for entry in asked.studies:
            entry.estimator.fit(federation, repeat=entry.repeat)
        studies = [entry.estimator for entry in asked.studies]
        return document.write(studies, target, federation=federation, title=f"Privacy report: {source.name}")


def _of_model(source: Path, target: Path) -> Path:
    from colonnade.estimators.loading import load
    from colonnade.report import document

    return document.write([load(source)], target, title=f"Privacy report: {source.name}")
