"""Bugs in the ledger and in what is remembered of it.

A bug that several defences catch (most do: the code, the database's own constraints, verification on opening) is planted in
one of them only, unless its name says otherwise.
"""

import dataclasses
import hashlib
from contextlib import suppress
from functools import partial

from colonnade.party.guard import Guard
from colonnade.party.ledger import file as ledger_file
from colonnade.party.ledger import ledger
from colonnade.party.ledger import rows as ledger_rows
from colonnade.party.ledger.chain import LedgerState, RowChain
from colonnade.party.ledger.file import AlternatingFile, HeadMemory, LedgerFile
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import SCHEMAS, Ceiling, Head
from colonnade.privacy.accounting import GRID, NOTHING, Loss
from tests.party import test_alternating_file as alternating
from tests.party import test_head_memory as memory
from tests.party import test_ledger as alone
from tests.party import test_ledger_damage as damage
from tests.party import test_ledger_faults as faults
from tests.party import test_ledger_file as outside
from tests.seeded.bug import Bug, replaced, wrapped


def _remembers_before_the_commit(honest, self, facts, seed=None):
    honest(self, facts, seed)
    if self._state is not None:
        digest = ledger_rows.row_hash(facts)
        HeadMemory(self._file.path).keep(Head(self._state.genesis.ledger, facts.sequence, digest, 0))


_overwritten = AlternatingFile._overwrite
_kept = AlternatingFile.keep


def _keeps_what_cannot_be_read_back(self, content):
    if not self._path.exists() or self.read() != content:
        _kept(self, content)


def _rounded_down(honest, loss, grid):
    cost = honest(loss, grid)
    return Loss((entry - 1 or 1 for entry in cost.renyi), cost.pure, cost.gaussian)


def _passes_what_it_cannot_compare(self, total):
    # `if cost > room: refuse`: a missing or NaN figure is not larger than anything
    nano = total.nano_epsilon(self.delta)
    return not (float("nan") if nano is None else nano) > self.nano


def _cap_check_compares_the_new_cost_alone(patch):
    patch.setattr(
        SqliteLedger,
        "_refuse_beyond_the_cap",
        lambda self, tally, cost, *more: (
            None if cost is None or tally.cap.holds(cost) else (_ for _ in ()).throw(ledger.BudgetExceeded(""))
        ),
    )
    patch.setattr(LedgerState, "within_cap", lambda self: self)


def _replaces_rows(patch):
    honest = LedgerFile.run
    patch.setattr(SqliteLedger, "_refuse_a_repeated", lambda self, request_id: None)
    _without_the_trigger("rows_are_appended_in_order", patch)
    patch.setattr(
        LedgerFile,
        "run",
        lambda self, statement, values=(): honest(
            self, statement.replace("INSERT INTO", "INSERT OR REPLACE INTO"), values
        ),
    )


def _without_the_trigger(name, patch):
    statements = tuple(statement for statement in SCHEMAS[GRID] if f"CREATE TRIGGER {name}" not in statement)
    assert len(statements) == len(SCHEMAS[GRID]) - 1
    patch.setitem(SCHEMAS, GRID, statements)


def _forgets_the_order(honest, self, facts, stored):
    return honest(dataclasses.replace(self, sequence=facts.sequence - 1, hash=facts.previous), facts, stored)


def _hashes_without_lengths(purpose, *fields):
    return hashlib.sha256("".join(repr(field) for field in fields if field is not None).encode()).digest()


def _draws_again_after_a_crash(honest, self, request_id, body_hash):
    with suppress(ledger.ReleaseLost):
        return honest(self, request_id, body_hash)


def _remembers_answers_alone(self, data):
    ledger = self._gate.ledger
    ledger.refuse_set_back()
    reply = self._answer(data)
    ledger.remember_head()
    return reply


BUGS = [
    Bug(
        "costs are rounded down",
        wrapped(ledger_rows, "checked_cost", _rounded_down),
        alone.test_spent_is_exactly_what_was_debited_to_the_last_nano_unit_at_every_order,
    ),
    Bug(
        "any cost is accepted",
        replaced(ledger_rows, "checked_cost", lambda loss, grid: loss),
        partial(alone.test_a_cost_that_is_not_a_positive_loss_is_refused, cost=NOTHING),
    ),
    Bug(
        "the cap check passes what it cannot compare",
        replaced(Ceiling, "holds", _passes_what_it_cannot_compare),
        alone.test_a_loss_without_a_pure_part_never_fits_a_cap_without_delta,
    ),
    Bug(
        "the cap check compares the new cost alone, and verification does not check the total",
        _cap_check_compares_the_new_cost_alone,
        alone.test_invariant_2_the_total_never_passes_the_cap,
    ),
    Bug(
        "cached totals only",
        replaced(RowChain, "catch_up", lambda self: self.known),
        alone.test_invariant_2_two_handles_share_one_budget,
    ),
    Bug(
        "INSERT OR REPLACE, no check for a repeated id, no trigger",
        _replaces_rows,
        alone.test_invariant_3_another_body_under_the_same_id_is_refused,
    ),
    *(
        Bug(
            f"the trigger {name} is missing",
            partial(_without_the_trigger, name),
            partial(alone.test_invariant_4_the_database_itself_refuses_to_take_anything_back, statement=statement),
        )
        for name, statement in [
            ("rows_are_never_deleted", "DELETE FROM entries WHERE sequence = 3"),
            ("rows_are_appended_in_order", "INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE sequence = 2"),
            ("only_an_answer_is_ever_added", "UPDATE entries SET pure = 1 WHERE sequence = 1"),
        ]
    ),
    Bug(
        "the chain is not checked",
        replaced(ledger_rows, "check_hash", lambda facts, stored: stored),
        damage.test_a_changed_fact_is_refused_by_the_chain,
    ),
    Bug(
        "the order of the chain is not checked",
        wrapped(LedgerState, "then", _forgets_the_order),
        damage.test_a_row_cut_out_of_the_middle_is_refused,
    ),
    Bug(
        "answers are not checked",
        replaced(ledger_rows, "check_kept", lambda *arguments: None),
        damage.test_a_changed_answer_or_seed_is_refused,
    ),
    Bug(
        "the schema is not checked",
        replaced(LedgerFile, "check", lambda self: None),
        partial(
            outside.test_a_file_whose_schema_is_not_exactly_ours_is_refused,
            change="DROP TRIGGER rows_are_never_deleted",
        ),
    ),
    Bug(
        "fields are hashed without their lengths",
        replaced(ledger_rows, "_digest", _hashes_without_lengths),
        damage.test_no_two_rows_have_the_same_encoding,
    ),
    Bug(
        "a lost release is drawn again",
        wrapped(SqliteLedger, "answer_to", _draws_again_after_a_crash),
        alone.test_invariant_4_a_debit_that_was_not_sealed_is_lost_not_refunded_and_not_drawn_again,
    ),
    Bug(
        "a second answer replaces the first",
        replaced(ledger, "_unchanged", lambda kept, answer: answer),
        alone.test_invariant_3_a_sealed_answer_is_never_replaced,
    ),
    Bug(
        "a failed write is retried",
        replaced(LedgerFile, "_give_up", lambda self, *_: self._roll_back()),
        faults.test_a_full_disk_refuses_and_the_ledger_then_refuses_everything,
    ),
    Bug(
        "synchronous is NORMAL",
        replaced(ledger_file, "PRAGMAS", {**ledger_file.PRAGMAS, "synchronous": 1}),
        outside.test_sqlite_grants_every_setting_that_durability_rests_on,
    ),
    Bug(
        "erased bytes stay in the file",
        replaced(ledger_file, "PRAGMAS", {**ledger_file.PRAGMAS, "secure_delete": 0}),
        alone.test_a_reserved_step_keeps_its_seed_until_it_is_committed_and_then_no_byte_of_it,
    ),
    Bug(
        "a replaced file is not noticed",
        replaced(LedgerFile, "_refuse_another_file", lambda self: None),
        outside.test_a_ledger_whose_file_is_replaced_under_it_refuses_from_then_on,
    ),
    Bug(
        "a cap is lowered below what was spent",
        wrapped(Ceiling, "holds", lambda honest, self, total: self.nano < 100_000_000 or honest(self, total)),
        alone.test_invariant_5_every_refusal_leaves_the_ledger_as_it_was_and_says_so,
    ),
    Bug(
        "a ledger that went back is opened",
        replaced(HeadMemory, "check", lambda self, continues: None),
        memory.test_a_party_does_not_open_a_ledger_that_went_back,
        slow=True,
    ),
    Bug(
        "the highest head is overwritten where it stands",
        replaced(
            AlternatingFile, "_overwrite", lambda self, slot: _overwritten(self, slot._replace(place=1 - slot.place))
        ),
        memory.test_a_memory_that_was_cut_off_while_it_was_written_is_the_one_before,
    ),
    Bug(
        "a head that can be read back counts as durable",
        replaced(AlternatingFile, "keep", _keeps_what_cannot_be_read_back),
        partial(alternating.test_once_a_value_is_kept_it_is_on_disk_though_a_sync_before_it_failed, restarts=False),
    ),
    Bug(
        "a damaged memory is written over",
        replaced(HeadMemory, "keep", lambda self, head: self._file.keep(ledger_file.msgspec.json.encode(head))),
        memory.test_a_memory_that_is_damaged_is_not_written_over,
    ),
    Bug(
        "requests are answered from a ledger that went back",
        replaced(SqliteLedger, "refuse_set_back", lambda self: None),
        memory.test_no_method_is_answered_from_a_ledger_that_went_back_and_neither_is_the_budget,
    ),
    Bug(
        "a message leaves before its ledger is remembered",
        replaced(SqliteLedger, "remember_head", lambda self: None),
        memory.test_a_message_leaves_once_its_ledger_is_remembered_and_the_memory_is_its_owners_alone,
    ),
    Bug(
        "a refusal leaves before its ledger is remembered",
        replaced(Guard, "_answer_once_remembered", _remembers_answers_alone),
        memory.test_a_refusal_leaves_once_its_ledger_is_remembered_and_one_from_an_old_ledger_remembers_nothing,
    ),
    Bug(
        "a row is remembered before it is committed",
        wrapped(RowChain, "append", _remembers_before_the_commit),
        memory.test_wherever_a_party_is_cut_off_its_ledger_is_not_behind_its_memory_and_it_goes_on,
    ),
]
