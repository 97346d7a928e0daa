"""What the coordinator relays and what any t nodes hold is uniform; nothing but the opened value depends on the data."""

from itertools import combinations

import msgspec
import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import colonnade as cn
from colonnade.party.steps.products import PrivatePairTables
from colonnade.protocol import messages
from colonnade.protocol.messages import (
    Accounted,
    Acknowledged,
    Agreed,
    Greeted,
    NotKept,
    Opened,
    Posted,
    Released,
    SaidYes,
)
from colonnade.secure.keys import OVERHEAD, SeedStream, Session
from colonnade.steps.kind import read_joint
from colonnade.transport.direct import Recorded
from tests import kit
from tests.conversations.stage import NAMES, STEP, Stage, Table, a_plan
from tests.federations import federation, frames

full = pytest.mark.full


def constant_stage(nodes: int, threshold: int, *, side: int, value: int = 1, draw: object = 0) -> Stage:
    """Two parties whose every number is the same, without noise: whatever varies is a mask."""
    widths = {"ana": side, "bo": side}
    plan = a_plan(widths, nodes=NAMES[:nodes], threshold=threshold, people=side, scale=1)
    entries = read_joint(plan, STEP).entries
    tables = {
        name: Table(np.full((side, side), value), np.zeros(entries, dtype=np.int64), secret=_fresh(name, draw))
        for name in widths
    }
    return Stage(plan, tables, draw=_fresh("run", draw)).play()


def _fresh(name: str, draw: object) -> bytes:
    return kit.source(f"secrecy {name} {draw}").bytes(32)


def uniform_p(values: np.ndarray, top: int, cells: int) -> float:
    """p-value of "these rows of numbers below ``top`` are independent and uniform", by equal cells of their joint range."""
    values = np.atleast_2d(values)
    joint = np.zeros(values.shape[1], dtype=np.int64)
    for row in values:
        joint = joint * cells + (row.astype(object) * cells // top).astype(np.int64)
    edges = [-(-top * cell // cells) for cell in range(cells + 1)]
    one = np.diff(edges) / top  # cells differ by one number at most
    probabilities = one
    for _ in values[1:]:
        probabilities = np.outer(probabilities, one).ravel()
    return kit.chi_square_p(np.bincount(joint, minlength=cells ** len(values)), probabilities)


# The coordinator's transcript


def unsealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test-only hook: letters travel as they are."""
    monkeypatch.setattr(Session, "seal", lambda self, to, step, sequence, body: bytes(OVERHEAD) + bytes(body))
    monkeypatch.setattr(Session, "open", lambda self, sender, step, sequence, body: bytes(body[OVERHEAD:]))


def unmasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test-only hook: whatever should be random in a dealing is zero."""
    monkeypatch.setattr(SeedStream, "fill", lambda self, words: words.fill(0))


def relayed_bytes(stage: Stage) -> np.ndarray:
    """All letters of all turns; hellos are public and not among them."""
    turns = stage.relayed[1:]
    return np.frombuffer(
        b"".join(bytes(letter.view) for turn in turns for letters in turn.values() for letter in letters.values()),
        dtype=np.uint8,
    )


def test_all_that_the_coordinator_relays_is_uniform():
    data = relayed_bytes(constant_stage(4, 1, side=160))
    assert len(data) > 590_000
    assert uniform_p(data, 256, 256) > kit.ALPHA
    pairs = data[: len(data) // 2 * 2].reshape(-1, 2).T
    assert uniform_p(pairs, 256, 64) > kit.ALPHA


def test_the_same_test_finds_letters_that_were_not_sealed(monkeypatch):
    unsealed(monkeypatch)
    assert uniform_p(relayed_bytes(constant_stage(4, 1, side=160)), 256, 256) < kit.ALPHA


# What t nodes hold


SOME_SIZES = [(3, 1), (4, 1), (5, 2), pytest.param(7, 3, marks=full), pytest.param(8, 3, marks=full)]
CELLS = {1: 128, 2: 16, 3: 6, 4: 4, 6: 3}


@pytest.mark.every(3)
@pytest.mark.parametrize(("nodes", "threshold"), SOME_SIZES)
@pytest.mark.parametrize("value", [0, 1])
def test_any_t_nodes_shares_of_a_table_are_uniform(nodes, threshold, value):
    stage = constant_stage(nodes, threshold, side=120, value=value)
    held = {name: stage.runs[name].held_shares for name in stage.joint.nodes}
    others = {owner: [name for name in held if name != owner] for owner in stage.joint.owners}
    for number, owner in enumerate(stage.joint.owners):
        for group in combinations(others[owner], threshold):
            for prime in stage.joint.arithmetic.moduli:
                residues = np.stack([held[name][number].ravel() % np.uint64(prime) for name in group])
                assert uniform_p(residues, prime, CELLS[threshold]) > kit.ALPHA


def test_t_plus_one_nodes_shares_are_not():
    stage = constant_stage(3, 1, side=120)
    prime = stage.joint.arithmetic.moduli[0]
    pair = np.stack([stage.runs[name].held_shares[0].ravel() % np.uint64(prime) for name in ("bo", "cy")])
    assert uniform_p(pair, prime, 16) < kit.ALPHA


@pytest.mark.every(2)
@pytest.mark.parametrize(("nodes", "threshold"), SOME_SIZES)
def test_any_2t_nodes_shares_of_noise_are_uniform(nodes, threshold):
    stage = constant_stage(nodes, threshold, side=120)
    prime = stage.joint.arithmetic.moduli[0]
    for group in combinations(NAMES[:nodes], 2 * threshold):
        shares = np.stack([stage.runs[name]._received["ana"].noise % np.uint64(prime) for name in group])
        assert uniform_p(shares, prime, CELLS[2 * threshold]) > kit.ALPHA


def test_shares_of_the_degree_checks_masks_are_uniform():
    """Two numbers a run: many small runs."""
    drawn = []
    for draw in range(120):
        stage = constant_stage(3, 1, side=1, draw=draw)
        drawn += [stage.runs[name]._received[owner].mask for name in NAMES[:3] for owner in stage.joint.owners]
    prime = stage.joint.arithmetic.moduli[0]
    assert uniform_p(np.concatenate(drawn) % np.uint64(prime), prime, 32) > kit.ALPHA


# Two inputs with the same opened matrix

WIDTH = 512
RUNS = 32


def swapped(order: int, draw: int) -> Stage:
    """Two people, at both parties in this order or in the other: every entry of the matrix is 1 either way."""
    column = np.array([[1], [0]]) if order == 0 else np.array([[0], [1]])
    widths = {"ana": WIDTH, "bo": 1} if draw % 2 else {"ana": 1, "bo": WIDTH}
    plan = a_plan(widths, people=2, scale=1)
    tables = {
        name: Table(np.repeat(column, width, axis=1), np.zeros(WIDTH, np.int64), secret=_fresh(name, (order, draw)))
        for name, width in widths.items()
    }
    stage = Stage(plan, tables, draw=_fresh("run", (order, draw))).play()
    assert set(stage.opened) == {1}
    return stage


def residues(stage: Stage, elements: list[np.ndarray]) -> np.ndarray:
    return np.stack([some % np.uint64(p) / p for some in elements for p in stage.joint.arithmetic.moduli], axis=1)


def node_view(stage: Stage) -> np.ndarray:
    """One example an entry: what one node holds of the column behind it and of its noise, and what all nodes opened."""
    wide = stage.joint.widths.index(WIDTH)
    held = list(stage.runs["cy"].held_shares[wide].T)
    noise = [stage.runs["cy"]._received[owner].noise for owner in stage.joint.owners]
    return residues(stage, [*held, *noise, *stage.shares.values()])


def coordinator_view(stage: Stage) -> np.ndarray:
    """One example an entry: the stretch of a letter that carries the column behind it, and what all nodes opened."""
    owner = stage.joint.owners[stage.joint.widths.index(WIDTH)]
    letter = np.frombuffer(stage.relayed[1]["cy"][owner].view, dtype=np.uint8)
    share = stage.joint.arithmetic.packed_size(WIDTH * 2)
    width = 2 * stage.joint.arithmetic.element_bits
    bits = np.unpackbits(letter[-share - 16 : -16], bitorder="little")[: WIDTH * width].reshape(WIDTH, width)
    stretch = np.packbits(bits, axis=1, bitorder="little")
    return np.concatenate([stretch, residues(stage, list(stage.shares.values()))], axis=1)


def views(runs: int) -> dict[str, list[np.ndarray]]:
    """Examples of both inputs, half of each, a run apart."""
    looks = {"node": node_view, "coordinator": coordinator_view}
    seen: dict[str, list[np.ndarray]] = {view: [] for view in looks}
    for draw in range(runs):
        stages = [swapped(order, draw) for order in (0, 1)]
        for view, look in looks.items():
            seen[view].append(np.concatenate([look(stage) for stage in stages]))
    return seen


def area_under_the_curve(examples: list[np.ndarray]) -> float:
    """Train on one half of the runs and test on the other, both ways."""
    half = len(examples) // 2
    halves = [np.concatenate(examples[:half]), np.concatenate(examples[half:])]
    truth = np.tile(np.repeat([0, 1], WIDTH), half)
    areas = []
    for train, test in ((0, 1), (1, 0)):
        model = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=15, early_stopping=False, random_state=0)
        model.fit(halves[train], truth)
        areas.append(roc_auc_score(truth, model.predict_proba(halves[test])[:, 1]))
    return float(np.mean(areas))


@pytest.fixture(scope="module")
def seen() -> dict[str, list[np.ndarray]]:
    return views(RUNS)


@pytest.mark.parametrize("view", ["node", "coordinator"])
def test_no_classifier_tells_two_inputs_with_the_same_opened_matrix_apart(view, seen):
    """16,384 examples of each input: by chance alone the area leaves 0.5 ± 0.02 with probability below 1e-9."""
    area = area_under_the_curve(seen[view])
    assert abs(area - 0.5) < 0.02


@pytest.mark.parametrize("view", ["node", "coordinator"])
def test_with_masks_off_a_classifier_does(view, monkeypatch):
    unmasked(monkeypatch)
    unsealed(monkeypatch)
    assert area_under_the_curve(views(2)[view]) > 0.98


# Record and replay

SECURE = {
    "two parties and the coordinator": (("bank", "telco"), {"epsilon": 0.5}),
    "three parties": (("bank", "telco", "insurer"), {"epsilon": 0.5}),
    "three parties, Gaussian": (("bank", "telco", "insurer"), {"epsilon": 0.5, "delta": 1e-6}),
}
COLUMNS = {"bank": "bank.segment", "telco": "telco.plan", "insurer": "insurer.product"}


def neighbours(person: int) -> tuple[dict, dict]:
    one, other = frames(60), frames(60)
    for frame in other.values():
        values = [column for column in frame.columns if column != "person_id"]
        frame.loc[frame.person_id == person * 7 + 3, values] = None
    return one, other


def record(name: str, tables: dict, monkeypatch: pytest.MonkeyPatch):
    """Run a secure study; keep every message, every row that was shared and all noise."""
    parties, price = SECURE[name]
    rows: dict[str, np.ndarray] = {}
    real = PrivatePairTables.rows

    def watched(self, table, start, stop):
        rows[self.step.columns[0]] = real(self, table, start, stop)
        return rows[self.step.columns[0]]

    monkeypatch.setattr(PrivatePairTables, "rows", watched)
    with kit.zeroed_out(), federation(tables=tables, parties=parties) as f:
        f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
        cn.PatternCount([COLUMNS[party] for party in parties], **price).fit(f)
    monkeypatch.undo()
    return recorded.exchanges, rows


def shape_of(data: bytes) -> tuple:
    """All of a message that must not depend on data: everything but sealed bytes, shares and released values."""
    reply = messages.decode_reply(data)
    if isinstance(reply, Agreed):
        return (messages.encode(msgspec.structs.replace(reply, nonce=b"")), len(reply.nonce))
    if isinstance(reply, SaidYes):
        return ("said yes", len(data))
    if isinstance(reply, NotKept | Acknowledged):
        return (data,)
    if isinstance(reply, Greeted):
        return ("greeted", len(data))
    if isinstance(reply, Accounted):  # a ledger's name is random; nothing else in it may differ
        return ("accounted", len(data), reply.sequence, reply.cap_nano, reply.spent, reply.entries)
    if isinstance(reply, Posted):
        return ("posted", len(data), tuple((name, len(letter)) for name, letter in reply.letters.items()))
    if isinstance(reply, Opened):
        return ("opened", len(data), reply.share and reply.share.shape, reply.own and reply.own.shape)
    assert isinstance(reply, Released)
    return (reply.mechanism, reply.loss, len(data), [(name, array.shape) for name, array in reply.values.items()])


@pytest.mark.every(3)
@pytest.mark.parametrize("person", [0, pytest.param(31, marks=full), pytest.param(59, marks=full)])
@pytest.mark.parametrize("name", SECURE)
def test_a_person_removed_changes_no_size_no_order_and_no_flow(name, person, monkeypatch):
    one, other = neighbours(person)
    exchanges_one, rows_one = record(name, one, monkeypatch)
    exchanges_other, rows_other = record(name, other, monkeypatch)
    assert len(exchanges_one) == len(exchanges_other)
    for (asked_one, said_one), (asked_other, said_other) in zip(exchanges_one, exchanges_other, strict=True):
        assert {party: len(data) for party, data in asked_one.items()} == {
            party: len(data) for party, data in asked_other.items()
        }
        assert list(said_one) == list(said_other)
        assert [shape_of(data) for data in said_one.values()] == [shape_of(data) for data in said_other.values()]
    for column, before in rows_one.items():
        changed = np.abs(before - rows_other[column]).sum(axis=0)
        assert changed.sum() <= 1  # one person, one cell
