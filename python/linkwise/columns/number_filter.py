"""Filters that compare columns of numbers with numbers, by NumPy.

PyArrow's expressions, which express all filters, take longer to load than NumPy to compare ten million numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from linkwise._arrow import pa, pc
from linkwise._typing import Rows
from linkwise.columns.gather import in_one_array
from linkwise.columns.key_types import is_valid, stored_numbers
from linkwise.columns.row_filter import COMPARE, range_of

_COMPARISON = re.compile(r"\s*([^\W\d]\w*)\s*(<=|>=|!=|<>|==|[=<>])\s*(-?\d+(?:\.\d+)?)\s*(?:and\s|$)", re.IGNORECASE)


class _Comparison(NamedTuple):
    column: str
    operator: str
    value: int | float
    kind: pa.DataType

    def passes(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        values = in_one_array(table[self.column])
        numbers = stored_numbers(values)
        passes: npt.NDArray[np.bool_] = COMPARE[self.operator](numbers, numbers.dtype.type(self.value))
        return passes & is_valid(values) if values.null_count else passes

    @property
    def expression(self) -> pc.Expression:
        return COMPARE[self.operator](pc.field(self.column), pa.scalar(self.value, self.kind))

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest value that may pass."""
        if self.operator in ("=", "=="):
            return self.value, self.value
        return (
            self.value if self.operator in (">", ">=") else -math.inf,
            self.value if self.operator in ("<", "<=") else math.inf,
        )


class NumberFilter:
    """Comparisons that all must be true; one with a null is not."""

    def __init__(self, comparisons: list[_Comparison]) -> None:
        self._comparisons = comparisons
        self.columns = list(dict.fromkeys(each.column for each in comparisons))

    def rows_of(self, table: pa.Table) -> Rows:
        """The numbers of the rows that pass."""
        first, *others = (each.passes(table) for each in self._comparisons)
        for passes in others:
            first &= passes
        return np.flatnonzero(first)

    @property
    def ranges(self) -> Iterator[tuple[str, tuple[float, float]]]:
        """Of each comparison, the column, and the least and the greatest value that may pass."""
        return ((each.column, each.range) for each in self._comparisons)

    @property
    def expression(self) -> pc.Expression:
        """The same for PyArrow."""
        first, *others = (each.expression for each in self._comparisons)
        for each in others:
            first &= each
        return first


def number_filter_from_text(text: str, schema: pa.Schema) -> NumberFilter | None:
    """The filter, if it only compares columns of integers or doubles with numbers of their types; otherwise ``None``.

    Also ``None`` if something is wrong with it.
    """
    comparisons: list[_Comparison] = []
    at = 0
    while at < len(text) or not comparisons:
        found = _COMPARISON.match(text, at)
        if found is None or found[1].lower() == "not" or schema.names.count(found[1]) != 1:
            return None
        kind = schema.field(found[1]).type
        value = _value(found[3], kind)
        if value is None:
            return None
        comparisons.append(_Comparison(found[1], found[2], value, kind))
        at = found.end()
    return None if text.rstrip().lower().endswith("and") else NumberFilter(comparisons)


def _value(text: str, kind: pa.DataType) -> int | float | None:
    """The value in the type of a column; ``None`` if it has none that is the same."""
    if pa.types.is_float64(kind):
        return float(text) if len(text) <= 15 else None  # as many digits as all doubles have
    if not pa.types.is_integer(kind) or "." in text or len(text) > 20:
        return None
    least, greatest = range_of(kind)
    return int(text) if least <= int(text) <= greatest else None
