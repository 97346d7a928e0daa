"""A recorded transport is still a transport, and counts exactly what it carried."""

from contextlib import contextmanager

from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade.protocol import messages
from colonnade.protocol.messages import GetAccount
from colonnade.transport.direct import Direct, Recorded, Transcript
from tests.federations import federation
from tests.transport.contract import PARTIES, TransportContract, echoes

ROUNDS = st.lists(st.dictionaries(st.sampled_from(PARTIES), st.binary(max_size=50)), max_size=6)


class TestARecordedTransport(TransportContract):
    @contextmanager
    def bring_up(self, endpoints):
        inner = Direct(endpoints)
        yield Recorded(inner)
        inner.close()


@contextmanager
def recorded(endpoints=None, **options):
    inner = Direct(endpoints or echoes())
    yield Recorded(inner, **options)
    inner.close()


@given(ROUNDS)
def test_rounds_messages_and_bytes_are_counted_exactly(rounds):
    with recorded(keep=True) as transport:
        for requests in rounds:
            transport.exchange(requests)
    transcript = transport.transcript
    assert transcript.rounds == len(rounds)
    assert transcript.messages == 2 * sum(map(len, rounds))
    for party in PARTIES:
        sent = sum(len(requests[party]) for requests in rounds if party in requests)
        back = sum(len(requests[party]) + len(party) + 1 for requests in rounds if party in requests)
        assert (transcript.bytes_to.get(party, 0), transcript.bytes_from.get(party, 0)) == (sent, back)
    assert transcript.bytes == sum(transcript.bytes_to.values()) + sum(transcript.bytes_from.values())
    assert [requests for requests, _ in transport.exchanges] == rounds


def test_a_study_reports_what_really_crossed():
    with federation() as f:
        f._driver.transport = seen = Recorded(f._driver.transport, keep=True)
        seen.transcript = Transcript()
        study = cn.PatternCount(["bank.segment", "telco.plan"], method="response", epsilon=1.0).fit(f)
        own, crossed = study.transcript_, seen.exchanges[:-1]
        assert own.rounds == len(crossed) == 4  # propose, say yes, begin, then ask
        assert own.messages == sum(len(side) for pair in crossed for side in pair) == 16
        for party in ("bank", "telco"):
            assert own.bytes_to[party] == sum(len(requests[party]) for requests, _ in crossed)
            assert own.bytes_from[party] == sum(len(replies[party]) for _, replies in crossed)
        assert own.bytes == sum(len(data) for pair in crossed for side in pair for data in side.values())
        asked_last = [messages.decode_request(data) for data in seen.exchanges[-1][0].values()]
        assert all(isinstance(request, GetAccount) for request in asked_last)  # what it cost: after the study
        assert set(own.seconds) == {"negotiation", "reports"}
        assert set(own.bytes_to) == {"bank", "telco"}
