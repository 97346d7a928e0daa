"""Two neighbouring data sets, no noise: a functional regression differs in sealed letters and opened values, nowhere else.

As `tests/test_record_and_replay.py`, for a study in turns. Shares and seals are fresh in every run, so contents of letters are
compared by size only. A party's noise follows from its seed and its columns, so it is left out here; what is opened then differs
by no more than the noise would have been made for, entry by entry with its own scale.
"""

from fractions import Fraction

import msgspec
import numpy as np
import pytest

import colonnade as cn
from colonnade.coordinator.protocols.moment_releases import FunctionalRelease
from colonnade.protocol import codec
from colonnade.protocol.messages import Agreed, Greeted, Opened, Posted, Released
from colonnade.steps.products import cross_entries, own_entries, widths_of
from colonnade.transport.direct import Recorded
from tests import kit
from tests.federations import federation
from tests.party.test_coefficients import silent
from tests.test_record_and_replay import neighbours

STUDIES = {
    "linear": cn.LinearRegression("telco.bill", method="functional", epsilon=1.0),
    "logistic": cn.LogisticRegression("bank.default", method="functional", epsilon=1.0),
    "bottom-up": cn.LogisticRegression(
        "insurer.product", method=cn.methods.Functional(budgets={"bank": 0.5, "telco": 1.0, "insurer": 0.3})
    ),
}


def record(study, tables, monkeypatch):
    opened = {}
    read = FunctionalRelease.read
    monkeypatch.setattr(FunctionalRelease, "read", lambda one, result: read(one, opened.setdefault("result", result)))
    silent(monkeypatch)
    with kit.zeroed_out(), federation(tables=tables) as f:
        f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
        type(study)(**study.get_params(deep=False)).fit(f)
    monkeypatch.undo()
    return recorded.exchanges, opened["result"]


def shape_of(data):
    """What a reply may show besides released values: everything but contents, which are sealed, masked or noised."""
    reply = codec.decode_reply(data)
    if isinstance(reply, Greeted):
        return "greeted", len(data)
    if isinstance(reply, Posted):
        return "posted", tuple((receiver, len(letter)) for receiver, letter in reply.letters.items())
    if isinstance(reply, Opened):
        return "opened", *((part and (part.dtype, part.shape)) for part in (reply.share, reply.own))
    if isinstance(reply, Released):
        return "released", reply.loss, tuple((n, a.dtype, a.shape) for n, a in reply.values.items())
    if isinstance(reply, Agreed):
        return codec.encode(msgspec.structs.replace(reply, nonce=b""))
    return type(reply).__name__, len(data)


def cost(one, other):
    """Σ|difference|/scale over all opened numbers."""
    noise, total = one.joint.noise, Fraction(0)
    for block, slope, places in cross_entries(one.joint.steps).groups:
        moved = np.abs(one.cross[places] - other.cross[places]).sum()
        total += Fraction(int(moved)) / noise.scale(block, slope=slope)
    for party, entries in _own(one).items():
        for slope in (False, True):
            moved = np.abs(one.own[party] - other.own[party])[entries.slope == slope].sum()
            total += Fraction(int(moved)) / noise.scale((party, party), slope=slope)
    return total


def _own(result):
    steps = result.joint.steps
    return {p: own_entries(widths_of(s), target=s.parameters["target"] is True) for p, s in steps.items()}


@pytest.mark.every(2)
@pytest.mark.parametrize("person", [0, 199])
@pytest.mark.parametrize("name", STUDIES)
def test_a_person_removed_changes_nothing_but_contents_and_those_within_the_price(name, person, monkeypatch):
    one, other = neighbours(person)
    exchanges, result = record(STUDIES[name], one, monkeypatch)
    without, result_without = record(STUDIES[name], other, monkeypatch)
    assert len(exchanges) == len(without)
    for (requests, replies), (requests_without, replies_without) in zip(exchanges, without, strict=True):
        assert list(requests) == list(requests_without)
        assert [len(data) for data in requests.values()] == [len(data) for data in requests_without.values()]
        assert {p: shape_of(data) for p, data in replies.items()} == {
            p: shape_of(d) for p, d in replies_without.items()
        }
    moved = cost(result, result_without)
    assert 0 < moved <= Fraction(result.joint.noise.loss().pure, 10**9)


def test_the_check_itself_would_notice_many_people(monkeypatch):
    one, other = neighbours(0)
    for frame in other.values():
        frame.loc[frame.index[:150], [column for column in frame.columns if column != "person_id"]] = None
    _, result = record(STUDIES["linear"], one, monkeypatch)
    _, result_without = record(STUDIES["linear"], other, monkeypatch)
    assert cost(result, result_without) > 1
