"""What a preview may do: arithmetic on what is public. Operations are counted, and nothing is timed."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import colonnade as cn

LEVELS = tuple("abcdefgh")
DECOMPOSITIONS = ("eigh", "eigvalsh", "eig", "svd", "cholesky", "qr", "inv", "pinv", "solve", "lstsq")
STUDIES: dict[str, Callable[[], Any]] = {
    "linear": lambda: cn.LinearRegression("p0.x0", epsilon=1.0, delta=1e-6),
    "linear sketch": lambda: cn.LinearRegression("p0.x0", method="sketch", epsilon=1.0, delta=1e-6),
    "linear functional": lambda: cn.LinearRegression("p0.x0", method="functional", epsilon=1.0),
    "logistic": lambda: cn.LogisticRegression("p0.answer", method="secure", epsilon=1.0, delta=1e-6),
    "logistic gradient": lambda: cn.LogisticRegression("p0.answer", method="gradient", epsilon=1.0, delta=1e-6),
    "pca": lambda: cn.PCA(3, epsilon=1.0, delta=1e-6),
    "pca local": lambda: cn.PCA(3, method="local", epsilon=1.0, delta=1e-6),
}


def _federation(categories: int, people: int = 50) -> cn.Federation:
    """Three parties with so many categories of eight levels each, two numbers and an answer."""
    rng = np.random.default_rng(0)
    parties = {}
    for party in range(3):
        columns: dict[str, Any] = {f"c{place}": cn.Category(LEVELS) for place in range(categories)}
        frame = {name: rng.choice(LEVELS, people) for name in columns}
        for name in ("x0", "x1"):
            columns[name], frame[name] = cn.Numeric(0, 1), rng.random(people)
        columns["answer"], frame["answer"] = cn.Category(("no", "yes")), rng.choice(["no", "yes"], people)
        schema = cn.Schema(columns)
        parties[f"p{party}"] = cn.Party(pd.DataFrame({"id": range(people), **frame}), schema=schema)
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=5.0, delta=1e-5))


def _calls(study: Any, federation: cn.Federation) -> int:
    """Return how many functions written in Python a preview calls."""
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    study.preview(federation)  # what is remembered between previews is not counted
    sys.setprofile(count)
    try:
        study.preview(federation)
    finally:
        sys.setprofile(None)
    return counted


@pytest.mark.every(4)
@pytest.mark.parametrize("name", STUDIES)
def test_the_work_of_a_preview_grows_with_the_columns_and_not_with_their_square(name):
    with _federation(5) as narrow, _federation(20) as wide:
        assert _calls(STUDIES[name](), wide) < 4.5 * _calls(STUDIES[name](), narrow)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["linear", "pca", "logistic gradient"])
def test_the_work_of_a_preview_does_not_grow_with_the_people(name):
    with _federation(5, people=50) as few, _federation(5, people=5_000) as many:
        assert _calls(STUDIES[name](), many) < 1.2 * _calls(STUDIES[name](), few)


@pytest.mark.every(4)
@pytest.mark.parametrize("name", STUDIES)
def test_a_preview_decomposes_no_matrix_and_draws_no_noise_at_five_hundred_coded_columns(name):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a preview decomposed a matrix")

    with _federation(20) as federation, pytest.MonkeyPatch.context() as patch:
        for decomposition in DECOMPOSITIONS:
            patch.setattr(np.linalg, decomposition, refuse)
        patch.setattr(np.random, "default_rng", refuse)
        assert STUDIES[name]().preview(federation).errors
