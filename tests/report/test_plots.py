"""Plots: everything inside the figure, whatever parties call their columns; and the extra's name where it is missing."""

import builtins
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.estimation.table_model import has_library

HOSTILE = [
    "an extraordinarily long name of a level that nobody would ever choose, and yet somebody has chosen it",
    "$\\frac{1}{0}$ & <b>bold</b>",
    "線形\nbreak\ttab",
    "plain",
]
GAUSSIAN = {"epsilon": 4.0, "delta": 1e-5}


def _hostile_federation() -> cn.Federation:
    people = 900
    number = np.arange(people) % 50
    left = pd.DataFrame({"id": range(people), "x" * 70: number, "kind$": [HOSTILE[i % 4] for i in range(people)]})
    right = pd.DataFrame(
        {"id": range(people), "y": 50 - number, "level": [HOSTILE[(i // 2) % 4] for i in range(people)]}
    )
    levels = cn.Category(HOSTILE)
    parties = {
        "left": cn.Party(left, schema=cn.Schema({"x" * 70: cn.Numeric(0, 50), "kind$": levels})),
        "right": cn.Party(right, schema=cn.Schema({"y": cn.Numeric(0, 50, integer=True), "level": levels})),
    }
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=60.0, delta=1e-5), test_key=b"p" * 32)


STUDIES = {
    "counts": lambda: cn.PatternCount(["left.kind$", "right.level"], epsilon=1.0),
    "many counts": lambda: cn.PatternCount(["left.kind$", "right.level"], method="response", epsilon=1.0),
    "described": lambda: cn.Describe(epsilon=1.0),
    "histogram": lambda: cn.Histogram("left." + "x" * 70, epsilon=1.0),
    "quantiles": lambda: cn.Quantiles("right.y", epsilon=1.0),
    "group map": lambda: cn.GroupBy(["left.kind$", "right.level"], ["right.y"], **GAUSSIAN),
    "groups": lambda: cn.GroupBy(["left.kind$"], ["left." + "x" * 70], **GAUSSIAN),
    "counts by group": lambda: cn.GroupBy(["left.kind$", "right.y"], bins=40, **GAUSSIAN),
    "correlations": lambda: cn.Correlation(**GAUSSIAN),
    "moment": lambda: cn.Moment(["right.y"], 2, epsilon=1.0),
    "components": lambda: cn.PCA(3, **GAUSSIAN),
    "linear": lambda: cn.LinearRegression("right.y", **GAUSSIAN),
    "binary": lambda: cn.LogisticRegression(
        "left.kind$", method="secure", columns=["right.y", "left." + "x" * 70], **GAUSSIAN
    ),
    "centres": lambda: cn.KMeans(3, **GAUSSIAN),
    **({"agreement": lambda: cn.SyntheticTable(bins=4, **GAUSSIAN)} if has_library() else {}),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    with _hostile_federation() as federation:
        found = {name: make().fit(federation) for name, make in STUDIES.items()}
        found["preview"] = STUDIES["counts"]().preview(federation)
    return found


@pytest.mark.every(6)
@pytest.mark.parametrize("name", [*STUDIES, "preview"])
def test_no_text_leaves_the_figure(name, fitted):
    figure = fitted[name].plot()
    figure.canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert drawn.x0 >= -0.02
    assert drawn.y0 >= -0.02
    assert drawn.x1 <= width + 0.02
    assert drawn.y1 <= height + 0.02


@pytest.mark.every(6)
@pytest.mark.parametrize("name", [*STUDIES, "preview"])
def test_labels_do_not_run_into_each_other(name, fitted):
    figure = fitted[name].plot()
    figure.canvas.draw()
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in axes.get_yticklabels() if label.get_text()]
        for one, other in pairwise(boxes):
            assert max(one.y0, other.y0) >= min(one.y1, other.y1) - 1


def test_without_matplotlib_a_plot_names_the_extra(fitted, monkeypatch):
    real = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(cn.BadInput, match=r"colonnade\[plots\]"):
        fitted["counts"].plot()


def test_importing_the_library_loads_no_numerical_library_and_fitting_no_drawing_one():
    code = (
        "import sys, colonnade as cn; heavy = {'numpy', 'pandas', 'scipy', 'sklearn', 'numba'} & set(sys.modules); "
        "assert not heavy, heavy; "
        "f = cn.datasets.three_organisations(people=1_000).federation(budget=cn.Budget(epsilon=1.0)); "
        "cn.PatternCount(['bank.segment'], method='response', epsilon=1.0).fit(f); "
        "assert 'matplotlib' not in sys.modules; assert set(cn.__all__) <= set(dir(cn))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
