"""A step is opened once, also where there are more compute nodes than an opening needs.

A data party takes up a step that was cut short with the same noise. So two openings of one step over a colluding party's other
inputs would differ by the honest party's own rows, without noise. With five nodes and a threshold of one, three shares open a
product: a coordinator asks some nodes for their shares in one run, and the others in a second. Every node that opened in the
first run must stay away from the second, whether it is a node without data or a party without a part in the study.
"""

import os
from collections.abc import Mapping

import numpy as np
import pytest

import colonnade as cn
from colonnade.conversations.memory import RunRecords
from colonnade.party.steps.products import PrivateGram
from colonnade.plan import Plan
from colonnade.protocol.messages import Blob, Greeted, Opened, Post, Posted, Refused, unpack
from colonnade.secure.shamir import reconstruct
from colonnade.steps.kind import read_joint
from tests.conversations.test_floors import NAMES, a_federation, components, forged, put, tables
from tests.federations import as_if_agreed
from tests.party.test_gate import guards

STEP = "gram"
TARGET = 17
FIRST, SECOND = ("telco", "shop", "clinic"), ("telco", "club", "bank")
"""Whom the coordinator asks for shares in the first run and in the second: nobody but the telco, which is its own, twice."""


class ColludingTelco:
    """A telco that takes part as often as it is asked to, each time with other rows for one person."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.change = 0
        rows, keep = PrivateGram.rows, RunRecords.keep

        def chosen(half: PrivateGram, table: object, start: int, stop: int) -> np.ndarray:
            coded = rows(half, table, start, stop)
            if half.step.party == "telco":
                coded = coded.copy()
                coded[:, TARGET] = self.change
            return coded

        patch.setattr(PrivateGram, "rows", chosen)
        self.records: RunRecords | None = None

        def kept(records: RunRecords, *args: object, **options: object) -> None:
            if records is not self.records:
                keep(records, *args, **options)

        patch.setattr(RunRecords, "keep", kept)


def shares_of(f: cn.Federation, plan: Plan, openers: tuple[str, ...]) -> dict[int, np.ndarray] | Refused:
    """Run the step, ask only some nodes for their shares, and return them by point; or the first refusal."""
    joint = read_joint(plan, STEP)
    run: bytes = os.urandom(16)
    for name in joint.members:
        as_if_agreed(guards(f)[name], plan)
    letters: dict[str, dict[str, Blob]] = {}
    for turn in range(len(joint.chunks) + 4):
        asked = openers if turn == len(joint.chunks) + 3 else joint.members
        replies = {
            name: put(f, name, Post(plan=plan, step=STEP, run=run, turn=turn, letters=dict(letters.get(name, {}))))
            for name in asked
        }
        refused = [reply for reply in replies.values() if isinstance(reply, Refused)]
        if refused:
            return refused[0]
        letters = _relayed(replies)
    points = {name: joint.nodes.index(name) + 1 for name in openers}
    return {points[name]: unpack(reply.share).copy() for name, reply in replies.items() if isinstance(reply, Opened)}


def _relayed(replies: Mapping[str, object]) -> dict[str, dict[str, Blob]]:
    if all(isinstance(reply, Greeted) for reply in replies.values()):
        return {to: {name: Blob(reply.hello) for name, reply in replies.items()} for to in replies}
    found: dict[str, dict[str, Blob]] = {}
    for sender, reply in replies.items():
        for receiver, letter in reply.letters.items() if isinstance(reply, Posted) else ():
            found.setdefault(receiver, {})[sender] = letter
    return found


def attacked(nodes: tuple[str, ...] = ()) -> float | Refused:
    """Run a step twice, with shares from different nodes; return what this tells of the bank's target, or the refusal."""
    names = tuple(name for name in NAMES if name not in nodes)
    with pytest.MonkeyPatch.context() as patch, a_federation(names, collusion=1, nodes=nodes) as f:
        telco, opened = ColludingTelco(patch), []
        telco.records = f._driver.transport._endpoints["telco"]._runs.member.records
        _, plan = forged(components(), f, compute_nodes=(*names, *nodes), threshold=1, collusion=1)
        joint = read_joint(plan, STEP)
        scale = plan.steps_of("bank")[0].parameters["scale"]
        for change, openers in ((0, FIRST), (scale, SECOND)):
            telco.change = change
            shares = shares_of(f, plan, openers)
            if isinstance(shares, Refused):
                return shares
            opened.append(int(reconstruct(joint.arithmetic, shares, degree=2)[0]))
        coded = (opened[1] - opened[0]) / scale**2
        return (coded + 1) / 2


TRUE = float(tables()["bank"].x[TARGET])


@pytest.mark.every(2)
@pytest.mark.parametrize("nodes", [(), ("shop", "clinic", "club"), ("clinic",)])
def test_a_step_is_not_opened_a_second_time_by_nodes_that_did_not_open_it_before(nodes):
    refused = attacked(nodes)
    assert isinstance(refused, Refused)
    assert refused.code == "release-lost"


def test_were_it_opened_twice_a_row_would_be_read_without_noise(monkeypatch):
    """The positive control: nodes that do not mind what they hear in another run of a step which they have opened."""
    monkeypatch.setattr(RunRecords, "keep", lambda *_, **__: None)
    assert attacked() == pytest.approx(TRUE, abs=1e-3)
