"""Columns of dictionaries, runs and extension types as plain values."""

from __future__ import annotations

from linkwise._arrow import pa
from linkwise.columns.dictionaries import without_dictionary
from linkwise.columns.take import plain_of_runs

KEY_TYPES = (
    "bool, integers, floats, decimals, dates, times, timestamps, durations, strings, bytes, and dictionaries of these"
)


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Plain values instead of dictionaries, runs and extensions."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return decoded(pa.chunked_array([chunk.storage for chunk in column.chunks], type=kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        return decoded(pa.chunked_array([plain_of_runs(c) for c in column.chunks], type=kind.value_type))
    return decoded(without_dictionary(column)) if pa.types.is_dictionary(kind) else column
