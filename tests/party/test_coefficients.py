"""One party's coefficients: what is measured, what one person can do to it whatever the data, and the law of its noise."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.audit import audit
from colonnade.errors import BadInput, ColonnadeError, PlanMismatch
from colonnade.party.steps.products import PrivateCoefficients
from colonnade.party.table.private_table import PrivateTable
from colonnade.party.table.sources import Source
from colonnade.plan import Step
from colonnade.privacy import samplers
from colonnade.privacy.accounting import Price
from colonnade.privacy.laws.coefficients import CoefficientNoise
from colonnade.schema import Category, Numeric, Schema
from colonnade.secure.shamir import entry_pairs
from colonnade.steps.products import Coefficients, Entries, cross_entries
from tests import kit

SCHEMA = Schema(
    segment=Category(["basic", "gold", "platinum"]),
    flag=Category(["no", "yes"]),
    age=Numeric(18, 95),
    debt=Numeric(-8e307, 8e307),
    claims=Numeric(0, 10, integer=True),
)
WIDTHS = {"segment": 3, "flag": 1, "age": 1, "debt": 1, "claims": 1}
OWNERS = {"bank": ("segment", "age"), "telco": ("flag",), "insurer": ("debt", "claims")}  # claims is the target
WORDS = st.sampled_from(["basic", "gold", "platinum", "lead", None])
ANSWERS = st.sampled_from(["no", "yes", "YES", None])
NUMBERS = st.floats(width=64) | st.sampled_from([0.0, 18.0, 95.0, 56.5, 1e308, -1e308, np.nan, np.inf, -np.inf])
RECORDS = st.tuples(WORDS, ANSWERS, NUMBERS, NUMBERS, NUMBERS)
NOTHING = (None, None, np.nan, np.nan, np.nan)


def table(records):
    segment, flag, age, debt, claims = zip(*records, strict=True)
    words = {"segment": pd.Series(segment, dtype=object), "flag": pd.Series(flag, dtype=object)}
    return PrivateTable(Source(pd.DataFrame({**words, "age": age, "debt": debt, "claims": claims})), SCHEMA)


def a_plan(
    *,
    people=5,
    owners=OWNERS,
    holder="insurer",
    scale=64,
    emphasis=2,
    epsilon=1.0,
    unit="person",
    collusion=1,
    prices=None,
    **change,
):
    def parameters(party, columns):
        widths = tuple(WIDTHS[name] for name in columns)
        plain = {
            "scale": scale,
            "signed": tuple(name for name in columns if name == "flag"),
            "width": sum(widths),
            "widths": widths,
            "target": party == holder,
            "emphasis": emphasis,
            "protocol": "top_down" if prices is None else "bottom_up",
        }
        return plain | change.get(party, {})

    steps = tuple(
        Step(
            name="s",
            party=party,
            kind="coefficients",
            columns=columns,
            parameters=parameters(party, columns),
            price=Price.of(epsilon if prices is None else prices[party]),
        )
        for party, columns in owners.items()
    )
    return kit.written(
        *steps,
        method="functional",
        unit=unit if prices is None else "party",
        price=Price.of(epsilon),
        people=people,
        compute_nodes=("bank", "telco", "insurer"),
        collusion=collusion,
    )


def statistics(plan):
    return {step.party: kit.private(PrivateCoefficients, plan, step, SCHEMA) for step in plan.steps}


def silent(monkeypatch):
    monkeypatch.setattr(samplers, "discrete_laplace", lambda scale, size, source: np.zeros(size, dtype=np.int64))
    monkeypatch.setattr(samplers, "polya_share", lambda scale, parts, size, source: np.zeros(size, dtype=np.int64))


def exact(plan, records):
    """Every coefficient without noise, own parts first, each with the scale of its noise: what a release is made of."""
    found = statistics(plan)
    joint = Coefficients.read(plan, "s")
    values, scales = [], []
    rows = {party: one.rows(table(records), 0, plan.people) for party, one in found.items()}
    for party, one in found.items():
        coded = np.vstack([np.full((1, plan.people), one.step.coding.scale), rows[party]]).astype(object)
        values += list((coded @ coded.T)[one.step.entries.rows, one.step.entries.columns])
        scales += [one.step.joint_law.scale((party, party), slope=bool(flag)) for flag in one.step.entries.slope]
    joined = np.vstack(list(rows.values())).astype(object)
    first, second = entry_pairs(joint.widths)
    cross = np.empty(len(first), dtype=object)
    for block, slope, places in cross_entries(joint.steps).groups:
        cross[places] = joint.noise.scale(block, slope=slope)
    return np.array(values + list((joined @ joined.T)[first, second])), np.array(scales + list(cross))


# What one person can do -----------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.lists(RECORDS, min_size=1, max_size=4), st.data(), st.sampled_from([1, 64, 4096]), st.integers(1, 3))
def test_a_record_changes_all_coefficients_together_by_no_more_than_the_price_covers(records, data, scale, emphasis):
    """Σ|change|/scale over every entry is the loss itself, whatever the record: missing, infinite, out of bounds."""
    person = data.draw(st.integers(0, len(records) - 1))
    plan = a_plan(people=len(records), scale=scale, emphasis=emphasis)
    before, scales = exact(plan, records)
    gone, replaced = (
        [other if place == person else record for place, record in enumerate(records)]
        for other in (NOTHING, data.draw(RECORDS))
    )
    noise = Coefficients.read(plan, "s").noise
    assert _cost(before, exact(plan, gone)[0], scales) <= 1
    assert _cost(before, exact(plan, replaced)[0], scales) <= noise.replaced_loss().epsilon(0.0) + 1e-9
    for party, columns in OWNERS.items():
        kept = tuple(
            None if name in ("segment", "flag") and name in columns else v
            for name, v in zip(SCHEMA, records[person], strict=True)
        )
        kept = tuple(
            np.nan if name in columns and WIDTHS[name] == 1 and name != "flag" else v
            for name, v in zip(SCHEMA, kept, strict=True)
        )
        part = [kept if place == person else record for place, record in enumerate(records)]
        assert _cost(before, exact(plan, part)[0], scales) <= noise.loss(party=party).epsilon(0.0) + 1e-9


def _cost(one, other, scales):
    return float(sum(Fraction(int(abs(a - b))) / scale for a, b, scale in zip(one, other, scales, strict=True)))


def test_a_record_of_extremes_costs_exactly_the_price():
    records = [("gold", "yes", np.inf, -np.inf, np.inf)]
    plan = a_plan(people=1)
    before, scales = exact(plan, records)
    assert _cost(before, exact(plan, [NOTHING])[0], scales) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("unit", ["person", "party"])
def test_a_ledger_is_debited_the_whole_loss_or_that_of_its_part(unit):
    found = statistics(a_plan(unit=unit))
    noise = next(iter(found.values())).step.joint_law
    for party, one in found.items():
        assert one.loss == noise.loss(party=party if unit == "party" else None)


# The law of the noise -------------------------------------------------------------------------------------------------------

DRAWS = 600_000


def laplace_p(values, scale):
    """p-value of "these are discrete Laplace of this scale", by cells of all values within eight scales."""
    top = math.ceil(8 * scale)
    support = np.arange(-top, top + 1)
    law = np.exp(-np.abs(support) / float(scale))
    inside = values[np.abs(values) <= top]
    assert len(inside) > 0.99 * len(values)
    return kit.chi_square_p(np.bincount(inside + top, minlength=2 * top + 1), law)


@pytest.mark.parametrize("collusion", [0, 1])
def test_what_the_honest_parties_add_between_them_is_discrete_laplace_and_of_no_other_scale(collusion):
    """P − c shares sum to the stated law, for curvature and for slope each with its own scale."""
    plan = a_plan(scale=1, epsilon=8.0, collusion=collusion)
    found = statistics(plan)
    noise, source = found["bank"].step.joint_law, kit.sampler(f"opened noise {collusion}")
    entries = len(entry_pairs(Coefficients.read(plan, "s").widths)[0])
    groups = found["bank"].step.cross.groups
    copies = DRAWS // entries
    shares = [
        _copied(one, copies).cross_noise(copies * entries, source)
        for one in list(found.values())[: len(found) - collusion]
    ]
    drawn = sum(shares).reshape(copies, entries)
    for block, slope, places in groups:
        if block != ("bank", "insurer"):
            continue
        scale = noise.scale(block, slope=slope)
        values = drawn[:, places].ravel()
        assert laplace_p(values, scale) > kit.ALPHA
        assert laplace_p(values, scale * Fraction(9, 10)) < kit.ALPHA
        assert laplace_p(values, scale * Fraction(11, 10)) < kit.ALPHA


def test_a_partys_own_noise_is_discrete_laplace_and_of_no_other_scale():
    plan = a_plan(people=1, scale=1, epsilon=8.0)
    one, nobody = statistics(plan)["insurer"], table([NOTHING])
    source = kit.sampler("own noise")
    drawn = _copied(one, 200_000).own(nobody, source)
    for slope in (False, True):
        scale = one.step.joint_law.scale(("insurer", "insurer"), slope=slope)
        values = drawn[one.step.entries.slope == slope]
        assert laplace_p(values, scale) > kit.ALPHA
        assert laplace_p(values, scale * Fraction(9, 10)) < kit.ALPHA
        assert laplace_p(values, scale * Fraction(11, 10)) < kit.ALPHA


# An audit of the whole release ----------------------------------------------------------------------------------------------


class Release:
    """A whole opening as its adversary sees it, the share of one colluder taken off: the real draws, many copies in one call."""

    name = "coefficients"

    def __init__(self, plan):
        self.plan = plan
        self.loss = Coefficients.read(plan, "s").noise.loss()
        self.scales = exact(plan, [NOTHING])[1].astype(float)

    def release(self, nonprivate, randomness):
        copies = len(nonprivate)
        found = {party: _copied(one, copies) for party, one in statistics(self.plan).items()}
        own = [one.own(table([NOTHING]), randomness).reshape(copies, -1) for one in found.values()]
        entries = nonprivate.shape[1] - sum(part.shape[1] for part in own)
        honest = list(found.values())[: found["bank"].step.joint_law.honest]
        cross = sum(one.cross_noise(copies * entries, randomness) for one in honest)
        return nonprivate + np.hstack([*own, cross.reshape(copies, -1)])

    def telling(self, one, other):
        """The loss that an output shows: the best statistic there is."""

        def statistic(outputs):
            return np.round(((np.abs(outputs - other) - np.abs(outputs - one)) / self.scales).sum(axis=1), 2)[:, None]

        return statistic


def _copied(one, copies):
    """Let a statistic draw for many openings at once."""
    entries, groups = one.step.entries, one.step.cross.groups
    total = sum(len(places) for _, _, places in groups)
    shift = np.arange(copies)[:, None] * total
    one.step.entries = Entries(*(np.tile(part, copies) for part in (entries.rows, entries.columns, entries.slope)))
    one.step.cross = SimpleNamespace(
        groups=[(block, slope, (places + shift).ravel()) for block, slope, places in groups]
    )
    return one


def finding_of_the_audit(samples=100_000):
    owners = {"bank": ("age",), "telco": ("flag",), "insurer": ("claims",)}
    plan = a_plan(people=1, owners=owners, scale=2, epsilon=2.0, emphasis=1)
    extreme = [(None, "yes", np.inf, 0.0, np.inf)]
    one, other = (exact(plan, records)[0].astype(np.int64) for records in (extreme, [NOTHING]))
    mechanism = Release(plan)
    return audit(
        mechanism,
        one,
        other,
        randomness=kit.source("audit of coefficients"),
        samples=samples,
        alpha=kit.ALPHA,
        statistic=mechanism.telling(one, other),
    )


def test_the_audit_does_not_convict_the_release():
    finding = finding_of_the_audit()
    assert not finding.caught, str(finding)
    assert finding.epsilon > 1.0  # an audit that sees nothing would acquit anything


def test_the_audit_convicts_half_the_noise(monkeypatch):
    honest = CoefficientNoise.scale
    monkeypatch.setattr(
        CoefficientNoise, "scale", lambda self, block, slope=False: honest(self, block, slope=slope) / 2
    )
    finding = finding_of_the_audit()
    assert finding.caught, str(finding)


# Refusals -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"bank": {"widths": (2, 2)}}, PlanMismatch),
        ({"bank": {"widths": (3, 2)}}, BadInput),
        ({"bank": {"widths": "wide"}}, BadInput),
        ({"bank": {"target": True}}, BadInput),
        ({"insurer": {"target": False}}, BadInput),
        ({"insurer": {"target": 1}}, BadInput),
        ({"bank": {"scale": 65}}, PlanMismatch),
        ({"bank": {"emphasis": 1}}, PlanMismatch),
        ({"bank": {"protocol": "sideways"}}, PlanMismatch),
        ({key: {"protocol": "sideways"} for key in OWNERS}, BadInput),
        ({key: {"emphasis": 0} for key in OWNERS}, BadInput),
        ({key: {"emphasis": 1.0} for key in OWNERS}, BadInput),
        ({"bank": {"less_noise": 1}}, BadInput),
        ({"telco": {"signed": ()}}, PlanMismatch),
        ({"telco": {"signed": ("age",)}}, ColonnadeError),
    ],
)
def test_a_step_that_does_not_fit_the_schema_or_the_others_is_refused(change, error):
    with pytest.raises(error):
        statistics(a_plan(**change))
