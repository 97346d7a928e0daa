"""Dividing the people: the same way at every party, known to no coordinator, before the same ledgers."""

import numpy as np
import pytest
from scipy import stats

import colonnade as cn
from colonnade.errors import ProtocolError
from colonnade.party.steps.agreements import in_second_part
from colonnade.protocol import messages
from colonnade.protocol.messages import Settled
from colonnade.steps.local import part_identity
from colonnade.transport.direct import Recorded
from tests import kit
from tests.federations import federation, frames


def ids_at(f, party, part):
    """The ids that a party keeps for a part: looked up where no message reaches."""
    return f._driver.transport.endpoint(party)._row_orders.order(part._driver.alignment).ids.to_pylist()


def test_the_parts_are_the_same_at_every_party_and_make_up_the_whole():
    with federation(500) as f:
        train, test = f.split(test=0.3)
        whole = ids_at(f, "bank", f)
        for party in f.parties:
            assert ids_at(f, party, train) == ids_at(f, "bank", train)
            assert ids_at(f, party, test) == ids_at(f, "bank", test)
        assert sorted([*ids_at(f, "bank", train), *ids_at(f, "bank", test)]) == whole
        assert (train.people, test.people) == (len(ids_at(f, "bank", train)), len(ids_at(f, "bank", test)))


def test_rows_of_a_part_are_those_people_in_order_at_every_party():
    tables = frames(300)
    with federation(tables=tables) as f:
        _, test = f.split(test=0.4)
        ids = ids_at(f, "bank", test)
        for party, column in (("bank", "age"), ("telco", "bill")):
            gate = f._driver.transport.endpoint(party)._row_orders.gate_for(test._driver.alignment)
            expected = tables[party].set_index("person_id").loc[ids, column]
            assert gate._table.values(column).tolist() == pytest.approx(expected.tolist())


def test_asking_again_gives_the_same_parts_and_another_repeat_another_division():
    with federation(400, test_key=None) as f:
        first, again, other = f.split(test=0.2), f.split(test=0.2), f.split(test=0.2, repeat=2)
        assert [part._driver.alignment for part in first] == [part._driver.alignment for part in again]
        assert ids_at(f, "bank", first[1]) == ids_at(f, "bank", again[1])
        assert ids_at(f, "bank", first[1]) != ids_at(f, "bank", other[1])
        assert f.split(test=0.3)[1]._driver.alignment != first[1]._driver.alignment


def test_nothing_is_spent_by_a_division_and_both_parts_spend_from_the_same_ledgers():
    with federation(400) as f:
        train, test = f.split(test=0.5)
        assert f.budget()["spent"].max() == 0
        assert f.budget()["nonprivate"].max() == 0
        cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).fit(train)
        cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).fit(test)
        assert f.budget("bank")["spent"] == train.budget("bank")["spent"] == test.budget("bank")["spent"] == 2.0


def test_the_coordinator_sees_letters_that_are_the_same_whoever_takes_part():
    """Apart from sealed letters no byte tells anything: sizes and order are the same for other ids and other values."""

    def exchanges(tables):
        with federation(tables=tables) as f:
            f._driver.transport = recorded = Recorded(f._driver.transport, keep=True)
            f.split(test=0.2)
            return recorded.exchanges

    one, other = (
        frames(200),
        frames(200, seed=5),
    )  # parts of about 160 and 40: their sizes take as many bytes in every run
    for table in other.values():
        table["person_id"] += 1_000
    seen = [exchanges(tables) for tables in (one, other)]
    for (_, first), (_, second) in zip(*seen, strict=True):
        assert {name: len(data) for name, data in first.items()} == {name: len(data) for name, data in second.items()}
    last = [messages.decode_reply(data) for data in seen[0][-3][1].values()]
    assert all(isinstance(reply, Settled) for reply in last)


def test_a_share_of_people_is_about_that_share_and_does_not_depend_on_the_place():
    """A keyed hash: over many keys every place falls on either side equally often, and shares are binomial."""
    share, people, keys = 0.2, 200, 2_000
    source = kit.source("keys of divisions")
    taken = np.array([in_second_part(source.bytes(32), people, share) for _ in range(keys)])
    by_place = taken.sum(axis=0)
    assert stats.chi2.sf(((by_place - keys * share) ** 2 / (keys * share * (1 - share))).sum(), people) > kit.ALPHA
    total = int(taken.sum())
    assert stats.binomtest(total, keys * people, share).pvalue > kit.ALPHA
    assert not np.array_equal(taken[0], taken[1])


def test_a_policy_can_refuse_divisions_and_parts_that_are_too_small():
    with federation(100, policies={"bank": cn.Policy(allow=["PatternCount"])}) as f, pytest.raises(cn.PolicyRefusal):
        f.split(test=0.5)
    with federation(100, policies={"bank": cn.Policy(min_people=60)}) as f:
        _, test = f.split(test=0.2)
        with pytest.raises(cn.PolicyRefusal, match="fewer people"):
            cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).fit(test)


def test_a_division_that_is_over_is_not_run_again():
    """A coordinator that says some party has not kept its parts never gets other people under the same name."""
    from colonnade.coordinator.alignment import SplitAlgorithm

    with federation(100) as f:
        train, _ = f.split(test=0.5)
        algorithm = SplitAlgorithm(f.parties, 0.5)
        plan = f._driver.plan(algorithm, task="split", method="keyed-hash", price=None, unit="person", parameters={})
        assert part_identity(plan, "train") == train._driver.alignment
        rounds = algorithm.rounds(plan)
        requests = next(rounds)
        replies = {
            name: messages.decode_reply(f._driver.transport.exchange({name: messages.encode(r)})[name])
            for name, r in requests.items()
        }
        assert all(isinstance(reply, Settled) for reply in replies.values())
        orders = {
            name: guard._row_orders.order(train._driver.alignment)
            for name, guard in f._driver.transport._endpoints.items()
        }
        from colonnade.protocol.messages import NotKept

        requests = rounds.send(dict.fromkeys(requests, NotKept()))
        with pytest.raises(ProtocolError):  # it is over, and its secrets are forgotten
            while True:
                answers = f._driver.transport.exchange(
                    {name: messages.encode(request) for name, request in requests.items()}
                )
                requests = rounds.send({name: messages.decode_reply(data) for name, data in answers.items()})
        for name, guard in f._driver.transport._endpoints.items():
            assert guard._row_orders.order(train._driver.alignment) is orders[name]
