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
from linkwise.sorting.api import sort_indices

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
        keys = self._keys_as_pandas_orders_them(by)
        if keys is None:
            in_order = sort_now(self._frame, by=by_columns, descending=descending, nulls=na_position, **execution)
        else:
            names = cast("Sequence[str]", list(keys.columns))
            rows = sort_indices(keys, by=names, descending=descending, nulls=na_position, **execution)
            in_order = self._frame.iloc[rows]
        return in_order.reset_index(drop=True) if ignore_index else in_order

    def _keys_as_pandas_orders_them(self, by: Any) -> pd.DataFrame | None:
        """The keys, named by position; ``None`` if Linkwise orders those of the frame in the same way."""
        names = labels_named(by, [*self._frame.columns])
        if any(list(self._frame.columns).count(name) != 1 for name in names):
            return None  # which the sort refuses
        columns = [self._frame[name] for name in names]
        keys = [_as_pandas_orders(column) for column in columns]
        is_same = all(key is column for key, column in zip(keys, columns, strict=True))
        return None if is_same else pd.DataFrame({str(place): key for place, key in enumerate(keys)})

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
        if any(isinstance(frame.columns, pd.MultiIndex) for frame in (self._frame, right)):
            raise UsageError(
                "columns of several levels are not merged here; use DataFrame.merge, or give them one level"
            )
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
        if twice and (suffixes[0] or "") == (suffixes[1] or ""):
            raise UsageError(f"both frames have {', '.join(map(repr, twice))}; give two suffixes")
        # A label without a suffix stays what it is; others become text.
        of_twice = [{name: f"{name}{suffix}" for name in twice if suffix is not None} for suffix in suffixes]
        left, other = self._frame.rename(columns=of_twice[0]), right.rename(columns=of_twice[1])
        if len(shared) == len(of_left):
            return join_now(left, other, on=shared, how=_HOW[how], nulls_equal=True, order=order, **execution)
        beside = {label: f"{label}, of the right frame" for label in shared}
        joined = join_now(
            left, other.rename(columns=beside), left_on=[of_twice[0].get(name, name) for name in of_left],
            right_on=[{**of_twice[1], **beside}.get(name, name) for name in of_right],
            how=_HOW[how], nulls_equal=True, order=order, **execution,
        )  # fmt: skip
        for label, name in beside.items():
            joined[label] = joined[label].where(joined[label].notna(), joined[name])
            if left[label].dtype == right[label].dtype and not joined[label].isna().any():
                joined[label] = joined[label].astype(left[label].dtype)  # which it lost to missing values of one side
        for side, keys, renamed in ((left, of_left, of_twice[0]), (other, of_right, of_twice[1])):
            _make_floats(joined, side, [renamed.get(label, label) for label in keys if label not in shared])
        return joined.drop(columns=list(beside.values()))


def _make_floats(joined: pd.DataFrame, side: pd.DataFrame, keys: list[Any]) -> None:
    """Make floats of integers of which some are missing, as pandas does."""
    for name in keys:
        if side[name].dtype != joined[name].dtype and side[name].dtype.kind in "iu":
            joined[name] = joined[name].astype("float64")


def _named(names: Any, labels: list[Any], side: str) -> list[Any]:
    if names is None:
        return []
    named: list[Any] = labels_named(names, labels)
    for name in named:
        if name not in labels:
            raise UsageError(f"the {side} frame has no column {name!r}; it has {', '.join(map(repr, labels))}")
    return named


def _as_pandas_orders(values: pd.Series[Any]) -> pd.Series[Any]:
    """Values that Linkwise orders as pandas does: categories in their order, and -0.0 as 0.0."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values if values.dtype.ordered else values.cat.as_ordered()
    if values.dtype.kind == "f" and isinstance(values.dtype, np.dtype):
        zeros = values.to_numpy() == 0.0
        return values + 0.0 if np.signbit(values.to_numpy()[zeros]).any() else values
    return values
