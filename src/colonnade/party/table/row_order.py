"""Ids and the order of rows: how ids are brought into one form, which people are common, and in which order their rows stand.

*Normal form* (`normal_ids`), for a matching whose plan has rules for ids: what counts as the same person is part of the plan,
which every party signs. ``"text"`` writes whole numbers as decimal digits, so that 17 at one party is "17" at another. Then,
in this order: Unicode's form NFC (one way to write an accented letter), white space taken off both ends, and case folded
where the rules say so. ``"whole"`` reads text as whole numbers, so that "007" is 7.

*Rows without a place* (`comparable_ids`). The rules come from a coordinator, so a party must not refuse what they make of its
list: the refusal would tell something about it. An id without a normal form has no place in the order. Ids that become equal
have none either, all of them: the party cannot tell which of the rows is meant, and one more such person then changes the
record of at most one other, from something to nothing, which every price covers (docs/proofs/alignment.md#rules).

*Order in the clear* (`common_ids`, `align`). Ids are compared by the usual rules of a matching (`IdRules`): as text in normal
form. Where all of them are whole numbers that is the same as comparing numbers. The canonical order is ascending, numbers by
value and text by its UTF-8 bytes. An alignment is named by a hash of the sorted ids, so that a plan can say which rows it
means. Anybody who can guess the whole list can recognise the name, so it is as public as the list: here, in the clear among the
parties.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colonnade.errors import BadInput
from colonnade.party.table.sources import Source
from colonnade.schema.encoders import flatten, is_text, texts_of
from colonnade.steps.alignment import IdRules

WHOLE = r"^[+-]?[0-9]{1,18}$"


@dataclass(frozen=True)
class ComparableIds:
    """The ids of a list that can be compared with others: each in its normal form, once, with its row."""

    ids: list[bytes] = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)


def comparable_ids(ids: Any, rules: IdRules) -> ComparableIds:
    """Return the ids that have a normal form of their own, in the order of their rows. It never refuses a list.

    Parameters
    ----------
    ids
        What `read_ids` returned.
    rules
        The plan's rules.

    Examples
    --------
    >>> comparable_ids(pa.array([" Ann ", "bob", "BOB", "carl"]), IdRules(case="fold")).rows.tolist()
    [0, 3]
    """
    normal = normal_ids(ids, rules)
    codes = normal.dictionary_encode().indices  # one number per distinct id, null where there is none
    counts = np.bincount(_numpy(codes.drop_null()))
    alone = np.flatnonzero(_numpy(codes.is_valid()))
    alone = alone[counts[_numpy(codes.drop_null())] == 1]
    return ComparableIds([one.encode() for one in normal.take(pa.array(alone)).to_pylist()], alone.astype(np.int64))


def normal_ids(ids: Any, rules: IdRules) -> Any:
    """Return ids in their normal form, as text, null where an id has none.

    Examples
    --------
    >>> normal_ids(pa.array([" Ann ", "bob", " "]), IdRules(case="fold")).to_pylist()
    ['ann', 'bob', None]
    """
    text = ids.cast(pa.large_string())
    normal = _whole(text) if rules.kind == "whole" else _text(text, rules)
    nothing = pa.scalar(None, type=normal.type)
    return pc.if_else(pc.equal(normal, pa.scalar("", type=normal.type)), nothing, normal)


def _text(text: Any, rules: IdRules) -> Any:
    if rules.form:
        text = pc.utf8_normalize(text, form=rules.form)
    if rules.strip:
        text = pc.utf8_trim_whitespace(text)
    if rules.case == "fold":
        folded = pa.array([None if one is None else one.casefold() for one in text.to_pylist()], type=pa.large_string())
        text = pc.utf8_normalize(folded, form=rules.form) if rules.form else folded  # folding may undo the form
    return text


def _whole(text: Any) -> Any:
    trimmed = pc.utf8_trim_whitespace(text)
    written = pc.if_else(pc.match_substring_regex(trimmed, WHOLE), trimmed, pa.scalar(None, type=trimmed.type))
    unsigned = pc.replace_substring_regex(written, pattern=r"^\+", replacement="")
    return unsigned.cast(pa.int64()).cast(pa.large_string())


def require_capacity(ids: Any, capacity: int | None, *, party: str) -> None:
    """Refuse, towards the owner who opens a table, a list that is longer than its declared capacity.

    Nothing on request depends on the length of a list, so this is the one place where it is compared.
    """
    if capacity is not None and ids is not None and len(ids) > capacity:
        raise BadInput(
            f"Party {party!r}: the table has more ids than the declared capacity of {capacity:,}.",
            remedy="Declare a larger one, which is public: capacity= of its policy.",
        )


WHOLE_IDS = r"^(0|-?[1-9][0-9]{0,17})$"
LARGEST_EXACT = 2.0**53


@dataclass(frozen=True)
class RowOrder:
    """The order in which one party's rows stand: its part in an alignment.

    Attributes
    ----------
    identity
        32 bytes in hexadecimal, the same at every party: a hash of the sorted ids and of the mode.
    people
        How many people take part.
    rows
        For each of them the row of this party's table; −1 (only in ``"cohort"`` mode) where it has none.
    ids
        Their ids in that order; ``None`` where they are not known one by one.
    union
        Whether places are those of a union, so that studies must not show who is in common.
    """

    identity: str
    people: int
    rows: NDArray[np.int64] = field(repr=False, compare=False)
    ids: Any = field(repr=False, compare=False, default=None)
    union: bool = field(repr=False, default=False)


UNALIGNED = "unaligned"


def unaligned() -> RowOrder:
    """Return the empty order: what a party has before it has agreed to any."""
    return RowOrder(UNALIGNED, 0, np.empty(0, dtype=np.int64))


def read_ids(source: Source, column: str, *, party: str) -> Any:
    """Read a party's ids, and refuse any that is missing or occurs twice.

    Parameters
    ----------
    source
        The party's rows.
    column
        The id column. Text from a CSV file counts as whole numbers if all of it is written so, without leading zeros.
    party
        Whose ids these are, for the error messages: they name the party and a count, never an id.

    Returns
    -------
    pyarrow.Array
        64-bit integers or text, one for each row.
    """
    ids = ids_of(source, column, party=party)
    _require_complete(ids, party)
    return ids


def id_pieces(source: Source, column: str, *, party: str) -> Iterator[Any]:
    """Read a party's ids in blocks, each as 64-bit integers or text, null where one is missing."""
    require_id_column(source, column, party=party)
    return (_piece(batch.column(column), party) for batch in source.batches([column]))


def undeclared_ids(source: Source, column: str) -> bool:
    """Whether no shard declares the ids as text, so that text counts as numbers if all of it is written so."""
    return all(kind is None or not is_text(kind) for kind in source.kinds(column, look=True))


def ids_of(source: Source, column: str, *, party: str) -> Any:
    """Read a party's ids as they are, null where one is missing; `read_ids` has the parameters."""
    pieces = id_pieces(source, column, party=party)
    return _joined(list(pieces), party, undeclared=undeclared_ids(source, column))


def require_id_column(source: Source, column: str, *, party: str) -> None:
    """Refuse, towards the owner, a table without its id column."""
    if column not in source.columns:
        raise BadInput(
            f"Party {party!r} has no id column {column!r}.",
            remedy='Name its id column: id="person_id", or one per party, id={"bank": "person_id", ...}. reset_index() makes a '
            "column of the index of a pandas frame.",
        )


def _piece(column: Any, party: str) -> Any:
    """Return ids as int64 or text, null where missing."""
    array = flatten(column)
    array = texts_of(flatten(array.dictionary_decode()) if pa.types.is_dictionary(array.type) else array)
    kind = array.type
    if pa.types.is_floating(kind):
        return _whole_column(array.cast(pa.float64()), party)
    if pa.types.is_uint64(kind):
        _refuse(np.count_nonzero(_numpy(array.fill_null(0)) > 2**63 - 1), "beyond 64-bit whole numbers", party)
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        return array.cast(pa.int64())
    if not is_text(kind):
        raise BadInput(
            f"Party {party!r}: the ids are neither text nor whole numbers.",
            remedy="Convert the id column to text or to whole numbers.",
        )
    return _text_column(array.cast(pa.large_string()), party)


def _whole_column(numbers: Any, party: str) -> Any:
    """Ids that became floats, as they do in pandas beside a null. Above 2⁵³ two ids may have become one."""
    found = _numpy(numbers)
    absent = np.isnan(found)
    _refuse(np.count_nonzero(~absent & (np.rint(found) != found)), "not whole", party)
    _refuse(np.count_nonzero(~absent & (abs(found) > LARGEST_EXACT)), "too large to be exact as floats", party)
    return pa.array(np.where(absent, 0, found).astype(np.int64), mask=absent)


def _text_column(text: Any, party: str) -> Any:
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        valid = False
    else:
        valid = True
    if not valid:  # raised here, where the reader's error, which may quote an id, is no longer its context
        raise BadInput(f"Party {party!r}: some ids are not valid UTF-8 text.", remedy="Save the table as UTF-8.")
    return pc.if_else(pc.equal(text, pa.scalar("", type=text.type)), pa.scalar(None, type=text.type), text)


def _numpy(array: Any) -> NDArray[Any]:
    return cast("NDArray[Any]", array.to_numpy(zero_copy_only=False))


def _refuse(count: int | np.signedinteger, what: str, party: str) -> None:
    if count:
        raise BadInput(f"Party {party!r}: {count} ids are {what}.", remedy="Use text or 64-bit whole numbers as ids.")


def _joined(pieces: list[Any], party: str, *, undeclared: bool) -> Any:
    """Put the blocks of ids together as one kind."""
    texts = [piece for piece in pieces if is_text(piece.type)]
    whole = undeclared and all(pc.all(pc.match_substring_regex(text, WHOLE_IDS)).as_py() for text in texts)
    if texts and not whole and any(not is_text(piece.type) and piece.null_count < len(piece) for piece in pieces):
        raise BadInput(f"Party {party!r}: some ids are text and some are numbers.", remedy="Give all ids one type.")
    kind = pa.large_string() if texts and not whole else pa.int64()
    return pa.concat_arrays([pa.array([], type=kind), *(piece.cast(kind) for piece in pieces)])


def _require_complete(ids: Any, party: str) -> None:
    absent = ids.null_count
    repeated = len(ids) - absent - _distinct(ids.drop_null())
    if absent or repeated:
        raise incomplete_ids(party, len(ids), absent, repeated)


def incomplete_ids(party: str, ids: int, missing: int, repeated: int) -> BadInput:
    """Return what is wrong with a list, in counts."""
    faults = [f"{count} {what}" for count, what in ((missing, "missing"), (repeated, "repeated")) if count]
    return BadInput(
        f"Party {party!r}: of {ids} ids, {' and '.join(faults)}.",
        remedy="Every person has one row, with an id: drop or merge the others first.",
    )


def nobody_in_common() -> BadInput:
    """Return what is wrong where no id is in all lists."""
    return BadInput(
        "The tables have no id in common: nobody is in all of them.",
        remedy="Check that id= names the same kind of ids at every party, written in the same way.",
    )


def _distinct(ids: Any) -> int:
    if is_text(ids.type):
        return len(pc.unique(ids))
    ascending = np.sort(ids.to_numpy())
    return int(np.count_nonzero(np.diff(ascending))) + min(len(ascending), 1)


def common_ids(ids_by_party: Mapping[str, Any]) -> Any:
    """Return the ids that every party has, in canonical order.

    Parameters
    ----------
    ids_by_party
        What `read_ids` returned at each party.
    """
    if not ids_by_party:
        raise BadInput("An alignment needs at least one party.")
    if any(is_text(ids.type) for ids in ids_by_party.values()):
        ids_by_party = {party: _normal_text(ids, party) for party, ids in ids_by_party.items()}
    common, *others = sorted(ids_by_party.values(), key=len)
    for ids in others:
        common = common.filter(pc.is_in(common, value_set=ids))
    if not len(common):
        raise nobody_in_common()
    return common.take(pc.sort_indices(common)) if is_text(common.type) else pa.array(np.sort(common.to_numpy()))


def align(ids: Any, common: Any, *, party: str, mode: str = "intersection") -> RowOrder:
    """Return one party's part in an alignment, from its own ids and the common list alone.

    Parameters
    ----------
    ids
        What `read_ids` returned at this party.
    common
        The ids that take part, in canonical order, each once.
    party
        Whose ids these are, for the error messages.
    mode
        ``"intersection"``: the party must have every id of the list; ``"cohort"``: an id it lacks gets a null record.
    """
    if mode not in {"intersection", "cohort"}:
        raise BadInput(f"There is no alignment mode {mode!r}.", remedy='Use "intersection" or "cohort".')
    if not len(common) or not _ascending(common):
        raise BadInput("The common ids are not an ascending list.")
    wanted, own = common, ids
    if is_text(common.type) or is_text(ids.type):
        wanted, own = _normal_text(common, "the list"), _normal_text(ids, party)
    rows = _numpy(pc.index_in(wanted, value_set=own).fill_null(-1)).astype(np.int64)
    require_nobody_lacking(int(np.count_nonzero(rows < 0)), len(rows), party=party, mode=mode)
    return RowOrder(order_identity(common, mode), len(rows), rows, common)


def require_nobody_lacking(lacking: int, people: int, *, party: str, mode: str) -> None:
    """Refuse a list with ids that a party lacks, unless they may have null records."""
    if lacking and mode == "intersection":
        raise BadInput(f"Party {party!r} lacks {lacking} of the {people} common ids.", remedy="Align again.")


def normal_text(ids: Any) -> Any:
    """Return ids as a matching compares them by default: whole numbers as their digits, text in one form."""
    text = _text(ids.cast(pa.large_string()), IdRules())
    return pc.if_else(pc.equal(text, pa.scalar("", type=text.type)), pa.scalar(None, type=text.type), text)


def _normal_text(ids: Any, party: str) -> Any:
    normal = normal_text(ids)
    _require_complete(normal, party)
    return normal


def _ascending(ids: Any) -> bool:
    return ids.null_count == 0 and pc.all(pc.less(ids.slice(0, len(ids) - 1), ids.slice(1))).as_py() is not False


def order_identity(common: Any, mode: str) -> str:
    """Hash mode, kind, number and ids: 64-bit little-endian, or all lengths and then all text, so that no two agree."""
    if is_text(common.type):
        lengths = _numpy(pc.binary_length(common).cast(pa.int64()))
        parts = [lengths, text_bytes(common)]
    else:
        parts = [_numpy(common)]
    digest = identity_hash(mode, is_text=is_text(common.type), count=len(common))
    for part in parts:
        digest.update(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


def identity_hash(mode: str, *, is_text: bool, count: int) -> "hashlib._Hash":
    """Return the hash that an alignment is named by, before its ids."""
    digest = hashlib.sha256(b"colonnade alignment 1\0")
    digest.update(f"{mode} {'text' if is_text else 'whole'} {count}\0".encode())
    return digest


def text_bytes(text: Any) -> NDArray[np.uint8]:
    """Return all the text, one cell after another, without the parts of its buffers that a slice leaves out."""
    _, offsets, data = text.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + len(text) + 1]
    if data is None:
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(data, dtype=np.uint8)[bounds[0] : bounds[-1]]
