"""Whether something is in order already: ``linkwise.is_sorted`` and ``linkwise sort --check``."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

from linkwise import _core
from linkwise._core import UsageError
from linkwise.host_sorting import Array
from linkwise.keys import array_of_column, key_type_of, keys_of_array, plain_array
from linkwise.tables import check_nulls, split_nulls

_BLOCK = 1 << 22  # neighbours that are compared at once


def first_out_of_order(
    values: Array | pa.Table, *, by: str | None = None, descending: bool = False, nulls: str = "last"
) -> int | None:
    """The number of the first row that should stand before the one in front of it; ``None`` if all are in order.

    Takes what ``sort`` takes, and means by order what it does. Raises ``UsageError``.
    """
    check_nulls(nulls)
    if isinstance(values, np.ndarray) and by is None:
        return _first_descent(keys_of_array(plain_array(values)), descending)
    if not isinstance(values, pa.Table):
        raise UsageError(
            f"cannot look at a {type(values).__name__} by {by}; NumPy arrays and PyArrow tables have an order"
        )
    column, valid_rows, null_rows = split_nulls(values, by)
    keys = array_of_column(column, str(by))
    found = _first_descent(keys, descending)
    if valid_rows is None or null_rows is None:
        return found
    # A null is out of its place behind a key if nulls come first, a key behind a null if they come last.
    is_null = np.zeros(values.num_rows, bool)
    is_null[null_rows] = True
    ahead, behind = (is_null[:-1], ~is_null[1:]) if nulls == "last" else (~is_null[:-1], is_null[1:])
    misplaced = np.flatnonzero(ahead & behind)
    rows = [int(misplaced[0]) + 1] if len(misplaced) else []
    if found is not None:
        rows.append(int(valid_rows[found]))
    return min(rows, default=None)


def _first_descent(keys: Any, descending: bool) -> int | None:
    """The first position whose key is less than the one before it, in the order of the codes that are sorted."""
    kind = key_type_of(keys.dtype)
    for first in range(0, max(len(keys) - 1, 0), _BLOCK):
        codes = np.asarray(_core.encode_keys(kind, descending, np.ascontiguousarray(keys[first : first + _BLOCK + 1])))
        descents = np.flatnonzero(codes[1:] < codes[:-1])
        if len(descents):
            return first + int(descents[0]) + 1
    return None


def is_sorted(
    values: Array | pa.Table,
    *,
    by: str | None = None,
    descending: bool = False,
    nulls: Literal["first", "last"] = "last",
) -> bool:
    """Whether ``sort`` with the same arguments would leave everything where it is.

    Parameters
    ----------
    values
        A one-dimensional NumPy array or a ``pyarrow.Table``, of the types that ``sort`` takes.
    by, descending, nulls
        As for ``sort``.

    Raises
    ------
    UsageError

    """
    return first_out_of_order(values, by=by, descending=descending, nulls=nulls) is None
