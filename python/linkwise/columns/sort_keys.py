"""By which columns rows are sorted, in which direction, where their nulls go, and which of them are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from linkwise._core import UsageError

NullsEnd = Literal["first", "last"]
By = str | Sequence[str] | None
Descending = bool | Sequence[bool]
Nulls = NullsEnd | Sequence[NullsEnd]


@dataclass(frozen=True)
class SortKey:
    """A column that rows are sorted by."""

    column: str
    descending: bool = False
    nulls: NullsEnd = "last"

    @property
    def nulls_first(self) -> bool:
        """Whether rows without a value come before the others, whatever the direction."""
        return self.nulls == "first"


@dataclass(frozen=True)
class Selection:
    """Which of the sorted rows are wanted: of rows with one key the first alone, and of all the first ``limit``."""

    unique: bool = False
    limit: int | None = None

    @property
    def is_everything(self) -> bool:
        """Whether all rows are wanted."""
        return not self.unique and self.limit is None

    def may_skip(self, rows: int) -> bool:
        """Whether most rows need not be sorted."""
        return not self.unique and self.limit is not None and self.limit < rows // 2


EVERYTHING = Selection()


def check_nulls(nulls: object) -> None:
    """Raise ``UsageError`` unless it is an end of a table, or several."""
    for end in nulls if isinstance(nulls, list | tuple) else [nulls]:
        if end not in ("first", "last"):
            raise UsageError(f"nulls is 'first' or 'last', not {end!r}")


def listed(names: Any) -> list[Any]:
    """The columns that an argument names: one, or several. Raises ``UsageError``."""
    if names is None:
        return []
    try:
        return [names] if isinstance(names, str) else list(names)
    except TypeError:
        raise UsageError(f"columns are called by their names, not {names!r}") from None


def _one_each(given: Any, count: int, what: str) -> list[Any]:
    if isinstance(given, str) or not hasattr(given, "__len__"):
        return [given] * count
    if len(given) != count:
        raise UsageError(f"there are {len(given)} values of {what}= for {count} columns; give one, or one for each")
    return list(given)


def sort_keys_of(columns: Sequence[str], by: By, descending: Descending, nulls: Nulls) -> list[SortKey]:
    """What to sort a table with these columns by; the first key decides first. Raises ``UsageError``."""
    check_nulls(nulls)
    names = listed(by)
    there_are = ", ".join(map(repr, columns))
    if not names:
        raise UsageError(f"by= must name a column: {there_are}")
    for name in names:
        if name not in columns:
            raise UsageError(f"there is no column '{name}'; there are {there_are}")
        if columns.count(name) > 1:
            raise UsageError(f"there are several columns '{name}'; rename them, for by= cannot tell them apart")
    directions = _one_each(descending, len(names), "descending")
    ends = _one_each(nulls, len(names), "nulls")
    for direction in directions:
        if not isinstance(direction, bool | np.bool_):
            raise UsageError(f"descending is True or False, not {direction!r}")
    return [SortKey(*key) for key in zip(names, map(bool, directions), ends, strict=True)]


def one_direction(descending: Descending) -> bool:
    """The direction of something that has no columns. Raises ``UsageError``."""
    return cast(bool, _one_each(descending, 1, "descending")[0])
