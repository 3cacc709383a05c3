"""Arrow tables joined by the matches of their keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise._typing import Rows
from linkwise.columns.gather import gather_columns, gather_rows
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.sort_keys import listed
from linkwise.joining.host_join import GpuMatches
from linkwise.joining.matches import Matches
from linkwise.joining.matching import Columns, How, Order, Presorted, match
from linkwise.joining.type_promotion import in_one_type
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.host_memory import check_rows_fit

_PANDAS = b"pandas"
_HOWS = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True)
class KeyPairs:
    """The columns whose values must be equal, and whether a pair comes as one column in the result."""

    pairs: list[tuple[str, str]]
    are_one: bool


def check_how(how: str) -> None:
    """Raise ``UsageError`` unless it is a join."""
    if how not in _HOWS:
        raise UsageError(f"there is no join {how!r}; how= is {', '.join(_HOWS[:-1])} or {_HOWS[-1]}")


def key_pairs(
    left_columns: Sequence[str], right_columns: Sequence[str], on: Columns, left_on: Columns, right_on: Columns
) -> KeyPairs:
    """What the arguments say. Raises ``UsageError``."""
    if (on is None) == (left_on is None and right_on is None):
        raise UsageError("name the columns to join by: on=, or left_on= and right_on=")
    lefts, rights = (listed(on), listed(on)) if on is not None else (listed(left_on), listed(right_on))
    if on is not None and not lefts:
        raise UsageError("on= names no column; name one at least")
    if len(lefts) != len(rights) or not lefts:
        raise UsageError(f"left_on= has {len(lefts)} columns and right_on= {len(rights)}; they go in pairs")
    for side, names, there_are in (("left", lefts, left_columns), ("right", rights, right_columns)):
        for name in names:
            if list(there_are).count(name) != 1:
                told = ", ".join(map(repr, there_are))
                raise UsageError(f"the {side} table has not one column '{name}'; it has {told}")
    return KeyPairs(list(zip(lefts, rights, strict=True)), on is not None)


def _check_validate(validate: str) -> None:
    if validate not in ("1:1", "1:m", "m:1", "m:m"):
        raise UsageError(f"validate is '1:1', '1:m', 'm:1' or 'm:m', not {validate!r}")


def _validate(found: Matches, validate: str) -> None:
    for side, promised in (("left", validate[0] == "1"), ("right", validate[2] == "1")):
        if promised and not (found.left_is_unique if side == "left" else found.right_is_unique):
            raise UsageError(f"a key occurs more than once on the {side}, which validate='{validate}' rules out")


def _found(
    left: pa.Table,
    right: pa.Table,
    keys: KeyPairs,
    execution: ExecutionOptions,
    *,
    nulls_equal: bool,
    presorted: Presorted,
    order: Order = None,
) -> Matches:
    sides = [left[name] for name, _ in keys.pairs], [right[name] for _, name in keys.pairs]
    return match(sides, keys.pairs, execution, nulls_equal=nulls_equal, presorted=presorted, order=order)


def count_matches(
    left: pa.Table,
    right: pa.Table,
    keys: KeyPairs,
    execution: ExecutionOptions,
    how: How,
    *,
    nulls_equal: bool,
    presorted: Presorted,
    validate: str,
) -> int:
    """How many rows the join of two tables has."""
    _check_validate(validate)
    found = _found(left, right, keys, execution, nulls_equal=nulls_equal, presorted=presorted)
    _validate(found, validate)
    return int(found.count(how))


class TableJoin:
    """The join of two tables, ready to be counted or gathered; see ``linkwise.join``."""

    def __init__(
        self, left: pa.Table, right: pa.Table, keys: KeyPairs, execution: ExecutionOptions, how: How, *, suffix: str,
        nulls_equal: bool, validate: str, presorted: Presorted = False, order: Order = None,
    ) -> None:  # fmt: skip
        self._left, self._right, self._keys, self._how, self._execution = left, right, keys, how, execution
        self._names = _right_names(left, right, keys, suffix) if how not in ("semi", "anti") else {}
        _check_validate(validate)
        self._found = _found(left, right, keys, execution, nulls_equal=nulls_equal, presorted=presorted, order=order)
        _validate(self._found, validate)

    @property
    def row_bytes(self) -> int:
        """About how much memory a row of the result takes, with what numbers it."""
        return 16 + int(sum(bytes_of(side) // max(side.num_rows, 1) + 1 for side in (self._left, self._right)))

    def count(self) -> int:
        """How many rows there are."""
        return int(self._found.count(self._how))

    def table(self) -> pa.Table:
        """All of them. Raises ``UsageError`` if they are more than memory holds."""
        if not isinstance(self._found, GpuMatches):  # the cores know the number of rows before it makes them
            check_rows_fit(self.count(), self.row_bytes)
        left_rows, right_rows = self._found.rows_to_gather(self._how)
        rows = self._left.num_rows if left_rows is None else len(left_rows)
        check_rows_fit(rows, self.row_bytes - 16)
        return self._gathered(left_rows, right_rows)

    def windows(self, rows: int) -> Iterator[pa.Table]:
        """So many at a time."""
        for left_rows, right_rows in self._found.windows(self._how, rows):
            yield self._gathered(left_rows, right_rows)

    def _gathered(self, left_rows: Rows | None, right_rows: Rows | None) -> pa.Table:
        """Rows of both sides; ``None`` for every row, in its order."""
        left, right, keys = self._left, self._right, self._keys
        if self._how in ("semi", "anti"):
            return left if left_rows is None else gather_rows(left, left_rows, self._execution)
        fields, made = list(left.schema), self._rows_of(left.columns, left_rows)
        if keys.are_one and self._how in ("right", "full"):  # rows that only the right side has bring their key along
            assert left_rows is not None and right_rows is not None
            rows = np.where(left_rows >= 0, left_rows, left.num_rows + right_rows)
            for name, _ in keys.pairs:
                at = left.column_names.index(name)
                both = in_one_type(left[name], right[name], (name, name))
                made[at] = gather_columns([both], rows, self._execution)[0]
                known = fields[at].metadata
                fields[at] = fields[at].with_type(both.type)
                # What Polars notes of a column's categories may be of one side.
                if pa.types.is_dictionary(both.type) and known != right.schema.field(name).metadata:
                    fields[at] = fields[at].remove_metadata()
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
    """The left table's metadata; where both come from pandas, with what it says of the right columns' types."""
    if not left or not right or _PANDAS not in left or _PANDAS not in right:
        return left
    told, of_right = json.loads(left[_PANDAS]), json.loads(right[_PANDAS])
    told["columns"] += [
        {**column, "name": names[column["name"]], "field_name": names[column["name"]]}
        for column in of_right["columns"]
        if column["name"] in names
    ]
    return {**left, _PANDAS: json.dumps(told).encode()}


def _right_names(left: pa.Table, right: pa.Table, keys: KeyPairs, suffix: str) -> dict[str, str]:
    """The names in the result of the right table's columns that come into it."""
    if len(set(right.column_names)) < right.num_columns:
        raise UsageError("the right table has several columns of one name; rename them")
    once = {name for _, name in keys.pairs} if keys.are_one else set()
    taken = set(left.column_names)
    if not isinstance(suffix, str):
        raise UsageError(f"suffix is text, as '_right', not {suffix!r}")
    names = {name: name + suffix if name in taken else name for name in right.column_names if name not in once}
    everything = [*left.column_names, *names.values()]
    for name in names.values():
        if everything.count(name) > 1:
            raise UsageError(f"the result would have several columns '{name}'; choose another suffix=")
    return names
