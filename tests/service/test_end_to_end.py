"""Three organisations as separate processes over provisioned mutual TLS: the same releases as in one process."""

import json

import numpy as np
import pytest

import colonnade as cn
from colonnade.runtime.event_log import FIELDS
from tests.service.served import simulated, site  # noqa: F401  # a fixture

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

STUDIES = {
    "description": lambda: cn.Describe(["bank.age", "bank.segment", "telco.bill"], epsilon=0.5),
    "quantiles": lambda: cn.Quantiles("bank.age", epsilon=0.2),
    "counts": lambda: cn.PatternCount(["bank.segment", "telco.plan"], epsilon=0.5, delta=1e-6),
    "response": lambda: cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0),
    "pca": lambda: cn.PCA(2, epsilon=1.0, delta=1e-6),
    "logistic": lambda: cn.LogisticRegression("bank.default", method="secure", epsilon=1.0, delta=1e-6),
    "kmeans": lambda: cn.KMeans(2, columns=["bank.age", "telco.bill"], epsilon=1.0, delta=1e-6),
}


def learned(estimator) -> dict[str, np.ndarray]:
    names = (
        "counts_",
        "components_",
        "explained_variance_",
        "mean_",
        "coef_",
        "intercept_",
        "cluster_centers_",
        "values_",
    )
    return {name: np.asarray(getattr(estimator, name)) for name in names if hasattr(estimator, name)}


def test_every_study_gives_the_same_release_over_the_network_as_in_one_process(site):  # noqa: F811
    with simulated(site) as here, site.connect() as there:
        for title, study in STUDIES.items():
            one, other = study().fit(here), study().fit(there)
            found, expected = learned(other), learned(one)
            assert found.keys() == expected.keys()
            for name, value in expected.items():
                np.testing.assert_array_equal(found[name], value, err_msg=f"{title}: {name}")
            assert one.privacy_.table().equals(other.privacy_.table())
            assert one.transcript_.rounds == other.transcript_.rounds
        # Here, and not in a test of its own: noise of local releases follows on that of the studies before.
        narrow, elsewhere = (one.tightened(["bank.age", "telco.bill"], epsilon=1.0) for one in (here, there))
        assert narrow.describe() == elsewhere.describe()
        study = cn.PCA(1, columns=["bank.age", "telco.bill"], epsilon=1.0, delta=1e-6)
        np.testing.assert_array_equal(study.fit(narrow).mean_, study.fit(elsewhere).mean_)
        assert here.budget().equals(there.budget())


def test_lists_are_matched_over_the_network_and_studies_run_on_the_order(site):  # noqa: F811
    """Everyone in every list, and the strangers of each list left out."""
    with site.connect() as there:
        there.align(size="hidden", capacity=400)
        assert there.people == 400
        first = there._driver.alignment
        counted = cn.PatternCount(["bank.segment", "telco.plan"], epsilon=2.0).fit(there)
        assert abs(counted.unbiased_.sum() - site.papers.alignment.people) < 30
        assert there.align(size="hidden", capacity=400)._driver.alignment == first
        assert there.aligned_.findings.transcript.rounds == 5


def test_the_coordinators_log_says_how_far_studies_went_and_nothing_else(site):  # noqa: F811
    with site.connect() as federation:
        STUDIES["response"]().fit(federation)
    lines = (site.folder / "coordinator-state" / "coordinator.log").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert {one["event"] for one in found} >= {"connected", "study-started", "study-step", "study-finished"}
    assert all(set(one) <= {"time", "site", "process", "event"} | FIELDS for one in found)
    assert not any(level in "".join(lines) for level in ("platinum", "prepaid"))
