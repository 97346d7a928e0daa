"""The privacy report: one self-contained HTML file that a data-protection officer can read, print, sign and keep.

Plain functions over `colonnade.report.markup`, no template language: there is one page to make, escaping is by type and cannot be
forgotten, and ``pip install colonnade`` alone suffices. Plots are added where matplotlib is installed (``colonnade[plots]``), and
the report says so where it is not: who has to sign must not depend on who can draw.

Everything in it is public or was released: plan, statement, transcript, ledgers' lines and fitted attributes. No table is read.
"""

import base64
import os
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from colonnade._version import __version__
from colonnade.errors import BadInput, ColonnadeError
from colonnade.report import promise, sections
from colonnade.report.markup import Html, join, raw, tag
from colonnade.report.style import STYLE

__all__ = ["page", "write"]

LARGEST = 1_000_000
Plots = Literal["drawn", "written", "none"]
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What a browser may do for this file: show it. No script runs, nothing is fetched, nothing is sent."""


def write(studies: Sequence[Any], path: str | Path, *, federation: Any = None, title: str | None = None) -> Path:
    """Write a report of one or more fitted studies; an existing file is replaced at once or not at all.

    Parameters
    ----------
    studies
        Fitted estimators.
    path
        Where to.
    federation
        Whose ledgers to show as they are now; without one, only what the studies themselves cost.
    title
        Of the page.
    """
    target = Path(path)
    content = b""
    for plots in ("drawn", "written", "none"):  # many studies: labels in the reader's font, and at last no plots at all
        content = page(studies, federation=federation, title=title, plots=plots).encode()
        if len(content) <= LARGEST:
            break
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(content)
        draft.replace(target)
    except OSError:
        draft.unlink(missing_ok=True)
        raise BadInput("The report cannot be written.", remedy="Check the folder and its permissions.") from None
    return target


def page(
    studies: Sequence[Any],
    *,
    federation: Any = None,
    title: str | None = None,
    plots: Plots = "drawn",
    now: Callable[[], float] = time.time,
) -> Html:
    """Return the report as one HTML document; plots have their letters drawn, written in the reader's font, or there are none."""
    if not studies or any(not hasattr(study, "privacy_") for study in studies):
        raise BadInput("Only a fitted study has a report.", remedy="Call fit(...) first.")
    name = title or ("Privacy report: " + ", ".join(dict.fromkeys(type(study).__name__ for study in studies)))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", name),
        tag("style", raw(STYLE)),
    )
    body = tag("body", _opening(name, studies, now), *_middle(studies, federation, plots=plots), _closing(studies))
    return join([raw("<!doctype html>\n"), tag("html", head, body, lang="en"), raw("\n")])


def _opening(name: str, studies: Sequence[Any], now: Callable[[], float]) -> Html:
    written = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now()))
    parts = [tag("h1", name), tag("p", f"Written {written} by colonnade {__version__}.", klass="soft")]
    if any(not sections.is_private(study) for study in studies):
        parts.append(tag("p", promise.NONPRIVATE, klass="alarm", role="alert"))
    parts += [tag("p", study.receipt_, klass="receipt") for study in studies]
    parts += [tag("h2", "The promise"), tag("p", promise.PROMISE, klass="promise")]
    if any(not sections.is_private(study) for study in studies):
        parts.append(tag("p", promise.EXCEPT, klass="alarm"))
    parts.append(tag("p", promise.READING))
    return join(parts)


def _middle(studies: Sequence[Any], federation: Any, *, plots: Plots) -> list[Html]:
    parts: list[Html] = []
    for number, study in enumerate(studies, start=1):
        if len(studies) > 1:
            parts.append(tag("h2", f"Study {number}: {type(study).__name__}, method {study.plan_.method!r}"))
        parts += [section(study) for section in sections.OF_A_STUDY]
        if plots != "none":
            parts.append(_plot(study, drawn=plots == "drawn"))
    parts.append(sections.ledgers(studies, federation))
    return parts


def _plot(study: Any, *, drawn: bool) -> Html:
    from colonnade.report import charts, plots

    if plots.chart_of(study) is None:
        return Html("")
    heading = tag("h3", "The result, as a picture")
    try:
        figure = plots.plot(study)
    except ColonnadeError as error:
        return join([heading, tag("p", f"{error.message} {error.remedy}", klass="soft")])
    data = base64.b64encode(charts.svg(figure, drawn=drawn)).decode()
    image = tag("img", src=f"data:image/svg+xml;base64,{data}", alt=f"Chart of the fitted {type(study).__name__}")
    return join(
        [
            heading,
            tag("figure", image, tag("figcaption", "Released values only; intervals are the privacy noise alone.")),
        ]
    )


def _closing(studies: Sequence[Any]) -> Html:
    return join(
        [
            sections.versions(_versions()),
            sections.proofs(studies),
            tag(
                "div",
                tag("div", "Name, role"),
                tag("div", "Date"),
                tag("div", "Signature"),
                klass="sign",
            ),
        ]
    )


def _versions() -> list[tuple[str, str]]:
    packages = ("numpy", "scipy", "pandas", "cryptography", "msgspec", "dp-accounting")
    found = [("colonnade", __version__)]
    for package in packages:
        try:
            found.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            continue
    return found
