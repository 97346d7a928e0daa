"""Two neighbouring data sets, the same randomness: apart from the gate's own outputs, nothing may differ.

Messages, sizes, order and control flow are identical, and the difference at each mechanism's input is within the declared
sensitivity.
"""

import msgspec
import numpy as np
import pytest

import colonnade as cn
from colonnade.protocol import codec
from colonnade.protocol.messages import Accounted, Agreed, Begin, GetYes, Released, SaidYes
from colonnade.transport.direct import Recorded
from tests import kit
from tests.federations import federation, frames

STUDIES = {
    "response, two parties": cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0),
    "response, three parties": cn.PatternCount(
        ["bank.segment", "telco.plan", "insurer.product"], method="response", epsilon=1.0
    ),
    "response, two columns of one party": cn.PatternCount(
        ["bank.segment", "bank.default", "telco.plan"], method="response", epsilon=1.0
    ),
    "response, sampled": cn.PatternCount(
        ["bank.segment", "telco.plan"], method=cn.methods.Response(sample=0.5), epsilon=1.0
    ),
    "independent": cn.PatternCount(["bank.segment", "telco.plan"], method="independent", epsilon=1.0),
}


def neighbours(person: int) -> tuple[dict, dict]:
    """The same tables with one person's values replaced by nothing at every party."""
    one, other = frames(200), frames(200)
    for frame in other.values():
        values = [column for column in frame.columns if column != "person_id"]
        frame.loc[frame.person_id == person * 7 + 3, values] = None
    return one, other


def record(study, tables, monkeypatch):
    """Run a study and keep every message and every mechanism's input."""
    from colonnade.party.steps.local import PrivateHistogram, PrivateReports

    inputs = []
    for statistic in (PrivateHistogram, PrivateReports):
        real = statistic.compute

        def watched(self, table, real=real):
            nonprivate = real(self, table)
            inputs.append((self.step.name, self.step.columns, nonprivate.copy()))
            return nonprivate

        monkeypatch.setattr(statistic, "compute", watched)
    with kit.zeroed_out(), federation(tables=tables) as f:
        f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
        study.fit(f)
    monkeypatch.undo()
    return recorded.exchanges, sorted(inputs, key=lambda entry: entry[:2])


def blank(data: bytes) -> tuple:
    """A reply with the released values removed: what must not depend on data."""
    reply = codec.decode_reply(data)
    if isinstance(reply, Accounted):  # a ledger's name is random
        return (msgspec.structs.replace(reply, ledger=""), len(data))
    if isinstance(reply, Agreed):  # nonces are random, and so are a ledger's salt and its roots
        return (msgspec.structs.replace(reply, nonce=b""), len(data))
    if isinstance(reply, SaidYes):
        return ("said yes", len(data))
    if not isinstance(reply, Released):
        return (data,)
    shapes = tuple((name, array.dtype, array.shape) for name, array in reply.values.items())
    return (reply.party, reply.step, reply.mechanism, reply.loss, shapes, len(data))


def plain(requests: dict[str, bytes]) -> dict[str, object]:
    """Requests, of those that carry nonces and yeses their sizes."""
    decoded = {party: codec.decode_request(data) for party, data in requests.items()}
    return {party: len(requests[party]) if isinstance(one, GetYes | Begin) else one for party, one in decoded.items()}


@pytest.mark.every(3)
@pytest.mark.parametrize("person", [0, 57, 199])
@pytest.mark.parametrize("name", STUDIES)
def test_a_person_removed_changes_nothing_but_the_gates_own_outputs(name, person, monkeypatch):
    one, other = neighbours(person)
    exchanges_one, inputs_one = record(STUDIES[name], one, monkeypatch)
    exchanges_other, inputs_other = record(STUDIES[name], other, monkeypatch)
    assert len(exchanges_one) == len(exchanges_other)
    for (requests_one, replies_one), (requests_other, replies_other) in zip(
        exchanges_one, exchanges_other, strict=True
    ):
        assert plain(requests_one) == plain(requests_other)
        assert list(replies_one) == list(replies_other)
        for party in replies_one:
            assert blank(replies_one[party]) == blank(replies_other[party])
    for (kind, columns, before), (kind_other, columns_other, after) in zip(inputs_one, inputs_other, strict=True):
        assert (kind, columns) == (kind_other, columns_other)
        difference = before.astype(np.int64) - after.astype(np.int64)
        if kind == "histogram":
            assert np.abs(difference).sum() <= 1
        else:
            assert np.count_nonzero(difference) <= 1


def test_the_check_itself_would_notice_two_people(monkeypatch):
    one, other = neighbours(0)
    for frame in other.values():
        frame.loc[frame.person_id == 1 * 7 + 3, [c for c in frame.columns if c != "person_id"]] = None
    _, inputs_one = record(STUDIES["independent"], one, monkeypatch)
    _, inputs_other = record(STUDIES["independent"], other, monkeypatch)
    changes = [np.abs(a[2] - b[2]).sum() for a, b in zip(inputs_one, inputs_other, strict=True)]
    assert max(changes) == 2
