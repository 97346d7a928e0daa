"""Certificates over a moving clock, with real processes: renewed while studies run, and expired certificates that say so."""

import threading
import time

import pytest

import colonnade as cn
from colonnade.errors import CertificateExpired
from colonnade.service import federation_setup as setup
from colonnade.transport.kit import Kit, read_known
from tests.cli.studies import call
from tests.service.lines import until
from tests.service.served import Site

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SHORT = 40 / 86_400
"""Days: long enough for everybody to connect anew on a busy machine, short enough to be waited for."""


def counts(**options) -> cn.PatternCount:
    return cn.PatternCount(["bank.segment", "telco.plan"], epsilon=0.01, **options)


def renewals(site: Site, name: str) -> int:
    return len(site.events(name, "certificate-renewed"))


@pytest.mark.full
def test_everything_is_renewed_while_studies_run(tmp_path):
    """New certificates, new keys and a new authority: sites change over one after the other, and no study fails."""
    site = Site(tmp_path)
    site.start()
    done, stop, failures = [], threading.Event(), []
    try:
        with site.connect() as federation:

            def study() -> None:
                repeat = 1
                while not stop.is_set():
                    try:
                        done.append(counts().fit(federation, repeat=repeat).counts_)
                    except Exception as error:
                        failures.append(error)
                        return
                    repeat += 1

            worker = threading.Thread(target=study)
            worker.start()
            until(lambda: done or failures, what="a first study")
            for wanted in (setup.Renewal(), setup.Renewal(new_authority=True), setup.Renewal(forget_former=True)):
                requests = []
                for name, member in site.members.items():
                    path = tmp_path / f"{name}.request.toml"
                    path.write_text(member.certificate_request(new_key=True).text())
                    requests.append(path)
                before = {name: renewals(site, name) for name in site.members}
                changed = setup.Renewal(requests, None, 360.0, wanted.new_authority, wanted.forget_former)
                setup.renew(site.folder, changed)
                setup.install_coordinator(site.kit, site.folder)
                for name, member in site.members.items():
                    member.install(site.folder)
                    until(
                        lambda name=name, before=before: failures or renewals(site, name) > before[name],
                        what=f"{name} renewing",
                    )
                finished = len(done)
                until(lambda finished=finished: failures or len(done) > finished + 1, what="studies after a renewal")
            stop.set()
            worker.join()
        assert not failures, failures
        assert not [one for name in site.members for one in site.events(name, "certificate-refused")]
        assert not [one for name in site.members for one in site.events(name, "exited")]
        with site.connect() as federation:  # and from scratch, with what is installed now
            counts().fit(federation, repeat=10_000)
    finally:
        stop.set()
        site.stop()


@pytest.mark.full
def test_an_expired_certificate_names_itself_everywhere_and_a_new_one_ends_it_without_a_restart(tmp_path):
    site = Site(tmp_path, parties=("bank", "telco"), nodes=("auditor",))
    site.start()
    try:
        with site.connect() as federation:
            counts().fit(federation)
            setup.renew(site.folder, setup.Renewal(days=SHORT))
            setup.install_coordinator(site.kit, site.folder)
            for name in site.members:
                site.members[name].install(site.folder)
            ends = Kit(site.folder / "kits" / "auditor").certificates()["client.crt"].ends.timestamp()
            known = site.folder / "coordinator-state" / "certificates.status"
            until(
                lambda: all(one.ends.timestamp() <= ends for one in read_known(known).values()),
                what="everybody connecting with the new certificates",
            )
        until(lambda: time.time() > ends + 1, what="the end of the certificates", seconds=120)

        with pytest.raises(CertificateExpired, match=r"The certificate of localhost \(server.crt\) expired on 20"):
            site.connect()
        for name in site.members:
            until(lambda name=name: site.events(name, "certificate-refused"), what=f"{name} saying so")
            log = (site.members[name].path / "serve.log").read_text()
            assert f"The certificate of {name} (client.crt) expired on 20" in log
            assert "[certificate-expired]" in log

        setup.renew(
            site.folder, setup.Renewal()
        )  # the coordinator's is in place; those of the members are still to come
        setup.install_coordinator(site.kit, site.folder)
        with pytest.raises(CertificateExpired, match=r"The certificate of (bank|telco|auditor) \(with which"):
            site.connect(patience=2.0)
        for name in site.members:
            assert call("party", "install", str(site.members[name].path), str(site.folder)).exit_code == 0
        with site.connect() as federation:
            counts().fit(federation)
        for name in site.members:
            assert not site.events(name, "exited")
    finally:
        site.stop()


@pytest.mark.full
def test_a_site_says_that_the_coordinators_certificate_is_the_one_that_expired(tmp_path):
    site = Site(tmp_path, parties=("bank", "telco"), nodes=("auditor",))
    site.start()
    try:
        with site.connect() as federation:
            setup.renew(site.folder, setup.Renewal(days=SHORT))  # the members keep the certificates of a year
            setup.install_coordinator(site.kit, site.folder)
            ends = Kit(site.folder / "kits" / "coordinator", "server").certificates()["server.crt"].ends.timestamp()
            known = site.folder / "coordinator-state" / "certificates.status"
            until(lambda: read_known(known)["coordinator"].ends.timestamp() == ends, what="the coordinator renewing")
            until(lambda: time.time() > ends + 1, what="the end of the coordinator's certificate", seconds=120)
            before = len(site.events("bank", "connected"))
            site.kill("bank", "relay")  # a connection outlasts its certificate; a new one is not made
            until(lambda: site.events("bank", "certificate-refused"), what="the bank saying so", seconds=120)
            log = (site.members["bank"].path / "serve.log").read_text()
            assert "The certificate of localhost (the coordinator's server.crt) expired" in log
            setup.renew(site.folder, setup.Renewal())
            setup.install_coordinator(site.kit, site.folder)
            until(lambda: len(site.events("bank", "connected")) > before, what="the bank connecting")
            counts().fit(federation)
    finally:
        site.stop()
