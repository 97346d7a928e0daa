"""Bugs in what peers make of a ledger's history, and in what ends a ban."""

import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from colonnade.conversations import memory
from colonnade.conversations.memory import LedgerHeads, Remembered
from colonnade.errors import ProtocolError
from colonnade.party.ledger import backup, rows
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.secure import history
from tests.conversations import test_heads as heads
from tests.party import test_ledger_backup as copies
from tests.party import test_ledger_history as shown
from tests.secure import test_history as trees
from tests.seeded.bug import Bug, replaced, wrapped


def _given(test: Callable[..., None], **arguments: object) -> Callable[[], None]:
    """Run a test with what it asks for: a folder, a ledger of five rows, a ledger's file."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            made: dict[str, Callable[[], object]] = {
                "tmp_path": lambda: Path(folder),
                "path": lambda: copies.a_ledger(Path(folder)),
                "ledger": _a_ledger,
            }
            wanted = [name for name in inspect.signature(test).parameters if name in made]
            test(**{name: made[name]() for name in wanted}, **arguments)

    return run


def _a_ledger() -> heads.Ledger:
    made = heads.Ledger()
    made.add(5)
    return made


def _restored_site() -> None:
    from tests.network import test_rolling_back as rolling

    _given(rolling.test_a_restored_party_with_the_same_table_keeps_its_version_and_is_aligned_again)()


def _by_row_numbers(self, party, statement, stood):
    return statement.head.sequence > stood.head.sequence


def _as_before(honest, self, party, statement, floor):
    """Refuse a head that is below one seen before the question, and remember nothing of it, as 0.2.0 did."""
    known = None if floor is None else floor.stood.head
    if known is not None and statement.head != known and statement.head.sequence <= known.sequence:
        raise memory._gone_back(party)
    return True


def _late_is_true(honest, self, party, statement, stood):
    return False if statement.head.sequence < stood.head.sequence else honest(self, party, statement, stood)


def _missing_is_proof(honest, self, party, statement, stood):
    try:
        return honest(self, party, statement, stood)
    except ProtocolError:
        raise memory._Contradiction(stood) from None


def _forgives(honest, self, seen):
    honest(self, {party: Remembered(known.stood) for party, known in seen.items()})


def _any_forfeit(honest, self, party, statement, floor):
    known = self._seen.get(party)
    if known is not None and statement.head.forfeited:
        return True
    return honest(self, party, statement, floor)


def _old_question(honest, self, context):
    question = honest(self, context)
    self._issued[context, question[:16]] = self._clock(), {}
    return question


def _ledger_alone(honest, self, party, context, nonce):
    issued = self._issued.get((context, nonce))
    return {} if issued is None else issued[1]


ROLLED_BACK = (
    heads.test_a_rolled_back_ledger_is_refused_however_often_it_tries_and_however_far_it_grows_until_its_owner_forfeits
)

BUGS = [
    Bug("row numbers alone are compared", wrapped(LedgerHeads, "_measure", _as_before), _given(ROLLED_BACK, rows=1)),
    Bug(
        "a head that is further on extends what is remembered",
        replaced(LedgerHeads, "_fits", _by_row_numbers),
        heads.test_a_ledger_set_back_below_what_a_peer_saw_is_refused_by_that_peer_until_the_end,
    ),
    Bug(
        "every proof holds",
        replaced(memory, "extends", lambda *_: True),
        _given(heads.test_the_peers_own_root_sent_back_proves_nothing),
    ),
    Bug(
        "a late head is taken at its word",
        wrapped(LedgerHeads, "_fits", _late_is_true),
        _given(heads.test_questions_that_were_hoarded_before_a_roll_back_do_not_help_it),
    ),
    Bug(
        "a missing proof is proof of a roll-back",
        wrapped(LedgerHeads, "_fits", _missing_is_proof),
        _given(heads.test_a_coordinator_that_changes_what_is_asked_has_nobody_banned),
    ),
    Bug(
        "a party says no row again that it has named",
        replaced(memory, "IN_FLIGHT", 0),
        heads.test_an_honest_ledger_never_raises_an_alarm_however_studies_are_interleaved,
    ),
    Bug(
        "evidence is not kept",
        wrapped(LedgerHeads, "_keep", _forgives),
        _given(heads.test_two_signed_heads_that_contradict_are_kept_and_anybody_can_check_them),
    ),
    Bug(
        "one forfeit ends every ban",
        wrapped(LedgerHeads, "_measure", _any_forfeit),
        _given(heads.test_a_forfeit_ends_a_ban_once),
    ),
    Bug(
        "a forfeit may write off as little as it likes",
        replaced(memory, "_mended", lambda *_: True),
        heads.test_a_forfeit_that_writes_off_less_than_was_seen_is_refused,
    ),
    Bug(
        "answers are not measured by what was known when they were asked for",
        wrapped(LedgerHeads, "issue", _old_question),
        _given(heads.test_a_ledger_that_stands_below_what_was_seen_before_the_nonce_is_refused),
    ),
    Bug(
        "questions never close",
        wrapped(LedgerHeads, "_floor", _ledger_alone),
        _given(heads.test_a_head_over_no_nonce_of_ours_is_out_of_order_and_no_alarm),
    ),
    Bug(
        "rows are shown without salt",
        replaced(rows, "row_digest", lambda salt, row: row),
        _given(shown.test_nobody_without_the_salt_can_try_out_what_a_row_says),
    ),
    Bug(
        "a row is hashed like a node",
        replaced(history, "_leaf", lambda digest: history._node(digest[:32], digest[32:])),
        trees.test_no_inner_node_passes_for_a_row,
    ),
    Bug(
        "a root says nothing of the number of rows",
        wrapped(history, "_root", lambda honest, size, node: honest(1, node)),
        trees.test_a_proof_is_of_two_sizes_and_of_no_others,
    ),
    Bug(
        "what the owner says is charged on top",
        replaced(backup, "_missing", lambda before, least: least),
        _given(copies.test_what_the_owner_says_was_spent_becomes_the_total_and_is_not_charged_on_top, epsilon=1.25),
    ),
    Bug(
        "nobody signs a forfeit",
        wrapped(
            backup.Forfeit, "signed", lambda honest, self, ledger, owner: msgspec.structs.replace(self, signature="")
        ),
        _given(copies.test_a_forfeit_charges_the_highest_total_and_its_owner_signs_for_it, lost=1),
    ),
    Bug(
        "a restored table gets a new version",
        replaced(SqliteLedger, "restored_version", lambda *_: None),
        _restored_site,
        full=True,
    ),
]
