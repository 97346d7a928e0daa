"""What every transport owes its caller. A new transport inherits `TransportContract` and says how it is brought up.

Endpoints here are invented: they answer with who they are and what they were asked, so that a reply can be told from any other.
"""

import os
import threading
from contextlib import AbstractContextManager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colonnade.errors import BadInput, ColonnadeError, ProtocolError

PARTIES = ("bank", "telco", "insurer")


class Echo:
    """A party that answers with its name and the question, and remembers what it was asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[bytes] = []

    def handle(self, data: bytes) -> bytes:
        self.asked.append(bytes(data))
        return self.name.encode() + b":" + bytes(data)


class Unwell(Echo):
    """A party that fails until it is cured."""

    cured = False

    def handle(self, data: bytes) -> bytes:
        if not self.cured:
            raise ProtocolError("The party's guard did not answer.")
        return super().handle(data)


class Together(Echo):
    """A party that answers only once all parties have been asked."""

    def __init__(self, name: str, barrier: threading.Barrier) -> None:
        super().__init__(name)
        self._barrier = barrier

    def handle(self, data: bytes) -> bytes:
        self._barrier.wait()
        return super().handle(data)


def echoes(names=PARTIES) -> dict[str, Echo]:
    return {name: Echo(name) for name in names}


class TransportContract:
    """Inherit, and provide `bring_up`."""

    def bring_up(self, endpoints) -> AbstractContextManager:
        """Return a context that gives a transport to these endpoints and takes it down again."""
        raise NotImplementedError

    def test_every_reply_belongs_to_its_request(self):
        with self.bring_up(echoes()) as transport:
            for round_ in range(20):
                requests = {name: f"{name} {round_}".encode() for name in PARTIES}
                replies = transport.exchange(requests)
                assert dict(replies) == {name: name.encode() + b":" + data for name, data in requests.items()}
                assert list(replies) == list(requests)

    def test_a_round_may_address_some_parties_and_the_others_hear_nothing(self):
        endpoints = echoes()
        with self.bring_up(endpoints) as transport:
            assert set(transport.exchange({"telco": b"you"})) == {"telco"}
            assert dict(transport.exchange({})) == {}
        assert [endpoint.asked for endpoint in endpoints.values()] == [[], [b"you"], []]

    def test_an_unknown_party_is_refused_and_nobody_is_asked(self):
        endpoints = echoes()
        with self.bring_up(endpoints) as transport, pytest.raises(BadInput):
            transport.exchange({"bank": b"a", "mint": b"b"})
        assert not any(endpoint.asked for endpoint in endpoints.values())

    def test_all_of_a_round_is_delivered_at_the_same_time(self):
        barrier = threading.Barrier(len(PARTIES), timeout=20)
        with self.bring_up({name: Together(name, barrier) for name in PARTIES}) as transport:
            try:
                replies = transport.exchange(dict.fromkeys(PARTIES, b"now"))
            except threading.BrokenBarrierError:
                pytest.fail("one party was kept waiting for another")
        assert set(replies) == set(PARTIES)

    def test_the_same_bytes_may_be_delivered_again(self):
        endpoints = echoes()
        with self.bring_up(endpoints) as transport:
            requests = dict.fromkeys(PARTIES, b"the same question")
            assert dict(transport.exchange(requests)) == dict(transport.exchange(requests))
        assert all(endpoint.asked == [b"the same question"] * 2 for endpoint in endpoints.values())

    @settings(max_examples=25, suppress_health_check=[HealthCheck.differing_executors])
    @given(data=st.lists(st.binary(max_size=200), min_size=3, max_size=3))
    def test_bytes_arrive_as_they_were_sent(self, data):
        requests = dict(zip(PARTIES, data, strict=True))
        with self.bring_up(echoes()) as transport:
            replies = transport.exchange(requests)
        assert {name: bytes(reply) for name, reply in replies.items()} == {
            name: name.encode() + b":" + sent for name, sent in requests.items()
        }

    def test_a_large_message_arrives_whole(self):
        data = os.urandom(5 << 20)
        with self.bring_up(echoes()) as transport:
            assert transport.exchange({"bank": data})["bank"] == b"bank:" + data

    def test_a_party_that_does_not_answer_is_an_error_of_ours_and_may_be_asked_again(self):
        endpoints = {**echoes(), "telco": Unwell("telco")}
        requests = dict.fromkeys(PARTIES, b"well?")
        with self.bring_up(endpoints) as transport:
            with pytest.raises(ColonnadeError):
                transport.exchange(requests)
            assert transport.exchange({"bank": b"and you?"}) == {"bank": b"bank:and you?"}
            endpoints["telco"].cured = True
            assert set(transport.exchange(requests)) == set(PARTIES)

    def test_rounds_from_several_threads_do_not_mix(self):
        wrong: list[object] = []

        def ask(transport, thread: int) -> None:
            for round_ in range(20):
                data = f"{thread}/{round_}".encode()
                replies = transport.exchange(dict.fromkeys(PARTIES, data))
                wrong.extend(name for name in PARTIES if replies[name] != name.encode() + b":" + data)

        with self.bring_up(echoes()) as transport:
            threads = [threading.Thread(target=ask, args=(transport, number)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not wrong
