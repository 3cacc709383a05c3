"""Joins one after the other: each finds its rows, and the columns that no join compares are gathered at the end."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa

from linkwise._core import OutOfMemoryError, UsageError
from linkwise.gathering import gather_sides, one_array, rows_of_rows
from linkwise.gpu_columns import GpuColumns, Parts
from linkwise.gpu_joining import leaves_to_gpus, rows_to_gather, without_gpus
from linkwise.joining import matches_of_keys
from linkwise.planning import Request
from linkwise.session import FallbackWarning
from linkwise.taking import Rows

SORTING_PHASES = ("encode", "sample", "HtoD", "partition", "exchange", "sort", "borrow", "verify", "verify input")
"""Of a join's report; ``probe`` finds what matches, and the others make rows."""

_WORTH_BRINGING = 16  # a column is copied to the GPUs for so much of it, and otherwise gathered where it is


@dataclass
class Shares:
    """Seconds of a query's joins: sorting both sides, finding what matches, gathering rows; and the rows of each."""

    sort: float = 0.0
    join: float = 0.0
    materialise: float = 0.0
    device: float = 0.0  # of all that, what the clocks of the GPUs saw of the joins
    joins: list[tuple[int, int, int]] = field(default_factory=list)


class RowNumbers:
    """Numbers of a relation's rows: in host memory, or on the GPUs and fetched from there when somebody asks."""

    def __init__(self, gpus: GpuColumns, host: Rows | None, on_gpus: Parts | None = None) -> None:
        self._gpus, self._host, self.on_gpus = gpus, host, on_gpus

    @property
    def host(self) -> Rows:
        """In host memory."""
        if self._host is None:
            self.fetch([self])
        assert self._host is not None
        return self._host

    @staticmethod
    def fetch(numbers: Sequence[RowNumbers]) -> None:
        """Have them in host memory, all at once."""
        missing = [rows for rows in numbers if rows._host is None]
        if missing:
            found = missing[0]._gpus.fetch([cast(Parts, rows.on_gpus) for rows in missing])
            for rows, host in zip(missing, found, strict=True):
                rows._host = host

    def at(self, places: RowNumbers) -> RowNumbers:
        """Those at these places: on the GPUs if one of the two is there."""
        if self.on_gpus is not None or places.on_gpus is not None:
            with suppress(OutOfMemoryError):
                return RowNumbers(self._gpus, None, self._gpus.take(self.brought(), places.brought()))
        return RowNumbers(self._gpus, rows_of_rows(self.host, places.host))

    def brought(self) -> Parts:
        """On the GPUs. Raises ``OutOfMemoryError``."""
        if self.on_gpus is None:
            self.on_gpus = self._gpus.bring(self.host)
        return self.on_gpus

    def __len__(self) -> int:
        return len(self._host) if self._host is not None else sum(map(len, self.on_gpus or []))


@dataclass
class Piece:
    """Columns of a table, and which of its rows are wanted; all without."""

    names: list[str]
    stored: list[pa.ChunkedArray]
    rows: RowNumbers | None


class Relation(ABC):
    """A table, or the rows of two relations side by side; a column's rows are gathered when somebody asks for them."""

    def __init__(self, names: list[str], num_rows: int) -> None:
        self.names, self.num_rows = names, num_rows

    def columns(self, names: list[str], request: Request) -> list[pa.ChunkedArray]:
        """Some columns."""
        pieces = list(self.pieces(names))
        found = {name: column for piece in pieces for name, column in zip(piece.names, piece.stored, strict=True)}
        cut = [(piece, piece.rows) for piece in pieces if piece.rows is not None]
        RowNumbers.fetch([rows for _, rows in cut])
        gathered = gather_sides([(piece.stored, rows.host) for piece, rows in cut], request)
        for (piece, _), columns in zip(cut, gathered, strict=True):
            found |= zip(piece.names, columns, strict=True)
        return [found[name] for name in names]

    @abstractmethod
    def pieces(self, names: list[str], rows: RowNumbers | None = None) -> Iterator[Piece]:
        """Where these rows of some columns come from, or all rows."""

    @abstractmethod
    def type_of(self, name: str) -> pa.DataType:
        """The type of a column."""

    @abstractmethod
    def on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts | None:
        """These rows of a column of numbers, or all, on the GPUs; ``None`` where host memory is the better place."""

    def table(self, request: Request) -> pa.Table:
        """All columns."""
        return pa.table(self.columns(self.names, request), self.names)


class Stored(Relation):
    """A table."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table.column_names, table.num_rows)
        self._table = table

    def pieces(self, names: list[str], rows: RowNumbers | None = None) -> Iterator[Piece]:
        """See ``Relation``."""
        yield Piece(names, [self._table[name] for name in names], rows)

    def type_of(self, name: str) -> pa.DataType:
        """See ``Relation``."""
        return self._table[name].type

    def on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts | None:
        """See ``Relation``. A column of which few rows are wanted is not worth the way to the GPUs as a whole."""
        column = self._table[name]
        if column.null_count:
            return None
        if rows is not None and sum(map(len, rows)) < len(column) // _WORTH_BRINGING:
            return gpus.take_from_host(column.chunk(0).to_numpy(), rows) if column.num_chunks == 1 else None
        whole = one_array(column)
        if whole is None:
            return None
        brought = gpus.bring(whole.to_numpy())
        return brought if rows is None else gpus.take(brought, rows)


class Joined(Relation):
    """The inner join of two relations; a right key column is left out, being the left one."""

    def __init__(
        self, sides: tuple[Relation, Relation], rows: tuple[RowNumbers, RowNumbers], right_keys: set[str]
    ) -> None:
        left, right = sides
        super().__init__([*left.names, *(name for name in right.names if name not in right_keys)], len(rows[0]))
        if len(set(self.names)) < len(self.names):
            raise UsageError(f"the two sides have columns of one name among {', '.join(self.names)}; rename them")
        self._left_names = set(left.names)
        self._sides, self._rows = sides, rows

    def _number_of_side(self, name: str) -> int:
        return 0 if name in self._left_names else 1

    def pieces(self, names: list[str], rows: RowNumbers | None = None) -> Iterator[Piece]:
        """See ``Relation``."""
        for number, (side, of_side) in enumerate(zip(self._sides, self._rows, strict=True)):
            wanted = [name for name in names if self._number_of_side(name) == number]
            if wanted:
                yield from side.pieces(wanted, of_side if rows is None else of_side.at(rows))

    def type_of(self, name: str) -> pa.DataType:
        """See ``Relation``."""
        return self._sides[self._number_of_side(name)].type_of(name)

    def on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts | None:
        """See ``Relation``."""
        number = self._number_of_side(name)
        of_side = self._rows[number]
        if rows is None and of_side.on_gpus is None:
            return None
        numbers = of_side.brought()
        return self._sides[number].on_gpus(name, gpus, numbers if rows is None else gpus.take(numbers, rows))


def _can_be_packed(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether GPUs compare integers of these types as parts of one key."""
    are_alike = pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right)
    return are_alike and all(pa.types.is_integer(kind) and kind.bit_width >= 32 for kind in (left, right))


def _relation(side: pa.Table | Relation) -> Relation:
    return side if isinstance(side, Relation) else Stored(side)


class Joiner:
    """Joins relations one after the other, and adds up what it took.

    What a join does not compare is gathered at the end, for the rows that are left then (late materialisation). Where
    GPUs join, keys and numbers of rows stay there from one join to the next.
    """

    def __init__(self, request: Request) -> None:
        self._request, self._gpus = request, GpuColumns(request)
        self.shares = Shares()

    def join(self, left: pa.Table | Relation, right: pa.Table | Relation, *on: tuple[str, str]) -> Joined:
        """The inner join."""
        sides = _relation(left), _relation(right)
        rows = self._rows_on_gpus(sides, on) or self._rows_in_host_memory(sides, on)
        joined = Joined(sides, rows, {pair[1] for pair in on})
        self.shares.joins.append((sides[0].num_rows, sides[1].num_rows, joined.num_rows))
        return joined

    def table(self, joined: Relation) -> pa.Table:
        """All that has been joined."""
        began = time.perf_counter()
        table = joined.table(self._request)
        self.shares.materialise += time.perf_counter() - began
        return table

    def _rows_on_gpus(
        self, sides: tuple[Relation, Relation], on: Sequence[tuple[str, str]]
    ) -> tuple[RowNumbers, RowNumbers] | None:
        """``None`` if they are no integers that the GPUs can compare, or these cannot join them."""
        types = [(sides[0].type_of(left), sides[1].type_of(right)) for left, right in on]
        is_plain = len(types) == 1 and types[0][0] == types[0][1] and pa.types.is_integer(types[0][0])
        if not is_plain and not all(_can_be_packed(*pair) for pair in types):
            return None
        if not self._gpus.can_join(sides[0].num_rows, sides[1].num_rows):
            return None
        try:
            of_left = self._keys_on_gpus(sides[0], [left for left, _ in on])
            of_right = None if of_left is None else self._keys_on_gpus(sides[1], [right for _, right in on])
            if of_left is None or of_right is None:
                return None
            began = time.perf_counter()
            keys = (of_left[0], of_right[0]) if is_plain else self._gpus.pack(of_left, of_right)
            if keys is None:
                return None
            left, right, phases = self._gpus.join(*keys)
        except OutOfMemoryError as error:
            warnings.warn(f"{error}: the joins go on through host memory", FallbackWarning, stacklevel=3)
            return None
        self._add(phases, time.perf_counter() - began)
        return RowNumbers(self._gpus, None, left), RowNumbers(self._gpus, None, right)

    def _keys_on_gpus(self, side: Relation, names: list[str]) -> list[Parts] | None:
        """Columns, as many rows of each on a GPU."""
        began = time.perf_counter()
        keys = self._all_on_gpus(side, names)
        if keys is None and isinstance(side, Joined):  # few of its rows are left, or they are in host memory
            keys = self._brought(side.columns(names, self._request))
        seconds = time.perf_counter() - began
        if isinstance(side, Joined):
            self.shares.materialise += seconds
        else:
            self.shares.sort += seconds
        return keys

    def _all_on_gpus(self, side: Relation, names: list[str]) -> list[Parts] | None:
        keys: list[Parts] = []
        for name in names:
            key = side.on_gpus(name, self._gpus)
            if key is None:
                return None
            keys.append(key)
        return keys

    def _brought(self, columns: Iterable[pa.ChunkedArray]) -> list[Parts] | None:
        wholes = [one_array(column) for column in columns]
        if any(whole is None or whole.null_count for whole in wholes):
            return None
        return [self._gpus.bring(cast(pa.Array, whole).to_numpy()) for whole in wholes]

    def _rows_in_host_memory(
        self, sides: tuple[Relation, Relation], on: Sequence[tuple[str, str]]
    ) -> tuple[RowNumbers, RowNumbers]:
        of_left, of_right = (self._keys(side, [pair[at] for pair in on]) for at, side in enumerate(sides))
        request = self._request
        if request.strategy == "auto" and not leaves_to_gpus(request, sides[0].num_rows, sides[1].num_rows):
            request = without_gpus(request)  # for so few rows, making a plan takes longest
        began = time.perf_counter()
        found = matches_of_keys(of_left, of_right, request, nulls_equal=False, presorted=False)
        left_rows, right_rows = rows_to_gather(found, "inner")
        assert right_rows is not None
        self._add(getattr(found, "phases", {}), time.perf_counter() - began)
        return RowNumbers(self._gpus, left_rows), RowNumbers(self._gpus, right_rows)

    def _add(self, phases: dict[str, float], seconds: float) -> None:
        """So many seconds of a join, divided as its phases were."""
        whole = sum(phases.values())
        sorting = sum(phases.get(name, 0.0) for name in SORTING_PHASES) / whole if whole else 1.0
        self.shares.sort += sorting * seconds
        self.shares.join += (1 - sorting) * seconds
        self.shares.device += whole

    def _keys(self, side: Relation, names: list[str]) -> Any:
        """One column without nulls as NumPy has it, so that it is joined where it lies; several as a table."""
        began = time.perf_counter()
        columns = side.columns(names, self._request)
        is_plain = len(columns) == 1 and pa.types.is_integer(columns[0].type) and not columns[0].null_count
        whole = one_array(columns[0]) if is_plain else None
        self.shares.materialise += time.perf_counter() - began
        return pa.table(columns, names) if whole is None else whole.to_numpy()
