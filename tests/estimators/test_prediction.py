"""Scores opened to one party: what it is told is what the model says, and nobody else is told anything."""

import stat

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import colonnade as cn
from colonnade.conversations import sums as sum_run
from colonnade.party.steps.products import PrivatePredictions
from colonnade.protocol import messages
from colonnade.protocol.messages import Posted
from colonnade.secure.summation import SumRing
from colonnade.transport.direct import Direct, Recorded
from tests import kit
from tests.federations import TEST_KEY, federation, frames, joined

MODELS = ("LinearRegression", "LogisticRegression", "PCA", "KMeans", "KMedian")
TO_BANK = {party: cn.Policy(predictions={name: ["bank"] for name in MODELS}) for party in ("bank", "telco", "insurer")}
CLOSE = 1e-9


@pytest.fixture(scope="module")
def trained():
    """Models fitted once, elsewhere: a model is public, and scores whoever has its columns."""
    with federation(400, epsilon=100.0) as f:
        yield {
            "numbers": cn.LinearRegression("telco.bill", epsilon=2.0, delta=1e-5).fit(f),
            "classes": cn.LogisticRegression("bank.default", method="secure", epsilon=2.0, delta=1e-5).fit(f),
            "three classes": cn.LogisticRegression("bank.segment", method="secure", epsilon=2.0, delta=1e-5).fit(f),
            "components": cn.PCA(2, epsilon=2.0, delta=1e-5).fit(f),
            "clusters": cn.KMeans(3, epsilon=2.0, delta=1e-5).fit(f),
            "medians": cn.KMedian(2, epsilon=2.0, delta=1e-5).fit(f),
            "without the bank": cn.LinearRegression(
                "telco.bill", columns=["telco.plan", "insurer.product"], epsilon=2.0, delta=1e-5
            ).fit(f),
        }


def test_the_party_is_told_what_the_model_says_by_its_own_ids(trained):
    tables = frames(250, seed=9)
    frame = joined(tables)
    with federation(tables=tables, policies=TO_BANK) as f:
        for name in ("numbers", "without the bank"):
            told = trained[name].predict(f, to="bank").read()
            assert told.index.tolist() == frame.index.tolist()
            np.testing.assert_allclose(told, trained[name].predict(frame), rtol=CLOSE, atol=1e-7)
        for name in ("classes", "three classes"):
            chances = trained[name].predict_proba(f, to="bank").read()
            assert list(chances.columns) == list(trained[name].classes_)
            np.testing.assert_allclose(chances, trained[name].predict_proba(frame), atol=CLOSE)
            assert trained[name].predict(f, to="bank").read().tolist() == trained[name].predict(frame).tolist()
        scores = trained["components"].transform(f, to="bank").read()
        np.testing.assert_allclose(scores, trained["components"].transform(frame), atol=CLOSE)
        for name in ("clusters", "medians"):
            assert np.asarray(trained[name].predict(f, to="bank")).tolist() == trained[name].predict(frame).tolist()


def test_nobody_is_scored_unless_every_policy_names_the_model_and_the_recipient(trained):
    silent = {name: policy for name, policy in TO_BANK.items() if name != "insurer"}
    cases = {
        "no policy says so": ({}, "bank"),
        "one party's does not": (silent, "bank"),
        "another recipient": (TO_BANK, "telco"),
        "another model": ({party: cn.Policy(predictions={"PCA": ["bank"]}) for party in TO_BANK}, "bank"),
        "other releases without privacy": ({party: cn.Policy(nonprivate=["Coreset"]) for party in TO_BANK}, "bank"),
    }
    for policies, to in cases.values():
        with federation(100, policies=policies) as f:
            with pytest.raises(cn.NonPrivateRefused) as refusal:
                trained["numbers"].predict(f, to=to)
            assert refusal.value.spent is None
            assert f.budget()["nonprivate"].max() == 0


def test_the_output_is_a_line_of_its_own_in_every_ledger_and_outside_the_promise(trained):
    with federation(100, policies=TO_BANK) as f:
        delivery = trained["classes"].predict(f, to="bank")
        assert {step.kind for step in delivery.plan_.steps} == {"predictions"}
        budget = f.budget()
        assert budget["nonprivate"].tolist() == [1, 1, 1]
        assert budget["spent"].max() == 0
        for party in f.parties:
            entries = [
                entry
                for entry in f._driver.transport.endpoint(party)._gate.ledger.entries()
                if entry.kind == "nonprivate"
            ]
            assert [entry.label.split()[:2] for entry in entries] == [
                ["prediction/LogisticRegression", "scores-to-bank"]
            ]
        statement = delivery.privacy_
        assert statement.epsilon(observer="bank") == statement.epsilon(observer=("coordinator", "bank")) == np.inf
        assert statement.epsilon(observer="coordinator") == statement.epsilon(observer=("coordinator", "telco")) == 0
        assert "Individual-level output" in " ".join(statement.assumptions)
        assert "outside the differential-privacy promise" in delivery.receipt_
        trained["classes"].predict(f, to="bank")
        assert f.budget()["nonprivate"].tolist() == [1, 1, 1]  # the same question is the same line


def test_scores_are_kept_for_the_partys_own_operator_alone(trained, tmp_path):
    with federation(100, policies=TO_BANK, ledger_dir=tmp_path) as f:
        delivery = trained["numbers"].predict(f, to="bank")
        told = delivery.read()
        (path,) = (tmp_path / "bank.deliveries").iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not (tmp_path / "telco.deliveries").exists()
        from colonnade.party.guard import read_delivery

        assert read_delivery(path)["prediction"].tolist() == told.tolist()
        assert len(delivery) == 100


# Who sees what ------------------------------------------------------------------------------------------------------------


def scored(model, tables, key, monkeypatch):
    """Run a prediction; return every message, what each party was written, and what the recipient added up."""
    written, masked = [], []
    seal, take = sum_run.keys.Session.seal, sum_run.SumRun._take

    def watched_seal(self, to, step, sequence, plaintext):
        masked.append((self.party, to, np.array(plaintext, copy=True)))
        return seal(self, to, step, sequence, plaintext)

    def watched_take(self, number, letters):
        written.append((self._me, sorted(letters)))
        return take(self, number, letters)

    monkeypatch.setattr(sum_run.keys.Session, "seal", watched_seal)
    monkeypatch.setattr(sum_run.SumRun, "_take", watched_take)
    with federation(tables=tables, policies=TO_BANK, test_key=key) as f:
        f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
        inner = recorded._inner
        recorded.endpoint = inner.endpoint
        told = model.predict(f, to="bank").read()
    monkeypatch.undo()
    return recorded.exchanges, written, masked, told


def test_only_the_recipient_is_written_to_and_only_masked_values(trained, monkeypatch):
    """Two inputs, equal permitted outputs: every transcript has the same sizes, and the recipient's letters are uniform."""
    model = trained["without the bank"]
    tables = frames(3_000, seed=1)
    other = {name: frame.copy() for name, frame in tables.items()}
    other["bank"]["age"] = 20  # no column of the model: the scores stay as they are
    order = np.random.default_rng(0).permutation(len(other["bank"]))
    other["bank"]["segment"] = other["bank"]["segment"].to_numpy()[order]
    results = [scored(model, data, key, monkeypatch) for data, key in ((tables, TEST_KEY), (other, b"o" * 32))]
    (one, written, masked, told), (another, _, _, told_again) = results
    assert told.equals(told_again)
    assert len(one) == len(another)
    for (requests, replies), (requests_again, replies_again) in zip(one, another, strict=True):
        assert {name: len(data) for name, data in requests.items()} == {
            name: len(d) for name, d in requests_again.items()
        }
        assert {name: len(data) for name, data in replies.items()} == {
            name: len(d) for name, d in replies_again.items()
        }
    assert {member for member, _ in written} == {"bank"}
    assert {(sender, to) for sender, to, _ in masked} == {("telco", "bank"), ("insurer", "bank")}
    for _, _, values in masked:
        counts = np.bincount(values.view(np.uint8), minlength=256)
        assert kit.chi_square_p(counts, np.full(256, 1 / 256)) > kit.ALPHA


def traded(people):
    """Two inputs with the same scores under weights that are alike: what telco's bill has more, the insurer's has less."""
    rng = np.random.default_rng(4)
    bill, premium, moved = rng.uniform(50, 100, people), rng.uniform(50, 100, people), rng.uniform(-50, 50, people)
    ids = np.arange(people)
    schemas = {name: cn.Schema({column: cn.Numeric(0, 200)}) for name, column in COLUMN.items()}
    for shift in (0 * moved, moved):
        values = {"bank": 0 * bill, "telco": bill + shift, "insurer": premium - shift}
        yield schemas, {name: pd.DataFrame({"person_id": ids, COLUMN[name]: value}) for name, value in values.items()}


COLUMN = {"bank": "debt", "telco": "bill", "insurer": "premium"}


def test_inputs_with_the_same_scores_leave_transcripts_that_cannot_be_told_apart(monkeypatch):
    """Every transcript has the same shape; each letter is uniform, so a two-sample test finds nothing between the inputs."""
    people, seen = 4_000, []
    for number, (schemas, tables) in enumerate(traded(people)):
        parties = {name: cn.Party(tables[name], schema=schemas[name]) for name in tables}
        f = cn.Federation.simulate(
            parties,
            id="person_id",
            budget=cn.Budget(epsilon=9.0, delta=1e-5),
            policies=TO_BANK,
            test_key=bytes([number]) * 32,
        )
        with f:
            model = cn.LinearRegression("bank.debt", epsilon=1.0, delta=1e-5, standardise="off").fit(f)
            model.coef_, model.intercept_ = np.ones(2), 0.0
            letters = []
            seal = sum_run.keys.Session.seal

            def watched(self, to, step, sequence, plaintext, letters=letters, seal=seal):
                letters.append((self.party, to, np.array(plaintext, copy=True)))
                return seal(self, to, step, sequence, plaintext)

            monkeypatch.setattr(sum_run.keys.Session, "seal", watched)
            inner = f._driver.transport
            f._driver.transport = recorded = Recorded(inner, keep=True)
            recorded.endpoint = inner.endpoint
            told = model.predict(f, to="bank").read()
            monkeypatch.undo()
            seen.append((told, sorted(letters, key=lambda one: one[:2]), recorded.exchanges))
    (told, letters, exchanges), (told_again, letters_again, exchanges_again) = seen
    np.testing.assert_allclose(told, told_again, atol=1e-9)
    assert [one[:2] for one in letters] == [one[:2] for one in letters_again]
    for (_, _, values), (_, _, again) in zip(letters, letters_again, strict=True):
        both = [np.bincount(one.view(np.uint8), minlength=256) for one in (values, again)]
        assert stats.chi2_contingency(both).pvalue > kit.ALPHA
    for one, other in zip(exchanges, exchanges_again, strict=True):
        for side in (0, 1):
            assert {n: len(d) for n, d in one[side].items()} == {n: len(d) for n, d in other[side].items()}


def test_the_coordinator_is_sent_no_number(trained):
    with federation(100, policies=TO_BANK) as f:
        inner = f._driver.transport
        f._driver.transport = recorded = Recorded(inner, keep=True)
        trained["numbers"].predict(f, to="bank")
        for _, replies in recorded.exchanges:
            for data in replies.values():
                reply = messages.decode_reply(data)
                if isinstance(reply, Posted):
                    assert set(reply.letters) <= {"bank"}
                assert not hasattr(reply, "values")


# Bad input ----------------------------------------------------------------------------------------------------------------


def forged(plan, **changes):
    """A coordinator's other plan: parameters of every step changed."""
    from colonnade.plan import Plan, Step

    steps = []
    for step in plan.steps:
        fields = {name: getattr(step, name) for name in step.__struct_fields__}
        steps.append(Step(**{**fields, "parameters": {**step.parameters, **changes}}))
    return Plan(**{**{name: getattr(plan, name) for name in plan.__struct_fields__}, "steps": tuple(steps)})


def test_a_coordinator_cannot_name_itself_or_ask_for_more(trained):
    with federation(100, policies=TO_BANK) as f:
        plan = trained["numbers"].predict(f, to="bank").plan_
        for changes in (
            {"recipient": "coordinator"},
            {"recipient": "telco"},
            {"bound": 0},
            {"bound": 2**63},
            {"scale": -1.0},
            {"outputs": 2},
            {"offsets": ()},
            {"reading": "everything"},
            {"names": "all"},
            {"weights": (1.0,)},
            {"more": 1},
        ):
            with pytest.raises(cn.ColonnadeError):
                f._driver.quote(forged(plan, **changes))


def heard_at_the_edge(age: int, monkeypatch) -> tuple[list[tuple[str, str, int]], bool]:
    """A telco that puts somebody's score next to the largest sum there can be, so that the bank's part decides whether it fits.

    Return what the coordinator hears, and whether the bank's operator finds scores.
    """
    tables = frames(60)
    tables["bank"].loc[tables["bank"].person_id == 3, "age"] = age
    policies = {name: TO_BANK[name] for name in ("bank", "telco")}
    with federation(tables=tables, policies=policies, parties=tuple(policies)) as f:
        model = cn.LinearRegression("telco.bill", columns=["bank.age", "telco.plan"], epsilon=1.0, delta=1e-5).fit(f)
        model.coef_, model.intercept_ = np.array([1.0, 0.0, 0.0]), 0.0
        honest = PrivatePredictions.summand

        def summand(half, table, start, stop):
            values = honest(half, table, start, stop)
            if half.step.party == "telco":
                values[0] = 2 * half.step.bound  # with nothing of the bank's it just fits
            return values

        monkeypatch.setattr(PrivatePredictions, "summand", summand)
        monkeypatch.setattr(SumRing, "encode", lambda ring, values: values.astype(ring._signed).view(ring.dtype))
        inner = f._driver.transport
        f._driver.transport = recorded = Recorded(inner, keep=True)
        recorded.endpoint = inner.endpoint
        try:
            model.predict(f, to="bank").read()
            found = True
        except cn.BadInput:
            found = False
        monkeypatch.undo()
        heard = [
            (name, type(messages.decode_reply(data)).__name__, len(data))
            for _, replies in recorded.exchanges
            for name, data in sorted(replies.items())
        ]
        return heard, found


def test_a_peer_that_sends_more_than_it_may_does_not_find_out_on_which_side_of_a_bound_a_score_lies(monkeypatch):
    (young, kept), (old, kept_too) = (heard_at_the_edge(age, monkeypatch) for age in (18, 95))
    assert young == old
    assert (kept, kept_too) == (True, False)  # which the bank's own operator sees, and nobody else
    assert "Refused" not in {kind for _, kind, _ in old}


class Elsewhere:
    """A party that only bytes reach, as over a network."""

    def __init__(self, inner):
        self.handle = inner.handle


def test_a_coordinator_elsewhere_cannot_read_what_a_party_was_told(trained):
    with federation(100, policies=TO_BANK) as f:
        f._driver.transport = Direct({name: Elsewhere(f._driver.transport.endpoint(name)) for name in f.parties})
        delivery = trained["numbers"].predict(f, to="bank")
        with pytest.raises(cn.PolicyRefusal, match="alone"):
            delivery.read()
        assert "Delivery" in repr(delivery)
