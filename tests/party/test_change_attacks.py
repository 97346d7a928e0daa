"""An attack that reads refusals: has a record changed? It fails here, and succeeds on the behaviour that it was found on.

A coordinator has parties pay for a joint step and hangs up. Later, when the bank has a new table, it asks for the step again. The
old party kept a hash of its columns with the reservation: it refused if and only if a value had changed. `as_it_was` brings that
back, as a positive control in `test_what_refusals_tell`: an attack that cannot succeed anywhere shows nothing.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.errors import ColonnadeError, ProtocolError
from colonnade.party.gate import AdmittedStep, Gate, Reservation
from colonnade.party.party import KeptFingerprint
from colonnade.protocol import messages
from colonnade.protocol.messages import Post

EPSILON = 1e-6
SCHEMAS = {
    "bank": cn.Schema(default=cn.Category(["no", "yes"])),
    "telco": cn.Schema(plan=cn.Category(["a", "b"])),
    "insurer": cn.Schema(product=cn.Category(["a", "b"])),
}
COUNT = ["bank.default", "telco.plan"]


def tables(people: int) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    return {
        name: pd.DataFrame(
            {"id": [f"p{k}" for k in range(people)]}
            | {column: rng.choice(kind.levels, people) for column, kind in schema.items()}
        )
        for name, schema in SCHEMAS.items()
    }


def changed(frames: dict[str, pd.DataFrame], people: list[str]) -> dict[str, pd.DataFrame]:
    bank = frames["bank"].copy()
    moved = bank["id"].isin(people)
    bank.loc[moved, "default"] = bank.loc[moved, "default"].map({"no": "yes", "yes": "no"})
    return {**frames, "bank": bank}


def opened(frames: Mapping[str, pd.DataFrame], folder: Path, *, version: int = 1) -> cn.Federation:
    return cn.Federation.simulate(
        {name: cn.Party(frames[name], schema=SCHEMAS[name], version=version) for name in SCHEMAS},
        id="id",
        budget=cn.Budget(epsilon=1.0, delta=1e-6),
        ledger_dir=folder,
        policies=dict.fromkeys(SCHEMAS, cn.Policy(alignments=("cohort",), max_alignments=100)),
    )


def study() -> cn.PatternCount:
    return cn.PatternCount(COUNT, method="secure", epsilon=EPSILON)


class HungUp(Exception):
    """The coordinator goes away."""


@contextmanager
def hanging_up(f: cn.Federation) -> Iterator[None]:
    """Let everybody pay and deal, and then go away."""
    exchange = f._driver.transport.exchange

    def cut(requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        posts = [one for one in map(messages.decode_request, requests.values()) if isinstance(one, Post)]
        if any(post.turn >= 2 and post.plan.task != "alignment" for post in posts):
            raise HungUp
        return exchange(requests)

    f._driver.transport.exchange = cut
    with pytest.raises(HungUp):
        yield
    f._driver.transport.exchange = exchange


def reply_to(f: cn.Federation) -> str:
    """Ask for the study, and return what the coordinator is told."""
    try:
        study().fit(f)
    except ColonnadeError as error:
        return f"{error.code}: {error.message}"
    return "answered"


# The old behaviour ------------------------------------------------------------------------------------------------------------


def as_it_was(patch: pytest.MonkeyPatch) -> None:
    """Keep a hash of the columns with a reservation, and refuse to resume it over others; let owners change data as they like."""
    reserve = Gate.reserve

    def hashed(gate: Gate, admitted: AdmittedStep, key: bytes) -> bytes:
        cells = b"".join(gate._table.codes(name).tobytes() for name in admitted.step.columns)
        return hashlib.sha256(key + cells).digest()[:8]

    def reserved(gate: Gate, admitted: AdmittedStep, loss) -> Reservation:
        kept = gate._ledger.seed_of(admitted.request)
        if kept is None:
            kept = (key := gate._randomness.bytes(24)) + hashed(gate, admitted, key)
            with pytest.MonkeyPatch.context() as seed:
                seed.setattr(gate, "_randomness", type("Given", (), {"bytes": staticmethod(lambda _: kept)}))
                return reserve(gate, admitted, loss)
        if hashed(gate, admitted, kept[:24]) != kept[24:]:
            raise ProtocolError("The data has changed since this step was paid for.")
        return reserve(gate, admitted, loss)

    patch.setattr(Gate, "reserve", reserved)
    patch.setattr(KeptFingerprint, "require_same", lambda *_, **__: None)


# A change of one record -------------------------------------------------------------------------------------------------------


def change_oracle(folder: Path, *, moved: bool, version: int) -> str:
    """A pending joint step as a detector of change in one column."""
    frames = tables(300)
    with opened(frames, folder) as f, hanging_up(f):
        study().fit(f)
    with opened(changed(frames, ["p77"]) if moved else frames, folder, version=version) as f:
        f._driver.data_versions = dict.fromkeys(SCHEMAS, 1)  # the step that is pending
        return reply_to(f)


def test_a_pending_step_does_not_tell_whether_a_record_has_changed(tmp_path):
    told = {moved: change_oracle(tmp_path / str(moved), moved=moved, version=2) for moved in (False, True)}
    assert told[False] == told[True]
    assert told[True].startswith("release-lost: ")
