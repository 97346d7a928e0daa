"""One normal form for ids, by rules that every party signs: what counts as the same person is part of the plan.

``"text"`` writes whole numbers as decimal digits, so that 17 at one party is "17" at another. Then, in this order: Unicode's form
NFC (one way to write an accented letter), white space taken off both ends, and case folded where the rules say so. ``"whole"``
reads text as whole numbers, so that "007" is 7. Ids that are missing, or that become the same as another, are refused with
their number and never quoted.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from colonnade.errors import BadInput
from colonnade.steps.alignment import IdRules

__all__ = ["normal_ids"]

WHOLE = r"^[+-]?[0-9]{1,18}$"


def normal_ids(ids: Any, rules: IdRules, *, party: str) -> list[bytes]:
    """Return a party's ids in their normal form, as bytes, in the order of its rows.

    Parameters
    ----------
    ids
        What `colonnade.party.table.row_order.read_ids` returned.
    rules
        The plan's rules.
    party
        Whose ids these are, for the error messages.

    Examples
    --------
    >>> normal_ids(pa.array([" Ann ", "bob"]), IdRules(case="fold"), party="bank")
    [b'ann', b'bob']
    """
    text = ids.cast(pa.large_string())
    normal = _whole(text, party) if rules.kind == "whole" else _text(text, rules)
    _require_distinct(normal, party)
    return [one.encode() for one in normal.to_pylist()]


def _text(text: Any, rules: IdRules) -> Any:
    if rules.form:
        text = pc.utf8_normalize(text, form=rules.form)
    if rules.strip:
        text = pc.utf8_trim_whitespace(text)
    if rules.case == "fold":
        folded = pa.array([None if one is None else one.casefold() for one in text.to_pylist()], type=pa.large_string())
        text = pc.utf8_normalize(folded, form=rules.form) if rules.form else folded  # folding may undo the form
    return text


def _whole(text: Any, party: str) -> Any:
    trimmed = pc.utf8_trim_whitespace(text)
    if not pc.all(pc.match_substring_regex(trimmed.fill_null("0"), WHOLE)).as_py():
        # without a number: where none of them is, it would be the length of the list, and the coordinator chose the rules
        raise BadInput(f"Party {party!r}: some ids are not whole numbers.", remedy='Compare ids as "text".')
    unsigned = pc.replace_substring_regex(trimmed, pattern=r"^\+", replacement="")
    return unsigned.cast(pa.int64()).cast(pa.large_string())


def _require_distinct(text: Any, party: str) -> None:
    empty = pc.equal(text, pa.scalar("", type=text.type)).fill_null(True)
    absent = int(np.count_nonzero(empty.to_numpy(zero_copy_only=False)))
    present = text.filter(pc.invert(empty))
    repeated = len(present) - len(pc.unique(present))
    faults = [f"{count} {what}" for count, what in ((absent, "missing"), (repeated, "repeated")) if count]
    if faults:
        raise BadInput(
            f"Party {party!r}: {' and '.join(faults)} ids once they are in their normal form.",
            remedy="Every row needs an id of its own: drop or merge these rows first, or agree on other rules.",
        )
