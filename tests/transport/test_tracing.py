"""Rounds as spans: public facts in a fixed vocabulary, and the same replies as without."""

import contextlib

import pytest

import colonnade as cn
from colonnade.errors import PartyAway
from colonnade.protocol import messages
from colonnade.protocol.messages import GetDescription
from colonnade.transport.direct import SPAN, Direct, Traced
from tests.federations import federation
from tests.transport.contract import TransportContract

ALLOWED = {"request", "study", "step", "turn", "members", "bytes_out", "bytes_in", "refused", "error"}
"""Every attribute that a span may have, behind "colonnade."."""


class Span:
    def __init__(self, name: str) -> None:
        self.name, self.attributes = name, {}

    def is_recording(self) -> bool:
        return True

    def set_attribute(self, name: str, value: object) -> None:
        self.attributes[name] = value

    def set_attributes(self, found: dict) -> None:
        self.attributes |= found


class Tracer:
    """Keeps spans. Of OpenTelemetry's tracers this much is used."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    @contextlib.contextmanager
    def start_as_current_span(self, name: str, **options: bool):
        assert options == {
            "record_exception": False,
            "set_status_on_exception": False,
        }  # an exception's text is free text
        self.spans.append(Span(name))
        yield self.spans[-1]


class TestTraced(TransportContract):
    @contextlib.contextmanager
    def bring_up(self, endpoints):
        transport = Traced(Direct(endpoints), Tracer())
        yield transport
        transport.close()


def counts(f: cn.Federation) -> cn.PatternCount:
    return cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0).fit(f)


def traced(f: cn.Federation) -> Tracer:
    tracer = Tracer()
    f._driver.transport = Traced(f._driver.transport, tracer)
    return tracer


def test_every_round_of_a_study_is_a_span_of_public_facts():
    with federation() as f:
        tracer = traced(f)
        study = counts(f)
    assert {span.name for span in tracer.spans} == {SPAN}
    assert {name for span in tracer.spans for name in span.attributes} <= {f"colonnade.{name}" for name in ALLOWED}
    named = messages.digest(study.plan_).hex()[:12]
    of_the_study = [span.attributes for span in tracer.spans if span.attributes.get("colonnade.study") == named]
    of_the_study = [
        found for found in of_the_study if found["colonnade.request"] != "GetAccount"
    ]  # what it cost, later
    turns = [found["colonnade.turn"] for found in of_the_study if found["colonnade.request"] == "Post"]
    assert turns == sorted(turns)
    assert len(of_the_study) == study.transcript_.rounds
    assert sum(found["colonnade.bytes_in"] for found in of_the_study) == sum(study.transcript_.bytes_from.values())


def test_a_refusal_and_a_party_that_is_away_are_there_by_their_codes():
    with federation(epsilon=0.5) as f:
        tracer = traced(f)
        with pytest.raises(cn.BudgetExceeded):
            counts(f)
        assert ["budget-exceeded"] in [span.attributes.get("colonnade.refused") for span in tracer.spans]

    class Away:
        def exchange(self, requests):
            raise PartyAway("Party 'bank' is not there.")

        def close(self) -> None:
            """Nothing is open."""

    tracer = Tracer()
    with pytest.raises(PartyAway):
        Traced(Away(), tracer).exchange({"bank": messages.encode(GetDescription())})
    assert tracer.spans[-1].attributes["colonnade.error"] == "party-away"
