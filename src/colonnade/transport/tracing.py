"""Rounds as spans of OpenTelemetry, for a coordinator whose operator watches with it (the extra ``traces``).

A span says what a coordinator's own log says: which kind of request went to how many members, of which study (the first digits
of its plan's hash), which step and turn, how many bytes went and came, and with which codes members refused. No value, no
name of a column and no text of a message is in it.
"""

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from colonnade.errors import BadInput, ColonnadeError
from colonnade.protocol import codec
from colonnade.protocol.messages import Message, Refused
from colonnade.transport.direct import Transport

__all__ = ["ATTRIBUTES", "SPAN", "Traced"]

SPAN = "colonnade.round"
ATTRIBUTES = frozenset(
    f"colonnade.{name}"
    for name in ("request", "study", "step", "turn", "members", "bytes_out", "bytes_in", "refused", "error")
)
"""Every attribute that a span may have."""

LARGEST_REFUSAL = 65_536
"""Bytes; a longer reply is an answer, and is not decoded to find out."""


class Traced:
    """A transport that gives every round of another one a span.

    Parameters
    ----------
    inner
        The transport that does the work.
    tracer
        A tracer of OpenTelemetry; by default that of the process's own provider, which does nothing until one is set up.
    """

    def __init__(self, inner: Transport, tracer: Any = None) -> None:
        if tracer is None:
            if importlib.util.find_spec("opentelemetry") is None:
                raise BadInput(
                    "Traces need OpenTelemetry.",
                    remedy="Install it: pip install 'colonnade[traces]'. Or unset COLONNADE_TRACES.",
                )
            from opentelemetry import trace

            tracer = trace.get_tracer("colonnade")
        self.inner = inner
        self._tracer = tracer

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver one round within a span."""
        with self._tracer.start_as_current_span(SPAN, record_exception=False, set_status_on_exception=False) as span:
            if span.is_recording():
                span.set_attributes(_asked(requests))
            try:
                replies = self.inner.exchange(requests)
            except ColonnadeError as error:
                span.set_attribute("colonnade.error", error.code)
                raise
            if span.is_recording():
                span.set_attributes(_answered(replies))
            return replies

    def close(self) -> None:
        """Hang up."""
        self.inner.close()


def _asked(requests: Mapping[str, bytes]) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "colonnade.members": len(requests),
        "colonnade.bytes_out": sum(map(len, requests.values())),
    }
    request = _read(codec.decode_request, next(iter(requests.values()), b""))
    if request is None:
        return found
    found["colonnade.request"] = type(request).__name__
    study = codec.study_of(request)
    if study is not None:
        found["colonnade.study"] = study
    for name in ("step", "turn"):
        if hasattr(request, name):
            found[f"colonnade.{name}"] = getattr(request, name)
    return found


def _answered(replies: Mapping[str, bytes]) -> dict[str, int | list[str]]:
    small = [_read(codec.decode_reply, data) for data in replies.values() if len(data) <= LARGEST_REFUSAL]
    refused = sorted({reply.code for reply in small if isinstance(reply, Refused)})
    found: dict[str, int | list[str]] = {"colonnade.bytes_in": sum(map(len, replies.values()))}
    return {**found, "colonnade.refused": refused} if refused else found


def _read(decode: Callable[[bytes], Message], data: bytes) -> Message | None:
    """Read a message. What is none is for others to refuse: to trace a round changes nothing about it."""
    try:
        return decode(data)
    except ColonnadeError:
        return None
