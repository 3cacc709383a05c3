"""Sort keys: columns, directions and the position of nulls; and which of the sorted rows are selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from linkwise._core import UsageError
from linkwise.columns.inside import is_ambiguous
from linkwise.runtime.arguments import in_one_line

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

    def reversed(self) -> SortKey:
        """The same in the other direction; nulls stay at their end."""
        return replace(self, descending=not self.descending)


@dataclass(frozen=True)
class Selection:
    """Which of the sorted rows to keep: with ``unique``, the first of each key; of these, the first ``limit``."""

    unique: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        """Raise ``UsageError`` for a negative limit."""
        if self.limit is not None and (not isinstance(self.limit, int) or self.limit < 0):
            raise UsageError(f"limit is {self.limit!r}; it is a number of rows")

    @property
    def is_everything(self) -> bool:
        """Whether all rows are wanted."""
        return not self.unique and self.limit is None

    def may_skip(self, rows: int) -> bool:
        """Whether most rows need not be sorted."""
        return not self.unique and self.limit is not None and self.limit < rows // 2


EVERYTHING = Selection()


def check_nulls(nulls: object) -> None:
    """Raise ``UsageError`` unless it is ``"first"`` or ``"last"``, or several of these."""
    several = not isinstance(nulls, str) and hasattr(nulls, "__len__")
    for end in list(cast(Sequence[object], nulls)) if several else [nulls]:
        if not isinstance(end, str) or end not in ("first", "last"):
            raise UsageError(f"nulls is 'first' or 'last', not {in_one_line(end)}")


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


def sort_keys_of(
    columns: Sequence[str], by: By, descending: Descending, nulls: Nulls, *, inside: Sequence[str] = ()
) -> list[SortKey]:
    """The sort keys of a table with these columns, the most significant first. Raises ``UsageError``.

    ``inside`` are the names of struct fields, as ``address.city``.
    """
    check_nulls(nulls)
    names = listed(by)
    there_are = ", ".join(map(repr, columns))
    if not names:
        raise UsageError(f"by= must name a column: {there_are}")
    for name in names:
        if name not in columns and name not in inside:
            raise UsageError(f"there is no column '{name}'; there are {there_are}")
        if is_ambiguous(name, columns, inside):
            raise UsageError(f"there are several columns '{name}'; rename them, for by= cannot tell them apart")
    directions = _one_each(descending, len(names), "descending")
    ends = _one_each(nulls, len(names), "nulls")
    for direction in directions:
        if not isinstance(direction, bool | np.bool_):
            raise UsageError(f"descending is True or False, not {direction!r}")
    return [SortKey(*key) for key in zip(names, map(bool, directions), ends, strict=True)]


_MODIFIERS = ("asc", "desc", "nulls-first", "nulls-last")


def sort_keys_from_text(
    texts: Sequence[str], columns: Sequence[str], nulls: NullsEnd, *, inside: Sequence[str] = ()
) -> list[SortKey]:
    """As ``sort_keys_of``, from texts like ``COL:desc:nulls-first``; one text may have several, separated by commas.

    ``COL`` is a name, or a column number from 1 on. Arrays take ``:asc`` and ``:desc`` alone. Raises ``UsageError``.
    """
    if not columns:
        if any(text not in (":asc", ":desc") for text in texts):
            raise UsageError("--by names a column, and an array has none; use -r or --by :desc to reverse its order")
        return sort_keys_of([""], "", ":desc" in texts, nulls)
    if not texts:
        raise UsageError(f"--by must name a column: {', '.join(columns)}")
    keys: list[SortKey] = []
    for text in texts:
        # A name may have commas in it.
        for part in [text] if _key_of_text(text, columns, nulls, inside) else text.split(","):
            key = _key_of_text(part, columns, nulls, inside)
            if key is None:
                there_are = ", ".join(map(repr, columns))
                raise UsageError(
                    f"there is no column '{part}' among {there_are}; --by is a column or its number, followed by :asc, "
                    ":desc, :nulls-first or :nulls-last"
                )
            keys.append(key)
    return sort_keys_of(
        columns, [key.column for key in keys], [key.descending for key in keys], [key.nulls for key in keys],
        inside=inside,
    )  # fmt: skip


_MOST_DIGITS = 10  # a column number has fewer digits


def _key_of_text(text: str, columns: Sequence[str], nulls: NullsEnd, inside: Sequence[str]) -> SortKey | None:
    name, modifiers = text, []
    names = {*columns, *inside}
    while name not in names and name.rpartition(":")[2] in _MODIFIERS:  # a name may have a colon in it
        name, _, modifier = name.rpartition(":")
        modifiers.append(modifier)
    if name not in names and name.isdecimal() and len(name) < _MOST_DIGITS and 1 <= int(name) <= len(columns):
        name = columns[int(name) - 1]
    if "nulls-first" in modifiers or "nulls-last" in modifiers:
        nulls = "first" if "nulls-first" in modifiers else "last"
    return SortKey(name, "desc" in modifiers, nulls) if name in names else None


def one_direction(descending: Descending) -> bool:
    """The direction for data without columns. Raises ``UsageError``."""
    (given,) = _one_each(descending, 1, "descending")
    if not isinstance(given, bool | np.bool_):
        raise UsageError(f"descending is True or False, not {given!r}")
    return bool(given)
