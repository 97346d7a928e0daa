"""Bugs in direct links: who is let in, who is written to, what is kept and when it is erased."""

import contextlib
import importlib.util
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.seeded.bug import Bug, replaced, wrapped


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


def _in_a_folder(test: Callable[[Path], None]) -> Callable[[], None]:
    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            test(Path(folder))

    return run


def _opened_empty(honest: Callable[..., None], box: Any, *given: object, **options: object) -> None:
    honest(box, *given, **options)
    box._letters.clear()


def _bugs() -> list[Bug]:
    from colonnade.protocol.agreement import FederationAgreement
    from colonnade.protocol.messages import Ticket
    from colonnade.service import post_office, processes
    from colonnade.service.post_office import PostOffice
    from colonnade.steps import joint as joint_traffic
    from colonnade.steps.kind import Forecast
    from colonnade.transport import links, mailbox
    from colonnade.transport.kit import Kit
    from colonnade.transport.links import Link, Listener
    from colonnade.transport.mailbox import Mailbox
    from tests.conversations import test_score_run as scores
    from tests.network import test_direct_members as served
    from tests.transport import test_links as tests
    from tests.transport import test_post_office as office

    def anybody(kit: Kit, shown: bytes) -> str:
        return "telco" if kit.folder.name == "bank" else "bank"

    def of_an_endless_semaphore(honest: Callable[..., None], self: PostOffice, *args: object) -> None:
        honest(self, *args)
        self._turns = threading.BoundedSemaphore(1_000)

    def forgets_no_share(self: Mailbox, name: mailbox.Name) -> None:
        if self._letters.pop(name, None) is not None:
            self._path(name).unlink(missing_ok=True)

    shared = ThreadPoolExecutor(8)

    return [
        Bug(
            "a letter may be of any length",
            replaced(links, "SHORTEST_DIRECT", 1),
            _with_kits(tests.test_a_letter_that_is_too_short_to_go_directly_ends_the_connection, "kits", "bank"),
        ),
        Bug(
            "a peer may send any number of letters",
            replaced(mailbox._Share, "has_room", lambda self, size, each: self.filled + size <= each),
            _with_kits(
                tests.test_a_peer_has_so_many_letters_and_each_counts_as_a_file, "kits", "bank", with_patches=True
            ),
        ),
        Bug(
            "an erased letter still takes room",
            replaced(Mailbox, "_erase", forgets_no_share),
            _with_kits(tests.test_the_room_of_a_peer_is_what_its_letters_leave_whatever_became_of_them, "tmp_path"),
        ),
        Bug(
            "the letters of all studies go out in the same few threads",
            replaced(post_office, "ThreadPoolExecutor", lambda *_, **__: contextlib.nullcontext(shared)),
            _with_kits(
                tests.test_a_slow_peer_keeps_no_other_letter_waiting_and_its_own_are_relayed,
                "kits",
                "bank",
                with_patches=True,
            ),
            full=True,
        ),
        Bug(
            "a link that is slow is tried again as soon as any other",
            wrapped(Link, "_leave_alone", lambda honest, self, seconds: honest(self, links.REST)),
            _with_kits(
                tests.test_a_transfer_has_a_deadline_and_a_link_that_is_slow_again_rests_for_longer,
                "kits",
                with_patches=True,
            ),
        ),
        Bug(
            "a link outlasts the certificate at its other end",
            replaced(Listener, "_check_again", lambda self, caller, peer: None),
            _with_kits(
                tests.test_a_link_that_is_open_ends_with_the_certificate_at_its_other_end,
                "kits",
                "tmp_path",
                with_patches=True,
            ),
        ),
        Bug(
            "every stranger has a line in the log",
            replaced(
                links._Refusals, "note", lambda self, peer: self._log.event("link-refused", party=peer or None, times=1)
            ),
            _with_kits(tests.test_strangers_do_not_fill_the_log, "kits", "tmp_path", with_patches=True),
        ),
        Bug(
            "the letters of a turn outlive its answer",
            wrapped(Mailbox, "forget", lambda honest, self, study, *one: None if one else honest(self, study)),
            _with_kits(office.test_letters_are_put_back_for_the_guard_and_erased_with_its_answer, "tmp_path"),
        ),
        Bug(
            "a coordinator chooses how much of the letters a relay holds",
            wrapped(PostOffice, "__init__", of_an_endless_semaphore),
            _with_kits(office.test_a_few_turns_at_most_are_held_whole, "tmp_path"),
        ),
        Bug(
            "mail outlives its member",
            replaced(processes, "_erase_mail", lambda folder: None),
            _on_a_site_with_links(
                served.test_mail_is_erased_before_a_member_begins_and_after_it_has_ended,
                with_patches=True,
                direct=False,
            ),
            full=True,
        ),
        Bug(
            "a forecast leaves out what givers write",
            wrapped(
                joint_traffic,
                "_given_letters",
                lambda honest, joint, forecast: honest(joint, Forecast(forecast.plan_bytes)),
            ),
            scores.test_what_givers_write_is_part_of_the_forecast_and_could_go_directly,
            full=True,
        ),
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
            wrapped(Mailbox, "__init__", _opened_empty),
            _in_a_folder(tests.test_a_mailbox_that_is_opened_again_has_the_letters_that_came),  # no ports, no clock
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


def _on_a_site_with_links(
    test: Callable[..., None], *, with_patches: bool = False, **arguments: object
) -> Callable[[], None]:
    def run() -> None:
        from tests.network.served import Site

        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            given = {"monkeypatch": patch} if with_patches else {}
            test(papers=Site(Path(folder), direct=True), **arguments, **given)

    return run


BUGS = _bugs() if importlib.util.find_spec("nvflare") else []
"""None where the extra that provisions certificates is not installed."""
