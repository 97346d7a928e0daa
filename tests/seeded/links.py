"""Bugs in direct links: who is let in, who is written to, what is kept and when it is erased."""

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.seeded.bug import Bug, replaced, wrapped


def _with_kits(test: Callable[..., None], *fixtures: str, **arguments: object) -> Callable[[], None]:
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
                test(**found, **arguments)
            finally:
                for one in found.values():
                    if hasattr(one, "stop"):
                        one.stop()

    return run


def _bugs() -> list[Bug]:
    from colonnade.protocol.agreement import FederationAgreement
    from colonnade.protocol.messages import Ticket
    from colonnade.transport.kit import Kit
    from colonnade.transport.links import Listener
    from colonnade.transport.mailbox import Mailbox
    from tests.network import test_direct_members as served
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
        ),
        Bug(
            "a letter is sent to whoever listens at a peer's address",
            replaced(Kit, "recognise", anybody),
            _with_kits(
                tests.test_no_letter_is_sent_to_somebody_else_who_listens_at_a_peers_address,
                "kits",
                "tmp_path",
                impostor="outsider",
            ),
        ),
        Bug(
            "bytes are kept under a hash that is not theirs",
            replaced(Listener, "_write", lambda self, connection, place, size: b"x" * 32),
            _with_kits(tests.test_bytes_under_another_hash_than_their_own_are_not_kept, "kits", "bank"),
        ),
        Bug(
            "a peer may fill the disk",
            wrapped(Mailbox, "_reserve", lambda honest, self, sender, size: honest(self, sender, 0) or True),
            _with_kits(
                tests.test_a_letter_larger_than_any_letter_ends_the_connection_and_one_without_room_is_declined,
                "kits",
                "bank",
            ),
        ),
        Bug(
            "letters that came directly are kept for ever",
            replaced(Mailbox, "_erase", lambda self, name: None),
            _with_kits(
                tests.test_the_release_is_the_same_bit_for_bit_and_the_coordinator_gets_tickets, "linked", "plain"
            ),
        ),
        Bug(
            "what was in a mailbox is lost with its process",
            replaced(Mailbox, "holds", lambda self, sender, study, ticket: False),
            _with_kits(
                tests.test_a_relay_that_is_killed_and_started_again_still_has_the_letters_that_came, "linked", "plain"
            ),
        ),
        Bug(
            "anything of the right length is a ticket",
            replaced(Ticket, "read", lambda found: Ticket(1_000, b"x" * 32) if len(found) else None),
            tests.test_a_ticket_is_not_a_letter_nor_a_letter_a_ticket,
        ),
        Bug(
            "addresses are no part of what is signed",
            wrapped(
                FederationAgreement,
                "_fields",
                lambda honest, self: honest(
                    msgspec.structs.replace(
                        self,
                        members={
                            name: msgspec.structs.replace(member, direct="") for name, member in self.members.items()
                        },
                    )
                ),
            ),
            _on_a_site_with_links(
                served.test_addresses_are_part_of_what_is_signed_and_papers_without_them_keep_their_name
            ),
            full=True,
        ),
    ]


def _on_a_site_with_links(test: Callable[..., None]) -> Callable[[], None]:
    def run() -> None:
        from tests.network.served import Site

        with tempfile.TemporaryDirectory() as folder:
            test(papers=Site(Path(folder), direct=True))

    return run


BUGS = _bugs() if importlib.util.find_spec("nvflare") else []
"""None where the extra that provisions certificates is not installed."""
