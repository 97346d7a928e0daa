"""Bugs in a federation's papers, in what peers remember of ledgers, and in what a coordinator keeps."""

import importlib.util
import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.seeded.bug import Bug, replaced, wrapped


def _on_a_site(test: Callable[..., None], **arguments: object) -> Callable[[], None]:
    """Run a test of the network's papers on a federation of its own."""

    def run() -> None:
        from tests.network.served import Site

        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "more").mkdir()
            takes = {"tmp_path": Path(folder) / "more"} if "tmp_path" in inspect.signature(test).parameters else {}
            (Path(folder) / "site").mkdir()
            test(site=Site(Path(folder) / "site", epsilon=10_000.0), **takes, **arguments)

    return run


def _in_a_folder(test: Callable[..., None]) -> Callable[[], None]:
    """Run a test that makes a federation of its own in a folder."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            test(tmp_path=Path(folder))

    return run


def _bugs() -> list[Bug]:
    from colonnade.conversations.memory import LedgerHeads
    from colonnade.protocol.agreement import FederationAgreement
    from colonnade.service import served_party
    from colonnade.steps.joint import SharingFloor
    from tests.network import test_loading as loading
    from tests.network import test_papers as papers

    return [
        Bug(
            "a running party keeps the table that it was opened with",
            replaced(served_party.ServedParty, "_take_over", lambda self: None),
            _on_a_site(loading.test_what_was_kept_of_the_version_before_ends_for_everybody_alike),
        ),
        Bug(
            "peers forget where a ledger stood",
            replaced(LedgerHeads, "_measure", lambda self, party, statement, floor: True),
            _on_a_site(papers.test_peers_refuse_a_party_whose_ledger_has_gone_back),
        ),
        Bug(
            "papers are good without signatures",
            replaced(FederationAgreement, "check", lambda self: self),
            _on_a_site(
                papers.test_papers_that_one_member_has_not_signed_are_refused_by_every_party,
                name="telco",
            ),
        ),
        Bug(
            "all papers have one name",
            replaced(FederationAgreement, "identity", property(lambda self: "0" * 64)),
            _on_a_site(
                papers.test_every_change_of_meaning_makes_other_papers_that_nobody_has_signed,
                change="floor",
            ),
            full=True,
        ),
        Bug(
            "the papers' threshold binds nobody",
            replaced(SharingFloor, "of_papers", classmethod(lambda cls, papers: cls())),
            _in_a_folder(
                papers.test_the_papers_threshold_binds_every_member_and_the_coordinator_recruits_until_it_is_reached
            ),
        ),
        Bug(
            "who computes is no part of what is signed",
            wrapped(
                FederationAgreement,
                "_fields",
                lambda honest, self: honest(
                    msgspec.structs.replace(
                        self,
                        members={
                            name: msgspec.structs.replace(member, computes=True)
                            for name, member in self.members.items()
                        },
                    )
                ),
            ),
            _on_a_site(
                papers.test_every_change_of_meaning_makes_other_papers_that_nobody_has_signed, change="who computes"
            ),
            full=True,
        ),
        Bug(
            "the papers' floor is not put under policies",
            replaced(served_party, "stricter", lambda policy, floor: policy),
            _on_a_site(papers.test_the_floor_of_the_papers_lies_under_every_policy),
            full=True,
        ),
    ]


BUGS = _bugs() if importlib.util.find_spec("nvflare") else []
"""None where the extra that provisions certificates is not installed."""
