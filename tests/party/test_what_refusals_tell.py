"""What a party says, and what it writes down, is the same on neighbouring tables: requests, faults and tables, crossed.

Each case plays one script twice, on two sides that differ in rows (`tests.side_by_side`), and compares everything that a
coordinator hears, everything that the ledgers record, and which rows and columns the parties read in which order. A refusal is
free, so one that differed would be an exact answer for nothing. The matrix itself is in `tests.party.refusal_matrix`.
"""

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from colonnade.conversations import matching
from colonnade.errors import BadInput
from colonnade.party import gate
from colonnade.party.steps import agreements
from colonnade.service import party_folder
from tests.party import test_alignment_refusals as lists
from tests.party import test_change_attacks as attacks
from tests.party.refusal_matrix import AS_IT_IS, COHORT, FAULTS, REQUESTS, TABLES, Case, Theatre, crossed, slice_of
from tests.seeded import admission
from tests.side_by_side import InProcess

# What parties once gave away ------------------------------------------------------------------------------------------------


def _reloads_without_a_word(patch: pytest.MonkeyPatch) -> None:
    """Before there were versions, an owner simply opened another table, and a pending step kept a hash of its columns."""

    def reload(stage: InProcess) -> None:
        stage.tables = stage.after
        stage.restart()

    attacks.as_it_was(patch)
    patch.setattr(InProcess, "declare", reload)


def _links_instead_of_copying(files, folder, copy):
    sums = {}
    for number, path in enumerate(files):
        name = f"{number:04d}{path.suffix}"
        (folder / name).symlink_to(path)
        sums[name] = party_folder._digest(path)
    return sums


def _reads_the_owners_file(patch: pytest.MonkeyPatch) -> None:
    """Before there were copies, a party read the owner's own file, and said so when it had changed."""
    patch.setattr(party_folder, "_copied", _links_instead_of_copying)
    patch.setattr(party_folder.Snapshots, "files", admission._opens_what_is_there)
    patch.setattr(gate, "among_rows", nullcontext)


def _shows_its_length(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(matching, "padded", lambda digests, capacity, secret: digests)


def _hashes_its_list(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gate.OrderRecords, "record_attempt", admission._with_a_hash_of_the_list)


def _counts_what_it_leaves_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agreements, "among_rows", nullcontext)
    patch.setattr(agreements, "comparable_ids", _refusing(agreements.comparable_ids))


def _refusing(honest: Callable[..., Any]) -> Callable[..., Any]:
    def read(ids: Any, rules: Any) -> Any:
        if not {str(one) for one in COHORT} & set(map(str, ids.to_pylist())):
            raise BadInput(f"None of {len(ids)} people is on the public list.")
        return honest(ids, rules)

    return read


AS_IT_WAS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Case]] = {
    "a pending step is refused if its columns have changed": (
        _reloads_without_a_word,
        Case("in process", "pair tables", "declared meanwhile", "a record changed"),
    ),
    "the plan chooses how long a list looks": (
        lists._capacity_from_the_plan,
        Case("in process", "intersection", "a shorter list", "a person come"),
    ),
    "a list that has changed is refused": (
        lists._refuses_a_changed_list,
        Case("in process", "intersection", "once more under a new version", "another list"),
    ),
    "a file that has changed is refused": (
        _reads_the_owners_file,
        Case("served", "response", "none", "a file changed afterwards"),
    ),
    "an alignment counts": (_counts_what_it_leaves_out, Case("served", "cohort", "none", "nobody in common")),
    "letters are as long as the list": (_shows_its_length, Case("in process", "intersection", "none", "a person come")),
    "a row of the ledger holds a hash of the list": (
        _hashes_its_list,
        Case("in process", "cohort", "none", "another list"),
    ),
}
"""Ways in which parties gave something away, and the case of the matrix that each of them fails."""

CASES = tuple(dict.fromkeys((*crossed(), *(case for _, case in AS_IT_WAS.values()))))
ALWAYS = slice_of(CASES) | {case for _, case in AS_IT_WAS.values()}


@pytest.fixture(scope="module")
def theatre(tmp_path_factory) -> Theatre:
    return Theatre(tmp_path_factory.mktemp("sides"))


@pytest.mark.every(4)
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=str(case), marks=[] if case in ALWAYS else [pytest.mark.full]) for case in CASES]
)
def test_rows_change_nothing_that_a_coordinator_hears_and_no_row_of_a_ledger(case, theatre):
    told, rows, reads = theatre.seen(dataclasses.replace(case, tables=AS_IT_IS))
    other, other_rows, other_reads = theatre.seen(case)
    assert other == told
    assert other_rows == rows
    assert other_reads == reads


@pytest.mark.every(3)
@pytest.mark.parametrize("name", AS_IT_WAS)
def test_the_matrix_would_notice_what_once_gave_something_away(name, theatre, monkeypatch):
    switch, case = AS_IT_WAS[name]
    switch(monkeypatch)
    assert theatre.played(dataclasses.replace(case, tables=AS_IT_IS)) != theatre.played(case)


def test_the_matrix_has_every_request_fault_and_table_in_every_setting_and_hundreds_of_cases():
    assert len(CASES) >= 200
    for setting in ("in process", "served"):
        played = [case for case in CASES if case.setting == setting]
        assert {case.request for case in played} == set(REQUESTS)
        assert {case.fault for case in played} == set(FAULTS)
        only_served = {"a file changed afterwards"} if setting == "in process" else set()
        assert {case.tables for case in played} == set(TABLES) - {AS_IT_IS} - only_served


def test_a_case_that_is_played_twice_is_the_same_to_the_byte(theatre):
    """Or else a difference would show nothing."""
    case = Case("served", "intersection", "none", AS_IT_IS)
    assert theatre.played(case) == theatre.played(case)
