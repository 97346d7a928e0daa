"""What is public about a federation's columns: who holds them, what is declared about them, and how they are read."""

import copy
from collections.abc import Mapping, Sequence
from typing import Self

import msgspec

from colonnade.coding.columns import ColumnName, plain_names
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.plan import Step
from colonnade.schema import Column, Crossed, Schema

__all__ = ["FederationColumns"]


class FederationColumns:
    """The columns of a federation, by ``"party.column"``.

    Parameters
    ----------
    schemas
        What each party's owner has declared, parties in the federation's order.
    """

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self.parties = tuple(schemas)
        self.schemas = dict(schemas)
        self.readings: dict[str, Column] = {}

    def column(self, name: str) -> tuple[str, str, Column]:
        """Resolve ``"party.column"`` to its party, its own name and its public description."""
        party, column = ColumnName.of(name)
        self._require_party(party, name)
        if column not in self.schemas[party]:
            raise SchemaMismatch(
                f"Party {party!r} has no column {column!r} in its schema.",
                remedy=f"Its columns are {', '.join(self.schemas[party])}.",
            )
        return party, column, self.schemas[party][column]

    def _require_party(self, party: str, name: str) -> None:
        if party not in self.schemas:
            raise BadInput(
                f"{name!r} is not known here: {party!r} is no party of this federation.",
                remedy=f"Columns are named 'party.column'; the parties are {', '.join(self.parties)}.",
            )

    def columns(self) -> list[str]:
        """Return every column of the federation: parties as given, then schema order."""
        return [str(ColumnName(party, column)) for party in self.parties for column in self.schemas[party]]

    def describe(self, columns: Sequence[str] | None = None) -> dict[str, Column]:
        """Return the public descriptions of some columns (all by default), in the federation's order."""
        found = {name: self.column(name)[2] for name in (self.columns() if columns is None else plain_names(columns))}
        return {name: found[name] for name in self.columns() if name in found}

    def read_as(self, readings: Mapping[str, Column]) -> Self:
        """Return the same federation, with some columns read as coarser descriptions: in bins, or between narrower bounds.

        Studies of it are the same code, and are debited to the same ledgers. The plan says how a column is read, and every party
        checks it against what its owner has declared.

        Parameters
        ----------
        readings
            ``"party.column"`` to the description; others are read as before.

        Examples
        --------
        >>> import colonnade as cn
        >>> from colonnade.schema import Bins
        >>> federation = cn.datasets.three_organisations(people=100).federation(budget=cn.Budget(epsilon=1.0))
        >>> age = federation.describe(["bank.age"])["bank.age"]
        >>> federation.read_as({"bank.age": Bins.equal(age, 3)}).describe(["bank.age"])["bank.age"].levels
        ('[18, 44)', '[44, 70)', '[70, 95]')
        """
        own: dict[str, dict[str, Column]] = {}
        for name, reading in readings.items():
            together = isinstance(reading, Crossed)  # two columns, known by a name of their own from now on
            party, column = ColumnName.of(name) if together else self.column(name)[:2]
            if party not in self.schemas or self.schemas[party].get(column) != reading:
                own.setdefault(party, {})[column] = reading
        for party, columns in own.items():
            self._require_party(party, str(ColumnName(party, next(iter(columns)))))
        other = copy.copy(self)
        other.schemas = {party: schema.read_as(own.get(party, {})) for party, schema in self.schemas.items()}
        other.readings = self.readings | {
            str(ColumnName(party, column)): reading for party, read in own.items() for column, reading in read.items()
        }
        return other

    def allows(self, name: str, reading: Column) -> bool:
        """Return whether a column here may be read as another description; or two columns together, under their common name."""
        party, column = ColumnName.of(name)
        return party in self.schemas and self.schemas[party].allows(column, reading)

    def as_read(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Return steps that say how their columns are read, where that is not as declared."""
        if not self.readings:
            return tuple(steps)
        return tuple(msgspec.structs.replace(step, readings=self._readings_of(step) or msgspec.UNSET) for step in steps)

    def _readings_of(self, step: Step) -> dict[str, Column]:
        named = {column: str(ColumnName(step.party, column)) for column in step.columns}
        return {column: self.readings[name] for column, name in named.items() if name in self.readings}
