"""Two columns of one party, read together."""

from collections.abc import Sequence

import msgspec

from colonnade.errors import BadInput
from colonnade.schema.bins import Bins
from colonnade.schema.column import Category, ColumnKind, Level

AND = " & "
"""What stands between two columns, or two levels, that are read together."""


class Crossed(Category, frozen=True, tag="crossed", kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Two columns of one party, read together: a category with one level per combination, the second column's fastest.

    A person who has no level in one of them has none here.

    Parameters
    ----------
    names
        What the party calls the two columns.
    of
        What each is read as: a category or bins.

    Examples
    --------
    >>> from colonnade.schema import Numeric
    >>> age, segment = Bins.equal(Numeric(18, 95), 2), Category(["basic", "gold"])
    >>> crossed = Crossed(names=("age", "segment"), of=(age, segment))
    >>> crossed.name, crossed.levels[0], crossed.size
    ('age & segment', '[18, 56.5) & basic', 4)
    """

    levels: Sequence[Level] = ()  # follows from those of the two
    names: tuple[str, str]
    of: tuple[Bins | Category, Bins | Category]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "names", tuple(map(str, self.names)))
        msgspec.structs.force_setattr(self, "of", tuple(self.of))
        both = all(isinstance(one, Category) and not isinstance(one, Crossed) for one in self.of)
        if not both or len(self.of) != 2 or len(set(self.names)) != 2 or len(self.names) != 2:
            raise BadInput(
                "Two columns that are read together are two different categories, or numbers in bins.",
                remedy='For example Crossed(names=("age", "segment"), of=(Bins.equal(age, 4), segment)).',
            )
        if self.missing is not None or self.other is not None or self.na_values:
            raise BadInput("Columns that are read together have no rules but their own.", remedy="Leave them out.")
        found = tuple(f"{one}{AND}{other}" for one in self.of[0].levels for other in self.of[1].levels)
        if self.levels and tuple(self.levels) != found:
            raise BadInput("The levels of columns that are read together are theirs.", remedy="Leave levels= out.")
        msgspec.structs.force_setattr(self, "levels", found)
        super().__post_init__()

    @property
    def name(self) -> str:
        """What it is called at the party."""
        return AND.join(self.names)

    @property
    def parts(self) -> "tuple[Bins | Category, Bins | Category]":
        """What each of the two is read as."""
        return self.of

    def read_from(self, name: str) -> tuple[str, ...]:
        """Return the two columns."""
        return self.names

    @property
    def missing_rule(self) -> str:
        """Those of the two."""
        return "; ".join(dict.fromkeys(part.missing_rule for part in self.of if part.missing_rule))

    def refines(self, declared: ColumnKind) -> bool:
        """No: it is a column of its own, which a schema checks by its parts (`Schema.allows`)."""
        return False

    def in_words(self) -> str:
        """Return in how many combinations the two are read."""
        return f"together in {self.size} combinations"

    def __repr__(self) -> str:
        return f"Crossed(names={self.names!r}, of={self.of!r})"
