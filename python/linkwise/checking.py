"""Whether something is in order already: ``linkwise.is_sorted`` and ``linkwise sort --check``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from linkwise.containers import ONE_COLUMN, Contents, hold
from linkwise.keys import keys_of_array, plain_array
from linkwise.ordering import By, Descending, Nulls, SortKey
from linkwise.row_order import RowKeys


def first_out_of_order(contents: Contents, keys: list[SortKey]) -> int | None:
    """The number of the first row that should stand before the one in front of it; ``None`` if all are in order.

    An array's key is the first one's direction.
    """
    if isinstance(contents, np.ndarray):
        contents = pa.table({ONE_COLUMN: pa.array(keys_of_array(plain_array(contents)))})
        keys = [SortKey(ONE_COLUMN, keys[0].descending)]
    row: int = RowKeys(contents, keys).core.first_descent()
    return row if row < len(contents) else None


def is_sorted(values: Any, *, by: By = None, descending: Descending = False, nulls: Nulls = "last") -> bool:
    """Whether ``sort`` with the same arguments would leave everything where it is.

    Takes what ``sort`` takes but arrays on GPUs.

    Raises
    ------
    UsageError

    """
    held = hold(values, by)
    return first_out_of_order(held.contents, held.keys(by, descending, nulls)) is None
