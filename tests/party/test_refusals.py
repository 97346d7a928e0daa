"""What a party says when it does not answer: never a function of rows. `colonnade.party.guard` is the place that decides."""

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.errors import BadInput, PartyAway
from colonnade.party.gate import Gate
from colonnade.party.guard import STOPPED, Guard
from colonnade.party.table.private_table import PrivateTable
from colonnade.plan import Plan, Step
from colonnade.protocol import messages
from colonnade.protocol.messages import Ask, GetAccount, GetDescription, Post, Propose, Recall, Refused, Released, pack
from tests.federations import SCHEMAS, as_if_agreed, federation, frames
from tests.party.refusal_table import texts
from tests.party.test_data_versions import opened
from tests.party.test_gate import a_plan, ask, gate_of, guards, replaced, spent
from tests.party.test_one_door import gradient, local, shares, sketches, sums

READERS = ("load", "codes", "values", "joint_codes", "held", "present", "cells_of", "fold")
SECRET = "alice's row 17 holds 4711"
STUDIES: dict[str, Callable[[cn.Federation], None]] = {
    study.__name__: study for study in (local, shares, gradient, sketches, sums)
}


class Failing:
    """Makes the n-th read of a table's rows fail, at one party."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: int, error: type[Exception] = ValueError) -> None:
        self.reads = 0
        for name in READERS:
            monkeypatch.setattr(PrivateTable, name, self._watched(getattr(PrivateTable, name), failing, error))

    def _watched(self, honest, failing, error):
        def read(table, *args, **kwargs):
            if "segment" in table.schema:  # the bank's
                self.reads += 1
                if self.reads == failing:
                    raise error(SECRET)
            return honest(table, *args, **kwargs)

        return read


def said(f: cn.Federation) -> Iterator[bytes]:
    """Note every reply of the bank."""
    guard, notes = guards(f)["bank"], []
    honest = guard.handle
    guard.handle = lambda data: notes.append(honest(data)) or notes[-1]
    return notes


# What is raised among rows is never said --------------------------------------------------------------------------------------


def number_of_reads(study: Callable[[cn.Federation], None]) -> int:
    with pytest.MonkeyPatch.context() as patch, federation(120, epsilon=100.0) as f:
        watch = Failing(patch, 0)
        study(f)
    return watch.reads


@pytest.mark.parametrize(
    ("name", "error"),
    [
        *(
            pytest.param(name, BadInput, marks=[] if name in ("local", "shares") else pytest.mark.full)
            for name in STUDIES
        ),
        ("local", ValueError),
        pytest.param("local", MemoryError, marks=pytest.mark.full),
    ],
)
def test_a_party_whose_rows_cannot_be_read_stops_and_says_what_a_stopped_party_says(name, error):
    reads = number_of_reads(STUDIES[name])
    for failing in sorted({1, 2, reads // 2, reads - 1, reads} - {0}):
        with pytest.MonkeyPatch.context() as patch, federation(120, epsilon=100.0) as f:
            notes = said(f)
            Failing(patch, failing, error)
            with pytest.raises(PartyAway) as raised:
                STUDIES[name](f)
            assert guards(f)["bank"].failure is not None
            assert notes[-1] == STOPPED
            assert not [note for note in notes if note != STOPPED and isinstance(messages.decode_reply(note), Refused)]
            assert SECRET not in str(raised.value)
            for data in (messages.encode(GetDescription()), messages.encode(GetAccount()), b"no message at all"):
                assert guards(f)["bank"].handle(data) == STOPPED


def test_a_party_that_its_operator_has_stopped_says_the_same_bytes():
    with federation() as f:
        guards(f)["bank"].stop()
        assert guards(f)["bank"].handle(messages.encode(GetDescription())) == STOPPED
        reply = messages.decode_reply(STOPPED)
        assert (reply.code, reply.spent) == ("party-away", None)


def test_a_failure_after_payment_does_not_say_what_was_spent(monkeypatch):
    """It would tell how far the party came; its ledger keeps the debit."""
    with federation() as f:
        monkeypatch.setattr("colonnade.party.steps.local.perturbed", lambda *_: 1 / 0)
        guard = guards(f)["bank"]
        assert guard.handle(messages.encode(Ask(plan=as_if_agreed(guard, a_plan(f)), step="reports"))) == STOPPED
        assert spent(f) == pytest.approx(0.5)


def test_what_went_wrong_is_kept_for_the_partys_own_log_without_any_cell(monkeypatch, capsys):
    with federation() as f:
        Failing(monkeypatch, 1)
        ask(f, a_plan(f))
        failure = guards(f)["bank"].failure
        assert failure.code == "ValueError"
        assert ":" in failure.place
        assert SECRET not in f"{failure.code} {failure.place} {failure} {failure!r}"
        assert capsys.readouterr() == ("", "")


def test_an_unforeseen_error_elsewhere_is_one_constant_message_and_stops_nobody(monkeypatch):
    with federation() as f:
        with monkeypatch.context() as patch:
            patch.setattr(Gate, "release", lambda *_: [][SECRET])
            reply = ask(f, a_plan(f))
            assert (reply.code, reply.message) == ("protocol-error", "The party failed while answering.")
        assert isinstance(ask(f, a_plan(f)), Released)


# No table stops a party, once it is open ---------------------------------------------------------------------------------------


def extreme(kind: str) -> dict[str, pd.DataFrame]:
    """The bank's table with one row again and again, or with values far outside their bounds; and ordinary ones."""
    bank = frames(120)["bank"]
    if kind == "all alike":
        bank = bank.assign(age=40, segment="gold", default="no")
    elif kind == "at a bound":
        bank = bank.assign(age=18, segment="platinum", default="yes")
    elif kind == "far outside":
        bank = bank.assign(age=np.where(np.arange(len(bank)) % 2, 1e300, -1e300))
    return {**frames(120), "bank": bank}


def sizes_of(kind: str, name: str) -> list[tuple[str, int]]:
    """What kind of reply the bank gave, and how long it was, one after the other."""
    with federation(tables=extreme(kind), epsilon=100.0) as f:
        notes = said(f)
        try:
            STUDIES[name](f)
        except cn.ColonnadeError:  # the coordinator could make nothing of what it got, which is noise
            assert guards(f)["bank"].failure is None
        return [(type(messages.decode_reply(note)).__name__, len(note)) for note in notes]


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "name", [name for name in STUDIES if name != "sums"]
)  # whose sizes are themselves disclosed by name
@pytest.mark.parametrize("kind", ["all alike", "at a bound", "far outside"])
def test_no_table_stops_a_party_or_changes_the_size_of_a_reply(kind, name):
    assert sizes_of(kind, name) == sizes_of("ordinary", name)


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", ["all alike", "at a bound", "far outside"])
def test_no_table_stops_a_party_that_discloses(kind):
    assert "Refused" not in {what for what, _ in sizes_of(kind, "sums")}


# A file that changes under a party ---------------------------------------------------------------------------------------------


def with_file(folder, *, kind: str) -> cn.Federation:
    tables, path = frames(60), folder / f"bank.{kind}"
    write(tables["bank"], path)
    return opened({**tables, "bank": path})


def write(frame: pd.DataFrame, path) -> None:
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("change", ["touched", "a cell", "a row", "gone", "garbage"])
def test_a_file_that_changed_under_a_party_stops_it_and_neither_its_name_nor_what_changed_is_said(
    tmp_path, kind, change
):
    with with_file(tmp_path, kind=kind) as f:
        path, frame = tmp_path / f"bank.{kind}", frames(60)["bank"]
        if change == "gone":
            path.unlink()
        elif change == "garbage":
            path.write_bytes(b"\xff" * 100)
        else:
            frame.loc[3, "age"] = 95 if change == "a cell" else frame.loc[3, "age"]
            write(frame if change != "a row" else frame.iloc[1:], path)
        data = messages.encode(Ask(plan=as_if_agreed(guards(f)["bank"], a_plan(f)), step="reports"))
        assert guards(f)["bank"].handle(data) == STOPPED
        assert spent(f) == 0


# No request stops a party -------------------------------------------------------------------------------------------------------


def plans_of(study: Callable[[cn.Federation], None]) -> list[Plan]:
    """The plans of a study, as its parties see them."""
    found: dict[bytes, Plan] = {}
    with federation(120, epsilon=100.0) as f:
        guard = guards(f)["bank"]
        honest = guard.handle

        def note(data: bytes) -> bytes:
            request = messages.decode_request(data)
            if isinstance(request, Propose):
                found[messages.digest(request.plan)] = request.plan
            return honest(data)

        guard.handle = note
        study(f)
    return list(found.values())


def forged(step: Step) -> Iterator[Step]:
    """A step of the bank's, with each of its parts changed in turn."""
    names = tuple(SCHEMAS["bank"])
    for columns in ((), names, names[:1], names[1:2], names[2:], names[::-1], ("age", "age"), ("person_id",)):
        yield replaced(step, columns=columns)
    for name, value in step.parameters.items():
        for other in changed(value):
            yield replaced(step, parameters={**step.parameters, name: other})
        yield replaced(step, parameters={key: one for key, one in step.parameters.items() if key != name})


def changed(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (type(value)(value + 1), type(value)(0), -value, type(value)(2**31), "x")
    elif isinstance(value, str):
        yield from ("", value + "x", value[::-1], 1)
    elif isinstance(value, tuple):
        yield from ((), value[1:], value + value[:1], value[::-1])


def requests(plan: Plan) -> Iterator[Ask | Post | Recall | Propose]:
    for step in plan.steps_of("bank"):
        yield Propose(plan=plan)
        yield Ask(plan=plan, step=step.name)
        yield Ask(plan=plan, step=step.name, inputs={"weights": weights(3)})
        yield Recall(plan=plan, step=step.name)
        for turn in range(3):
            yield Post(plan=plan, step=step.name, run=bytes(16), turn=turn, letters={})


def weights(count: int):
    return pack(np.full(count, np.nan))


@pytest.mark.every(3)
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.full)], ids=["slice", "every-change"])
@pytest.mark.parametrize("name", STUDIES)
def test_no_forged_plan_stops_a_party_and_every_refusal_is_in_the_table(name, every):
    asked, known = 0, texts()
    for plan in plans_of(STUDIES[name]):
        with federation(120, epsilon=100.0) as f:
            for place, step in enumerate(plan.steps):
                for other in islice(forged(step), 0, None, every) if step.party == "bank" else ():
                    steps = (*plan.steps[:place], other, *plan.steps[place + 1 :])
                    for request in requests(as_if_agreed(guards(f)["bank"], replaced(plan, steps=steps))):
                        data = guards(f)["bank"].handle(messages.encode(request))
                        asked += 1
                        assert data != STOPPED, (other, request)
                        reply = messages.decode_reply(data)
                        assert not isinstance(reply, Refused) or any(
                            text.fits(reply.code, reply.message) for text in known
                        ), reply
    assert asked > (50 if every == 1 else 7)


# Inputs and sizes of what is disclosed ------------------------------------------------------------------------------------------


def clustered(*, alike: bool, weight: float | None = None) -> tuple[bytes, Guard]:
    """Ask the bank for its local clusters of a sample, of rows that are all different or all alike."""
    bank = frames(60)["bank"].assign(age=40 if alike else frames(60)["bank"]["age"])
    parties = {**frames(60), "bank": bank}
    with federation(tables=parties) as f:
        method = cn.methods.Coreset(gather=False)
        model = cn.KMeans(3, columns=["bank.age", "telco.bill"], method=method, size=20, allow_nonprivate=True).fit(f)
        sample = np.unique(gate_of(f)._earlier(model.plan_)("sample")["rows"])
        inputs = pack(np.full(len(sample), 1.0 if weight is None else weight))
        data = messages.encode(Ask(plan=model.plan_, step="clusters", inputs={"weights": inputs}))
        return guards(f)["bank"].handle(data), guards(f)["bank"]


def test_an_answer_has_one_size_however_many_different_rows_there_are():
    shapes = {messages.decode_reply(clustered(alike=alike)[0]).array("centres").shape for alike in (False, True)}
    assert shapes == {(3, 1)}


@pytest.mark.every(2)
@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf, 1e300, 1e-300, 2.0**41])
def test_weights_that_could_make_a_computation_fail_are_refused_before_a_row_is_read(weight):
    data, guard = clustered(alike=False, weight=weight)
    assert getattr(messages.decode_reply(data), "code", "answered") == "bad-input"
    assert guard.failure is None
