"""What a directory of files says of itself: which files, in which order, with which rows, from where to where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from linkwise.cluster.stages import PartitionFacts
from linkwise.columns.row_checksum import RowChecksum
from linkwise.columns.sort_keys import SortKey

NAME = "_manifest.json"
"""Of its file: what begins so is no part of a directory's table."""


def manifest(partitions: Sequence[PartitionFacts], keys: Sequence[SortKey]) -> dict[str, Any]:
    """As plain values."""
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
    return {name: [_plain(column[at].as_py()) for column in ends.columns] for name, at in (("first", 0), ("last", -1))}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and value - value != 0:  # which JSON does not have
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
