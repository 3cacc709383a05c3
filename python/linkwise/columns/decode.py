"""Dictionary, run-end encoded and extension columns as plain values."""

from __future__ import annotations

from linkwise import _core
from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise.columns.dictionaries import without_dictionary
from linkwise.columns.take import plain_of_runs

KEY_TYPES = (
    "bool, integers, floats, decimals, dates, times, timestamps, durations, strings, bytes, and dictionaries of these"
)


def check_key(name: object, kind: pa.DataType) -> None:
    """Raise ``UsageError`` if a column of that type has no order."""
    if not _core.can_be_key(decoded(pa.chunked_array([], kind)).type):
        raise UsageError(f"column '{name}' of type {kind} cannot be a key; {KEY_TYPES} can")


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with plain values instead of dictionaries, run-end encoding and extension types."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return decoded(pa.chunked_array([chunk.storage for chunk in column.chunks], type=kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        return decoded(pa.chunked_array([plain_of_runs(c) for c in column.chunks], type=kind.value_type))
    return decoded(without_dictionary(column)) if pa.types.is_dictionary(kind) else column
