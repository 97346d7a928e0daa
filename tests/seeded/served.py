"""Bugs in a federation over a network: papers, keys, links and back-ups."""

import importlib.util
import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.seeded.bug import Bug, replaced, wrapped


def _on_a_site(test: Callable[..., None], **arguments: object) -> Callable[[], None]:
    """Run a test of the network's papers on a federation of its own."""

    def run() -> None:
        from tests.service.served import Site

        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "more").mkdir()
            takes = {"tmp_path": Path(folder) / "more"} if "tmp_path" in inspect.signature(test).parameters else {}
            (Path(folder) / "site").mkdir()
            test(site=Site(Path(folder) / "site", epsilon=10_000.0), **takes, **arguments)

    return run


def _network() -> list[Bug]:
    from colonnade.conversations.memory import LedgerHeads
    from colonnade.protocol.agreement import FederationAgreement
    from tests.service import test_papers as papers

    return [
        Bug(
            "peers forget where a ledger stood",
            replaced(LedgerHeads, "_measure", lambda self, party, statement, floor: True),
            _on_a_site(papers.test_peers_refuse_a_party_whose_ledger_has_gone_back),
            slow=True,
        ),
        Bug(
            "papers are good without signatures",
            replaced(FederationAgreement, "check", lambda self: self),
            _on_a_site(
                papers.test_papers_that_one_member_has_not_signed_are_refused_by_every_party,
                name="telco",
            ),
            slow=True,
        ),
    ]


def _with(test: Callable[..., None], **arguments: object) -> Callable[[], None]:
    """Run a test with what it asks for: a folder, a federation's folders, a party that lost its disk, a ledger, a clock."""

    def run() -> None:
        from colonnade.service.federation_setup import CertificateAuthority
        from tests.cli.test_what_is_sent import follow_the_pages
        from tests.party.test_ledger_backup import a_ledger
        from tests.service.certificates import Clock
        from tests.service.served import Site
        from tests.service.test_restoring import a_loss
        from tests.side_by_side import Served

        with tempfile.TemporaryDirectory() as folder:
            more, place, clock = Path(folder) / "more", Path(folder) / "place", Clock()
            more.mkdir()
            place.mkdir()
            made: dict[str, Callable[[], object]] = {
                "tmp_path": lambda: more,
                "site": lambda: Site(place),
                "work": lambda: follow_the_pages(more, two=False),
                "lost": lambda: a_loss(more),
                "path": lambda: a_ledger(more),
                "clock": lambda: clock,
                "template": lambda: Served.template(place),
                "authority": lambda: CertificateAuthority.create(place / "authority", clock=clock),
            }
            with pytest.MonkeyPatch.context() as patch:
                made["monkeypatch"] = lambda: patch
                wanted = [name for name in inspect.signature(test).parameters if name in made and name not in arguments]
                test(**{name: made[name]() for name in wanted}, **arguments)

    return run


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

    return [
        Bug(
            "the coordinator's private key is sent to everybody",
            wrapped(federation_setup, "_certify", _with_its_key),
            _with(sent.test_nothing_that_is_sent_holds_a_private_key),
            slow=True,
        ),
        Bug(
            "the authority lies in the folder that is sent to everybody",
            replaced(federation_setup, "authority_folder", lambda folder: folder / "authority"),
            _with(sent.test_nothing_that_is_sent_holds_a_private_key),
            slow=True,
        ),
        Bug(
            "a trace quotes what members say",
            wrapped(direct, "_answered", lambda honest, replies: {**honest(replies), "colonnade.message": "No."}),
            _with(traces.test_every_round_of_a_study_is_a_span_of_public_facts),
        ),
        Bug(
            "two processes serve one folder",
            replaced(fcntl, "flock", lambda *_: None),
            _with(operations.test_a_lock_ends_with_its_process),
        ),
        Bug(
            "any back-up is as good as the ledger",
            replaced(SqliteLedger, "continues", lambda *_: True),
            _with(copies.test_a_back_up_that_has_forgotten_releases_is_refused_and_nothing_changes),
        ),
        Bug(
            "a new identity key needs no signature of the old one",
            replaced(FederationAgreement, "keys_of", all_keys),
            _with(rotation.test_a_new_key_that_the_old_one_did_not_sign_is_refused, forge=rotation.stranger),
            slow=True,
        ),
    ]


def _with_kits(
    test: Callable[..., None], *fixtures: str, with_patches: bool = False, **arguments: object
) -> Callable[[], None]:
    """Run a test with kits of its own, and with the fixtures that it names."""

    def run() -> None:
        from tests.transport import test_links as tests

        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            tests.provision(folder / "ours", host="coordinator.test", sites=[*tests.PARTIES, "outsider"], kits=folder)
            tests.provision(folder / "theirs", host="elsewhere.test", sites=["telco"], kits=folder / "elsewhere")
            (folder / "mail").mkdir()
            given = {"kits": folder, "tmp_path": folder / "mail"}
            made = {
                "bank": lambda: tests.Member(
                    "bank",
                    folder,
                    {name: tests.free_address() for name in tests.PARTIES},
                    folder / "mail",
                    room=300_000,
                ).start(),
                "linked": lambda: tests.Linked(folder, folder / "mail"),
                "plain": lambda: tests.pca(tests.federation(people=2_000)),
            }
            found = {name: made[name]() if name in made else given[name] for name in fixtures}
            try:
                with pytest.MonkeyPatch.context() as patch:
                    test(**found, **arguments, **({"monkeypatch": patch} if with_patches else {}))
            finally:
                for one in found.values():
                    if hasattr(one, "stop"):
                        one.stop()

    return run


def _links() -> list[Bug]:

    from colonnade.transport.kit import Kit
    from colonnade.transport.links import Listener
    from tests.transport import test_links as tests

    def anybody(kit: Kit, shown: bytes) -> str:
        return "telco" if kit.folder.name == "bank" else "bank"

    return [
        Bug(
            "a link is open to anybody with a certificate of the federation",
            replaced(Kit, "recognise", anybody),
            _with_kits(
                tests.test_whoever_is_no_peer_by_the_papers_and_by_certificate_is_refused,
                "kits",
                "bank",
                who="outsider",
            ),
            slow=True,
        ),
        Bug(
            "bytes are kept under a hash that is not theirs",
            replaced(Listener, "_write", lambda self, connection, place, size: b"x" * 32),
            _with_kits(tests.test_bytes_under_another_hash_than_their_own_are_not_kept, "kits", "bank"),
            slow=True,
        ),
    ]


BUGS = [*_network(), *_operations(), *_links()] if importlib.util.find_spec("nvflare") else []
"""None where the extra that provisions certificates is not installed."""
