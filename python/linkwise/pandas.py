"""``import linkwise.pandas`` gives pandas frames ``df.linkwise.sort_values`` and ``df.linkwise.merge``."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal, Unpack, cast

import numpy as np
import pandas as pd

from linkwise._core import UsageError
from linkwise.interop.containers import labels_named
from linkwise.joining.api import join as join_now
from linkwise.joining.matching import How, Order
from linkwise.runtime.execution import JoinExecution, SortExecution
from linkwise.sorting.api import sort as sort_now

__all__ = ["LinkwiseAccessor"]

_HOW: dict[str, How] = {"inner": "inner", "left": "left", "right": "right", "outer": "full"}


@pd.api.extensions.register_dataframe_accessor("linkwise")
class LinkwiseAccessor:
    """Sorts and joins of a frame by Linkwise, with pandas' arguments. The frame is never changed."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def sort_values(
        self,
        by: Hashable | Sequence[Hashable],
        *,
        ascending: bool | Sequence[bool] = True,
        na_position: Literal["first", "last"] = "last",
        ignore_index: bool = False,
        **execution: Unpack[SortExecution],
    ) -> pd.DataFrame:
        """Sort stably, like ``DataFrame.sort_values``. For the other arguments see ``linkwise.sort``.

        Raises
        ------
        UsageError
            If a column does not exist, or its values have no order.

        """
        if isinstance(ascending, int | np.bool_):
            descending: bool | list[bool] = not ascending
        else:
            descending = [not each for each in ascending]
        by_columns = cast("str | Sequence[str]", by)  # labels of any kind
        in_order = sort_now(self._frame, by=by_columns, descending=descending, nulls=na_position, **execution)
        return in_order.reset_index(drop=True) if ignore_index else in_order

    def merge(
        self,
        right: pd.DataFrame,
        how: Literal["inner", "left", "right", "outer"] = "inner",
        on: Hashable | Sequence[Hashable] | None = None,
        *,
        left_on: Hashable | Sequence[Hashable] | None = None,
        right_on: Hashable | Sequence[Hashable] | None = None,
        suffixes: tuple[str | None, str | None] = ("_x", "_y"),
        order: Order = "left",
        **execution: Unpack[JoinExecution],
    ) -> pd.DataFrame:
        """Join like ``DataFrame.merge``: columns of both sides, null keys match each other, rows in left order.

        By default, frames are joined by the columns that both have. ``order`` is as for ``linkwise.join``: ``None``
        is faster, and rows come in any order.

        Raises
        ------
        UsageError
            If a column does not exist, ``how`` is invalid, or no column is named and the frames share none.

        """
        if how not in _HOW:
            raise UsageError(f"how is one of {', '.join(_HOW)}, not {how!r}")
        if not isinstance(right, pd.DataFrame):
            raise UsageError(f"a frame is merged with a frame, not with a {type(right).__name__}; to_frame() makes one")
        if not isinstance(suffixes, tuple | list) or len(suffixes) != 2:
            raise UsageError(f"suffixes are two texts, for the left and for the right frame, not {suffixes!r}")
        labels = [*self._frame.columns], [*right.columns]
        if on is None and left_on is None and right_on is None:
            on = [label for label in labels[0] if label in labels[1]]
            if not on:
                raise UsageError(
                    "the frames have no column in common; name some with on=, or with left_on= and right_on="
                )
        of_left = _named(on if left_on is None else left_on, labels[0], "left")
        of_right = _named(on if right_on is None else right_on, labels[1], "right")
        if (on is None) == (left_on is None and right_on is None) or len(of_left) != len(of_right):
            raise UsageError("name the columns to merge by: on=, or as many with left_on= as with right_on=")
        # As in pandas, a pair of keys with one label gives one column, with the value of either side.
        shared = [label for label, other in zip(of_left, of_right, strict=True) if label == other]
        twice = [name for name in labels[0] if name in labels[1] and name not in shared]
        left_suffix, right_suffix = (suffix or "" for suffix in suffixes)
        if twice and left_suffix == right_suffix:
            raise UsageError(f"both frames have {', '.join(map(repr, twice))}; give two suffixes")
        left = self._frame.rename(columns={name: f"{name}{left_suffix}" for name in twice})
        other = right.rename(columns={name: f"{name}{right_suffix}" for name in twice})
        if len(shared) == len(of_left):
            return join_now(left, other, on=shared, how=_HOW[how], nulls_equal=True, order=order, **execution)
        beside = {label: f"{label}, of the right frame" for label in shared}
        joined = join_now(
            left, other.rename(columns=beside), left_on=_renamed(of_left, twice, left_suffix),
            right_on=[beside.get(name, name) for name in _renamed(of_right, twice, right_suffix)],
            how=_HOW[how], nulls_equal=True, order=order, **execution,
        )  # fmt: skip
        for label, name in beside.items():
            joined[label] = joined[label].where(joined[label].notna(), joined[name])
        return joined.drop(columns=list(beside.values()))


def _named(names: Any, labels: list[Any], side: str) -> list[Any]:
    if names is None:
        return []
    named: list[Any] = labels_named(names, labels)
    for name in named:
        if name not in labels:
            raise UsageError(f"the {side} frame has no column {name!r}; it has {', '.join(map(repr, labels))}")
    return named


def _renamed(names: list[Any], twice: list[Any], suffix: str) -> list[Any]:
    return [f"{name}{suffix}" if name in twice else name for name in names]
