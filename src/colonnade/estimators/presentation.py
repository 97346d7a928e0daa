"""Showing a result: `estimator.plot()`, `estimator.report(path)` and what a notebook displays.

How a result is drawn lives in ``colonnade.report``, which reads estimators and therefore stands above them: `colonnade report`
writes documents about any study, also one that was loaded from a file. Yet people want to say ``estimator.plot()``. So an
estimator finds its presenter by name when it is asked to show itself, as one finds a plug-in. No estimator depends on how it is
shown: they import, fit and preview with matplotlib absent, and the layers of the code stay an order (import-linter checks it).
"""

import importlib
import weakref
from pathlib import Path
from typing import Any

from colonnade.coordinator.federation import Federation

__all__ = ["Shown", "presenter", "remember", "where_fitted"]

_FITTED_ON: "weakref.WeakKeyDictionary[Shown, weakref.ref[Federation]]" = weakref.WeakKeyDictionary()


def presenter(module: str) -> Any:
    """Return a module of ``colonnade.report``."""
    return importlib.import_module(f"colonnade.report.{module}")


def remember(study: "Shown", federation: Federation) -> None:
    """Keep in mind where a study was fitted, without keeping the federation alive: a report then shows its ledgers."""
    _FITTED_ON[study] = weakref.ref(federation)


def where_fitted(study: "Shown") -> Federation | None:
    """Return the federation that a study was fitted on, if it is still there."""
    found = _FITTED_ON.get(study)
    return None if found is None else found()


class Shown:
    """What every estimator can show of itself."""

    def plot(self) -> Any:
        """Return a chart of the result as a matplotlib figure; ``figure.savefig("result.svg")`` writes it.

        Needs matplotlib: ``pip install 'colonnade[plots]'``.

        Examples
        --------
        >>> import colonnade as cn
        >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=4.0))
        >>> figure = cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).fit(federation).plot()
        >>> figure.get_suptitle()
        'People by bank.segment and telco.plan'
        """
        return presenter("plots").plot(self)

    def report(self, path: str | Path, *, federation: Federation | None = None) -> Path:
        """Write the privacy report: one HTML file that needs no network, to read, print, sign and keep.

        Parameters
        ----------
        path
            Where to; an existing file is replaced.
        federation
            Whose ledgers to show; by default that of ``fit``, if it is still open.

        Returns
        -------
        Path
            Where it was written.

        Examples
        --------
        >>> import colonnade as cn, tempfile, pathlib
        >>> federation = cn.datasets.three_organisations(people=2_000).federation(budget=cn.Budget(epsilon=4.0))
        >>> study = cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).fit(federation)
        >>> path = study.report(pathlib.Path(tempfile.mkdtemp(), "study.html"))
        >>> path.stat().st_size < 1_000_000
        True
        """
        return presenter("document").write([self], path, federation=federation or where_fitted(self))  # type: ignore[no-any-return]

    def _repr_html_(self) -> str:
        return str(presenter("notebook").study(self))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
