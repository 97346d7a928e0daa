"""Names of columns: ``"party.column"``, read and written in one place.

A name may arrive as any kind of string, such as numpy's own. What leaves this module is plain ``str``, because messages, plans
and files hold nothing else.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from colonnade.errors import BadInput

__all__ = ["ColumnName", "columns_at", "parties_of", "plain_name", "plain_names"]


class ColumnName(NamedTuple):
    """The name of one column of a federation.

    Parameters
    ----------
    party
        Who holds the column.
    column
        What the column is called there. It may contain dots itself.

    Examples
    --------
    >>> ColumnName.of("bank.age").party
    'bank'
    >>> str(ColumnName("bank", "age"))
    'bank.age'
    """

    party: str
    column: str

    @classmethod
    def of(cls, name: object) -> "ColumnName":
        """Read ``"party.column"``; refuse anything else."""
        text = plain_name(name)
        party, dot, column = text.partition(".")
        if not dot:
            raise BadInput(f"{text!r} does not name a column.", remedy="Columns are named 'party.column'.")
        return cls(party, column)

    def __str__(self) -> str:
        return f"{self.party}.{self.column}"


def plain_name(name: object) -> str:
    """Return a name as plain ``str``, also one that numpy made.

    Examples
    --------
    >>> import numpy as np
    >>> plain_name(np.str_("bank.age"))
    'bank.age'
    """
    if not isinstance(name, str):
        raise BadInput("Columns are named 'party.column'.")
    return str(name)


def plain_names(columns: object) -> list[str]:
    """Return a list of column names as plain ``str``; refuse what is no list, an empty one, and one that repeats a name."""
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
        raise BadInput("columns takes a list such as ['bank.age', 'telco.minutes'].")
    names = [plain_name(name) for name in columns]
    if len(set(names)) != len(names):
        raise BadInput("A column is named twice.")
    return names


def parties_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the parties that hold some columns, in the order in which they come first.

    Examples
    --------
    >>> parties_of(["bank.age", "telco.bill", "bank.income"])
    ('bank', 'telco')
    """
    return tuple(dict.fromkeys(ColumnName.of(name).party for name in names))


def columns_at(party: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return what one party calls those of the columns that it holds.

    Examples
    --------
    >>> columns_at("bank", ["bank.age", "telco.bill", "bank.income"])
    ('age', 'income')
    """
    return tuple(name.column for name in map(ColumnName.of, names) if name.party == party)
