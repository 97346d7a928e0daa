"""What estimators that train on a coreset share: consent, sizes, and what a preview can say."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from colonnade.coordinator.federation import Federation
from colonnade.coordinator.protocols.coreset_study import CoresetStudy
from colonnade.errors import BadInput, NonPrivateRefused
from colonnade.estimation.importance_sampling import Task, kmeans_size, regression_size
from colonnade.plan import Plan
from colonnade.protocol.rounds import Algorithm
from colonnade.schema import Column

if TYPE_CHECKING:
    from colonnade.estimators.preview import Expectation
    from colonnade.estimators.study import Study

__all__ = ["CORESET_TASK", "automatic_size", "checked_size", "coreset_outlook", "prepare_nonprivate"]

CORESET_TASK = "coreset"
"""The name by which a party's policy allows coresets, and models trained on them."""


def prepare_nonprivate(study: "Study", federation: Federation, repeat: int) -> tuple[Algorithm, Plan]:
    """Plan a study that no budget pays for: only with the user's consent, and without a price."""
    given: Any = study
    if given.allow_nonprivate is not True:
        raise NonPrivateRefused(
            f"{type(study).__name__} with method {study.method!r} is not differentially private: exact values leave the parties.",
        )
    if study.epsilon is not None or study.delta != 0:
        raise BadInput(
            f"Method {study.method!r} is not private and takes no epsilon or delta.", remedy="Leave them out."
        )
    algorithm: Algorithm = given._nonprivate_algorithm(federation)  # noqa: SLF001  # of its own kind
    plan = federation.plan(
        algorithm,
        task=CORESET_TASK,
        method=study.method,
        price=None,
        unit=study.unit,
        parameters={},  # everything that tells two coresets apart stands in the steps
        repeat=repeat,
    )
    return algorithm, plan


def checked_size(size: object, people: int) -> int:
    """Return how many rows to draw; refuse a number that makes no sense."""
    if type(size) is not int or size < 1:
        raise BadInput("size is a positive whole number: how many rows to draw.", remedy="For example size=2_000.")
    if size > people:
        raise BadInput(
            f"A coreset of {size:,} rows is larger than the {people:,} people it stands for.",
            remedy="Use fewer rows, or all of them with a private method.",
        )
    return size


def automatic_size(
    columns: Mapping[str, Column],
    task: Task,
    people: int,
    *,
    target: str | None,
    clusters: int,
    error: float,
    outliers: float,
    failure: float,
) -> int:
    """Return the size that the paper proves to be enough (Theorems G.3 and G.4); refuse where that exceeds the people."""
    study = CoresetStudy(columns, task, 1, people, target, clusters)
    totals = sum(study.maxima().values())
    features = len(study.features) - (target is not None)
    promise = {"error": error, "outliers": outliers, "failure": failure}
    size = (
        regression_size(features, totals, len(study.parties), **promise)
        if task == "regression"
        else kmeans_size(features, clusters, totals, len(study.parties), **promise)
    )
    if size > people:
        raise BadInput(
            f"The size that the theory asks for exceeds the data: {size:,} rows of {people:,} people.",
            remedy="Give size= a number (a few thousand rows serve well in practice), or raise error= and outliers=.",
        )
    return size


def coreset_outlook(algorithm: CoresetStudy, federation: Federation) -> "Expectation":
    """Return what leaves, and how much, before anything does."""
    width, parties, size = len(algorithm.features), len(algorithm.parties), algorithm.size
    share = size / federation.people
    sample = size * parties * (1 if algorithm.uniform else 3)  # draws, the drawn rows to everybody, scores
    words = {
        "leaves the parties": {
            "none": "which rows were drawn, and their weights",
            "rows": f"exact values of all columns of up to {size:,} people ({share:.2%}), and which people these are",
            "clusters": f"which local cluster each of up to {size:,} drawn people ({share:.2%}) is in, and exact centres",
            "saga": f"residuals of up to {size:,} drawn people ({share:.2%}) while the model is trained",
        }[algorithm.training],
        "numbers moved": f"about {sample + (size * width if algorithm.training == 'rows' else 0):,}"
        + (" and two an iteration, row and party" if algorithm.training == "saga" else "")
        + f"; gathering everything would move {federation.people * width:,}",
    }
    if size <= width:
        return words, ("Fewer rows than columns: the model will not be determined.",)
    return words, ()
