"""Bugs of studies side by side, of clients that are rude, and of members that are busy or forgetful."""

import inspect
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from colonnade.conversations import endpoint
from colonnade.conversations.consent import Yes
from colonnade.conversations.endpoint import Runs
from colonnade.conversations.memory import LedgerHeads, RunRecords
from colonnade.coordinator import driver
from colonnade.coordinator.driver import StudyQueue
from colonnade.errors import ProtocolError
from colonnade.party import serving
from colonnade.party.gate import Gate
from colonnade.party.handles import Reservation
from colonnade.protocol import codec
from colonnade.secure import mail
from tests.conversations import test_faults as faults
from tests.conversations import test_heads as heads
from tests.conversations import test_hub as hub
from tests.conversations import test_opened_once as once
from tests.conversations import test_side_by_side as side_by_side
from tests.conversations.sites import Site
from tests.party import test_gate as gates
from tests.party import test_serving as clients
from tests.seeded.bug import Bug, replaced, wrapped


def _with_a_site(test: Callable[..., None], **arguments: object) -> Callable[[], None]:
    """Run a test of studies side by side on a federation of its own."""

    def run() -> None:
        wanted = set(inspect.signature(test).parameters)
        with tempfile.TemporaryDirectory() as name:
            takes: dict[str, object] = {"now": [0.0]} if "now" in wanted else {}
            if "tmp_path" in wanted:
                takes["tmp_path"] = Path(name)
            elif "audited" in wanted:
                takes["audited"] = Site(Path(name), parties=("bank", "telco"), nodes=("auditor",))
            else:
                takes["site"] = Site(Path(name))
            test(**takes, **arguments)

    return run


def _in_a_folder(test: Callable[..., None], **arguments: object) -> Callable[..., None]:
    def run(monkeypatch: pytest.MonkeyPatch) -> None:
        takes = {"monkeypatch": monkeypatch} if "monkeypatch" in inspect.signature(test).parameters else {}
        with tempfile.TemporaryDirectory() as name:
            test(tmp_path=Path(name), **takes, **arguments)

    return run


def _a_ledger() -> heads.Ledger:
    made = heads.Ledger()
    for _ in range(5):
        made.add()
    return made


def _one_run_at_a_time(honest, self, plan, request, join):
    self._runs.clear()
    return honest(self, plan, request, join)


def _runs_by_their_own_name(patch: pytest.MonkeyPatch) -> None:
    """Two runs of one step are then kept apart, and live together."""
    asked = SimpleNamespace(run=b"")
    honest = Runs.post

    def post(self, request, join):
        asked.run = request.run
        return honest(self, request, join)

    patch.setattr(Runs, "post", post)
    shim = SimpleNamespace(
        digest=lambda plan: codec.digest(plan) + asked.run, encode=codec.encode, decode_request=codec.decode_request
    )
    patch.setattr(endpoint, "codec", shim)


def _makes_room_by_force(self) -> None:
    if len(self._runs) >= self._at_once:
        del self._runs[next(iter(self._runs))]


def _no_line(self, study: object, group: object = None, *, alone: bool = False) -> Iterator[driver.Turn]:
    yield driver.Turn(study, group, alone)


def _forgets_at_the_end(honest, self, path=None):
    honest(self, None)


def _dies_with_its_client(honest, self, client, reply) -> None:
    try:
        honest(self, client, reply)
    except OSError:
        self._failure = ProtocolError("A client is gone.")
        self._ended.set()
        raise


def _one_client_at_a_time(honest, self, guard, listener, connections) -> None:
    honest(self, guard, listener, 1)


def _known_by_now(self, party, context, nonce):
    return self._seen


def _salted_by_partners(honest, terms, named, hellos, pinned):
    """The keys do not depend on hellos that a member has not checked itself: no letter is a word on them."""
    same = {name: msgspec.structs.replace(hello, ephemeral=bytes(32)) for name, hello in hellos.items()}
    return honest(terms, named, same, pinned)


def _draws_again(honest, self, *rest):
    honest(self, *rest)
    return Reservation(self.random_bytes(32))


BUGS = [
    Bug(
        "a member keeps one run at a time",
        wrapped(Runs, "_begin", _one_run_at_a_time),
        _with_a_site(
            side_by_side.test_studies_whose_turns_are_interleaved_are_all_right_and_paid_once, order="in turn"
        ),
    ),
    Bug(
        "two runs of one step are under way together",
        _runs_by_their_own_name,
        _with_a_site(side_by_side.test_two_runs_of_one_step_are_never_under_way_together),
    ),
    Bug(
        "concluding one study ends all",
        replaced(Runs, "conclude", lambda self, plan, step: self._runs.clear()),
        _with_a_site(side_by_side.test_a_study_that_is_concluded_ends_its_own_run_and_no_other),
    ),
    Bug(
        "a member that is busy drops a study",
        replaced(Runs, "_make_room", _makes_room_by_force),
        _with_a_site(side_by_side.test_a_member_with_too_many_studies_is_busy_says_for_how_long_and_charges_nothing),
    ),
    Bug(
        "members remember every run for ever",
        replaced(Runs, "_make_room", lambda self: None),
        _with_a_site(side_by_side.test_members_forget_what_is_over),
    ),
    Bug(
        "nobody waits for a member that is busy",
        replaced(driver, "PATIENCE", 0.0),
        _with_a_site(side_by_side.test_the_coordinator_waits_for_a_busy_member_and_then_runs_the_study),
    ),
    Bug(
        "equal studies run at the same time",
        replaced(StudyQueue, "turn", contextmanager(_no_line)),
        _with_a_site(side_by_side.test_one_study_from_many_threads_is_one_study),
    ),
    Bug(
        "what an attempt cost is added again for the next",
        wrapped(driver, "losses_in", lambda honest, account: 2 * honest(account)),
        _with_a_site(side_by_side.test_what_failed_attempts_cost_is_added_up_once),
    ),
    Bug(
        "a node forgets what it opened when it ends",
        wrapped(RunRecords, "__init__", _forgets_at_the_end),
        _with_a_site(side_by_side.test_nodes_that_are_restarted_hear_the_same_or_stop),
    ),
    Bug(
        "nobody minds hearing something else in another run",
        replaced(RunRecords, "keep", lambda *_, **__: None),
        partial(once.test_a_step_is_not_opened_a_second_time_by_nodes_that_did_not_open_it_before, ()),
    ),
    Bug(
        "a member says something else after a restart",
        replaced(RunRecords, "secret", lambda self, plan, step, drawn: drawn),
        _with_a_site(
            side_by_side.test_a_member_that_was_killed_as_the_others_opened_opens_too_when_it_is_asked_again,
            name="auditor",
        ),
    ),
    Bug(
        "a member keeps the secrets of steps that are over",
        replaced(RunRecords, "conclude", lambda *_: None),
        _with_a_site(faults.test_every_member_forgets_its_secret_when_a_step_is_over),
    ),
    Bug(
        "a member goes on from an old copy of what it said",
        replaced(RunRecords, "_refuse_set_back", lambda *_, **__: None),
        _in_a_folder(side_by_side.test_an_old_copy_of_what_was_said_is_refused_and_deleting_it_only_loses_steps),
    ),
    Bug(
        "a party that has lost what it said begins anew",
        replaced(Gate, "was_begun", lambda *_: False),
        _with_a_site(side_by_side.test_a_party_that_has_lost_what_it_said_says_nothing_else),
    ),
    Bug(
        "a release that was cut short is drawn anew",
        wrapped(Gate, "reserve", _draws_again),
        gates.test_a_release_that_was_cut_short_is_drawn_with_the_same_noise,
    ),
    Bug(
        "a late head is an alarm",
        replaced(LedgerHeads, "_floor", _known_by_now),
        lambda: heads.test_a_late_head_raises_no_alarm_and_is_not_taken_for_where_the_ledger_stands(_a_ledger()),
    ),
    Bug(
        "any nonce will do",
        replaced(LedgerHeads, "_floor", lambda self, party, context, nonce: {}),
        lambda: heads.test_a_head_over_no_nonce_of_ours_is_out_of_order_and_no_alarm(_a_ledger()),
    ),
    Bug(
        "nonces are not signed",
        replaced(Yes, "words", lambda self: self.plan + self.party.encode() + self.head),
        lambda: heads.test_nonces_of_a_yes_are_under_its_signature(heads.Table3()),
    ),
    Bug(
        "keys do not follow from all hellos",
        wrapped(mail, "_transcript", _salted_by_partners),
        hub.test_a_hello_that_only_a_data_party_was_shown_leaves_it_unread_and_unheard,
    ),
    Bug(
        "a client that hangs up ends the guard",
        wrapped(serving._Server, "_send", _dies_with_its_client),
        _in_a_folder(clients.test_a_client_that_leaves_while_it_is_answered_is_not_waited_for, act=clients.hang_up),
    ),
    Bug(
        "clients are served one after the other",
        wrapped(serving._Server, "__init__", _one_client_at_a_time),
        _in_a_folder(clients.test_a_slow_client_keeps_nobody_waiting),
        full=True,
    ),
]
