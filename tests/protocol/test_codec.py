"""The codec: one encoding a message, and nothing else is read."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import ProtocolError
from colonnade.plan import About, Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.protocol import messages
from colonnade.protocol.messages import (
    Array,
    Ask,
    Blob,
    GetAccount,
    Post,
    Propose,
    Refused,
    Released,
    pack,
    read_frame,
    unpack,
)
from colonnade.schema import Category, Numeric, Schema


def a_plan(**changes: object) -> Plan:
    step = Step(name="reports", party="bank", kind="reports", columns=("segment",), price=Price.of(0.5))
    fields = {
        "task": "pattern-count",
        "method": "response",
        "parameters": {"sample": 1.0},
        "unit": "person",
        "price": Price.of(0.5),
        "federation": "f" * 64,
        "alignment": "a" * 64,
        "people": 10,
        "parties": ("bank",),
        "steps": (step,),
    }
    return Plan(**(fields | changes))


def a_release(values: dict[str, np.ndarray]) -> Released:
    return Released(
        party="bank",
        step="reports",
        values={name: pack(array) for name, array in values.items()},
        mechanism="randomised response",
        loss=b"\x01\x02",
    )


dtypes = st.sampled_from(["|u1", "<u2", "<i4", "<i8", "<u8", "<f8"])
shapes = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)


@given(st.dictionaries(st.text(max_size=5), st.tuples(dtypes, shapes), max_size=4), st.integers(0, 2**32))
def test_every_release_comes_back_as_it_was(layout, seed):
    rng = np.random.default_rng(seed)
    values = {name: rng.integers(0, 200, size=shape).astype(dtype) for name, (dtype, shape) in layout.items()}
    reply = messages.decode_reply(messages.encode(a_release(values)))
    assert isinstance(reply, Released)
    for name, array in values.items():
        assert np.array_equal(reply.array(name), array)
        assert reply.array(name).dtype == array.dtype


def test_equal_plans_have_equal_bytes_whatever_the_order_of_their_parameters():
    one = a_plan(parameters={"a": 1, "b": (1, 2)})
    other = a_plan(parameters={"b": (1, 2), "a": 1})
    assert messages.encode(one) == messages.encode(other)
    assert messages.digest(one) == messages.digest(other)


@pytest.mark.parametrize(
    "change",
    [
        {"repeat": 2},
        {"people": 11},
        {"alignment": "b" * 64},
        {"method": "independent"},
        {"unit": "party"},
        {"price": Price.of(0.6)},
        {"parameters": {"sample": 0.5}},
    ],
)
def test_any_change_to_a_plan_changes_its_hash_and_the_request_id(change):
    plain, changed = a_plan(), a_plan(**change)
    assert messages.digest(plain) != messages.digest(changed)
    assert messages.request_identity(plain, "bank", "reports") != messages.request_identity(changed, "bank", "reports")


@given(st.data())
def test_a_message_with_one_byte_changed_is_refused_or_is_another_valid_message(data):
    encoded = messages.encode(a_release({"value": np.arange(4, dtype=np.int64)}))
    position = data.draw(st.integers(0, len(encoded) - 1))
    flip = data.draw(st.integers(1, 255))
    broken = encoded[:position] + bytes([encoded[position] ^ flip]) + encoded[position + 1 :]
    try:
        reply = messages.decode_reply(broken)
    except ProtocolError:
        return
    assert messages.encode(reply) == broken


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused(data):
    with pytest.raises(ProtocolError):
        messages.decode_request(data)


@given(st.integers(0, 10_000))
def test_a_cut_or_lengthened_message_is_refused(cut):
    encoded = messages.encode(Propose(plan=a_plan()))
    with pytest.raises(ProtocolError):
        messages.decode_request(encoded[: cut % len(encoded)])
    with pytest.raises(ProtocolError):
        messages.decode_request(encoded + b"\x00")


def encode_raw(value: object) -> bytes:
    header = msgspec.msgpack.encode(value)
    return messages.VERSION + len(header).to_bytes(4, "big") + header


@pytest.mark.parametrize(
    "value",
    [
        {"type": "refused", "code": "x", "message": "m", "remedy": "r", "extra": 1},
        {"type": "refused", "code": 5, "message": "m", "remedy": "r"},
        {"type": "unheard-of"},
        [1, 2, 3],
        "text",
    ],
)
def test_wrong_types_and_unknown_fields_are_refused(value):
    with pytest.raises(ProtocolError):
        messages.decode_reply(encode_raw(value))


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused_in_bytes_that_are_canonical_otherwise(figure):
    """The bytes are those of the codec itself: a missing field or another order would be refused for its own sake."""
    refused = messages.encode(Refused(code="x", message="m", remedy="r", spent=figure))
    with pytest.raises(ProtocolError, match="finite"):
        messages.decode_reply(refused)
    for plan in (a_plan(parameters={"sample": figure}), a_plan(parameters={"sample": (1.0, figure)})):
        with pytest.raises(ProtocolError, match="finite"):
            messages.decode_request(messages.encode(Propose(plan=plan)))


def test_a_message_whose_keys_are_in_another_order_is_refused():
    fields = {"remedy": "r", "message": "m", "code": "x", "type": "refused", "spent": None}
    with pytest.raises(ProtocolError, match="canonical"):
        messages.decode_reply(encode_raw(fields))


@pytest.mark.parametrize("price", [{"nano": 0, "delta": 0.0}, {"nano": -1, "delta": 0.0}, {"nano": 1, "delta": 1.0}])
def test_a_plan_with_an_impossible_price_is_refused_where_it_is_read(price):
    plan = msgspec.to_builtins(a_plan())
    plan["price"] = price
    with pytest.raises(ProtocolError):
        messages.decode_request(encode_raw({"type": "propose", "plan": plan}))


@pytest.mark.parametrize(
    "array",
    [
        Array(dtype="|O", shape=(1,), data=Blob(b"12345678")),
        Array(dtype="<i8", shape=(2,), data=Blob(b"12345678")),
        Array(dtype="<i8", shape=(-1, -1), data=Blob(b"12345678")),
    ],
)
def test_an_array_whose_parts_disagree_is_refused(array):
    with pytest.raises(ProtocolError):
        unpack(array)


def test_a_federation_is_named_by_its_parties_their_order_and_their_schemas():
    bank, telco = Schema(age=Numeric(0, 1)), Schema(plan=Category(["a", "b"]))
    names = {
        messages.federation_digest({"bank": bank, "telco": telco}),
        messages.federation_digest({"telco": telco, "bank": bank}),
        messages.federation_digest({"bank": Schema(age=Numeric(0, 2)), "telco": telco}),
        messages.federation_digest({"bank": bank}),
    }
    assert len(names) == 4


def test_a_frame_of_excessive_length_is_refused_before_it_is_read():
    class Endless:
        def read(self, count: int) -> bytes:
            assert count <= 8
            return b"\xff" * count

    with pytest.raises(ProtocolError):
        read_frame(Endless())


def test_a_request_hash_covers_its_inputs():
    plain = Ask(plan=a_plan(), step="reports")
    given_more = Ask(plan=a_plan(), step="reports", inputs={"centres": pack(np.zeros(2))})
    assert messages.digest(plain) != messages.digest(given_more)


def test_a_request_hash_leaves_out_what_is_said_about_the_study():
    post = {"plan": a_plan(), "step": "reports", "run": b"r", "turn": 0, "letters": {}}
    for kind, fields in ((Propose, {"plan": a_plan()}), (Ask, {"plan": a_plan(), "step": "reports"}), (Post, post)):
        plain, titled = kind(**fields), kind(**fields, about=About(title="Churn"))
        assert messages.digest(plain) == messages.digest(titled)
        assert messages.decode_request(messages.encode(titled)) == titled != plain


def test_logs_name_a_study_by_its_plans_hash_whether_a_message_holds_the_plan_or_the_hash():
    plan = a_plan()
    named = messages.digest(plan).hex()[:12]
    assert messages.study_of(Propose(plan=plan)) == messages.study_of(GetAccount(plan=messages.digest(plan))) == named
    assert messages.study_of(GetAccount()) is None
