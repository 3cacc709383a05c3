"""Finds matching rows by their key columns, on the GPUs or on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linkwise import _core
from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise.columns.decode import decoded
from linkwise.columns.key_types import plain_array
from linkwise.columns.sort_keys import SortKey
from linkwise.exceptions import FallbackWarning, warn_caller
from linkwise.interop.containers import ONE_COLUMN, hold
from linkwise.joining.array_keys import arrow_keys, times_as_integers
from linkwise.joining.hash_join import HashMatches
from linkwise.joining.host_join import GpuMatches, check_can_be_pinned, leaves_to_gpus, may_hash
from linkwise.joining.join_check import CheckedMatches
from linkwise.joining.key_bits import is_one_word, without_nulls
from linkwise.joining.matches import HostMatches, Matches, MatchesByLeft
from linkwise.joining.null_keys import MatchesBesideNulls
from linkwise.joining.type_promotion import together
from linkwise.runtime.execution import ExecutionOptions
from linkwise.sorting.check import first_out_of_order
from linkwise.sorting.row_keys import RowKeys

How = Literal["inner", "left", "right", "full", "semi", "anti"]
Columns = str | Sequence[str] | None
Validate = Literal["1:1", "1:m", "m:1", "m:m"]
Order = Literal["key", "left"] | None
Presorted = bool | Literal["neither", "left", "right", "both"]


def matches_of_keys(
    left: Any, right: Any, execution: ExecutionOptions, *, nulls_equal: bool, presorted: Presorted, order: Order = None
) -> Matches:
    """The matches of two arrays, columns or tables of keys; see ``join_indices``."""
    sides = times_as_integers(hold(left).contents, hold(right).contents)

    def of_columns(execution: ExecutionOptions, *, on_gpus: bool = True) -> Matches:
        columns = _key_columns(sides[0]), _key_columns(sides[1])
        if len(columns[0]) != len(columns[1]):
            raise UsageError(
                f"there are {len(columns[0])} columns of keys on the left and {len(columns[1])} on the right"
            )
        names = [("left", "right")] * len(columns[0])
        return match(
            columns, names, execution, nulls_equal=nulls_equal, presorted=presorted, order=order, on_gpus=on_gpus
        )

    def checked(found: Matches) -> Matches:
        if not execution.verify_all:
            return found
        columns = _key_columns(sides[0]), _key_columns(sides[1])
        return CheckedMatches(found, columns, [("left", "right")] * len(columns[0]), nulls_equal=nulls_equal)

    if all(isinstance(side, np.ndarray) and side.dtype.kind in "iu" for side in sides):
        a, b = (plain_array(side) for side in sides)
        if a.dtype == b.dtype and GpuMatches.can(a, b, execution):
            # Joined in place: pinned arrays are read at the speed of the links.
            promised = sides_of(presorted)
            for name, side, is_promised in zip(("left", "right"), (a, b), promised, strict=True):
                row = first_out_of_order(side, [SortKey(ONE_COLUMN)]) if is_promised else None
                if row is not None:
                    raise UsageError(not_presorted(name, row))
            on_gpus = GpuMatches(a, b, execution, lambda r: of_columns(r, on_gpus=False), promised)
            return checked(MatchesByLeft(on_gpus) if order == "left" else on_gpus)
    return checked(of_columns(execution))


def _key_columns(contents: Any) -> list[pa.ChunkedArray]:
    if isinstance(contents, np.ndarray):
        return [pa.chunked_array([arrow_keys(plain_array(contents))])]
    if not contents.num_columns:
        raise UsageError("a table without columns has no keys")
    return list(contents.columns)


def match(
    sides: tuple[list[pa.ChunkedArray], list[pa.ChunkedArray]],
    names: Sequence[tuple[str, str]],
    execution: ExecutionOptions,
    *,
    nulls_equal: bool,
    presorted: Presorted,
    order: Order = None,
    on_gpus: bool = True,
) -> Matches:
    """The matches of two sides by their key columns, paired by position; ``names`` are for messages."""
    check_order(order)
    columns = [together(*both) for both in zip(*sides, names, strict=True)]
    left_rows = len(sides[0][0])
    hashed = _by_bits(columns, left_rows, execution, order, nulls_equal=nulls_equal, presorted=presorted)
    if hashed is not None:
        return hashed
    numbers = [str(number) for number in range(len(columns))]
    table, by = pa.table(columns, numbers), [SortKey(number) for number in numbers]
    keys = RowKeys(table, by)
    is_sorted = _are_sorted(table, left_rows, [pa.table(side, numbers) for side in sides], by, sides_of(presorted))

    def on_cores(execution: ExecutionOptions) -> Matches:
        if order != "key" and may_hash(execution):
            valid = None if nulls_equal else _without_nulls(columns)
            hashed = HashMatches.of(keys, left_rows, valid, is_by_left=order == "left")
            if hashed is not None:
                return hashed
        merged = keys.merged(left_rows) if all(is_sorted) else None
        rows, in_order = merged if merged is not None else keys.order_and_words(execution)[:2]
        return HostMatches(_core.Matches(keys.core, in_order, rows, left_rows, nulls_equal))

    found = _match(keys, columns, left_rows, execution, on_cores, is_sorted, nulls_equal=nulls_equal, on_gpus=on_gpus)
    return found if order != "left" or isinstance(found, HashMatches) else MatchesByLeft(found)


def _by_bits(
    columns: Sequence[pa.ChunkedArray], left_rows: int, execution: ExecutionOptions, order: Order, *, nulls_equal: bool,
    presorted: Presorted,
) -> HashMatches | None:  # fmt: skip
    """A CPU hash join by the bits of a single integer or time column; ``None`` if it does not apply."""
    kind, rows = columns[0].type, len(columns[0])
    is_integer = len(columns) == 1 and is_one_word(kind) and not pa.types.is_floating(kind) and not nulls_equal
    if not is_integer or order == "key" or any(sides_of(presorted)) or not may_hash(execution):
        return None
    if leaves_to_gpus(execution, left_rows, rows - left_rows):
        return None
    sides = columns[0].slice(0, left_rows), columns[0].slice(left_rows)
    return HashMatches.of_numbers(sides, is_by_left=order == "left")


def _match(
    keys: RowKeys,
    columns: Sequence[pa.ChunkedArray],
    left_rows: int,
    execution: ExecutionOptions,
    on_cores: Callable[[ExecutionOptions], Matches],
    is_sorted: tuple[bool, bool],
    *,
    nulls_equal: bool,
    on_gpus: bool,
) -> Matches:
    """Find matches on the GPUs if the keys and the options allow it, otherwise on the CPU."""
    if not keys.decided_by_word:
        check_can_be_pinned(execution, "these keys are more than 64 bits wide, so both sides are sorted together")
        return on_cores(execution)
    if not on_gpus or not leaves_to_gpus(execution, left_rows, keys.rows - left_rows):
        if on_gpus and 0 < left_rows < keys.rows:
            check_can_be_pinned(execution, f"with strategy '{execution.strategy}' the cores find the matches")
        return on_cores(execution)
    words = keys.words()
    of_sides = words[:left_rows], words[left_rows:]
    if not GpuMatches.can(*of_sides, execution):
        return on_cores(execution)
    valid = None if nulls_equal else _without_nulls(columns)
    if valid is None:
        return GpuMatches(*of_sides, execution, on_cores, is_sorted)
    valid_sides = valid[:left_rows], valid[left_rows:]
    return MatchesBesideNulls(of_sides, valid_sides, len(columns), execution, on_cores, is_sorted)


def _without_nulls(columns: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.bool_] | None:
    """Which rows have a value in every column; ``None`` for all."""
    # The null count of dictionary and run-end encoded columns omits nulls among their values.
    valid = without_nulls([decoded(column) for column in columns])
    return None if valid is None else valid.view(np.bool_)


def check_order(order: object) -> None:
    """Raise ``UsageError`` unless it is an order that rows of joins can have."""
    if order is not None and (not isinstance(order, str) or order not in ("key", "left")):
        raise UsageError(f"order is 'key', 'left' or None, not {order!r}")


def sides_of(presorted: Presorted) -> tuple[bool, bool]:
    """Which sides are declared to be sorted. Raises ``UsageError``."""
    named = {True: "both", False: "neither"}.get(presorted, presorted) if isinstance(presorted, bool) else presorted
    if named not in ("neither", "left", "right", "both"):
        raise UsageError(f"presorted is 'left', 'right', 'both', True or False, not {presorted!r}")
    return named in ("left", "both"), named in ("right", "both")


def not_presorted(side: str, row: int) -> str:
    """The message about a side that is not sorted although it was declared to be."""
    return f"the {side} side is not presorted: row {row}, counted from 0, is out of order"


def _are_sorted(
    both: pa.Table, left_rows: int, sides: Sequence[pa.Table], keys: list[SortKey], promised: tuple[bool, bool]
) -> tuple[bool, bool]:
    """Which of the sides that are declared sorted are in a join's order. Raises ``UsageError`` if one is unsorted."""
    found = [False, False]
    for at, (name, table) in enumerate((("left", both.slice(0, left_rows)), ("right", both.slice(left_rows)))):
        if not promised[at]:
            continue
        row = first_out_of_order(table, keys)
        if row is not None and first_out_of_order(sides[at], keys) is not None:
            raise UsageError(not_presorted(name, row))
        if row is not None:  # sorts place -0.0 before 0.0, but a join treats them as one key
            told = f"the {name} side is sorted, as joins compare floats: -0.0 and 0.0 stand between other keys"
            warn_caller(told, FallbackWarning)
        found[at] = row is None
    return found[0], found[1]
