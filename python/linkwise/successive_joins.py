"""Joins one after the other: each finds its rows, and the columns that no join compares are gathered at the end."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from linkwise._core import UsageError
from linkwise.gathering import gather_columns, one_array, rows_of_rows
from linkwise.gpu_joining import rows_to_gather
from linkwise.joining import matches_of_keys
from linkwise.planning import Request
from linkwise.taking import Rows

SORTING_PHASES = ("sample", "HtoD", "partition", "exchange", "sort", "borrow", "verify", "verify input")
"""Of a join's report; ``probe`` finds what matches, and the others make rows."""


@dataclass
class Shares:
    """Seconds of a query's joins: sorting both sides, finding what matches, gathering rows; and the rows of each."""

    sort: float = 0.0
    join: float = 0.0
    materialise: float = 0.0
    joins: list[tuple[int, int, int]] = field(default_factory=list)


class Relation(ABC):
    """A table, or the rows of two relations side by side; a column's rows are gathered when somebody asks for them."""

    def __init__(self, names: list[str], num_rows: int) -> None:
        self.names, self.num_rows = names, num_rows

    @abstractmethod
    def columns(self, names: list[str], request: Request, rows: Rows | None = None) -> dict[str, pa.ChunkedArray]:
        """These rows of some columns, or all rows."""

    def table(self, request: Request) -> pa.Table:
        """All columns."""
        columns = self.columns(self.names, request)
        return pa.table([columns[name] for name in self.names], self.names)


class Stored(Relation):
    """A table."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table.column_names, table.num_rows)
        self._table = table

    def columns(self, names: list[str], request: Request, rows: Rows | None = None) -> dict[str, pa.ChunkedArray]:
        """See ``Relation``."""
        stored = [self._table[name] for name in names]
        return dict(zip(names, stored if rows is None else gather_columns(stored, rows, request), strict=True))


class Joined(Relation):
    """The inner join of two relations; a right key column is left out, being the left one."""

    def __init__(self, sides: tuple[Relation, Relation], rows: tuple[Rows, Rows], right_keys: set[str]) -> None:
        left, right = sides
        super().__init__([*left.names, *(name for name in right.names if name not in right_keys)], len(rows[0]))
        if len(set(self.names)) < len(self.names):
            raise UsageError(f"the two sides have columns of one name among {', '.join(self.names)}; rename them")
        self._sides, self._rows = sides, rows

    def columns(self, names: list[str], request: Request, rows: Rows | None = None) -> dict[str, pa.ChunkedArray]:
        """See ``Relation``."""
        found: dict[str, pa.ChunkedArray] = {}
        left_names = set(self._sides[0].names)
        for side, of_side in zip(self._sides, self._rows, strict=True):
            wanted = [name for name in names if (name in left_names) == (side is self._sides[0])]
            if wanted:
                found |= side.columns(wanted, request, of_side if rows is None else rows_of_rows(of_side, rows))
        return found


def _relation(side: pa.Table | Relation) -> Relation:
    return side if isinstance(side, Relation) else Stored(side)


class Joiner:
    """Joins relations one after the other, and adds up what it took.

    What a join does not compare is gathered at the end, for the rows that are left then (late materialisation).
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self.shares = Shares()

    def join(self, left: pa.Table | Relation, right: pa.Table | Relation, *on: tuple[str, str]) -> Joined:
        """The inner join."""
        sides = _relation(left), _relation(right)
        of_left, of_right = (self._keys(side, [pair[at] for pair in on]) for at, side in enumerate(sides))
        began = time.perf_counter()
        found = matches_of_keys(of_left, of_right, self._request, nulls_equal=False, presorted=False)
        left_rows, right_rows = rows_to_gather(found, "inner")
        assert right_rows is not None
        seconds = time.perf_counter() - began
        phases: dict[str, float] = getattr(found, "phases", {})
        whole = sum(phases.values())
        sorting = sum(phases.get(name, 0.0) for name in SORTING_PHASES) / whole if whole else 1.0
        self.shares.sort += sorting * seconds
        self.shares.join += (1 - sorting) * seconds
        joined = Joined(sides, (left_rows, right_rows), {pair[1] for pair in on})
        self.shares.joins.append((sides[0].num_rows, sides[1].num_rows, joined.num_rows))
        return joined

    def table(self, joined: Relation) -> pa.Table:
        """All that has been joined."""
        began = time.perf_counter()
        table = joined.table(self._request)
        self.shares.materialise += time.perf_counter() - began
        return table

    def _keys(self, side: Relation, names: list[str]) -> Any:
        """One column without nulls as NumPy has it, so that it is joined where it lies; several as a table."""
        began = time.perf_counter()
        found = side.columns(names, self._request)
        columns = [found[name] for name in names]
        is_plain = len(columns) == 1 and pa.types.is_integer(columns[0].type) and not columns[0].null_count
        whole = one_array(columns[0]) if is_plain else None
        self.shares.materialise += time.perf_counter() - began
        return pa.table(columns, names) if whole is None else whole.to_numpy()
