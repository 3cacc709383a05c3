"""Arrow tables joined by the matches of their keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise.columns.gather_pyarrow import bytes_of
from linkwise.columns.inside import is_ambiguous
from linkwise.columns.sort_keys import listed
from linkwise.joining.host_join import GpuMatches
from linkwise.joining.joined_rows import JoinedRows, KeyPairs
from linkwise.joining.matches import Matches
from linkwise.joining.matching import Columns, How, Order, Presorted, match
from linkwise.runtime.execution import ExecutionOptions
from linkwise.runtime.host_memory import check_rows_fit

_HOWS = ("inner", "left", "right", "full", "semi", "anti")


def check_how(how: str) -> None:
    """Raise ``UsageError`` unless this is a kind of join."""
    if how not in _HOWS:
        raise UsageError(f"there is no join {how!r}; how= is {', '.join(_HOWS[:-1])} or {_HOWS[-1]}")


def key_pairs(
    left_columns: Sequence[str], right_columns: Sequence[str], on: Columns, left_on: Columns, right_on: Columns,
    inside: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> KeyPairs:  # fmt: skip
    """The key columns that the arguments name; ``inside``: the struct fields of each side. Raises ``UsageError``."""
    if (on is None) == (left_on is None and right_on is None):
        said = "name the columns to join by" if on is None else "the columns to join by are named twice"
        raise UsageError(f"{said}: give on=, or left_on= and right_on=")
    lefts, rights = (listed(on), listed(on)) if on is not None else (listed(left_on), listed(right_on))
    if on is not None and not lefts:
        raise UsageError("on= names no column; name one at least")
    if len(lefts) != len(rights) or not lefts:
        raise UsageError(f"left_on= has {len(lefts)} columns and right_on= {len(rights)}; they go in pairs")
    fields: list[list[str]] = []
    for side, names, there_are, inner in (
        ("left", lefts, left_columns, inside[0]), ("right", rights, right_columns, inside[1])
    ):  # fmt: skip
        fields.append([name for name in dict.fromkeys(names) if name not in there_are and name in inner])
        for name in names:
            if (name not in there_are and name not in fields[-1]) or is_ambiguous(name, list(there_are), inner):
                told = ", ".join(map(repr, there_are))
                several = name in there_are or name in inner
                raise UsageError(
                    f"the {side} table has {'several columns' if several else 'no column'} '{name}'; it has {told}"
                )
    return KeyPairs(list(zip(lefts, rights, strict=True)), on is not None, (fields[0], fields[1]))


def check_validate(validate: str) -> None:
    """Raise ``UsageError`` unless this is a valid value of ``validate``."""
    if validate not in ("1:1", "1:m", "m:1", "m:m"):
        raise UsageError(f"validate is '1:1', '1:m', 'm:1' or 'm:m', not {validate!r}")


def check_unique(found: Matches, validate: str) -> None:
    """Raise ``UsageError`` if a key occurs twice where that is ruled out."""
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
    check_validate(validate)
    found = _found(left, right, keys, execution, nulls_equal=nulls_equal, presorted=presorted)
    check_unique(found, validate)
    return int(found.count(how))


class TableJoin:
    """The join of two tables, ready to be counted or gathered; see ``linkwise.join``."""

    def __init__(
        self, left: pa.Table, right: pa.Table, keys: KeyPairs, execution: ExecutionOptions, how: How, *, suffix: str,
        nulls_equal: bool, validate: str, presorted: Presorted = False, order: Order = None,
    ) -> None:  # fmt: skip
        self._left, self._right, self._how = left, right, how
        self._rows = JoinedRows(left.schema, right.schema, keys, how, suffix, execution)
        check_validate(validate)
        self._found = _found(left, right, keys, execution, nulls_equal=nulls_equal, presorted=presorted, order=order)
        check_unique(self._found, validate)

    @property
    def row_bytes(self) -> int:
        """About how much memory a row of the result takes, including its row numbers."""
        return 16 + int(sum(bytes_of(side) // max(side.num_rows, 1) + 1 for side in (self._left, self._right)))

    def count(self) -> int:
        """How many rows there are."""
        return int(self._found.count(self._how))

    def table(self) -> pa.Table:
        """The whole result. Raises ``UsageError`` if it does not fit into memory."""
        if not isinstance(self._found, GpuMatches):  # the cores know the number of rows before it makes them
            check_rows_fit(self.count(), self.row_bytes)
        left_rows, right_rows = self._found.rows_to_gather(self._how)
        rows = self._left.num_rows if left_rows is None else len(left_rows)
        check_rows_fit(rows, self.row_bytes - 16)
        return self._rows.gathered(self._left, self._right, left_rows, right_rows)

    def windows(self, rows: int) -> Iterator[pa.Table]:
        """The result, ``rows`` rows at a time."""
        for left_rows, right_rows in self._found.windows(self._how, rows):
            yield self._rows.gathered(self._left, self._right, left_rows, right_rows)
