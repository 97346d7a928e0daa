"""Members killed at each turn, and data that changed meanwhile: paid once, one noise, one opening.

A run of two chunks has turns 0 … 5.
"""

import pytest

import colonnade as cn
from colonnade.protocol import messages
from colonnade.protocol.messages import Conclude
from colonnade.steps import kind as joint_module
from tests.conversations.sites import (
    Lost,
    Requests,
    at_turn,
    fails,
    killed_at,
    once_each,
    outcome,
    turn_of,
    without,
)

PARTIES = ("bank", "telco", "insurer")
LAST = 5
full = pytest.mark.full


@pytest.fixture(autouse=True)
def _two_chunks(monkeypatch):
    monkeypatch.setattr(joint_module, "CHUNK_UNIT", 30)
    monkeypatch.setattr(joint_module, "CHUNK_ELEMENTS", 1)


# Members killed -------------------------------------------------------------------------------------------------------------


KILLS = [
    pytest.param(turn, after, name, marks=[] if name in ("telco", "coordinator") else [full])
    for turn in range(LAST + 1)
    for after in (False, True)
    for name in ("bank", "telco", "coordinator")
]


@pytest.mark.every(3)
@pytest.mark.parametrize(("turn", "after", "name"), KILLS)
def test_a_member_killed_at_any_turn_is_paid_once_and_opens_once(turn, after, name, pair):
    """Killed before it takes the turn, or after it has taken it and before the reply is out."""
    plan = pair.plan()
    killed_at(pair, name, turn, after=after)
    first = outcome(pair, plan)
    forgot = name == "coordinator"  # without a ledger it keeps only in memory that everybody has said yes
    assert first == ("done" if (turn, after) == (0, False) and not forgot else "aborted")
    assert outcome(pair, plan) == "done"
    assert outcome(pair, plan) == "done"
    assert pair.spent() == once_each(pair)


@pytest.mark.every(3)
@pytest.mark.parametrize("turn", range(LAST + 1))
@pytest.mark.parametrize("after", [False, True])
def test_a_coordinator_killed_at_any_turn_starts_again(turn, after, site):
    plan = site.plan()

    def die(*_):
        raise KeyboardInterrupt

    if after:
        real = site.exchange

        def exchange(requests):
            replies = real(requests)
            return die() if turn_of(requests) == turn else replies

        site.exchange = exchange
    else:
        at_turn(site, turn, die)
    with pytest.raises(KeyboardInterrupt):
        site.run(plan)
    site.exchange = type(site).exchange.__get__(site)
    site.federation = cn.Federation(site, parties=site.parties)
    assert site.run(plan) == site.expected(plan)
    assert site.spent() == once_each(site)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", PARTIES)
@pytest.mark.parametrize("after", [False, True])
def test_a_party_killed_as_the_result_is_kept_finds_it_with_the_others(after, name, site):
    plan = site.plan()

    def die(party: str, request) -> None:
        if after and party == name and isinstance(request, Conclude):
            site.lose = lambda party, request: None
            site.kill(name)
            raise Lost

    def spoil(requests: Requests) -> Requests:
        if isinstance(messages.decode_request(requests[next(iter(requests))]), Conclude) and not after:
            site.spoil = lambda requests: requests
            site.kill(name)
            return without(name)(requests)
        return requests

    site.spoil, site.lose = spoil, die
    assert outcome(site, plan) == "aborted"
    assert outcome(site, plan) == "done"
    assert site.spent() == once_each(site)


@pytest.mark.every(2)
@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("name", PARTIES)
def test_a_new_version_ends_a_step_that_was_reserved_whether_or_not_a_row_has_changed(name, changed, site):
    """The same noise over other values would show the difference, and a refusal for other values only would show it too."""
    plan = site.plan()
    at_turn(site, 3, lambda requests: {})
    fails(site, plan)
    if changed:
        frame = site.tables[name]
        column = next(column for column in frame.columns if column in ("segment", "plan", "product"))
        frame.loc[3, column] = next(level for level in set(frame[column]) if level != frame.loc[3, column])
    site.versions[name] = 2
    site.kill(name)
    error = fails(site, plan)
    assert error.code == "release-lost"
    assert error.message == (
        f"Party '{name}': The plan asks about data version 1, and this party's owner has declared version 2."
    )
    assert site.opened() == 0
    site.federation = cn.Federation(site, parties=site.parties, compute_nodes=site.nodes)
    again = site.plan()
    assert site.run(again) == site.expected(again)
    assert site.spent() == {party: 2 * cost for party, cost in once_each(site).items()}
