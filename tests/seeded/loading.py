"""Bugs in how a served party's tables are checked, copied, declared and opened."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from colonnade.service import party_folder, served_party
from colonnade.service.party_folder import Loaded, PartyFolder, Snapshots
from colonnade.service.served_party import TableTerms
from tests.cli import test_party_load as loads
from tests.seeded.bug import Bug, replaced


def _in_a_folder(test: Callable[..., None]) -> Callable[[], None]:
    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            test(tmp_path=Path(folder))

    return run


def _declares_before_it_copies(self, files):
    terms = self._table_terms(None)
    with self.ledger() as ledger:
        version = (ledger.current_version() or 0) + 1
        ledger.declare_version(version)
        with self._snapshots.adding(version, files, terms.copy) as copies:
            people = terms.check(copies, version)
    self._snapshots.remove_before(version)
    return Loaded(version, people, len(terms.schema))


def _links_instead_of_copying(files, folder, copy):
    sums = {}
    for number, path in enumerate(files):
        name = f"{number:04d}{path.suffix}"
        (folder / name).symlink_to(path)
        sums[name] = party_folder._digest(path)
    return sums


def _opens_what_is_there(self, version):
    return sorted(path for path in self._place(version).iterdir() if path.name != party_folder.SUMS)


def _copies_everything(self, path, file):
    file.write(path.read_bytes())


BUGS = [
    Bug(
        "a copy holds columns that are not declared",
        replaced(TableTerms, "copy", _copies_everything),
        _in_a_folder(partial(loads.test_a_copy_holds_the_declared_columns_and_no_others, name="bank.csv")),
    ),
    Bug(
        "a version is declared before its copy is on disk",
        replaced(PartyFolder, "load", _declares_before_it_copies),
        _in_a_folder(loads.test_wherever_a_load_is_killed_the_party_has_the_old_table_or_the_new_one),
    ),
    Bug(
        "a party reads the file that was loaded and not a copy",
        replaced(party_folder, "_copied", _links_instead_of_copying),
        _in_a_folder(loads.test_what_happens_to_the_file_afterwards_matters_to_nobody),
    ),
    Bug(
        "a copy is not compared with its hashes",
        replaced(Snapshots, "files", _opens_what_is_there),
        _in_a_folder(
            partial(loads.test_a_copy_that_is_not_what_was_loaded_is_not_answered_from, damage=loads.without_sums)
        ),
    ),
    Bug(
        "a table may have more people than its party declares",
        replaced(served_party, "require_capacity", lambda ids, capacity, *, party: None),
        _in_a_folder(
            partial(
                loads.test_a_table_that_is_not_in_order_is_refused_to_its_owner_and_the_version_before_stays,
                fault="more people than the capacity",
            )
        ),
    ),
]
