"""The rows of a join, assembled from the rows of both sides."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise._typing import Rows
from linkwise.columns.gather import gather_columns, gather_rows
from linkwise.interop.pandas_frames import SOURCE
from linkwise.joining.type_promotion import in_one_type
from linkwise.runtime.execution import ExecutionOptions

_PANDAS = b"pandas"


@dataclass(frozen=True)
class KeyPairs:
    """The pairs of key columns, and whether each pair is a single column in the result."""

    pairs: list[tuple[str, str]]
    are_one: bool
    inside: tuple[Collection[str], Collection[str]] = ((), ())
    """The keys of each side that are struct fields: columns of the joined tables, but not of the result."""

    def shown(self, schema: pa.Schema, side: int) -> list[int]:
        """The positions of a side's columns that are not such keys."""
        return [at for at, name in enumerate(schema.names) if name not in self.inside[side]]

    @property
    def merged(self) -> dict[str, str]:
        """The pairs that are a single column in the result; struct fields stay in their structs."""
        left, right = self.inside
        return {one: other for one, other in self.pairs if self.are_one and one not in left and other not in right}


class JoinedRows:
    """Assembles the rows of a join from those of two sides. Raises ``UsageError`` if names collide."""

    def __init__(
        self, left: pa.Schema, right: pa.Schema, keys: KeyPairs, how: str, suffix: str, execution: ExecutionOptions
    ) -> None:
        self._keys, self._how, self._execution = keys, how, execution
        self._names = _right_names(left, right, keys, suffix) if how not in ("semi", "anti") else {}

    def schema(self, left: pa.Table, right: pa.Table) -> pa.Schema:
        """The result's schema: that of the join of no rows."""
        no_rows = np.empty(0, np.int64)
        return self.gathered(left.slice(0, 0), right.slice(0, 0), no_rows, no_rows).schema

    def gathered(self, left: pa.Table, right: pa.Table, left_rows: Rows | None, right_rows: Rows | None) -> pa.Table:
        """Gather result rows by row numbers of both sides: -1 for a missing row, ``None`` for all rows in order."""
        if self._keys.inside[0]:
            left = left.select(self._keys.shown(left.schema, 0))
        if self._how in ("semi", "anti"):
            return left if left_rows is None else gather_rows(left, left_rows, self._execution)
        fields, made = list(left.schema), self._rows_of(left.columns, left_rows)
        merged = self._keys.merged
        if merged and self._how in ("right", "full"):  # unmatched right rows supply their own key
            assert left_rows is not None and right_rows is not None
            rows = np.where(left_rows >= 0, left_rows, left.num_rows + right_rows)
            for name in merged:
                at = left.column_names.index(name)
                both = in_one_type(left[name], right[name], (name, name))
                made[at] = gather_columns([both], rows, self._execution)[0]
                known = fields[at].metadata
                fields[at] = fields[at].with_type(both.type)
                # Polars' metadata about a column's categories may describe one side only.
                if pa.types.is_dictionary(both.type) and known != right.schema.field(name).metadata:
                    of_pandas = {name: told for name, told in (known or {}).items() if name == SOURCE}
                    fields[at] = fields[at].with_metadata(of_pandas)
        of_right = [right.schema.get_field_index(name) for name in self._names]
        made += self._rows_of([right.column(at) for at in of_right], right_rows)
        fields += [right.schema.field(at).with_name(self._names[right.schema.field(at).name]) for at in of_right]
        metadata = _with_pandas_types(left.schema.metadata, right.schema.metadata, self._names)
        schema = pa.schema([field.with_nullable(True) for field in fields], metadata)
        return pa.table(made, schema=schema)

    def _rows_of(self, columns: list[pa.ChunkedArray], rows: Rows | None) -> list[pa.ChunkedArray]:
        return columns if rows is None else gather_columns(columns, rows, self._execution)


def _with_pandas_types(
    left: dict[bytes, bytes] | None, right: dict[bytes, bytes] | None, names: dict[str, str]
) -> dict[bytes, bytes] | None:
    """The left table's metadata; if both tables are from pandas, with the pandas types of the right columns added."""
    if not left or not right or _PANDAS not in left or _PANDAS not in right:
        return left
    try:
        told, of_right = json.loads(left[_PANDAS]), json.loads(right[_PANDAS])
        told["columns"] += [
            {**column, "name": names[column["name"]], "field_name": names[column["name"]]}
            for column in of_right["columns"]
            if column["name"] in names
        ]
        return {**left, _PANDAS: json.dumps(told).encode()}
    except (ValueError, KeyError, TypeError, RecursionError):  # damaged, and not needed
        return {name: value for name, value in left.items() if name != _PANDAS}


def _right_names(left: pa.Schema, right: pa.Schema, keys: KeyPairs, suffix: str) -> dict[str, str]:
    """The names in the result, by their own names, of the right table's columns that appear in it."""
    if len(set(right.names)) < len(right.names):
        raise UsageError("the right table has several columns of one name; rename them")
    once = {*keys.merged.values(), *keys.inside[1]}
    of_left = [left.names[at] for at in keys.shown(left, 0)]
    taken = set(of_left)
    if not isinstance(suffix, str):
        raise UsageError(f"suffix is text, as '_right', not {suffix!r}")
    names = {name: name + suffix if name in taken else name for name in right.names if name not in once}
    everything = [*of_left, *names.values()]
    for name in names.values():
        if everything.count(name) > 1:
            raise UsageError(f"the result would have several columns '{name}'; choose another suffix=")
    return names
