"""One federation used from many threads at once: studies of every kind give what they give one after the other."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import colonnade as cn
from tests import kit
from tests.golden.studies import ESTIMATORS, SCHEMAS, STUDIES, THREE, tables
from tests.golden.summary import learned

PARALLEL = [
    "PatternCount:response",
    "PatternCount:secure, pure, unit person",
    "PatternCount:secure, gaussian, unit person",
    "PatternCount:secure, one party",
    "PCA:secure, unit person",
    "PCA:secure, skellam, unit person",
    "LinearRegression:secure, unit person",
    "LinearRegression:functional, unit person",
    "LogisticRegression:gradient, poisson, unit person",
    "LogisticRegression:gradient, balanced, unit person",
    "KMeans:secure",
    "KMeans:sketch",
    "LinearRegression:coreset, gathered",
    "LinearRegression:coreset, in place",
    "evaluation, linear, unit person",
    "evaluation, linear, unit party",
    "evaluation, logistic, unit person",
    "scores opened to a party, linear",
    "split, then a study of either part",
    "moments, one release for several estimators, and a second draw",
]
"""Every way in which members talk to each other, and two pairs of studies that begin with the same one."""

POLICY = cn.Policy(
    event_level=True, nonprivate=["Coreset"], predictions={kind.__name__: ["bank"] for kind in ESTIMATORS}
)


def opened() -> cn.Federation:
    found = tables()
    with kit.zeroed_out():  # the recorded tables have missing values and no rule
        return cn.Federation.simulate(
            {name: cn.Party(found[name], schema=SCHEMAS[name]) for name in THREE},
            id="id",
            budget=cn.Budget(epsilon=1_000.0, delta=1e-5),
            policies=dict.fromkeys(THREE, POLICY),
        )


def lines(federation: cn.Federation) -> dict[str, list[tuple[str, bytes]]]:
    """Every party's account, without what rests on noise: order of lines, hashes of plans, losses of scores of fitted models."""
    found = {}
    for party, account in federation._driver.accounts().items():
        entries = [(line.label.rsplit(" ", 1)[0], line.loss) for line in account.entries]
        found[party] = sorted(
            (label, b"" if loss is None or label.startswith("evaluation") else loss) for label, loss in entries
        )
    return found


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.full)])
def test_studies_of_every_kind_at_once_are_right_and_cost_what_they_cost_one_after_the_other(times):
    with opened() as one_by_one:
        for name in PARALLEL:
            STUDIES[name][1](one_by_one)
        expected = lines(one_by_one)
    for _ in range(times):
        with opened() as federation:
            with ThreadPoolExecutor(len(PARALLEL)) as pool:
                found = dict(zip(PARALLEL, pool.map(lambda name: STUDIES[name][1](federation), PARALLEL), strict=True))
            assert lines(federation) == expected
            spent = federation.budget()
            for name in PARALLEL:
                if "coreset" not in name:  # what is not private is drawn again
                    assert learned(name, STUDIES[name][1](federation)) == learned(name, found[name])
            assert federation.budget().equals(spent)
