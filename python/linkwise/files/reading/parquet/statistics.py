"""What the statistics of a Parquet file's row groups tell."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Bounds = Mapping[int, tuple[int, int]]
"""The least and the greatest value in row groups, as integers in the column's unit."""

_SMALL_DICTIONARY = 1 << 14  # bytes, compressed
_INDEX_BYTES = 1.5  # per value at most, on average
_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_BITS = {"INT32": 32, "INT64": 64}


def _place_of(metadata: pq.FileMetaData, column: str) -> int | None:
    """The number of a column; ``None`` if it is nested, or not the only one of its name."""
    paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    return paths.index(column) if paths.count(column) == 1 else None


def _told(metadata: pq.FileMetaData, group: int, at: int) -> pq.Statistics | None:
    """What a column chunk tells; nothing if it is of another type than its column: PyArrow would end the process."""
    chunk = metadata.row_group(group).column(at)
    return chunk.statistics if chunk.physical_type == metadata.schema.column(at).physical_type else None


def groups_with(metadata: pq.FileMetaData, column: str, least: Any, greatest: Any, groups: Sequence[int]) -> list[int]:
    """Those row groups that may have values of a column from ``least`` to ``greatest``."""
    at = _place_of(metadata, column)

    def may_hold(group: int) -> bool:
        told = None if at is None else _told(metadata, group, at)
        try:
            return told is None or not told.has_min_max or not bool(told.max < least or told.min > greatest)
        except (TypeError, ValueError, NotImplementedError):  # values that Python cannot represent or compare
            return True

    return [group for group in groups if may_hold(group)]


def strings_with_few_values(metadata: pq.FileMetaData, names: Collection[str], groups: Sequence[int]) -> list[str]:
    """Those string and binary columns with few distinct values, by the dictionaries of these row groups."""
    columns = map(metadata.schema.column, range(metadata.num_columns))
    places = {column.path: at for at, column in enumerate(columns) if column.physical_type == "BYTE_ARRAY"}

    def has_few(group: int, at: int) -> bool:
        chunk = metadata.row_group(group).column(at)
        if not chunk.has_dictionary_page or not chunk.dictionary_page_offset:
            return False
        # Pages without the dictionary, for values that it had no room for, take at least the four bytes of a length.
        is_small = chunk.data_page_offset - chunk.dictionary_page_offset < _SMALL_DICTIONARY
        return bool(is_small and chunk.total_uncompressed_size < _SMALL_DICTIONARY + _INDEX_BYTES * chunk.num_values)

    return [name for name in names if name in places and all(has_few(group, places[name]) for group in groups)]


def integer_bounds(metadata: pq.FileMetaData, column: str, kind: pa.DataType, groups: Sequence[int]) -> Bounds:
    """The bounds of a column of this type, of integers, dates or times, in those row groups without nulls that tell."""
    at = _place_of(metadata, column)
    if at is None:
        return {}
    described = metadata.schema.column(at)
    bits = _BITS.get(described.physical_type)
    if bits is None or not has_unit_of_file(kind, json.loads(described.logical_type.to_json())):
        return {}
    low = 0 if pa.types.is_unsigned_integer(kind) else -(1 << (bits - 1))  # raw values are signed
    bounds = {}
    for group in groups:
        told = _told(metadata, group, at)
        if told is not None and told.has_min_max and told.has_null_count and told.null_count == 0:
            least, greatest = ((raw - low) % (1 << bits) + low for raw in (told.min_raw, told.max_raw))
            bounds[group] = (least, greatest)
    return bounds


def has_unit_of_file(kind: pa.DataType, logical: Mapping[str, Any]) -> bool:
    """Whether the file's integers, of this logical type as JSON, are the values of this type."""
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return bool(_UNITS.get(str(logical.get("timeUnit"))) == kind.unit)
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_duration(kind))


def integer_of(value: pa.Scalar) -> int | None:
    """A value of such a column as an integer in its unit; ``None`` for null and for values of other types."""
    kind = value.type
    if not value.is_valid or not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)) or pa.types.is_date64(kind):
        return None
    return int(value.as_py() if pa.types.is_integer(kind) else value.value)


def is_clustered(bounds: Bounds, groups: Sequence[int]) -> bool:
    """Whether values that are close are in few of the row groups."""
    if len(bounds) < len(groups) or len(groups) < 2:
        return False
    all_of_them = list(chain(*bounds.values()))
    return sum(greatest - least for least, greatest in bounds.values()) <= 2 * (max(all_of_them) - min(all_of_them))
