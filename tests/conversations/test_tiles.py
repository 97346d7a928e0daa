"""A matrix that is too wide to be opened at once is opened in tiles: the same numbers, paid once, each tile opened once.

Here everything beyond nothing is too wide, and a tile has a few entries. A run of one chunk has turns 0 … 4 before the first
tile; a tile has three: deal, ready, open.
"""

import collections
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import colonnade as cn
from colonnade.conversations import products as tiles_module
from colonnade.conversations.products import ProductRun
from colonnade.coordinator.protocols.moment_releases import GramRelease
from colonnade.errors import ProtocolError
from colonnade.party.steps.products import PrivateGram
from colonnade.plan import Plan
from colonnade.privacy.accounting import Price
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.protocol import messages
from colonnade.protocol.messages import Blob, Post
from colonnade.secure.shamir import entry_pairs, rectangles
from colonnade.steps import kind as joint_module
from colonnade.steps.kind import read_joint
from colonnade.steps.registry import STUDIES
from tests import kit
from tests.conversations.sites import Opens, Requests, Site, killed_at, outcome, replaced
from tests.federations import SCHEMAS, federation

GRAM = "gram"
BEGIN = 5
"""The first turn of the first tile."""
full = pytest.mark.full


def in_tiles(patch: pytest.MonkeyPatch, entries: int) -> None:
    patch.setattr(joint_module, "OPENED_AT_ONCE", 0)
    patch.setattr(joint_module, "TILE_ENTRIES", entries)
    joint_module._read.cache_clear()


@pytest.fixture(autouse=True)
def _plans_are_read_anew() -> Iterator[None]:
    yield
    joint_module._read.cache_clear()


# The same numbers ---------------------------------------------------------------------------------------------------------------


def moments(noise: str = "gaussian", **more) -> cn.Federation:
    return federation(60, epsilon=100.0, delta=1e-5, test_key=b"k" * 32, **more).moments(
        epsilon=5.0, delta=1e-6, noise=noise
    )


@pytest.mark.every(2)
@pytest.mark.parametrize("entries", [1, 7, pytest.param(20, marks=full)])
@pytest.mark.parametrize("piece", [3, 1 << 20])
def test_a_release_in_tiles_is_that_of_one_opening_bit_for_bit(entries, piece, monkeypatch):
    whole = moments()
    in_tiles(monkeypatch, entries)
    monkeypatch.setattr(tiles_module, "PIECE", piece)
    tiled = moments()
    assert len(read_joint(tiled.plan_, GRAM).tiles) > 1
    assert np.array_equal(tiled.moments.matrix, whole.moments.matrix)
    assert np.array_equal(tiled.moments.variance, whole.moments.variance)
    assert str(tiled.privacy_) == str(whole.privacy_)


def test_tiles_cover_every_entry_and_every_own_number_once(monkeypatch):
    in_tiles(monkeypatch, 7)
    joint = read_joint(moments().plan_, GRAM)
    first, second = entry_pairs(joint.widths)
    covered = [
        (row, column)
        for tile in joint.tiles
        for one in tile.blocks
        for row in range(one.top, one.bottom)
        for column in range(one.left, one.right)
    ]
    assert covered == list(zip(first.tolist(), second.tolist(), strict=True))
    assert (
        sum(tile.entries for tile in joint.tiles)
        == joint.entries
        == sum(one.entries for one in rectangles(joint.widths))
    )
    for entries in joint.own_entries.values():
        assert [place for tile in joint.tiles for place in range(*tile.own.indices(entries))] == list(range(entries))


def test_a_release_that_was_kept_is_recalled_tile_by_tile_and_costs_nothing(monkeypatch, tmp_path):
    in_tiles(monkeypatch, 7)
    options = {"epsilon": 100.0, "delta": 1e-5, "ledger_dir": tmp_path}
    first = federation(60, **options).moments(epsilon=5.0, delta=1e-6)
    again = federation(60, **options)
    second = again.moments(epsilon=5.0, delta=1e-6)
    assert np.array_equal(first.moments.matrix, second.moments.matrix)
    assert second.transcript_.received["posted"] == 0
    assert "nothing" in str(second.receipt_)


# Kills and faults ---------------------------------------------------------------------------------------------------------------


class GramSite(Site):
    """A site whose study is a Gram matrix of two parties' coded columns, and which notes who opened which tile."""

    log: list[tuple[str, int]]

    def plan(self, repeat: int = 1, **changes) -> Plan:
        price = Price.of(0.5, 1e-6)
        chosen = ("bank.age", "bank.segment", "telco.plan", "telco.bill")
        algorithm = Opens(GramRelease(self.federation.describe(chosen), price).steps())
        plan = self.federation._driver.plan(
            algorithm, task=STUDIES["PCA"], method="secure", price=price, unit="person", parameters={}, repeat=repeat
        )
        return replaced(plan, **changes)

    def spent(self) -> dict[str, float]:
        for name in self.parties:
            self.ledger(name).verify()
        return {name: round(self.ledger(name).spent().epsilon(1e-6), 6) for name in self.parties}

    def run(self, plan: Plan) -> list[int]:
        return self.federation._driver.run(Opens(plan.steps), plan).value.cross.tolist()

    def expected(self, plan: Plan) -> list[int]:
        """The exact products, plus the noise that follows from the seeds in the ledgers: each party paid and drew once."""
        rows, noise = [], []
        for step in plan.steps:
            half = kit.private(PrivateGram, plan, step, SCHEMAS[step.party])
            rows.append(half.rows(self.endpoints[step.party]._gate._table, 0, plan.people))
            (seed,) = self.seeds[step.party, messages.request_identity(plan, step.party, step.name)]
            sampler = ExactSampler(KeyedRandomness(seed).spawn("noise").spawn("cross"))
            noise.append(half.cross_noise(half.step.joint.entries, sampler))
        return ((rows[0] @ rows[1].T).reshape(-1) + sum(noise)).tolist()


def wide_site(folder: Path, patch: pytest.MonkeyPatch) -> GramSite:
    in_tiles(patch, 5)
    site = GramSite(folder, parties=("bank", "telco"), nodes=("coordinator",))
    site.log = []
    real = tiles_module.TiledRun._open_tile

    def watched(self):
        answer = real(self)
        site.log.append((self._me.name, self.tile))
        return answer

    patch.setattr(tiles_module.TiledRun, "_open_tile", watched)
    return site


@pytest.fixture
def wide(tmp_path, monkeypatch) -> Iterator[GramSite]:
    site = wide_site(tmp_path, monkeypatch)
    yield site
    site.close()


DEAL, READY, OPEN = range(3)
KILLS = [
    pytest.param(tile, phase, after, name, marks=[] if (tile, name) == (1, "telco") else [full])
    for tile in range(3)
    for phase in (DEAL, READY, OPEN)
    for after in (False, True)
    for name in ("bank", "telco", "coordinator")
]


@pytest.mark.every(3)
@pytest.mark.parametrize(("tile", "phase", "after", "name"), KILLS)
def test_a_member_killed_between_tiles_is_paid_once_and_tiles_that_all_have_kept_are_not_opened_again(
    tile, phase, after, name, wide
):
    """Killed before it takes the turn, or after it has taken it and before the reply is out."""
    plan, turn = wide.plan(), BEGIN + 3 * tile + phase
    assert len(read_joint(plan, GRAM).tiles) > 3
    killed_at(wide, name, turn, after=after)
    assert outcome(wide, plan) == "aborted"
    paid = wide.spent()
    assert outcome(wide, plan) == "done"
    twice = {number for (_, number), times in collections.Counter(wide.log).items() if times > 1}
    assert twice <= {tile}  # the others opened it, and the killed one did not
    assert outcome(wide, plan) == "done"
    assert wide.spent() == paid
    assert paid == pytest.approx(dict.fromkeys(wide.parties, 0.5), abs=1e-3)


def test_no_tile_is_multiplied_before_every_dealing_was_checked(monkeypatch):
    in_tiles(monkeypatch, 7)
    monkeypatch.setattr(ProductRun, "_verify", lambda self, others: None)
    opened = federation(60, epsilon=100.0, delta=1e-5)
    multiplied = []
    monkeypatch.setattr(tiles_module.TiledProduct, "opened", lambda *args: multiplied.append(args))
    with pytest.raises(ProtocolError, match="only after every dealing was checked"):
        opened.moments(epsilon=5.0, delta=1e-6)
    assert not multiplied


@pytest.mark.every(2)
@pytest.mark.parametrize("fault", ["dropped", "of the tile before", "to oneself", "a bit flipped"])
def test_noise_that_was_spoilt_on_its_way_opens_nothing(fault, wide):
    plan, turn, seen = wide.plan(), BEGIN + 3 + READY, {}

    def spoil(requests: Requests) -> Requests:
        posts = {name: messages.decode_request(data) for name, data in requests.items()}
        post = posts["coordinator"]
        if isinstance(post, Post) and post.turn == turn:
            letters = dict(post.letters)
            if fault == "dropped":
                del letters["telco"]
            elif fault == "of the tile before":
                letters["telco"] = seen["telco"]
            elif fault == "to oneself":
                letters["coordinator"] = letters["telco"]
            else:
                data = bytearray(letters["telco"].view)
                data[len(data) // 2] ^= 1
                letters["telco"] = Blob(bytes(data))
            posts["coordinator"] = replaced(post, letters=letters)
        elif isinstance(post, Post) and post.turn == turn - 3:
            seen.update(post.letters)
        return {name: messages.encode(post) for name, post in posts.items()}

    wide.spoil = spoil
    assert outcome(wide, plan) == "aborted"
    assert {tile for _, tile in wide.log} == {0}
    wide.spoil = lambda requests: requests
    assert outcome(wide, plan) == "done"


# What a preview says ------------------------------------------------------------------------------------------------------------


def test_the_traffic_of_tiles_is_what_was_foreseen_now_and_when_it_is_asked_again(monkeypatch):
    in_tiles(monkeypatch, 7)
    opened, study = federation(60, epsilon=100.0, delta=1e-5), cn.PCA(2, epsilon=5.0, delta=1e-6)
    for _ in range(2):
        foreseen = study.preview(opened).traffic
        found = study.fit(opened).transcript_
        assert found.rounds == foreseen.rounds
        assert found.bytes == pytest.approx(foreseen.bytes, rel=0.05)
