"""pandas frames as Arrow tables, and tables as frames whose columns have their original types.

Columns without an Arrow equivalent, such as Python objects, are replaced by row numbers, by which pandas takes their
rows in the end.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection
from typing import Any

import numpy as np

from linkwise._arrow import pa
from linkwise._core import UsageError

SOURCE = b"linkwise.pandas"
"""In a field's metadata: the number of the column that it comes from."""
_NO_ROW = -1


def cannot_convert() -> tuple[type[Exception], ...]:
    """What PyArrow raises for columns that Arrow cannot hold."""
    return pa.ArrowException, TypeError, ValueError, OverflowError


def told_of(error: Exception) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split())


class PandasFrames:
    """Frames whose columns are combined in one table."""

    def __init__(self) -> None:
        self._pandas: Any = importlib.import_module("pandas")
        self._sources: list[tuple[Any, pa.DataType | None]] = []  # no type if replaced by row numbers
        self._keys: set[Any] = set()  # labels

    def table(self, frame: Any, keys: Collection[str]) -> pa.Table:
        """The columns of a frame as a table; ``keys`` are always converted to their values. Raises ``UsageError``."""
        names = list(map(str, frame.columns))
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"this DataFrame has several columns '{twice}'; rename them")
        columns, fields = [], []
        for number, name in enumerate(names):
            series = frame.iloc[:, number]
            values = self._values(series, name) if name in keys else self._values_if_equal(series)
            fields.append(
                pa.field(
                    name,
                    pa.int64() if values is None else values.type,
                    metadata={SOURCE: str(len(self._sources)).encode()},
                )
            )
            if name in keys:
                self._keys.add(series.name)
            self._sources.append((series, None if values is None else values.type))
            columns.append(pa.array(np.arange(len(frame))) if values is None else values)
        return pa.table(columns, schema=pa.schema(fields))

    def frame(self, table: pa.Table) -> Any:
        """A frame with the original types and a fresh index; columns of other tables get pandas' default types."""
        made, labels = {}, []
        for field in table.schema:
            number = (field.metadata or {}).get(SOURCE)
            source, kind = (None, None) if number is None else self._sources[int(number)]
            made[field.name] = self._made(table[field.name], source, kind)
            labels.append(field.name if source is None or str(source.name) != field.name else source.name)
        frame = self._pandas.DataFrame(made, index=self._pandas.RangeIndex(table.num_rows), copy=False)
        frame.columns = labels  # some may be equal to others, as True is to 1
        return frame

    def _made(self, column: pa.ChunkedArray, source: Any, kind: pa.DataType | None) -> Any:
        if source is not None and kind is None:
            return self._taken(source, column)
        if source is not None and kind == column.type and (made := self._of(source, column)) is not None:
            return made
        if source is not None and source.name in self._keys and column.null_count and pa.types.is_integer(column.type):
            # A join key of both sides, one of which has nullable integers.
            kind_of_integer = "UInt" if pa.types.is_unsigned_integer(column.type) else "Int"
            return getattr(self._pandas, f"{kind_of_integer}{column.type.bit_width}Dtype")().__from_arrow__(column)
        return column.to_pandas()

    def _of(self, source: Any, column: pa.ChunkedArray) -> Any | None:
        """The values, if pandas would not make the type of the source by itself."""
        if source.dtype == object:  # if integers are missing, pandas would make floats of them
            return self._pandas.Series(column.to_pylist(), dtype=object)
        if isinstance(source.dtype, self._pandas.ArrowDtype):
            return self._pandas.arrays.ArrowExtensionArray(column)
        if hasattr(source.dtype, "__from_arrow__"):
            return source.dtype.__from_arrow__(column)
        if not isinstance(source.dtype, self._pandas.CategoricalDtype):
            return None
        made = column.to_pandas()  # without values, or with few, it may not have all categories
        return made.astype(source.dtype) if made.cat.categories.isin(source.dtype.categories).all() else made

    def _taken(self, source: Any, rows: pa.ChunkedArray) -> Any:
        numbers, allow_fill = rows.fill_null(_NO_ROW).to_numpy(), rows.null_count > 0
        if not isinstance(source.dtype, np.dtype):
            return source.array.take(numbers, allow_fill=allow_fill)
        values = self._pandas.api.extensions.take(source.to_numpy(), numbers, allow_fill=allow_fill)
        return self._pandas.Series(values, dtype=values.dtype)  # so that a column of objects that are text stays one

    @staticmethod
    def _values(series: Any, name: str) -> pa.Array | pa.ChunkedArray:
        try:
            return pa.array(series, from_pandas=True)
        except cannot_convert() as error:
            raise UsageError(f"column '{name}' of this DataFrame cannot be a key: {told_of(error)}") from None

    def _values_if_equal(self, series: Any) -> pa.Array | pa.ChunkedArray | None:
        """The values if Arrow can represent them and give them back unchanged, otherwise ``None``."""
        if not self._has_equal(series.dtype):
            return None
        try:
            return pa.array(series, from_pandas=True)
        except cannot_convert():
            return None

    def _has_equal(self, dtype: Any) -> bool:
        if isinstance(dtype, np.dtype):
            return dtype.kind in "biufmM"
        pandas = self._pandas
        if isinstance(dtype, pandas.CategoricalDtype):
            return self._has_equal(dtype.categories.dtype)
        if isinstance(dtype, pandas.StringDtype | pandas.DatetimeTZDtype | pandas.ArrowDtype):
            return True
        masked = (pandas.arrays.IntegerArray, pandas.arrays.FloatingArray, pandas.arrays.BooleanArray)
        return dtype.construct_array_type() in masked
