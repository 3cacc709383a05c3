"""Columns of Arrow tables that stay in host memory until the GPUs compare them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from linkwise._arrow import pa
from linkwise.columns.decode import decoded
from linkwise.columns.key_types import is_number, is_text
from linkwise.columns.ranks import in_common
from linkwise.joining.device.late_materialization import Overlay, Piece, Relation, RowNumbers
from linkwise.sorting.device.brought import Brought, TextExtent, bring, text_extent
from linkwise.sorting.device.device_columns import GpuColumns, Parts, Strings

WORTH_BRINGING = 16  # a column is copied to the GPUs if at least one in so many of its rows is wanted


class ArrowColumns(Relation):
    """A table in host memory, each column of which is copied to the GPUs when it is first asked for there.

    Keys that are strings or bytes become words there, and other keys that are no numbers, such as decimals, are copied
    as ranks.
    """

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table.column_names, table.num_rows)
        self._table = table
        self._brought: dict[str, Brought] = {}
        self._plain_columns: dict[str, pa.ChunkedArray] = {}
        self._strings: dict[str, Strings] = {}
        self._extents: dict[str, TextExtent | None] = {}
        self._words: dict[tuple[str, TextExtent], list[Parts]] = {}
        self._nulls: dict[str, Parts | None] = {}

    def pieces(self, names: list[str], rows: RowNumbers | None = None) -> Iterator[Piece]:
        """See ``Relation``."""
        yield Piece(names, [self._table[name] for name in names], rows)

    def type_of(self, name: str) -> pa.DataType:
        """See ``Relation``."""
        return self._table[name].type

    def is_in_host_memory(self, name: str) -> bool:
        """See ``Relation``."""
        return True

    def on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts:
        """See ``Relation``. A column is not copied to the GPUs as a whole if few of its rows are wanted."""
        if rows is not None and name not in self._brought:
            few = self._few_taken(name, gpus, rows)
            if few is not None:
                return few
        numbers = self.brought(name, gpus).numbers
        return numbers if rows is None else gpus.take(numbers, rows)

    def _few_taken(self, name: str, gpus: GpuColumns, rows: Parts) -> Parts | None:
        """A few rows of a column in pinned memory, which the GPUs read there; otherwise ``None``."""
        column = self._table[name]
        is_plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if not is_plain or column.null_count or sum(map(len, rows)) >= len(column) // WORTH_BRINGING:
            return None
        return gpus.take_from_host(column.chunk(0).to_numpy(), rows) if column.num_chunks == 1 else None

    def nulls_on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts | None:
        """See ``Relation``."""
        if not self._plain(name).null_count:
            return None  # without bringing the column
        of_text = is_text(self._plain(name).type)
        nulls = self._nulls_of_text(name, gpus) if of_text else self.brought(name, gpus).nulls
        return nulls if nulls is None or rows is None else gpus.take(nulls, rows)

    def text_extent(self, name: str) -> TextExtent | None:
        """See ``Relation``."""
        if name not in self._extents:
            self._extents[name] = text_extent(self._plain(name))
        return self._extents[name]

    def words_on_gpus(self, name: str, extent: TextExtent, gpus: GpuColumns, rows: Parts | None = None) -> list[Parts]:
        """See ``Relation``."""
        key = name, extent
        if key not in self._words:
            self._words[key] = gpus.words(self._strings_of(name, gpus), extent, self._nulls_of_text(name, gpus))
        return self._words[key] if rows is None else gpus.take_all(self._words[key], rows)

    def strings_on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Strings:
        """See ``Relation``. They stay there."""
        if name not in self._strings:
            self._strings[name] = self._strings_of(name, gpus)
        strings = self._strings[name]
        return strings if rows is None else gpus.take_strings(strings, rows)

    def _strings_of(self, name: str, gpus: GpuColumns) -> Strings:
        return self._strings.get(name) or gpus.bring_strings(self._plain(name))

    def _plain(self, name: str) -> pa.ChunkedArray:
        if name not in self._plain_columns:
            self._plain_columns[name] = decoded(self._table[name])
        return self._plain_columns[name]

    def _nulls_of_text(self, name: str, gpus: GpuColumns) -> Parts | None:
        if name not in self._nulls:
            plain = self._plain(name)
            self._nulls[name] = gpus.bring_nulls(plain) if plain.null_count else None
        return self._nulls[name]

    def ranked_values(self, name: str) -> pa.Array | None:
        """See ``Relation``."""
        return self._brought[name].values if name in self._brought else None

    def brought(self, name: str, gpus: GpuColumns) -> Brought:
        """The column on the GPUs, copied there if necessary. Raises ``UsageError`` for one that they cannot compare."""
        if name not in self._brought:
            self._brought[name] = bring(self._table[name], gpus)
        return self._brought[name]


class Recoded(Overlay):
    """A relation with other ranks in some columns."""

    def __init__(self, relation: Relation, columns: Mapping[str, Brought]) -> None:
        super().__init__(relation, {name: name for name in relation.names})
        self._columns = columns

    def on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts:
        """See ``Relation``."""
        if name not in self._columns:
            return super().on_gpus(name, gpus, rows)
        numbers = self._columns[name].numbers
        return numbers if rows is None else gpus.take(numbers, rows)

    def ranked_values(self, name: str) -> pa.Array | None:
        """See ``Relation``."""
        return self._columns[name].values if name in self._columns else super().ranked_values(name)


def are_comparable(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether keys of these types are equal if their numbers, or their ranks among both sides' values, are."""
    kinds = {plain_type(left), plain_type(right)}
    text = {pa.string(), pa.large_string(), pa.string_view()}
    in_bytes = {pa.binary(), pa.large_binary(), pa.binary_view()}
    return len(kinds) == 1 or kinds <= text or kinds <= in_bytes


def are_packable(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether keys of these types can be packed into one with others."""
    kinds = plain_type(left), plain_type(right)
    if not all(map(pa.types.is_integer, kinds)):
        has_few_bytes = pa.types.is_floating(kinds[0]) or pa.types.is_boolean(kinds[0])
        return are_comparable(left, right) and not has_few_bytes
    is_signed = [pa.types.is_signed_integer(kind) for kind in kinds]
    return is_signed[0] == is_signed[1] and all(kind.bit_width >= 32 for kind in kinds)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values once they are decoded."""
    return decoded(pa.chunked_array([], kind)).type


def in_common_ranks(
    sides: tuple[Relation, Relation], pairs: Sequence[tuple[str, str]], gpus: GpuColumns
) -> tuple[Relation, Relation]:
    """Both sides, with ranks among the values of both in each pair of columns that has ranks."""
    recoded: tuple[dict[str, Brought], dict[str, Brought]] = {}, {}
    for pair in pairs:
        if is_number(plain_type(sides[0].type_of(pair[0]))):
            continue
        numbers = [side.on_gpus(name, gpus) for side, name in zip(sides, pair, strict=True)]
        values = [cast(pa.Array, side.ranked_values(name)) for side, name in zip(sides, pair, strict=True)]
        if not values[0].equals(values[1]):
            in_both, *rank_of = in_common(*values)
            for columns, name, of_side, ranks in zip(recoded, pair, numbers, rank_of, strict=True):
                columns[name] = Brought(gpus.take(gpus.bring(ranks), of_side), None, in_both)  # of no rank, none
    left, right = (Recoded(*of_side) if of_side[1] else of_side[0] for of_side in zip(sides, recoded, strict=True))
    return left, right
