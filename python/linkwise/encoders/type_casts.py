"""Casts tables to types that a file format has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from linkwise._typing import Format
from linkwise.columns.decode import decoded
from linkwise.columns.take import without_view


def writable_type(kind: pa.DataType, file_format: Format) -> pa.DataType:
    """The type to write instead of ``kind``: the same, unless the format lacks it."""
    if file_format not in ("csv", "tsv", "jsonl", "parquet"):
        return kind
    is_text = file_format != "parquet"
    if pa.types.is_run_end_encoded(kind) or (is_text and isinstance(kind, pa.BaseExtensionType)):
        plain = kind.value_type if pa.types.is_run_end_encoded(kind) else kind.storage_type
        return writable_type(plain, file_format)
    if pa.types.is_dictionary(kind):
        values = writable_type(kind.value_type, file_format)
        return kind if values == kind.value_type else pa.dictionary(kind.index_type, values, kind.ordered)
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return without_view(kind) if is_view else kind


def writable_schema(schema: pa.Schema, file_format: Format) -> pa.Schema:
    """The schema with each type replaced by its ``writable_type``."""
    fields = [field.with_type(writable_type(field.type, file_format)) for field in schema]
    return pa.schema(fields, schema.metadata)


def with_views(schema: pa.Schema, original: pa.Schema) -> pa.Schema:
    """A schema that ``writable_schema`` made, with the views that the original has."""
    fields = [
        theirs if pa.types.is_string_view(theirs.type) or pa.types.is_binary_view(theirs.type) else ours
        for ours, theirs in zip(schema, original, strict=True)
    ]
    return pa.schema(fields, schema.metadata)


def writable(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table cast to a schema that ``writable_schema`` made for it."""
    if table.schema.types == schema.types or not table.num_columns:
        return table
    columns = [_as(column, field.type) for column, field in zip(table.columns, schema, strict=True)]
    return pa.table(columns, schema=schema)


def _as(column: pa.ChunkedArray, kind: Any) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if not pa.types.is_dictionary(column.type):
        return decoded(column).cast(kind)
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(kind.value_type), ordered=kind.ordered)
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, type=kind)
