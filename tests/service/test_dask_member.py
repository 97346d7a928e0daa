"""A served party with a Dask cluster of its own: the same releases over the network, also after one of its workers was killed."""

import os
import signal

import numpy as np
import pytest

import colonnade as cn
from tests.party.dask_clusters import tls_cluster, write_files
from tests.service.served import Site, simulated

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.mark.full
def test_a_served_party_on_dask_gives_the_same_releases_and_survives_a_worker(tmp_path_factory):
    with tls_cluster(n_workers=2, threads_per_worker=1, processes=True) as (cluster, security):
        site = Site(tmp_path_factory.mktemp("n"))
        schema = site.members["bank"].path / "schema.toml"
        schema.write_text(f'dask = "{cluster.scheduler_address}"\n' + schema.read_text())
        write_files(security, schema.parent / "dask")
        site.start()
        try:
            with simulated(site) as here, site.connect() as there:
                for number, study in enumerate(
                    (
                        lambda: cn.PCA(2, epsilon=1.0, delta=1e-6),
                        lambda: cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0),
                        lambda: cn.PCA(1, columns=["bank.age", "telco.bill"], epsilon=1.0, delta=1e-6),
                    )
                ):
                    one, other = study().fit(here), study().fit(there)
                    name = "mean_" if hasattr(one, "mean_") else "counts_"
                    np.testing.assert_array_equal(np.asarray(getattr(one, name)), np.asarray(getattr(other, name)))
                    if number == 0:
                        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
                assert here.budget().equals(there.budget())
        finally:
            site.stop()
