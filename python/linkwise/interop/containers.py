"""The kinds of data that are accepted, and how results are returned as the same kind.

Internally there are only NumPy arrays and Arrow tables. Objects that support Arrow's PyCapsule interface or DLPack
are converted to these, without a copy where possible.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeAlias, cast

import numpy as np

from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.columns.decode import check_key
from linkwise.columns.inside import names_inside
from linkwise.columns.sort_keys import By, Descending, Nulls, SortKey, sort_keys_of
from linkwise.interop.pandas_frames import cannot_convert, told_of

Contents: TypeAlias = "pa.Table | Array"

FRAMES = ("pandas", "cudf")
"""Libraries whose frames and series take rows by number."""

ONE_COLUMN = ""
"""The name of the only column in a table that stands for data without columns."""


def _same(contents: Any) -> Any:
    return contents


@dataclass(frozen=True)
class Held:
    """Data to work on, and how to convert results back.

    ``give_back`` makes the result from contents of this kind. If ``take`` is set, rows are taken from the original by
    number instead, and the contents are only the keys.
    """

    contents: Contents
    give_back: Callable[[Any], Any] = _same
    take: Callable[[Array], Any] | None = None
    labels: list[Any] | None = None
    """The labels of all columns, if the contents have only the requested ones; any objects, as in pandas."""

    def keys(self, by: By, descending: Descending, nulls: Nulls, *, by_default_all: bool = False) -> list[SortKey]:
        """The sort keys: the columns that are named (or all), or the values of data without columns."""
        columns = [ONE_COLUMN] if isinstance(self.contents, np.ndarray) else self.contents.column_names
        if columns == [ONE_COLUMN]:
            if by is not None and (isinstance(self.contents, np.ndarray) or by not in (ONE_COLUMN, [ONE_COLUMN])):
                raise UsageError("by= is for tables; an array is sorted by its values")
            by = ONE_COLUMN
        elif by is None and by_default_all:
            by = columns
        elif self.labels is not None:  # the contents are exactly the columns that it names
            if by is None:
                raise UsageError(f"by= must name a column: {', '.join(map(repr, self.labels))}")
            by = [str(_number_of(label, self.labels)) for label in labels_named(by, self.labels)]
        inside = () if isinstance(self.contents, np.ndarray) else names_inside(self.contents.schema)
        keys = sort_keys_of(columns, by, descending, nulls, inside=inside)
        if self.labels is not None:  # so that errors name the column by its label, not its number
            for key in keys:
                check_key(self.labels[int(key.column)], cast(pa.Table, self.contents)[key.column].type)
        return keys


def library_of(value: object) -> str:
    """The name of the package that a value's type comes from, or is derived from."""
    packages = [base.__module__.partition(".")[0] for base in type(value).__mro__]
    return next((package for package in packages if package in ("pandas", "polars", "pyarrow")), packages[0])


def cannot_sort(value: object) -> UsageError:
    """The error for a value that is not a supported container of data."""
    advice = {
        "list": "; make it an array with numpy.asarray",
        "tuple": "; make it an array with numpy.asarray",
        "LazyFrame": "; collect() it first",
        "MaskedArray": ", whose mask would be lost; pass pyarrow.array(values.data, mask=values.mask)",
    }.get(type(value).__name__, "; NumPy arrays, and what speaks Arrow's PyCapsule interface or DLPack, can be")
    return UsageError(f"a {type(value).__name__} cannot be sorted or joined{advice}")


def native_of(values: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The native object of a Narwhals frame or series, and the conversion back; anything else as it is."""
    if library_of(values) != "narwhals" or type(values).__name__ == "LazyFrame":
        return values, _same
    narwhals = importlib.import_module("narwhals")
    return values.to_native(), lambda result: narwhals.from_native(result, allow_series=True)


def hold(values: Any, by: By = None) -> Held:
    """The data of anything that has rows in host memory. Raises ``UsageError``."""
    values, as_given = native_of(values)
    if as_given is not _same:
        held = hold(values, by)
        take = held.take
        taken = None if take is None else lambda rows: as_given(take(rows))
        return replace(held, give_back=lambda contents: as_given(held.give_back(contents)), take=taken)
    if isinstance(values, np.ma.MaskedArray):
        raise cannot_sort(values)
    if isinstance(values, np.ndarray):
        return _hold_array(values)
    if library_of(values) == "pyarrow":
        for kind, hold_kind in _of_pyarrow().items():
            if isinstance(values, kind):
                return hold_kind(values)
    if library_of(values) in FRAMES:
        return _hold_series(values, by)
    if any(hasattr(values, f"__arrow_c_{way}__") for way in ("stream", "array", "device_array")):
        return _hold_capsule(values)
    if hasattr(values, "__dlpack__"):
        return _hold_dlpack(values)
    raise cannot_sort(values)


def _hold_array(values: Array) -> Held:
    if values.dtype.kind == "O":
        raise UsageError("an array of Python objects cannot be sorted; pass pyarrow.array(values), of one type")
    if values.dtype.kind not in "SUT":
        return Held(values)
    if values.ndim != 1:
        raise UsageError(f"an array to sort has one dimension, not {values.ndim}; sort its rows or ravel it")
    # PyArrow truncates fixed-width strings at their first NUL.
    texts = values.astype(object) if values.dtype.kind == "T" or _has_nul_inside(values) else values
    try:
        column = _one_column(pa.array(texts, from_pandas=True))  # NaN may be what a StringDType has for null
    except UnicodeError as error:
        raise UsageError(f"this array has text that UTF-8 cannot hold: {error}") from None
    except (TypeError, pa.ArrowException) as error:
        raise UsageError(f"this array of text has what Arrow cannot hold: {error}") from None
    return Held(column, take=lambda rows: values[rows])


def _has_nul_inside(values: Array) -> bool:
    """Whether any text or bytes in an array contain a NUL that is followed by something else."""
    width = values.dtype.itemsize // (4 if values.dtype.kind == "U" else 1)
    if not len(values) or width <= 1:
        return False
    units = np.ascontiguousarray(values).view(np.uint32 if values.dtype.kind == "U" else np.uint8)
    units = units.reshape(len(values), width)
    return bool(((units[:, :-1] == 0) & (units[:, 1:] != 0)).any())


def _one_column(values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return pa.table({ONE_COLUMN: values})


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_one_array(column) for column in table.columns], schema=table.schema)


@cache
def _of_pyarrow() -> dict[type, Callable[[Any], Held]]:
    return {
        pa.Table: Held,
        pa.RecordBatchReader: lambda reader: Held(reader.read_all(), pa.Table.to_reader),
        pa.RecordBatch: lambda batch: Held(pa.Table.from_batches([batch]), _one_batch),
        pa.ChunkedArray: lambda column: Held(_one_column(column), lambda table: table.column(0)),
        pa.Array: lambda array: Held(_one_column(array), lambda table: _one_array(table.column(0))),
    }


def _hold_series(values: Any, by: By) -> Held:
    """Only the keys as Arrow columns; the library itself takes the rows, which preserves the index and all types."""
    if not hasattr(values, "iloc"):
        raise cannot_sort(values)
    series, labels = series_of(values, by)
    try:
        keys = {name: _column_of_series(column) for name, column in series.items()}
    except cannot_convert() as error:
        raise UsageError(f"a key of this {type(values).__name__} cannot be sorted: {told_of(error)}") from None
    return Held(pa.table(keys), take=values.take, labels=labels)


def _column_of_series(series: Any) -> pa.Array | pa.ChunkedArray:
    if library_of(series) != "cudf":
        return pa.array(series, from_pandas=True)
    if getattr(series.dtype, "ordered", False) is None:  # categories that cuDF does not convert
        series = series.cat.as_unordered()
    return series.to_arrow()


def series_of(values: Any, by: By) -> tuple[dict[str, Any], list[Any] | None]:
    """A series of pandas or cuDF; or of a frame the columns that are named, or all, and the labels of all.

    Those of a frame are named by position: labels may be any objects, and may repeat.
    """
    if values.ndim == 1:
        return {ONE_COLUMN: values}, None
    labels = list(values.columns)
    numbers = range(len(labels)) if by is None else [_number_of(label, labels) for label in labels_named(by, labels)]
    return {str(number): values.iloc[:, number] for number in numbers}, labels


def series_by_name(frame: Any) -> dict[str, Any]:
    """The columns of a frame by their labels as text."""
    series = {str(label): frame[label] for label in frame.columns}
    if len(series) < len(frame.columns):
        raise UsageError(f"this {type(frame).__name__} has columns whose labels read alike; rename them")
    return series


def labels_named(by: Any, labels: list[Any]) -> list[Any]:
    """The labels that ``by`` names: a single label, which may be a tuple, or several."""
    is_one = isinstance(by, str) or not isinstance(by, Iterable) or (isinstance(by, tuple) and by in labels)
    return [by] if is_one else list(by)


def _number_of(label: Any, labels: list[Any]) -> int:
    numbers = [number for number, other in enumerate(labels) if other == label]
    if not numbers:
        raise UsageError(f"there is no column {label!r}; there are {', '.join(map(repr, labels))}")
    if len(numbers) > 1:
        raise UsageError(f"there are several columns {label!r}; rename them, for by= cannot tell them apart")
    return numbers[0]


def _hold_capsule(values: Any) -> Held:
    is_polars = library_of(values) == "polars"
    if is_polars and "Object" in {
        str(kind) for kind in [getattr(values, "dtype", None), *getattr(values, "dtypes", [])]
    }:
        raise UsageError(
            f"this {type(values).__name__} has a column of Python objects, which Arrow cannot hold; cast it"
        )
    if hasattr(values, "__arrow_c_stream__"):
        try:
            table = pa.table(values)
        except (TypeError, pa.ArrowException):
            try:
                column = pa.chunked_array(values)
            except pa.ArrowException as error:
                raise UsageError(f"this {type(values).__name__} cannot be read through Arrow: {error}") from None
            if is_polars:
                return Held(_one_column(column), lambda t: type(values)(values.name, t.column(0), dtype=values.dtype))
            return Held(_one_column(column), lambda t: t.column(0))
        if is_polars and hasattr(values, "dtype"):  # a series of structs
            return Held(table, lambda rows: _polars_frame(type(values), rows).alias(values.name))
        return Held(table, partial(_polars_frame, type(values)) if is_polars else _same)
    array = pa.array(values)
    if pa.types.is_struct(array.type):
        return Held(pa.Table.from_batches([pa.RecordBatch.from_struct_array(array)]), _one_batch)
    return Held(_one_column(array), lambda table: _one_array(table.column(0)))


def _polars_frame(kind: Any, table: pa.Table) -> Any:
    """A frame of Polars, which misreads arrays of lists of one size that it has to slice to align their chunks."""
    is_aligned = len({tuple(map(len, column.chunks)) for column in table.columns}) <= 1
    has_such_lists = any(map(pa.types.is_fixed_size_list, table.schema.types))
    return kind(table.combine_chunks() if has_such_lists and not is_aligned else table)


def _hold_dlpack(values: Any) -> Held:
    try:
        array = np.from_dlpack(values)
    except (BufferError, RuntimeError, TypeError) as error:
        raise UsageError(f"a {type(values).__name__} cannot be read through DLPack: {error}") from None
    return Held(array, lambda result: _from_dlpack(values, result))


def _from_dlpack(like: Any, result: Array) -> Any:
    namespace = like.__array_namespace__() if hasattr(like, "__array_namespace__") else None
    library = namespace or importlib.import_module(library_of(like))
    return cast(Any, library).from_dlpack(result) if hasattr(library, "from_dlpack") else result


def is_frame(values: Any) -> bool:
    """Whether it is a pandas frame."""
    return library_of(values) == "pandas" and getattr(values, "ndim", 0) == 2


def is_cudf_frame(values: Any) -> bool:
    """Whether it is a frame of cuDF."""
    return library_of(values) == "cudf" and getattr(values, "ndim", 0) == 2


def labels_of(values: Any) -> dict[str, Any]:
    """The column labels of a frame that are not text, by their Arrow names; none for other tables."""
    if not is_frame(values) and not is_cudf_frame(values):
        return {}
    return {str(label): label for label in values.columns if not isinstance(label, str)}


def hold_table(values: Any) -> tuple[pa.Table, Callable[[pa.Table], Any]]:
    """All columns of a table, and the conversion back. Raises ``UsageError`` for what is not a table."""
    if is_frame(values):
        try:
            return pa.Table.from_pandas(values, preserve_index=False), pa.Table.to_pandas
        except cannot_convert() as error:
            raise UsageError(f"this DataFrame has a column that Arrow cannot hold: {told_of(error)}") from None
    if is_cudf_frame(values):
        columns = {name: _column_of_series(series) for name, series in series_by_name(values).items()}
        return pa.table(columns), type(values).from_arrow
    held = hold(values)
    if isinstance(held.contents, np.ndarray) or held.contents.column_names == [ONE_COLUMN]:
        raise UsageError(f"a {type(values).__name__} is no table; join_indices takes keys alone")
    return held.contents, held.give_back
