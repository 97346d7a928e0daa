"""Data versions: declared by the owner, public, in every plan; what is kept of one ends with it, whether or not rows changed."""

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.errors import BadInput, ReleaseLost, SchemaMismatch
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.row_order import align, read_ids
from colonnade.party.table.sources import Source
from colonnade.protocol import messages
from colonnade.protocol.messages import Accounted, Described, GetDescription, Propose, Recall, Refused
from tests import kit
from tests.conversations.sites import Site, at_turn, fails
from tests.federations import SCHEMAS, frames
from tests.party.test_gate import a_plan, ask, gate_of, guards, replaced, spent

COUNT = ("bank.segment", "telco.plan")


def opened(tables=None, *, versions=None, folder=None, schema=SCHEMAS, **options) -> cn.Federation:
    tables = frames(60) if tables is None else tables
    return cn.Federation.simulate(
        {name: cn.Party(tables[name], schema=schema[name], version=(versions or {}).get(name, 1)) for name in SCHEMAS},
        id="person_id",
        budget=cn.Budget(epsilon=10.0, delta=1e-5),
        ledger_dir=folder,
        **options,
    )


def changed(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The same tables, but for one cell of the bank's."""
    bank = tables["bank"].copy()
    bank.loc[3, "default"] = "no" if bank.loc[3, "default"] == "yes" else "yes"
    return {**tables, "bank": bank}


def rows(f: cn.Federation, party: str = "bank") -> list[tuple[str, str, int | None]]:
    return [(entry.kind, entry.label, entry.version) for entry in gate_of(f, party).ledger.entries()]


# What is declared -----------------------------------------------------------------------------------------------------------


def test_a_version_is_in_the_ledger_once_in_what_a_party_says_and_in_every_plan(tmp_path):
    for _ in range(2):
        with opened(folder=tmp_path, versions={"bank": 3}) as f:
            assert f._driver.data_versions == {"bank": 3, "telco": 1, "insurer": 1}
            assert a_plan(f).data_versions == {"bank": 3, "telco": 1}
            assert [row for row in rows(f) if row[0] == "version"] == [("version", "data version 3", 3)]
            reply = messages.decode_reply(guards(f)["bank"].handle(messages.encode(GetDescription())))
            assert isinstance(reply, Described)
            assert reply.version == 3


def test_a_version_never_goes_back(tmp_path):
    opened(folder=tmp_path, versions={"bank": 2}).close()
    with pytest.raises(BadInput, match="older than version 2") as refusal:
        opened(folder=tmp_path)
    assert "version=3" in refusal.value.remedy
    with opened(folder=tmp_path, versions={"bank": 2}) as f:
        assert [row for row in rows(f) if row[0] == "version"] == [("version", "data version 2", 2)]


# What a request about another version gets ------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("name", [1, 3, 2**40])
def test_a_plan_about_another_version_is_lost_for_everybody_alike(name):
    with opened(versions={"bank": 2}) as f:
        plan = a_plan(f)
        other = replaced(plan, data_versions={**plan.data_versions, "bank": name})
        for request in (Propose(plan=other), Recall(plan=other, step="reports")):
            reply = messages.decode_reply(guards(f)["bank"].handle(messages.encode(request)))
            assert isinstance(reply, Refused)
            assert reply.code == ReleaseLost.code
        reply = ask(f, other)
        assert (reply.code, reply.spent) == (ReleaseLost.code, None)
        assert f"data version {name}," in reply.message
        assert spent(f) == 0


def test_a_kept_answer_ends_with_its_version_and_the_same_study_is_paid_for_again(tmp_path):
    with opened(folder=tmp_path) as f:
        plan = a_plan(f)
        first = ask(f, plan)
        before = spent(f)
    replies = []
    for version, tables in ((2, frames(60)), (3, changed(frames(60)))):
        with opened(tables, folder=tmp_path, versions={"bank": version}) as f:
            replies.append(ask(f, plan))
            assert spent(f) == pytest.approx(before * (version - 1))
            again = ask(f, a_plan(f))
            assert again != first
            assert spent(f) == pytest.approx(before * version)
    assert [getattr(reply, "code", "answered") for reply in replies] == [ReleaseLost.code] * 2
    assert replies[0].message.replace("2.", "3.") == replies[1].message


def test_a_peers_new_version_ends_a_study_too_and_the_refusal_names_that_peer():
    with opened(versions={"telco": 2}) as f:
        study = cn.PatternCount(list(COUNT), epsilon=1.0)
        f._driver.data_versions["telco"] = 1
        with pytest.raises(ReleaseLost, match="telco"):
            study.fit(f)
        assert spent(f) == spent(f, "telco") == 0


# Changed data under one version is the owner's own mistake, and is told to the owner -----------------------------------------


def test_other_data_under_the_same_version_are_refused_to_the_owner(tmp_path):
    opened(folder=tmp_path).close()
    with pytest.raises(BadInput, match="not the one that was opened as data version 1") as refusal:
        opened(changed(frames(60)), folder=tmp_path)
    assert "version=2" in refusal.value.remedy
    opened(folder=tmp_path).close()
    opened(changed(frames(60)), folder=tmp_path, versions={"bank": 2}).close()
    with pytest.raises(BadInput, match="data version 2"):
        opened(folder=tmp_path, versions={"bank": 2})


def shuffled(tables):
    return {**tables, "bank": tables["bank"].sample(frac=1, random_state=1).reset_index(drop=True)}


def with_another_id(tables):
    return {**tables, "bank": tables["bank"].assign(person_id=tables["bank"]["person_id"].replace(10, 11))}


def with_a_null(tables):
    bank = tables["bank"].astype({"age": float})
    bank.loc[5, "age"] = np.nan
    return {**tables, "bank": bank}


def with_a_level_outside_the_schema(tables):
    bank = tables["bank"].copy()
    bank.loc[5, "segment"] = "lead"
    return {**tables, "bank": bank}


@pytest.mark.parametrize("change", [shuffled, with_another_id, with_a_null, with_a_level_outside_the_schema])
def test_any_change_of_ids_or_declared_columns_is_noticed(change, tmp_path):
    tables = {**frames(60), "bank": frames(60)["bank"].astype({"age": float})}
    opened(tables, folder=tmp_path).close()
    with kit.zeroed_out(), pytest.raises(BadInput, match="data version 1"):
        opened(change(tables), folder=tmp_path)


def test_the_fingerprint_is_for_this_user_alone_and_keyed_anew_at_every_party(tmp_path):
    for folder in ("one", "two"):
        opened(folder=tmp_path / folder).close()
    files = sorted(tmp_path.rglob("*.fingerprint"))
    assert len(files) == 6
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    one, two = (file.read_text() for file in files if file.name == "bank.fingerprint")
    hashes = [set(part.split('"')) for part in (one, two)]
    assert not [word for word in hashes[0] & hashes[1] if len(word) == 64]


# A running guard takes up a new version ---------------------------------------------------------------------------------------


def replace(f: cn.Federation, frame: pd.DataFrame, version: int, party: str = "bank") -> None:
    guard, source = guards(f)[party], Source(frame)
    ids = read_ids(source, "person_id", party=party)
    common = guard._row_orders.order(gate_of(f, party).terms.alignment).ids
    order = align(ids, common, party=party)
    guard.replace(PrivateTable(source, SCHEMAS[party], order=order.rows), order, version=version, ids=ids)


@pytest.mark.parametrize("moved", [False, True])
def test_a_running_guard_takes_up_a_new_version_with_its_ledger(moved):
    with opened() as f:
        plan = a_plan(f)
        ask(f, plan)
        before = spent(f)
        replace(f, (changed if moved else dict)(frames(60))["bank"], 2)
        assert spent(f) == before
        assert ask(f, plan).code == ReleaseLost.code
        assert [version for kind, _, version in rows(f) if kind == "version"] == [1, 2]
        fresh = cn.Federation(f._driver.transport, parties=f.parties, compute_nodes=f._driver.computing.nodes)
        assert fresh._driver.data_versions["bank"] == 2
        cn.PatternCount(list(COUNT), epsilon=1.0).fit(fresh)


@pytest.mark.parametrize("moved", [False, True])
def test_a_run_under_way_ends_with_its_version(tmp_path, moved):
    site = Site(tmp_path)
    plan, tables = site.plan(), changed(site.tables) if moved else dict(site.tables)

    def take_up(requests):
        guard, source = site.endpoints["bank"], Source(tables["bank"])
        whole = guard._row_orders.order(plan.alignment)
        ids = read_ids(source, "person_id", party="bank")
        order = align(ids, whole.ids, party="bank")
        guard.replace(PrivateTable(source, SCHEMAS["bank"], order=order.rows), order, version=2, ids=ids)
        return requests

    at_turn(site, 3, take_up)
    error = fails(site, plan)
    assert (error.code, error.message) == (
        ReleaseLost.code,
        "Party 'bank': The plan asks about data version 1, and this party's owner has declared version 2.",
    )
    assert site.opened() == 0
    site.close()


def test_a_guard_refuses_its_owner_another_schema_and_a_version_that_is_not_higher():
    with opened(versions={"bank": 2}) as f:
        for version in (1, 2):
            with pytest.raises(BadInput):
                replace(f, frames(60)["bank"], version)
        guard = guards(f)["bank"]
        order = guard._row_orders.order(f._driver.alignment)
        other = PrivateTable(Source(frames(60)["bank"]), cn.Schema(age=cn.Numeric(0, 1)), order=order.rows)
        with pytest.raises(SchemaMismatch):
            guard.replace(other, order, version=3)
        assert isinstance(f._driver.accounts()["bank"], Accounted)
