"""Arrow tables joined by the matches of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from linkwise import _core
from linkwise._core import UsageError
from linkwise.checking import first_out_of_order
from linkwise.gathering import gather_columns, gather_rows
from linkwise.gpu_joining import GpuMatches
from linkwise.join_keys import in_one_type, together
from linkwise.ordering import SortKey
from linkwise.planning import Request
from linkwise.row_order import RowKeys

How = Literal["inner", "left", "right", "full", "semi", "anti"]
Columns = str | Sequence[str] | None
Validate = Literal["1:1", "1:m", "m:1", "m:m"]

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


def _listed(columns: Columns) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns or [])


def key_pairs(
    left_columns: Sequence[str], right_columns: Sequence[str], on: Columns, left_on: Columns, right_on: Columns
) -> KeyPairs:
    """What the arguments say. Raises ``UsageError``."""
    if (on is None) == (left_on is None and right_on is None):
        raise UsageError("name the columns to join by: on=, or left_on= and right_on=")
    lefts, rights = (_listed(on), _listed(on)) if on is not None else (_listed(left_on), _listed(right_on))
    if len(lefts) != len(rights) or not lefts:
        raise UsageError(f"left_on= has {len(lefts)} columns and right_on= {len(rights)}; they go in pairs")
    for side, names, there_are in (("left", lefts, left_columns), ("right", rights, right_columns)):
        for name in names:
            if list(there_are).count(name) != 1:
                listed = ", ".join(map(repr, there_are))
                raise UsageError(f"the {side} table has not one column '{name}'; it has {listed}")
    return KeyPairs(list(zip(lefts, rights, strict=True)), on is not None)


def match(
    columns: list[pa.ChunkedArray],
    left_rows: int,
    request: Request,
    *,
    nulls_equal: bool,
    presorted: bool,
    tells_unique: bool = False,
) -> _core.Matches | GpuMatches:
    """The matches between the first ``left_rows`` rows and the others of columns that hold both sides.

    With ``tells_unique``, the result says whether keys of a side are, which the GPUs do not look at.
    """
    names = [str(number) for number in range(len(columns))]
    table, by = pa.table(columns, names), [SortKey(name) for name in names]
    if presorted:
        _check_order(table.slice(0, left_rows), by, "left")
        _check_order(table.slice(left_rows), by, "right")
    keys = RowKeys(table, by)

    def on_cores(request: Request) -> _core.Matches:
        merged = keys.merged(left_rows) if presorted else None
        rows, in_order = merged if merged is not None else keys.order_and_words(request)[:2]
        return _core.Matches(keys.core, in_order, rows, left_rows, nulls_equal)

    has_nulls = any(column.null_count for column in columns)
    if keys.core.decided_by_word and not presorted and not tells_unique and (nulls_equal or not has_nulls):
        words = keys.words()
        sides = words[:left_rows], words[left_rows:]
        if GpuMatches.can(*sides, request):
            return GpuMatches(*sides, request, lambda: on_cores(replace(request, strategy="cpu", gpus="auto")))
    return on_cores(request)


def _check_order(table: pa.Table, keys: list[SortKey], side: str) -> None:
    row = first_out_of_order(table, keys)
    if row is not None:
        raise UsageError(f"the {side} side is not presorted: row {row}, counted from 0, is out of order")


def _check_validate(validate: str) -> None:
    if validate not in ("1:1", "1:m", "m:1", "m:m"):
        raise UsageError(f"validate is '1:1', '1:m', 'm:1' or 'm:m', not {validate!r}")


def _validate(found: _core.Matches, validate: str) -> None:
    for side, promised, holds in (
        ("left", validate[0] == "1", found.left_is_unique),
        ("right", validate[2] == "1", found.right_is_unique),
    ):
        if promised and not holds:
            raise UsageError(f"a key occurs more than once on the {side}, which validate='{validate}' rules out")


def _found(
    left: pa.Table,
    right: pa.Table,
    keys: KeyPairs,
    request: Request,
    *,
    nulls_equal: bool,
    presorted: bool,
    tells_unique: bool = False,
) -> _core.Matches | GpuMatches:
    columns = [together(left[a], right[b], (a, b)) for a, b in keys.pairs]
    return match(
        columns, left.num_rows, request, nulls_equal=nulls_equal, presorted=presorted, tells_unique=tells_unique
    )


def count_matches(
    left: pa.Table,
    right: pa.Table,
    keys: KeyPairs,
    request: Request,
    how: How,
    *,
    nulls_equal: bool,
    presorted: bool,
) -> int:
    """How many rows the join of two tables has."""
    return int(_found(left, right, keys, request, nulls_equal=nulls_equal, presorted=presorted).count(how))


def join_tables(
    left: pa.Table, right: pa.Table, keys: KeyPairs, request: Request, how: How, *, suffix: str, nulls_equal: bool,
    validate: str, presorted: bool = False,
) -> pa.Table:  # fmt: skip
    """The join of two tables; see ``linkwise.join``."""
    names = _right_names(left, right, keys, suffix) if how not in ("semi", "anti") else {}
    _check_validate(validate)
    promises = validate != "m:m"
    found = _found(left, right, keys, request, nulls_equal=nulls_equal, presorted=presorted, tells_unique=promises)
    if isinstance(found, _core.Matches):
        _validate(found, validate)
    left_rows, right_rows = found.indices(how)
    if right_rows is None:
        return gather_rows(left, left_rows)
    fields, made = list(left.schema), gather_columns(left.columns, left_rows)
    if keys.are_one and how in ("right", "full"):  # rows that only the right side has bring their key along
        rows = np.where(left_rows >= 0, left_rows, left.num_rows + right_rows)
        for name, _ in keys.pairs:
            at = left.column_names.index(name)
            both = in_one_type(left[name], right[name], (name, name))
            made[at] = gather_columns([both], rows)[0]
            fields[at] = fields[at].with_type(both.type)
    of_right = [right.schema.get_field_index(name) for name in names]
    made += gather_columns([right.column(at) for at in of_right], right_rows)
    fields += [right.schema.field(at).with_name(names[right.schema.field(at).name]) for at in of_right]
    schema = pa.schema([field.with_nullable(True) for field in fields], left.schema.metadata)
    return pa.table(made, schema=schema)


def _right_names(left: pa.Table, right: pa.Table, keys: KeyPairs, suffix: str) -> dict[str, str]:
    """The names in the result of the right table's columns that come into it."""
    if len(set(right.column_names)) < right.num_columns:
        raise UsageError("the right table has several columns of one name; rename them")
    once = {name for _, name in keys.pairs} if keys.are_one else set()
    taken = set(left.column_names)
    names = {name: name + suffix if name in taken else name for name in right.column_names if name not in once}
    everything = [*left.column_names, *names.values()]
    for name in names.values():
        if everything.count(name) > 1:
            raise UsageError(f"the result would have several columns '{name}'; choose another suffix=")
    return names
