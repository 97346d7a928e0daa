"""The opened matrix minus the noise is the integer plaintext, bit for bit, whoever computes and whoever holds data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import BadInput, ProtocolError
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.steps.products import PrivateGram, PrivatePairTables
from colonnade.plan import Step
from colonnade.privacy.accounting import Price
from colonnade.privacy.randomness import KeyedRandomness
from colonnade.privacy.samplers import ExactSampler
from colonnade.secure.residues import PRIME_SETS, Arithmetic
from colonnade.secure.shamir import entry_pairs
from colonnade.steps import kind as joint_module
from colonnade.steps.kind import read_joint
from tests import kit
from tests.conversations.sites import Opens
from tests.conversations.stage import NAMES, SIZES, STEP, Stage, Table, a_plan, noise_room, some_tables
from tests.federations import SCHEMAS, federation, frames, joined

# Who computes, who holds data


@pytest.mark.every(3)
@pytest.mark.parametrize(("nodes", "threshold"), SIZES)
def test_every_number_of_nodes_thresholds_and_data_parties(nodes, threshold):
    generator = kit.generator(f"exactness {nodes} {threshold}")
    for owners in range(2, nodes + 1):
        widths = {name: 1 + number % 3 for number, name in enumerate(NAMES[:owners])}
        plan = a_plan(widths, nodes=NAMES[:nodes], threshold=threshold, people=7, scale=1 + 50 * owners)
        stage = Stage(plan, some_tables(plan, generator)).play()
        assert stage.opened == stage.plain


# Shapes and values


@settings(max_examples=15)
@given(data=st.data())
def test_any_shape_and_any_values_up_to_the_bound(data):
    size, threshold = data.draw(st.sampled_from(SIZES[:4]), label="(N, t)")
    widths = data.draw(st.lists(st.integers(1, 5), min_size=2, max_size=4), label="widths")
    people = data.draw(st.integers(1, 9), label="people")
    scale = data.draw(st.sampled_from([1, 2, 4096, 2**20]), label="scale")
    plan = a_plan(
        dict(zip(NAMES, widths, strict=False)), nodes=NAMES[:size], threshold=threshold, people=people, scale=scale
    )
    room = noise_room(read_joint(plan, STEP))
    entries = read_joint(plan, STEP).entries
    value, noise = st.integers(-scale, scale), st.integers(-room, room)

    def matrix(strategy, *shape):
        count = int(np.prod(shape))
        return np.array(data.draw(st.lists(strategy, min_size=count, max_size=count)), dtype=np.int64).reshape(shape)

    tables = {
        name: Table(matrix(value, people, width), matrix(noise, entries))
        for name, width in zip(NAMES, widths, strict=False)
    }
    stage = Stage(plan, tables).play()
    assert stage.opened == stage.plain


@pytest.mark.every(2)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("scale", [1, 4095, 2**20])
def test_extreme_tables_with_extreme_noise(sign, scale):
    plan = a_plan({"ana": 2, "bo": 3}, people=6, scale=scale)
    joint = read_joint(plan, STEP)
    tables = {
        "ana": Table(np.full((6, 2), scale), np.full(joint.entries, sign * noise_room(joint))),
        "bo": Table(np.full((6, 3), sign * scale), np.full(joint.entries, sign * noise_room(joint))),
    }
    stage = Stage(plan, tables).play()
    assert stage.opened == stage.plain == [sign * (6 * scale**2 + 2 * noise_room(joint))] * 6


# Chunks


# Headroom


def _plan_of(people: int, scale: int):
    return a_plan({"ana": 1, "bo": 1}, people=people, scale=scale, epsilon=8.0, delta=1e-3)


@pytest.mark.parametrize("moduli", PRIME_SETS)
def test_the_headroom_check_is_exact_at_its_edge(moduli):
    """The last number of people that fits runs exactly, at the extreme; one more person takes the next arithmetic or none."""
    largest = Arithmetic(moduli).largest
    scale = 2 ** min((largest.bit_length() - 5) // 2, 24)  # some dozens of people fill it
    noise = read_joint(_plan_of(1, scale), STEP).bound - scale**2
    people = (largest - noise) // scale**2
    joint = read_joint(plan := _plan_of(people, scale), STEP)
    assert joint.bound <= largest < read_joint(_plan_of(people + 1, scale), STEP).bound
    assert joint.arithmetic.moduli == moduli
    for sign in (1, -1):
        tables = {
            "ana": Table(np.full((people, 1), scale), np.array([sign * noise])),
            "bo": Table(np.full((people, 1), sign * scale), np.array([0])),
        }
        stage = Stage(plan, tables).play()
        assert stage.opened == stage.plain == [sign * joint.bound]
    after = read_joint(_plan_of(people + 1, scale), STEP)
    if moduli == PRIME_SETS[-1]:
        with pytest.raises(BadInput, match="does not fit any arithmetic"):
            after.arithmetic  # noqa: B018
    else:
        assert after.arithmetic.moduli == PRIME_SETS[PRIME_SETS.index(moduli) + 1]


def test_a_value_past_the_bound_is_refused_and_never_wraps_into_a_result():
    """A draw that the proof rules out (probability below e⁻¹²⁸) spoils the run; it does not pass for another integer."""
    plan = _plan_of(2, 2**20)
    joint = read_joint(plan, STEP)
    for noise in (joint.bound - 2 * 2**40 + 1, joint.arithmetic.largest - 2 * 2**40, joint.arithmetic.largest):
        tables = {name: Table(np.full((2, 1), 2**20), np.array([0])) for name in ("ana", "bo")}
        tables["bo"].noises[:] = noise
        with pytest.raises(ProtocolError, match="exceeds the bound"):
            Stage(plan, tables).play().opened  # noqa: B018


# Through the whole stack


class Regenerated:
    """The noise of every party, drawn again from the seeds that their ledgers kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seeds: dict[str, bytes] = {}
        real = SqliteLedger.reserve

        def reserve(ledger, *args, seed, **kwargs):
            self.seeds[ledger.party] = seed
            return real(ledger, *args, seed=seed, **kwargs)

        monkeypatch.setattr(SqliteLedger, "reserve", reserve)

    def sampler(self, party: str, label: str) -> ExactSampler:
        return ExactSampler(KeyedRandomness(self.seeds[party]).spawn("noise").spawn(label))


def statistics_of(plan, name, kind):
    return {step.party: kit.private(kind, plan, step, SCHEMAS[step.party]) for step in plan.steps if step.name == name}


def run_joint(f: cn.Federation, steps: tuple[Step, ...], price: Price):
    algorithm = Opens(steps)
    task = "moments" if steps[0].kind == "gram" else "pattern-count"
    plan = f._driver.plan(algorithm, task=task, method="secure", price=price, unit="person", parameters={})
    return plan, f._driver.run(algorithm, plan).value


@pytest.mark.every(2)
@pytest.mark.parametrize("parties", [("bank", "telco", "insurer"), ("bank", "telco")])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_released_tables_minus_regenerated_noise_are_the_counts(parties, delta, monkeypatch):
    regenerated = Regenerated(monkeypatch)
    tables, price = frames(97), Price.of(0.5, delta)
    columns = {"bank": ("segment", "default"), "telco": ("plan",), "insurer": ("product",)}
    sizes = {"bank": 6, "telco": 2, "insurer": 4}
    steps = tuple(
        Step(
            name=STEP,
            party=party,
            kind="pair-tables",
            columns=columns[party],
            parameters={"width": sizes[party]},
            price=price,
        )
        for party in parties
    )
    with federation(tables=tables, parties=parties) as f:
        plan, result = run_joint(f, steps, price)
    noise = sum(
        statistic.cross_noise(len(result.cross), regenerated.sampler(party, "cross"))
        for party, statistic in statistics_of(plan, STEP, PrivatePairTables).items()
    )
    people = joined(tables)
    indicators = []
    for party in parties:
        levels = [SCHEMAS[party][column].levels for column in columns[party]]
        for combination in np.ndindex(*(len(some) for some in levels)):
            shown = [
                people[f"{party}.{column}"] == some[level]
                for column, some, level in zip(columns[party], levels, combination, strict=True)
            ]
            indicators.append(np.logical_and.reduce(shown))
    counts = np.array(indicators, dtype=np.int64)
    first, second = entry_pairs([sizes[party] for party in parties])
    assert (result.cross - noise).tolist() == (counts @ counts.T)[first, second].tolist()
    assert np.abs(noise).max() > 0


@pytest.mark.parametrize("noise", ["gaussian", "skellam"])
def test_a_released_gram_matrix_minus_regenerated_noise_is_the_plain_one(noise, monkeypatch):
    monkeypatch.setattr(joint_module, "CHUNK_UNIT", 16)
    monkeypatch.setattr(joint_module, "CHUNK_ELEMENTS", 16)
    regenerated = Regenerated(monkeypatch)
    columns = {"bank": ("age", "segment"), "telco": ("plan", "bill"), "insurer": ("product",)}
    widths, scale, price = {"bank": 4, "telco": 3, "insurer": 4}, 64, Price.of(1.0, 1e-5)
    steps = tuple(
        Step(
            name=STEP,
            party=party,
            kind="gram",
            columns=columns[party],
            parameters={
                "width": width,
                "scale": scale,
                "row_bound": len(columns[party]) * scale**2,
                "noise": noise,
            },
            price=price,
        )
        for party, width in widths.items()
    )
    with federation(60) as f:
        plan, result = run_joint(f, steps, price)
        statistics = statistics_of(plan, STEP, PrivateGram)
        tables = {party: f._driver.transport._endpoints[party]._gate._table for party in widths}
        rows = {party: statistic.rows(tables[party], 0, f.people) for party, statistic in statistics.items()}
        for party, statistic in statistics.items():  # blocks within one party are noised by it alone
            again = statistic.own(tables[party], regenerated.sampler(party, "own"))
            assert result.own[party].tolist() == again.tolist()
    drawn = sum(
        statistic.cross_noise(len(result.cross), regenerated.sampler(party, "cross"))
        for party, statistic in statistics.items()
    )
    whole = np.concatenate(list(rows.values())).astype(object)
    first, second = entry_pairs(list(widths.values()))
    assert (result.cross - drawn).tolist() == (whole @ whole.T)[first, second].tolist()
