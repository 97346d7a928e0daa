"""One of a public list of levels."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec

from colonnade.errors import BadInput
from colonnade.schema.column import ColumnKind, Level, require_texts, written

LARGEST_DOMAIN = 4096
MISSING_LEVEL = "missing"


class Category(ColumnKind, frozen=True, tag="category", forbid_unknown_fields=True, omit_defaults=True):
    """One of a public list of levels.

    Parameters
    ----------
    levels
        Texts, whole numbers or booleans: every value that the column may have in any data whatever.
    missing
        ``"excluded"``: a person without a value has no level, and is left out of what is counted by this column. ``"level"``: a
        missing value counts as a further level, ``"missing"``. Without a rule a table with missing values is refused.
    other
        The level that a value outside the list counts as: one of the list, or a further one. Without it a table with such
        values is refused.
    na_values
        What else counts as missing, besides an empty cell: texts such as ``"?"``.

    Examples
    --------
    >>> Category(["basic", "gold", "platinum"]).size
    3
    >>> Category(["basic", "gold"], missing="level", other="other").levels
    ('basic', 'gold', 'other', 'missing')
    """

    needed: ClassVar[tuple[str, ...]] = ("levels",)
    cells_in_words: ClassVar[str] = "text or whole numbers"

    levels: Sequence[Level]  # kept as a tuple, with the levels that the rules add
    missing: Literal["excluded", "level"] | None = None
    other: Level | None = None
    na_values: Sequence[str] = ()  # kept as a tuple

    def __post_init__(self) -> None:
        if isinstance(self.levels, str) or not isinstance(self.levels, Sequence):
            raise BadInput("A category takes a list of levels.", remedy='For example cn.Category(["no", "yes"]).')
        self._check_rules()
        named = [plain_level(level) for level in self.levels]
        added = [*([] if self.other is None else [self.other]), *([MISSING_LEVEL] if self.missing == "level" else [])]
        known = {str(level) for level in named}
        levels = (*named, *(level for level in added if str(level) not in known))
        msgspec.structs.force_setattr(self, "levels", levels)
        if any(not isinstance(level, str | bool | int) for level in levels):
            raise BadInput(
                "The levels of a category are strings, whole numbers or booleans.",
                remedy='For example cn.Category(["no", "yes"]) or cn.Category([1, 2, 3]).',
            )
        if not 1 <= len(levels) <= LARGEST_DOMAIN:
            raise BadInput(
                f"A category has between 1 and {LARGEST_DOMAIN} levels, not {len(levels)}.",
                remedy="Group rare levels together, or describe a number by its bounds: cn.Numeric(0, 120).",
            )
        if len({str(level) for level in levels}) != len(levels):
            raise BadInput(
                "The levels of a category must differ, also when written as text.",
                remedy="Name each level once; 1 and '1' are the same level.",
            )
        if {str(level) for level in levels} & set(self.na_values):
            raise BadInput("A level of a category is also among its na_values.", remedy="Leave it out of one of them.")

    def _check_rules(self) -> None:
        if self.missing not in (None, "excluded", "level"):
            rules = (
                '"excluded" leaves people without a value out of counts; "level" counts them as a level of their own.'
            )
            raise BadInput('missing= of a category is "excluded" or "level".', remedy=rules)
        require_texts(self.na_values)
        msgspec.structs.force_setattr(self, "na_values", tuple(map(str, self.na_values)))
        if self.other is not None:
            msgspec.structs.force_setattr(self, "other", plain_level(self.other))

    @property
    def excludes(self) -> bool:
        """Whether a person may have no level here, and is then left out of counts."""
        return self.missing == "excluded"

    @property
    def missing_code(self) -> int:
        """The place of the level that a missing value counts as; −1 for none."""
        return self._code(MISSING_LEVEL) if self.missing == "level" else -1

    @property
    def other_code(self) -> int | None:
        """The place of the level that a value outside the list counts as; ``None`` where the schema has no rule for it."""
        return None if self.other is None else self._code(str(self.other))

    def _code(self, level: str) -> int:
        return [str(one) for one in self.levels].index(level)

    @property
    def missing_rule(self) -> str:
        """What is declared about missing and unlisted values, in words; nothing where nothing is declared."""
        rules = {
            "excluded": "a person without a value is left out of counts",
            "level": "a missing value is a level of its own",
        }
        parts = [rules[self.missing]] if self.missing is not None else []
        return "; ".join(parts if self.other is None else [*parts, f"a value outside the list counts as {self.other}"])

    def with_missing_level(self) -> "Category":
        """Return the column with a level for missing values, where it would leave people out without one."""
        return msgspec.structs.replace(self, missing="level") if self.excludes else self

    def refines(self, declared: ColumnKind) -> bool:
        """Return whether a declared column may be read as this one: missing values become a level, and nothing else changes.

        Examples
        --------
        >>> segment = Category(["basic", "gold"], missing="excluded")
        >>> Category(["basic", "gold"], missing="level").refines(segment), Category(["basic"]).refines(segment)
        (True, False)
        """
        return declared.excludes and self == declared.with_missing_level()

    def __repr__(self) -> str:
        return written(self, [repr(list(self.levels))], skip=("levels",))


def plain_level(level: Level) -> Level:
    """Return text as plain text: a numpy string would not travel."""
    return str(level) if isinstance(level, str) else level
