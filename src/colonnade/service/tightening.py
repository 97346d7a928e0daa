"""``[tighten]`` of a study file: private, narrower bounds, and then the studies.

A preview reads no data, so it cannot know bounds that nobody has released yet. It prices them like any other study, because they
rest on the release of a `Describe` with the same columns and price, and previews the other studies with the declared bounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import colonnade as cn
from colonnade.schema import Date, Numeric
from colonnade.service.file_preview import preview_studies
from colonnade.service.study_file import StudyEntry
from colonnade.service.toml_parts import within

__all__ = ["Bounds"]

TITLE = "Narrower bounds"


@dataclass(frozen=True)
class Bounds:
    """The narrower bounds that a study file asks for.

    Parameters
    ----------
    asked
        The table ``[tighten]``, as `Federation.tightened` takes it; ``None`` keeps the declared bounds.
    federation
        The people that studies are fitted on.
    """

    asked: Mapping[str, Any] | None
    federation: "cn.Federation"

    def entry(self) -> StudyEntry | None:
        """Return the release that they rest on, as a study; ``None`` without a table."""
        if self.asked is None:
            return None
        described = self.federation.describe(self.asked.get("columns"))
        numbers = [name for name, column in described.items() if isinstance(column, Numeric | Date)]
        price = {key: self.asked[key] for key in ("epsilon", "delta", "unit") if key in self.asked}
        return StudyEntry(
            TITLE, within("tighten", lambda: cn.Describe(numbers, **price)), self.asked.get("repeat", 1), ""
        )

    @property
    def released(self) -> bool:
        """Whether the bounds have been paid for, so that asking for them again is free."""
        entry = self.entry()
        if entry is None:
            return True
        plan = entry.estimator._prepare(self.federation, entry.repeat)[1]  # noqa: SLF001  # without running it
        return not any(self.federation.quote(plan).unpaid.values())

    def with_bounds(self, studies: Sequence[StudyEntry]) -> tuple[StudyEntry, ...]:
        """Return the studies of a file, behind that of the bounds."""
        entry = self.entry()
        return (*studies,) if entry is None else (entry, *studies)

    def if_released(self) -> "cn.Federation":
        """Return the federation with narrower bounds if these are free; as it is otherwise."""
        return self.tightened() if self.released else self.federation

    def paid(self, studies: Sequence[StudyEntry]) -> "cn.Federation":
        """Pay for the bounds and return the federation with them. Refuse first if bounds and studies do not fit a budget."""
        if not self.released:
            preview_studies(self.with_bounds(studies), self.federation).require_room()
        return self.tightened()

    def tightened(self) -> "cn.Federation":
        """Return the federation with narrower bounds."""
        if self.asked is None:
            return self.federation
        asked = dict(self.asked)
        if "quantiles" in asked:
            asked["quantiles"] = (
                tuple(asked["quantiles"]) if isinstance(asked["quantiles"], list) else asked["quantiles"]
            )
        return within("tighten", lambda: self.federation.tightened(**asked))
