"""Decimals read as the integers that they are stored as.

A decimal of up to 18 digits is stored as an integer of its digits, but has 16 bytes as PyArrow decodes it. As integers,
it is decoded, moved and encoded several times as fast. PyArrow decodes integers where the metadata does not say that
they are decimals. Source: Apache Parquet, ``LogicalTypes.md`` and ``parquet.thrift``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linkwise import _core
from linkwise.encoders import parquet_layout as layout
from linkwise.encoders.thrift import Struct, parse, serialised

_SHORT, _LONG = 9, 18  # digits that fit into 32 and 64 bits


def integers_of(kind: pa.DataType) -> pa.DataType | None:
    """The type of the integers that Linkwise and PyArrow store for decimals of this type; ``None`` for other types."""
    if not pa.types.is_decimal(kind) or kind.precision > _LONG:
        return None
    return pa.int32() if kind.precision <= _SHORT else pa.int64()


def narrow_decimals(metadata: pq.FileMetaData, schema: pa.Schema, names: Collection[str]) -> list[str]:
    """Those columns, of unique names, that can be read as integers. ``schema`` is what PyArrow makes of the file's."""
    columns = {column.path: column for column in map(metadata.schema.column, range(metadata.num_columns))}

    def is_narrow(name: str) -> bool:
        kind = integers_of(schema.field(name).type)
        if kind is None or name not in columns:
            return False
        column = columns[name]
        if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
            return bool(0 < column.length <= kind.bit_width // 8)
        return bool(column.physical_type == f"INT{kind.bit_width}")

    return [name for name in names if is_narrow(name)]


def without_decimals(metadata: pq.FileMetaData, names: Collection[str]) -> pq.FileMetaData:
    """The metadata of a file in which these columns, which are not nested, are not said to be decimals."""
    out = pa.BufferOutputStream()
    metadata.write_metadata_file(out)
    told = bytes(out.getvalue()[len(layout.MAGIC) : -layout.TAIL])
    begin, size = parse(told, layout.SCHEMA)  # the row groups, which may be many, are kept as they are
    for element in _outer(begin[layout.SCHEMA][1][1]):
        if element[layout.NAME][1].decode(errors="surrogateescape") in names:
            for field in layout.OF_DECIMALS:
                element.pop(field, None)
    changed = serialised(begin)[:-1] + told[size:]  # without the byte that ends a struct
    return pq.read_metadata(pa.BufferReader(layout.MAGIC + layout.with_tail(changed)))


def _outer(elements: list[Struct]) -> Iterator[Struct]:
    """Of the elements of a schema, which come depth first, those of the columns themselves."""
    at = 1
    while at < len(elements):
        yield elements[at]
        left = 1
        while left:
            left += elements[at].get(layout.CHILDREN, (0, 0))[1] - 1
            at += 1


def with_integers(table: pa.Table, schema: pa.Schema, names: Collection[str]) -> pa.Table:
    """A table that was read so, with integers where it has bytes; ``schema`` tells which decimals they are."""
    for name in names:
        at = table.schema.get_field_index(name)
        if pa.types.is_fixed_size_binary(table.schema.field(at).type):
            kind = integers_of(schema.field(name).type)
            chunks = [_from_bytes(chunk, kind) for chunk in table.column(at).chunks]
            table = table.set_column(at, table.schema.field(at).with_type(kind), pa.chunked_array(chunks, kind))
    return table


def _from_bytes(values: pa.Array, kind: Any) -> pa.Array:
    width = values.type.byte_width
    validity, data = values.buffers()
    there = np.frombuffer(data or b"", np.uint8)[: (values.offset + len(values)) * width]
    numbers = _core.decode_big_endian(there, width, kind.bit_width // 8)
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(numbers)], values.null_count, values.offset)
