"""Relations that hold row numbers, and gather columns only on demand (late materialisation)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from linkwise._arrow import pa
from linkwise._core import OutOfMemoryError, UsageError
from linkwise._typing import Rows
from linkwise.columns.gather import gather_sides, rows_of_rows
from linkwise.runtime.execution import ExecutionOptions
from linkwise.sorting.device.brought import TextExtent
from linkwise.sorting.device.device_columns import MOST_ROWS, GpuColumns, Parts, Strings


class RowNumbers:
    """Row numbers of a relation on the GPUs, fetched from there on demand; in host memory if they have no room."""

    def __init__(
        self, gpus: GpuColumns, on_gpus: Parts | None, host: Rows | None = None, *, may_miss: bool = False
    ) -> None:
        self._gpus, self._on_gpus, self._host = gpus, on_gpus, host
        self.may_miss = may_miss
        """Whether some may stand for no row: -1 in host memory; on the GPUs, all bits are set."""
        self._last: tuple[Parts, Parts] | None = None  # positions, and the numbers there

    @property
    def host(self) -> Rows:
        """The numbers in host memory, fetched if necessary."""
        if self._host is None:
            self.fetch([self])
        assert self._host is not None
        return self._host

    @staticmethod
    def fetch(numbers: Sequence[RowNumbers]) -> None:
        """Fetch several row numbers into host memory at once."""
        missing = [rows for rows in numbers if rows._host is None]
        if missing:
            found = missing[0]._gpus.fetch([cast(Parts, rows._on_gpus) for rows in missing])
            for rows, host in zip(missing, found, strict=True):
                rows._host = _with_missing(host) if rows.may_miss else host

    def at(self, places: RowNumbers) -> RowNumbers:
        """The numbers at these positions."""
        may_miss = self.may_miss or places.may_miss
        try:
            taken = self._gpus.take(self.brought(), places.brought())
        except OutOfMemoryError:
            return RowNumbers(self._gpus, None, rows_of_rows(self.host, places.host), may_miss=may_miss)
        return RowNumbers(self._gpus, taken, may_miss=may_miss)

    def brought(self) -> Parts:
        """The numbers on the GPUs, copied there if necessary. Raises ``OutOfMemoryError``."""
        if self._on_gpus is None:
            self._on_gpus = self._gpus.bring(self.host)
        return self._on_gpus

    def taken(self, places: Parts | None) -> Parts:
        """The numbers on the GPUs, or those at these positions, which are kept: every column asks for the same."""
        if places is None:
            return self.brought()
        if self._last is None or self._last[0] is not places:
            self._last = places, self._gpus.take(self.brought(), places)
        return self._last[1]

    def __len__(self) -> int:
        return len(self._host) if self._host is not None else sum(map(len, self._on_gpus or []))


def _with_missing(rows: Rows) -> Rows:
    """Row numbers of four bytes from the GPUs as those of host memory."""
    no_row = np.uint32(MOST_ROWS)
    return np.where(rows == no_row, -1, rows.astype(np.int64))


@dataclass
class Piece:
    """Columns of a table, and which of its rows are wanted; ``None`` for all."""

    names: list[str]
    stored: list[pa.ChunkedArray]
    rows: RowNumbers | None


class Relation(ABC):
    """A table, or rows of other relations; columns are gathered on demand."""

    def __init__(self, names: list[str], num_rows: int) -> None:
        self.names, self.num_rows = names, num_rows

    def columns(self, names: list[str], execution: ExecutionOptions) -> list[pa.ChunkedArray]:
        """Some columns that lie in host memory."""
        pieces = list(self.pieces(names))
        found = {name: column for piece in pieces for name, column in zip(piece.names, piece.stored, strict=True)}
        cut = [(piece, piece.rows) for piece in pieces if piece.rows is not None]
        RowNumbers.fetch([rows for _, rows in cut])
        gathered = gather_sides([(piece.stored, rows.host) for piece, rows in cut], execution)
        for (piece, _), columns in zip(cut, gathered, strict=True):
            found |= zip(piece.names, columns, strict=True)
        return [found[name] for name in names]

    def pieces(self, names: list[str], rows: RowNumbers | None = None) -> Iterator[Piece]:
        """The stored columns, with row numbers, from which some columns are gathered: these rows, or all."""
        raise NotImplementedError

    @abstractmethod
    def type_of(self, name: str) -> pa.DataType:
        """The type of a column."""

    @abstractmethod
    def on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts:
        """These rows of a column, or all, as numbers on the GPUs: itself, or ranks among its values."""

    def nulls_on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts | None:
        """For these rows, or all, a byte each: 0 if there is a value, otherwise 255; ``None`` if all have one."""
        return None

    def ranked_values(self, name: str) -> pa.Array | None:
        """What the numbers of a column are ranks among, if they are ranks."""
        return None

    def text_extent(self, name: str) -> TextExtent | None:
        """The extent of a column of text of which words can be made on the GPUs; ``None`` if it is none."""
        return None

    def words_on_gpus(self, name: str, extent: TextExtent, gpus: GpuColumns, rows: Parts | None = None) -> list[Parts]:
        """Words of these rows of a column of text, or of all, which compare, one after the other, as its values do."""
        raise NotImplementedError

    def strings_on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Strings:
        """These rows of a column of text, or all, on the GPUs."""
        raise NotImplementedError

    def is_in_host_memory(self, name: str) -> bool:
        """Whether a column lies in host memory alone."""
        return False


class Beside(Relation):
    """Rows of two relations side by side: those of a join, which may lack one side.

    ``merged`` names left columns, each with the right one whose
    value it takes where the left side is missing.
    """

    def __init__(
        self,
        sides: tuple[Relation, Relation],
        rows: tuple[RowNumbers, RowNumbers],
        merged: Mapping[str, str] | None = None,
    ) -> None:
        left, right = sides
        super().__init__([*left.names, *right.names], len(rows[0]))
        if len(set(self.names)) < len(self.names):
            raise UsageError(f"the two sides have columns of one name among {', '.join(self.names)}; rename them")
        self._left_names = set(left.names)
        self._sides, self._rows, self._merged = sides, rows, merged or {}
        self._is_missing: dict[int, Parts] = {}  # by side, the bytes that tell which rows lack it

    def _number_of_side(self, name: str) -> int:
        return 0 if name in self._left_names else 1

    def type_of(self, name: str) -> pa.DataType:
        """See ``Relation``."""
        return self._sides[self._number_of_side(name)].type_of(name)

    def on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts:
        """See ``Relation``."""
        if name in self._merged:
            left, right = (side.on_gpus(of_side, gpus) for side, of_side in self._merged_names(name))
            return gpus.take([*left, *right], self._of_either_side(gpus, rows))
        number = self._number_of_side(name)
        return self._sides[number].on_gpus(name, gpus, self._rows[number].taken(rows))

    def nulls_on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts | None:
        """See ``Relation``."""
        if name in self._merged:
            found = [side.nulls_on_gpus(of_side, gpus) for side, of_side in self._merged_names(name)]
            if found == [None, None]:
                return None
            left, right = (
                gpus.without_nulls(side.num_rows) if nulls is None else nulls
                for side, nulls in zip(self._sides, found, strict=True)
            )
            return gpus.take([*left, *right], self._of_either_side(gpus, rows))
        number = self._number_of_side(name)
        taken = self._rows[number].taken(rows)
        nulls = self._sides[number].nulls_on_gpus(name, gpus, taken)
        if nulls is not None or not self._rows[number].may_miss:
            return nulls
        if rows is not None:
            return self._missing_of(number, taken, gpus)
        if number not in self._is_missing:
            self._is_missing[number] = self._missing_of(number, taken, gpus)
        return self._is_missing[number]

    def _missing_of(self, number: int, rows: Parts, gpus: GpuColumns) -> Parts:
        return gpus.take(gpus.without_nulls(self._sides[number].num_rows), rows)  # of no row, 255

    def ranked_values(self, name: str) -> pa.Array | None:
        """See ``Relation``."""
        return self._sides[self._number_of_side(name)].ranked_values(name)

    def text_extent(self, name: str) -> TextExtent | None:
        """See ``Relation``."""
        if name not in self._merged:
            return self._sides[self._number_of_side(name)].text_extent(name)
        extents = [side.text_extent(of_side) for side, of_side in self._merged_names(name)]
        return None if extents[0] is None or extents[1] is None else TextExtent.together(extents[0], extents[1])

    def words_on_gpus(self, name: str, extent: TextExtent, gpus: GpuColumns, rows: Parts | None = None) -> list[Parts]:
        """See ``Relation``."""
        if name in self._merged:
            of_sides = [side.words_on_gpus(of_side, extent, gpus) for side, of_side in self._merged_names(name)]
            either = self._of_either_side(gpus, rows)
            return [gpus.take([*left, *right], either) for left, right in zip(*of_sides, strict=True)]
        number = self._number_of_side(name)
        return self._sides[number].words_on_gpus(name, extent, gpus, self._rows[number].taken(rows))

    def strings_on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Strings:
        """See ``Relation``."""
        if name in self._merged:
            left, right = (side.strings_on_gpus(of_side, gpus) for side, of_side in self._merged_names(name))
            return gpus.take_strings(left.then(right), self._of_either_side(gpus, rows))
        number = self._number_of_side(name)
        return self._sides[number].strings_on_gpus(name, gpus, self._rows[number].taken(rows))

    def _merged_names(self, name: str) -> list[tuple[Relation, str]]:
        """Both sides, with the name that a merged column has there."""
        return list(zip(self._sides, (name, self._merged[name]), strict=True))

    def is_in_host_memory(self, name: str) -> bool:
        """See ``Relation``."""
        return name not in self._merged and self._sides[self._number_of_side(name)].is_in_host_memory(name)

    def pieces(self, names: list[str], rows: RowNumbers | None = None) -> Iterator[Piece]:
        """See ``Relation``."""
        for number, (side, of_side) in enumerate(zip(self._sides, self._rows, strict=True)):
            wanted = [name for name in names if self._number_of_side(name) == number]
            if wanted:
                yield from side.pieces(wanted, of_side if rows is None else of_side.at(rows))

    def _of_either_side(self, gpus: GpuColumns, rows: Parts | None) -> Parts:
        """Row numbers of the left side or, where that is missing, of the right side after all of the left."""
        left, right = (of_side.taken(rows) for of_side in self._rows)
        return gpus.coalesced(left, right, self._sides[0].num_rows)


class Overlay(Relation):
    """A relation under other names, each with the old one: the base of what shows a relation in another way."""

    def __init__(self, relation: Relation, old_names: Mapping[str, str], num_rows: int | None = None) -> None:
        super().__init__(list(old_names), relation.num_rows if num_rows is None else num_rows)
        self._relation, self._old_names = relation, old_names

    def _rows_of(self, rows: Parts | None) -> Parts | None:
        """The row numbers in the relation."""
        return rows

    def type_of(self, name: str) -> pa.DataType:
        """See ``Relation``."""
        return self._relation.type_of(self._old_names[name])

    def on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts:
        """See ``Relation``."""
        return self._relation.on_gpus(self._old_names[name], gpus, self._rows_of(rows))

    def nulls_on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts | None:
        """See ``Relation``."""
        return self._relation.nulls_on_gpus(self._old_names[name], gpus, self._rows_of(rows))

    def ranked_values(self, name: str) -> pa.Array | None:
        """See ``Relation``."""
        return self._relation.ranked_values(self._old_names[name])

    def text_extent(self, name: str) -> TextExtent | None:
        """See ``Relation``."""
        return self._relation.text_extent(self._old_names[name])

    def words_on_gpus(self, name: str, extent: TextExtent, gpus: GpuColumns, rows: Parts | None = None) -> list[Parts]:
        """See ``Relation``."""
        return self._relation.words_on_gpus(self._old_names[name], extent, gpus, self._rows_of(rows))

    def strings_on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Strings:
        """See ``Relation``."""
        return self._relation.strings_on_gpus(self._old_names[name], gpus, self._rows_of(rows))

    def is_in_host_memory(self, name: str) -> bool:
        """See ``Relation``."""
        return self._relation.is_in_host_memory(self._old_names[name])

    def pieces(self, names: list[str], rows: RowNumbers | None = None) -> Iterator[Piece]:
        """See ``Relation``."""
        new = {old: name for name, old in self._old_names.items()}
        for piece in self._relation.pieces([self._old_names[name] for name in names], rows):
            yield Piece([new[name] for name in piece.names], piece.stored, piece.rows)


class Taken(Overlay):
    """Some rows of a relation, in any order."""

    def __init__(self, relation: Relation, rows: RowNumbers) -> None:
        super().__init__(relation, {name: name for name in relation.names}, len(rows))
        self._rows = rows

    def _rows_of(self, rows: Parts | None) -> Parts:
        return self._rows.taken(rows)

    def pieces(self, names: list[str], rows: RowNumbers | None = None) -> Iterator[Piece]:
        """See ``Relation``."""
        yield from self._relation.pieces(names, self._rows if rows is None else self._rows.at(rows))
