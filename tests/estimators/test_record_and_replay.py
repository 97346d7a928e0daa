"""Two neighbouring data sets, the same randomness: apart from the gate's own outputs, nothing may differ.

Messages, sizes, order and control flow are identical, and what a mechanism is given, or what is opened, differs by no more than
it was priced for. Shares and seals are fresh in every run, so letters are compared by size. Where weights follow from what was
opened before, they are replaced by a fixed path: whatever else differs is the parties' doing.
"""

import collections
from fractions import Fraction
from types import SimpleNamespace

import msgspec
import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.coordinator import driver as relay
from colonnade.coordinator.protocols import moment_releases, newton_steps
from colonnade.papers.estimation import Sgd
from colonnade.papers.private import DescentPart
from colonnade.papers.steps import STEP, GradientTerms
from colonnade.party.steps import local
from colonnade.party.steps.products import NewtonPart
from colonnade.privacy.accounting import Loss
from colonnade.protocol import messages
from colonnade.protocol.messages import (
    Accounted,
    Agreed,
    Begin,
    Conclude,
    GetYes,
    Greeted,
    Opened,
    Post,
    Posted,
    Released,
    SaidYes,
)
from colonnade.steps.newton import NewtonTerms
from colonnade.steps.products import cross_entries, own_entries, widths_of
from colonnade.transport.direct import Recorded
from tests import kit
from tests.federations import SCHEMAS, TEST_KEY, frames
from tests.party.test_coefficients import silent

VISITS = {
    "clinic": cn.Schema(
        visits=cn.Numeric(0, 20, integer=True), age=cn.Numeric(18, 95), kind=cn.Category(["a", "b", "c"])
    ),
    "shop": cn.Schema(visits=cn.Numeric(2, 30, integer=True), bill=cn.Numeric(0, 200)),
}
PAIR = ["bank.segment", "telco.plan"]
COUNTED = ["clinic.visits", "shop.visits"]
MIXED = ["clinic.age", "clinic.kind", "shop.bill"]
PRICE = {"epsilon": 1.0, "delta": 1e-6}
SEALED = GetYes | Begin | Post | Conclude  # requests with nonces, yeses, letters or what was opened


def visits() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(5)
    ids = np.arange(200) * 7 + 3
    numbers = {"visits": rng.integers(0, 21, 200).astype(float), "age": rng.uniform(18, 95, 200)}
    shop = {"visits": rng.integers(2, 31, 200).astype(float), "bill": rng.uniform(0, 200, 200)}
    return {
        "clinic": pd.DataFrame({"person_id": ids, **numbers, "kind": rng.choice(["a", "b", "c"], 200)}),
        "shop": pd.DataFrame({"person_id": ids, **shop}).sample(frac=1, random_state=1),
    }


def without(tables: dict[str, pd.DataFrame], *people: int) -> dict[str, pd.DataFrame]:
    """The same tables with people's values replaced by nothing at every party."""
    found = {name: frame.copy() for name, frame in tables.items()}
    for frame in found.values():
        values = [column for column in frame.columns if column != "person_id"]
        frame.loc[frame.person_id.isin([person * 7 + 3 for person in people]), values] = None
    return found


def one_visit_less(tables: dict[str, pd.DataFrame], person: int) -> dict[str, pd.DataFrame]:
    found = {name: frame.copy() for name, frame in tables.items()}
    for frame in found.values():
        row = frame.person_id == person * 7 + 3
        frame.loc[row, "visits"] = (frame.loc[row, "visits"] - 1).clip(0, 20)
    return found


def said(study, tables: dict[str, pd.DataFrame]) -> tuple[list, object]:
    """Every message of a study, and the fitted study."""
    schemas = SCHEMAS if "bank" in tables else VISITS
    parties = {name: cn.Party(frame, schema=schemas[name]) for name, frame in tables.items()}
    budget = cn.Budget(epsilon=10.0, delta=1e-5)
    with (
        kit.zeroed_out(),
        cn.Federation.simulate(parties, id="person_id", budget=budget, test_key=TEST_KEY) as federation,
    ):
        federation._driver.transport = recorded = Recorded(federation._driver.transport, keep=True)
        fitted = type(study)(**study.get_params(deep=False)).fit(federation)
    return recorded.exchanges, fitted


def blank(data: bytes) -> tuple:
    """A reply with released, shared and random values removed: what must not depend on data."""
    match reply := messages.decode_reply(data):
        case Accounted():  # a ledger's name is random
            return (msgspec.structs.replace(reply, ledger=""), len(data))
        case Agreed():  # nonces are random, and so are a ledger's salt and its roots
            return (msgspec.structs.replace(reply, nonce=b""), len(data))
        case SaidYes() | Greeted():
            return (type(reply).__name__, len(data))
        case Released():
            return (reply.party, reply.step, reply.mechanism, reply.loss, _shapes(reply.values), len(data))
        case Posted():
            return tuple((receiver, len(letter)) for receiver, letter in reply.letters.items())
        case Opened():
            return _shapes({"share": reply.share, "own": reply.own})
    return (data,)


def _shapes(arrays) -> tuple:
    return tuple((name, None if one is None else (one.dtype, one.shape)) for name, one in arrays.items())


def plain(requests: dict[str, bytes]) -> dict[str, object]:
    """Requests; of those that carry nonces, yeses, letters and what was opened their sizes."""
    decoded = {party: messages.decode_request(data) for party, data in requests.items()}
    return {
        party: len(requests[party]) if isinstance(one, SEALED) else one
        for party, one in decoded.items()
        for party, one in decoded.items()
    }


def require_same_view(one: list, other: list) -> None:
    """Sizes, order and control flow are the same, round by round."""
    for (asked, replies), (asked_other, replies_other) in zip(one, other, strict=True):
        assert plain(asked) == plain(asked_other)
        assert list(replies) == list(replies_other)
        assert [blank(data) for data in replies.values()] == [blank(data) for data in replies_other.values()]


# What a party releases by itself ---------------------------------------------------------------------------------------------

LOCAL = {
    "response, two parties": cn.PatternCount(PAIR, method="response", epsilon=1.0),
    "response, three parties": cn.PatternCount([*PAIR, "insurer.product"], method="response", epsilon=1.0),
    "response, two columns of one party": cn.PatternCount([*PAIR, "bank.default"], method="response", epsilon=1.0),
    "response, sampled": cn.PatternCount(PAIR, method=cn.methods.Response(sample=0.5), epsilon=1.0),
    "independent": cn.PatternCount(PAIR, method="independent", epsilon=1.0),
    "values": cn.Moment(COUNTED, 2, epsilon=1.0, change="bounds"),
    "values at event level": cn.Moment(COUNTED, 2.5, epsilon=1.0),
    "totals": cn.Moment(COUNTED, 1, epsilon=1.0, change="bounds"),
    "value sketch": cn.Moment(COUNTED, 2, change="bounds", method="sketch", **PRICE),
    "sketched components": cn.PCA(1, columns=MIXED, method="sketch", **PRICE),
    "sketched regression": cn.LinearRegression("shop.bill", columns=MIXED[:2], method="sketch", **PRICE),
}


def given(study, tables, monkeypatch) -> tuple[list, list]:
    """Every message, and each mechanism's input beside the statistic and what it was priced for."""
    inputs, honest = {}, local.perturbed

    def watched(private, mechanism, table, randomness):
        inputs[tuple(table.schema)] = (private.step.name, mechanism, private.compute(table).astype(np.int64))
        return honest(private, mechanism, table, randomness)

    with monkeypatch.context() as patch:
        patch.setattr(local, "perturbed", watched)
        exchanges, _ = said(study, tables)
    return exchanges, [inputs[party] for party in sorted(inputs)]  # parties answer in any order


def within(statistic: str, mechanism, difference: np.ndarray) -> bool:
    """Whether a mechanism that is given such a difference loses no more than it charges."""
    if statistic == "histogram":
        return np.abs(difference).sum() <= 1
    if statistic == "reports":
        return np.count_nonzero(difference) <= 1
    if hasattr(mechanism, "sigma_squared"):
        squared = int((difference.astype(object) ** 2).sum())
        lost = Loss.of_zcdp(squared / (2 * mechanism.sigma_squared)) if squared else Loss.of_pure(0)
        return lost.fits(mechanism.loss.nano_epsilon(1e-6), 1e-6)
    return np.abs(difference).sum() <= mechanism.scale * mechanism.loss.pure / 10**9


@pytest.mark.every(3)
@pytest.mark.parametrize("person", [0, 199])
@pytest.mark.parametrize("name", LOCAL)
def test_a_person_removed_changes_nothing_but_the_gates_own_outputs(name, person, monkeypatch):
    tables = frames(200) if "bank" in str(LOCAL[name].get_params()) else visits()
    other = one_visit_less(tables, person) if "event" in name else without(tables, person)
    (one, before), (two, after) = (given(LOCAL[name], each, monkeypatch) for each in (tables, other))
    require_same_view(one, two)
    assert len(before) >= 2
    for (statistic, mechanism, values), (_, _, changed) in zip(before, after, strict=True):
        assert within(statistic, mechanism, values - changed)


@pytest.mark.parametrize("name", ["independent", "response, two parties", "values", "totals", "sketched components"])
def test_the_check_itself_would_notice_two_people(name, monkeypatch):
    tables = frames(200) if "bank" in str(LOCAL[name].get_params()) else visits()
    for frame in tables.values():
        numbers = frame.columns.difference(["person_id", "kind", "segment", "default", "plan", "product"])
        frame.loc[frame.person_id.isin([3, 10]), numbers] = 1e9  # the upper bound, as far from nothing as it gets
    _, before = given(LOCAL[name], tables, monkeypatch)
    _, after = given(LOCAL[name], without(tables, 0, 1), monkeypatch)
    times = 1 if name in ("independent", "response, two parties") else 2
    assert not all(
        within(statistic, mechanism, times * (values - changed))
        for (statistic, mechanism, values), (_, _, changed) in zip(before, after, strict=True)
    )


# What parties open together --------------------------------------------------------------------------------------------------

FUNCTIONAL = {
    "linear": cn.LinearRegression("telco.bill", method="functional", epsilon=1.0),
    "logistic": cn.LogisticRegression("bank.default", method="functional", epsilon=1.0),
    "bottom-up": cn.LogisticRegression(
        "insurer.product", method=cn.methods.Functional(budgets={"bank": 0.5, "telco": 1.0, "insurer": 0.3})
    ),
}


def opened(study, tables, monkeypatch):
    """A functional regression without noise, which follows from a party's seed and its columns; what it opens."""
    found, honest = {}, moment_releases.open_jointly

    def watched(plan, step):
        found["result"] = result = yield from honest(plan, step)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(moment_releases, "open_jointly", watched)
        silent(patch)
        exchanges, _ = said(study, tables)
    return exchanges, found["result"]


def cost(one, other) -> Fraction:
    """Σ|difference|/scale over all opened numbers, entry by entry with its own scale."""
    noise, total = one.joint.noise, Fraction(0)
    for block, slope, places in cross_entries(one.joint.steps).groups:
        moved = np.abs(one.cross[places] - other.cross[places]).sum()
        total += Fraction(int(moved)) / noise.scale(block, slope=slope)
    for party, step in one.joint.steps.items():
        entries = own_entries(widths_of(step), target=step.parameters["target"] is True)
        for slope in (False, True):
            moved = np.abs(one.own[party] - other.own[party])[entries.slope == slope].sum()
            total += Fraction(int(moved)) / noise.scale((party, party), slope=slope)
    return total


@pytest.mark.every(3)
@pytest.mark.parametrize("person", [0, 199])
@pytest.mark.parametrize("name", FUNCTIONAL)
def test_a_person_removed_moves_functional_coefficients_within_the_price(name, person, monkeypatch):
    (one, result), (other, moved) = (
        opened(FUNCTIONAL[name], tables, monkeypatch) for tables in (frames(200), without(frames(200), person))
    )
    require_same_view(one, other)
    assert 0 < cost(result, moved) <= Fraction(result.joint.noise.loss().pure, 10**9)


def test_the_price_itself_would_notice_many_people(monkeypatch):
    _, result = opened(FUNCTIONAL["linear"], frames(200), monkeypatch)
    _, moved = opened(FUNCTIONAL["linear"], without(frames(200), *range(150)), monkeypatch)
    assert cost(result, moved) > 1


def descended(tables, monkeypatch):
    """Run a descent along a fixed path; keep what each party put into each step before it was shared."""
    shared, honest, steps = {}, DescentPart.share, iter(range(10**6))

    def watched(self, position, weights):
        values, noise = honest(self, position, weights)
        shared[self._admitted.party, position] = values.copy(), noise.copy()
        return values, noise

    with monkeypatch.context() as patch:
        patch.setattr(DescentPart, "share", watched)
        patch.setattr(Sgd, "change", lambda _, gradient: np.full_like(gradient, 0.01 * (next(steps) % 7 - 3)))
        patch.setattr(relay, "os", SimpleNamespace(urandom=bytes))  # the name of a run enters its keys, and so batches
        method = cn.methods.Gradient(steps=6, rate=0.5)
        exchanges, study = said(cn.LogisticRegression("bank.default", method=method, epsilon=1.0, delta=1e-5), tables)
    return exchanges, shared, GradientTerms.read(study.plan_, STEP)


def require_weights_alone(exchanges, columns: int) -> int:
    """Weights are all that a coordinator sends; return how often it does."""
    posts = [messages.decode_request(data) for requests, _ in exchanges for data in requests.values()]
    posts = [one for one in posts if isinstance(one, Post) and one.inputs and one.step != "gram"]
    for one in posts:
        assert set(one.inputs) == {"weights"}
        assert one.inputs["weights"].shape == (columns,)
    return len(posts)


@pytest.mark.parametrize("person", [0, pytest.param(57, marks=pytest.mark.full)])
def test_a_person_removed_moves_a_gradient_within_bounds(person, monkeypatch) -> None:
    one, shared, terms = descended(frames(200), monkeypatch)
    other, shared_other, _ = descended(without(frames(200), person), monkeypatch)
    require_same_view(one, other)
    assert require_weights_alone(one, terms.columns)
    moved = []
    for position in range(6):
        sums = []
        for parts in (shared, shared_other):
            values = [parts[owner, position][0] for owner in terms.owners]
            scores = sum(value[0].astype(object) for value in values)
            sums.append(np.concatenate([value[1:] for value in values]).astype(object) @ scores)
        assert all(np.array_equal(shared[o, position][1], shared_other[o, position][1]) for o in terms.owners)
        gap = sums[0] - sums[1]
        moved.append(int(gap @ gap))
    assert all(distance <= terms.noise.moved() for distance in moved)
    assert any(moved)
    assert not all(moved)  # in some steps the person did not take part


class Watched:
    """What each party put into Newton steps before it was shared."""

    def __init__(self, patch) -> None:
        self.columns, self.labels, self.parts, self.noise = {}, {}, {}, {}
        self.rounds = collections.Counter()
        for name in ("columns", "labels", "parts"):
            patch.setattr(
                NewtonPart, name, self._range(getattr(NewtonPart, name), getattr(self, name), name == "parts")
            )
        honest, take = NewtonPart.noise, NewtonPart.take

        def taken(part, weights):
            self.rounds[part] = self.rounds[part] + 1 if part in self.rounds else 0
            take(part, weights)

        def noise(part, number):
            self.noise[part._admitted.party, number] = drawn = honest(part, number)
            return drawn.copy()

        patch.setattr(NewtonPart, "take", taken)
        patch.setattr(NewtonPart, "noise", noise)

    def _range(self, honest, into, every):
        def range_of(part, start, stop):
            found = honest(part, start, stop)
            into[(part._admitted.party, self.rounds[part]) if every else part._admitted.party] = found.copy()
            return found

        return range_of

    def sums(self, terms: NewtonTerms, number: int) -> np.ndarray:
        """What a round would open without noise and without rounding; a curvature in units of its deviation off the diagonal."""
        rows = np.concatenate([self.columns[owner] for owner in terms.owners]).astype(float)
        link, unit = terms.bounds.link, terms.bounds.unit
        scores = sum(self.parts[owner, number] for owner in terms.owners) * link.step
        (labels,) = self.labels.values()
        if terms.bends(number):
            weighted = rows * (unit * link.weight(scores) * (labels >= 0))
            whole = weighted @ rows.T
            return np.append(whole[np.triu_indices(len(rows), 1)], np.diag(whole) / np.sqrt(2))
        return rows @ (unit * (link.mean(scores) - labels) * (labels >= 0))


def stepped(tables, monkeypatch):
    with monkeypatch.context() as patch:
        shared = Watched(patch)
        fixed = lambda self: np.full(self._terms.columns, 0.1 * (len(self.opened) - 1))  # noqa: E731
        patch.setattr(newton_steps._NewtonReader, "_next", fixed)
        patch.setattr(relay, "os", SimpleNamespace(urandom=bytes))  # the name of a run enters its keys
        method = cn.methods.Newton(steps=3)
        exchanges, study = said(cn.LogisticRegression("bank.default", method=method, epsilon=1.0, delta=1e-5), tables)
    return exchanges, shared, NewtonTerms.read(study.plan_, newton_steps.step_name(1))


@pytest.mark.parametrize("person", [0, pytest.param(57, marks=pytest.mark.full)])
def test_a_person_removed_moves_newton_steps_within_bounds(person, monkeypatch) -> None:
    one, shared, terms = stepped(frames(200), monkeypatch)
    other, shared_other, _ = stepped(without(frames(200), person), monkeypatch)
    require_same_view(one, other)
    assert require_weights_alone(one, terms.columns) == terms.rounds * len(terms.members)
    assert shared.noise.keys() == {(owner, number) for owner in terms.owners for number in range(terms.rounds)}
    assert all(np.array_equal(drawn, shared_other.noise[key]) for key, drawn in shared.noise.items())
    for number in range(terms.rounds):
        gap = shared.sums(terms, number) - shared_other.sums(terms, number)
        assert 0 < gap @ gap <= float(terms.noise.moved_by(number))
