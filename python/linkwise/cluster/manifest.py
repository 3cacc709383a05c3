"""The manifest of a result directory: its files in order, their numbers of rows, and their first and last keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from linkwise.cluster.work.stages import PartitionFacts
from linkwise.columns.row_checksum import RowChecksum
from linkwise.columns.sort_keys import SortKey

NAME = "_manifest.json"
"""Its file name; files whose names begin with an underscore are not read as part of a directory's table."""


def manifest(partitions: Sequence[PartitionFacts], keys: Sequence[SortKey]) -> dict[str, Any]:
    """The manifest as plain values."""
    received = RowChecksum()
    for partition in partitions:
        for of_side in partition.received:
            received.add_value(of_side)
    return {
        "format": "linkwise manifest 1",
        "keys": [{"column": key.column, "descending": key.descending, "nulls": key.nulls} for key in keys],
        "rows": sum(partition.rows for partition in partitions),
        "bytes": sum(partition.size for partition in partitions),
        "checksum_of_sources": f"{received.value[0]:016x}",
        "files": [
            {"name": partition.name, "rows": partition.rows, "bytes": partition.size, **_ends(partition.ends)}
            for partition in partitions
        ],
    }


def _ends(ends: pa.Table | None) -> dict[str, list[Any]]:
    if ends is None:
        return {}
    return {name: [_plain(column[at]) for column in ends.columns] for name, at in (("first", 0), ("last", -1))}


def _plain(value: pa.Scalar) -> Any:
    """A value for JSON: a number, text, or bytes as hexadecimal digits."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return value.as_py()
    if pa.types.is_floating(kind):
        number = float(value.as_py())
        return number if number - number == 0 else str(number)  # JSON has neither infinity nor NaN
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return value.as_py().hex()
    try:
        return str(value.cast(pa.string()).as_py())
    except (pa.ArrowException, ValueError):  # a time that Python cannot represent, or text that is not Unicode
        whole = pa.int64() if pa.types.is_temporal(kind) else pa.binary()
        plain = value.cast(whole).as_py()
        return plain.hex() if isinstance(plain, bytes) else plain
