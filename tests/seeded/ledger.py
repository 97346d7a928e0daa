"""Bugs in the ledger and in what is remembered of it.

A bug that several defences catch (most do: the code, the database's own constraints, verification on opening) is planted in
one of them only, unless its name says otherwise.
"""

import dataclasses
import os
from functools import partial

from colonnade.party.guard import Guard
from colonnade.party.ledger import file as ledger_file
from colonnade.party.ledger import ledger
from colonnade.party.ledger import rows as ledger_rows
from colonnade.party.ledger.chain import LedgerState, RowChain
from colonnade.party.ledger.file import HeadMemory, LedgerFile
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.ledger.rows import SCHEMA, Ceiling, Head
from colonnade.privacy.accounting import NOTHING, Loss
from colonnade.runtime.private_files import AlternatingFile
from tests.party import test_head_memory as memory
from tests.party import test_ledger as alone
from tests.party import test_ledger_damage as damage
from tests.party import test_ledger_faults as faults
from tests.party import test_ledger_file as outside
from tests.runtime import test_alternating_file as alternating
from tests.seeded.bug import Bug


def _remembers_before_the_commit(patch):
    honest = RowChain.append

    def append(self, facts, seed=None):
        honest(self, facts, seed)
        if self._state is not None:
            digest = ledger_rows.row_hash(facts)
            HeadMemory(self._file.path).keep(Head(self._state.genesis.ledger, facts.sequence, digest, 0))

    patch.setattr(RowChain, "append", append)


_overwritten = AlternatingFile._overwrite
_kept = AlternatingFile.keep


def _keeps_what_cannot_be_read_back(self, content):
    if not self._path.exists() or self.read() != content:
        _kept(self, content)


def _ignores_how_much_was_written(patch):
    def overwrite(self, slot):
        with self._path.open("rb+") as opened:
            os.pwrite(opened.fileno(), slot.encoded(), slot.place * self.SLOT)
            os.fdatasync(opened.fileno())
        self._durable = slot

    patch.setattr(AlternatingFile, "_overwrite", overwrite)


def _rounds_costs_down(patch):
    honest = ledger_rows.checked_cost

    def dishonest(loss):
        cost = honest(loss)
        return Loss((entry - 1 or 1 for entry in cost.renyi), cost.pure)

    patch.setattr(ledger_rows, "checked_cost", dishonest)


def _accepts_any_cost(patch):
    patch.setattr(ledger_rows, "checked_cost", lambda loss: loss)


def _cap_check_passes_what_it_cannot_compare(patch):
    # `if cost > room: refuse`: a missing or NaN figure is not larger than anything
    def holds(self, total):
        nano = total.nano_epsilon(self.delta)
        return not (float("nan") if nano is None else nano) > self.nano

    patch.setattr(Ceiling, "holds", holds)


def _cap_check_compares_the_new_cost_alone(patch):
    patch.setattr(
        SqliteLedger,
        "_refuse_beyond_the_cap",
        lambda self, tally, cost: (
            None if cost is None or tally.cap.holds(cost) else (_ for _ in ()).throw(ledger.BudgetExceeded(""))
        ),
    )
    patch.setattr(LedgerState, "within_cap", lambda self: self)


def _reads_cached_totals_only(patch):
    patch.setattr(RowChain, "catch_up", lambda self: self.known)


def _ignores_rows_of_others(patch):
    honest = RowChain.catch_up

    def own_rows_only(self):
        tally = honest(self)
        own = self.__dict__.setdefault("_own", {tally.sequence: NOTHING})
        return dataclasses.replace(tally, total=sum(own.values(), NOTHING))

    insert = RowChain.append

    def remember(self, facts, seed=None):
        insert(self, facts, seed)
        if facts.loss is not None:
            self.__dict__.setdefault("_own", {})[facts.sequence] = Loss.from_bytes(facts.loss)

    patch.setattr(RowChain, "catch_up", own_rows_only)
    patch.setattr(RowChain, "append", remember)


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
    statements = tuple(statement for statement in SCHEMA if f"CREATE TRIGGER {name}" not in statement)
    assert len(statements) == len(SCHEMA) - 1
    patch.setattr(ledger_file, "SCHEMA", statements)


def _forgets_the_chain(patch):
    patch.setattr(ledger_rows, "check_hash", lambda facts, stored: stored)


def _knows_the_last_row_by_its_place(patch):
    honest = RowChain.catch_up

    def believing(self):
        last = self._file.run("SELECT max(sequence) FROM entries").fetchone()[0]
        return self.known if last == self.known.sequence else honest(self)

    patch.setattr(RowChain, "catch_up", believing)


def _forgets_the_order(patch):
    honest = LedgerState.then
    patch.setattr(
        LedgerState,
        "then",
        lambda self, facts, stored: honest(
            dataclasses.replace(self, sequence=facts.sequence - 1, hash=facts.previous), facts, stored
        ),
    )


def _forgets_the_answers(patch):
    patch.setattr(ledger_rows, "check_kept", lambda *arguments: None)


def _forgets_the_schema_check(patch):
    patch.setattr(LedgerFile, "check", lambda self: None)


def _hashes_without_lengths(patch):
    import hashlib

    def ambiguous(purpose, *fields):
        return hashlib.sha256("".join(repr(field) for field in fields if field is not None).encode()).digest()

    patch.setattr(ledger_rows, "_digest", ambiguous)


def _draws_again_after_a_crash(patch):
    honest = SqliteLedger.answer_to

    def forgiving(self, request_id, body_hash):
        try:
            return honest(self, request_id, body_hash)
        except ledger.ReleaseLost:
            return None

    patch.setattr(SqliteLedger, "answer_to", forgiving)


def _overwrites_answers(patch):
    patch.setattr(ledger, "_unchanged", lambda kept, answer: answer)


def _retries_after_a_failed_write(patch):
    patch.setattr(LedgerFile, "_give_up", lambda self, *_: self._roll_back())


def _syncs_less(patch):
    patch.setattr(ledger_file, "PRAGMAS", {**ledger_file.PRAGMAS, "synchronous": 1})


def _leaves_erased_bytes(patch):
    patch.setattr(ledger_file, "PRAGMAS", {**ledger_file.PRAGMAS, "secure_delete": 0})


def _follows_links(patch):
    patch.setattr(os, "lstat", os.stat)


def _ignores_the_mode(patch):
    patch.setattr(ledger_file.stat, "S_IMODE", lambda mode: 0o600)


def _ignores_a_replaced_file(patch):
    patch.setattr(LedgerFile, "_refuse_another_file", lambda self: None)


def _lowers_a_cap_below_what_was_spent(patch):
    honest = Ceiling.holds
    patch.setattr(Ceiling, "holds", lambda self, total: self.nano < 100_000_000 or honest(self, total))


def _remembers_answers_alone(self, data):
    ledger = self._gate.ledger
    ledger.refuse_set_back()
    reply = self._answer(data)
    ledger.remember_head()
    return reply


def _remembers_an_old_ledger(self, data):
    ledger = self._gate.ledger
    try:
        ledger.refuse_set_back()
        return self._answer(data)
    finally:
        ledger.remember_head()


BUGS = [
    Bug(
        "costs are rounded down",
        _rounds_costs_down,
        alone.test_spent_is_exactly_what_was_debited_to_the_last_nano_unit_at_every_order,
    ),
    Bug(
        "any cost is accepted",
        _accepts_any_cost,
        partial(alone.test_a_cost_that_is_not_a_positive_loss_is_refused, cost=NOTHING),
    ),
    Bug(
        "the cap check passes what it cannot compare",
        _cap_check_passes_what_it_cannot_compare,
        alone.test_a_loss_without_a_pure_part_never_fits_a_cap_without_delta,
    ),
    Bug(
        "the cap check compares the new cost alone, and verification does not check the total",
        _cap_check_compares_the_new_cost_alone,
        alone.test_invariant_2_the_total_never_passes_the_cap,
    ),
    Bug("cached totals only", _reads_cached_totals_only, alone.test_invariant_2_two_handles_share_one_budget),
    Bug(
        "other processes' rows are not counted",
        _ignores_rows_of_others,
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
    Bug("the chain is not checked", _forgets_the_chain, damage.test_a_changed_fact_is_refused_by_the_chain),
    Bug(
        "the order of the chain is not checked", _forgets_the_order, damage.test_a_row_cut_out_of_the_middle_is_refused
    ),
    Bug("answers are not checked", _forgets_the_answers, damage.test_a_changed_answer_or_seed_is_refused),
    Bug(
        "the schema is not checked",
        _forgets_the_schema_check,
        partial(
            outside.test_a_file_whose_schema_is_not_exactly_ours_is_refused,
            change="DROP TRIGGER rows_are_never_deleted",
        ),
    ),
    Bug(
        "fields are hashed without their lengths",
        _hashes_without_lengths,
        damage.test_no_two_rows_have_the_same_encoding,
    ),
    Bug(
        "a lost release is drawn again",
        _draws_again_after_a_crash,
        alone.test_invariant_4_a_debit_that_was_not_sealed_is_lost_not_refunded_and_not_drawn_again,
    ),
    Bug(
        "a second answer replaces the first",
        _overwrites_answers,
        alone.test_invariant_3_a_sealed_answer_is_never_replaced,
    ),
    Bug(
        "a failed write is retried",
        _retries_after_a_failed_write,
        faults.test_a_full_disk_refuses_and_the_ledger_then_refuses_everything,
    ),
    Bug("synchronous is NORMAL", _syncs_less, outside.test_sqlite_grants_every_setting_that_durability_rests_on),
    Bug(
        "erased bytes stay in the file",
        _leaves_erased_bytes,
        alone.test_a_reserved_step_keeps_its_seed_until_it_is_committed_and_then_no_byte_of_it,
    ),
    Bug("links are followed", _follows_links, outside.test_a_link_to_a_ledger_is_refused),
    Bug(
        "the file's mode is ignored",
        _ignores_the_mode,
        partial(outside.test_a_file_that_others_may_touch_is_refused, mode=0o644),
    ),
    Bug(
        "a replaced file is not noticed",
        _ignores_a_replaced_file,
        outside.test_a_ledger_whose_file_is_replaced_under_it_refuses_from_then_on,
    ),
    Bug(
        "a cap is lowered below what was spent",
        _lowers_a_cap_below_what_was_spent,
        alone.test_invariant_5_every_refusal_leaves_the_ledger_as_it_was_and_says_so,
    ),
    Bug(
        "the last row is known by its place",
        _knows_the_last_row_by_its_place,
        partial(damage.test_a_last_row_that_is_changed_after_it_was_read_is_noticed, change="label = 'other'"),
        slow=True,
    ),
    Bug(
        "a ledger that went back is opened",
        lambda patch: patch.setattr(HeadMemory, "check", lambda self, continues: None),
        memory.test_a_party_does_not_open_a_ledger_that_went_back,
        slow=True,
    ),
    Bug(
        "the highest head is overwritten where it stands",
        lambda patch: patch.setattr(
            AlternatingFile, "_overwrite", lambda self, slot: _overwritten(self, slot._replace(place=1 - slot.place))
        ),
        memory.test_a_memory_that_was_cut_off_while_it_was_written_is_the_one_before,
    ),
    Bug(
        "a head that can be read back counts as durable",
        lambda patch: patch.setattr(AlternatingFile, "keep", _keeps_what_cannot_be_read_back),
        partial(alternating.test_once_a_value_is_kept_it_is_on_disk_though_a_sync_before_it_failed, restarts=False),
    ),
    Bug(
        "a head that was written in part counts as written",
        _ignores_how_much_was_written,
        alternating.test_a_value_that_was_written_in_part_is_not_kept,
    ),
    Bug(
        "both places of the highest head are in one sector",
        lambda patch: patch.setattr(AlternatingFile, "SLOT", 512),
        partial(alternating.test_once_a_value_is_kept_it_is_on_disk_though_a_sync_before_it_failed, restarts=True),
    ),
    Bug(
        "a damaged memory is written over",
        lambda patch: patch.setattr(
            HeadMemory, "keep", lambda self, head: self._file.keep(ledger_file.msgspec.json.encode(head))
        ),
        memory.test_a_memory_that_is_damaged_is_not_written_over,
    ),
    Bug(
        "requests are answered from a ledger that went back",
        lambda patch: patch.setattr(SqliteLedger, "refuse_set_back", lambda self: None),
        memory.test_no_method_is_answered_from_a_ledger_that_went_back_and_neither_is_the_budget,
    ),
    Bug(
        "a message leaves before its ledger is remembered",
        lambda patch: patch.setattr(SqliteLedger, "remember_head", lambda self: None),
        memory.test_a_message_leaves_once_its_ledger_is_remembered_and_the_memory_is_its_owners_alone,
    ),
    Bug(
        "a refusal leaves before its ledger is remembered",
        lambda patch: patch.setattr(Guard, "_answer_once_remembered", _remembers_answers_alone),
        memory.test_a_refusal_leaves_once_its_ledger_is_remembered_and_one_from_an_old_ledger_remembers_nothing,
    ),
    Bug(
        "a refusal from an old ledger is remembered",
        lambda patch: patch.setattr(Guard, "_answer_once_remembered", _remembers_an_old_ledger),
        memory.test_a_refusal_leaves_once_its_ledger_is_remembered_and_one_from_an_old_ledger_remembers_nothing,
    ),
    Bug(
        "a row is remembered before it is committed",
        _remembers_before_the_commit,
        memory.test_wherever_a_party_is_cut_off_its_ledger_is_not_behind_its_memory_and_it_goes_on,
    ),
]
