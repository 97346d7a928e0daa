"""Bugs in a federation over a network: papers, keys, links and back-ups."""

import importlib.util
from functools import partial
from pathlib import Path

from tests.seeded.bug import Bug, replaced, wrapped


def _network() -> list[Bug]:
    from colonnade.conversations.memory import LedgerHeads
    from colonnade.protocol.agreement import FederationAgreement
    from tests.service import test_papers as papers

    return [
        Bug(
            "peers forget where a ledger stood",
            replaced(LedgerHeads, "_measure", lambda self, party, statement, floor: True),
            papers.test_peers_refuse_a_party_whose_ledger_has_gone_back,
            slow=True,
        ),
        Bug(
            "papers are good without signatures",
            replaced(FederationAgreement, "check", lambda self: self),
            partial(papers.test_papers_that_one_member_has_not_signed_are_refused_by_every_party, name="telco"),
            slow=True,
        ),
    ]


def _operations() -> list[Bug]:
    import fcntl

    from colonnade.party.ledger.ledger import SqliteLedger
    from colonnade.protocol.agreement import FederationAgreement
    from colonnade.secure.keys import PublicIdentity
    from colonnade.service import federation_setup
    from colonnade.transport import direct
    from tests.cli import test_what_is_sent as sent
    from tests.party import test_ledger_backup as copies
    from tests.service import test_operations as operations
    from tests.service import test_rotation as rotation
    from tests.transport import test_tracing as traces

    def all_keys(papers: FederationAgreement, name: str) -> tuple[PublicIdentity, ...]:
        keys = [papers.members[name].identity, *(one.identity for one in papers.rotations.get(name, []))]
        return tuple(PublicIdentity(bytes.fromhex(key)) for key in keys)

    def _with_its_key(honest, authority, papers, keys, kits, days):
        made = honest(authority, papers, keys, kits, days)
        (made["coordinator"] / "server.key").write_bytes(Path("coordinator", "server.key").read_bytes())
        return made

    def of_three_members(tmp_path: Path) -> None:
        sent.test_nothing_that_is_sent_holds_a_private_key(sent.follow_the_pages(tmp_path, two=False))

    return [
        Bug(
            "the coordinator's private key is sent to everybody",
            wrapped(federation_setup, "_certify", _with_its_key),
            of_three_members,
            slow=True,
        ),
        Bug(
            "a trace quotes what members say",
            wrapped(direct, "_answered", lambda honest, replies: {**honest(replies), "colonnade.message": "No."}),
            traces.test_every_round_of_a_study_is_a_span_of_public_facts,
        ),
        Bug(
            "two processes serve one folder",
            replaced(fcntl, "flock", lambda *_: None),
            operations.test_a_lock_ends_with_its_process,
        ),
        Bug(
            "any back-up is as good as the ledger",
            replaced(SqliteLedger, "continues", lambda *_: True),
            copies.test_a_back_up_that_has_forgotten_releases_is_refused_and_nothing_changes,
        ),
        Bug(
            "a new identity key needs no signature of the old one",
            replaced(FederationAgreement, "keys_of", all_keys),
            partial(rotation.test_a_new_key_that_the_old_one_did_not_sign_is_refused, forge=rotation.stranger),
            slow=True,
        ),
    ]


def _links() -> list[Bug]:

    from colonnade.transport.kit import Kit
    from tests.transport import test_links as tests

    def anybody(kit: Kit, shown: bytes) -> str:
        return "telco" if kit.folder.name == "bank" else "bank"

    return [
        Bug(
            "a link is open to anybody with a certificate of the federation",
            replaced(Kit, "recognise", anybody),
            partial(tests.test_whoever_is_no_peer_by_the_papers_and_by_certificate_is_refused, who="outsider"),
            slow=True,
        ),
    ]


BUGS = [*_network(), *_operations(), *_links()] if importlib.util.find_spec("nvflare") else []
"""None where the extra that provisions certificates is not installed."""
