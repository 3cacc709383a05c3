"""Tables whose columns lie on the GPUs: sorted and joined there, with the results there."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, Unpack, cast

from linkwise._arrow import pa
from linkwise._core import OutOfMemoryError, UsageError
from linkwise.columns.key_types import is_number, is_text
from linkwise.columns.sort_keys import By, Descending, Nulls, SortKey, sort_keys_of
from linkwise.interop.containers import hold_table
from linkwise.interop.gpu_column import as_dict, struct_of
from linkwise.interop.gpu_frames import columns_of_frame, columns_of_table
from linkwise.joining.device.brought_columns import (
    WORTH_BRINGING,
    ArrowColumns,
    are_comparable,
    are_packable,
    in_common_ranks,
    plain_type,
)
from linkwise.joining.device.device_columns import JoinableColumns
from linkwise.joining.device.late_materialization import Beside, Overlay, Relation, RowNumbers, Taken
from linkwise.joining.device.matched_rows import KEEPS_LEFT, KEEPS_RIGHT, SideKeys, matched_by_hash, matched_rows
from linkwise.joining.matching import Columns, How, Order, check_order
from linkwise.joining.tables import check_how, key_pairs
from linkwise.runtime.execution import ExecutionOptions, JoinExecution, takes_execution
from linkwise.runtime.join_plan import JoinPlan
from linkwise.sorting.device.brought import TextExtent, in_host_memory, text_in_host_memory
from linkwise.sorting.device.device_columns import MOST_ROWS, Column, GpuColumns, Parts, Strings
from linkwise.sorting.device.device_tables import (
    ArraysOnGpus,
    GivenColumn,
    Lent,
    gpu_columns,
    own_columns,
    sorted_rows,
)
from linkwise.sorting.device.text_keys import FEW_WORDS, text_keys

_MANY_ROWS = 1 << 20  # of numbers in host memory are gathered on the GPUs
_tables = itertools.count()  # numbers the tables, so that their columns never have one name


def _inner_names(names: Iterable[str]) -> dict[str, str]:
    """Names of a table's columns that no other table has."""
    table = next(_tables)
    return {name: f"{table}.{name}" for name in names}


class _Arrays(Relation):
    """Columns that lie on the GPUs."""

    def __init__(self, arrays: ArraysOnGpus, names: Mapping[str, str], gpus: JoinableColumns) -> None:
        columns = {names[name]: column for name, column in arrays.columns.items()}
        super().__init__(list(columns), sum(next(iter(columns.values())).lengths))
        self._columns, self._gpus = columns, gpus
        self._lent = {names[name]: lent for name, lent in arrays.lent_to(gpus).items()}
        self._extents: dict[str, TextExtent] = {}

    def type_of(self, name: str) -> pa.DataType:
        """See ``Relation``."""
        return self._columns[name].kind

    def on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts:
        """See ``Relation``."""
        column = cast(Parts, self._lent[name].values)
        return column if rows is None else gpus.take(column, rows)

    def nulls_on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts | None:
        """See ``Relation``."""
        nulls = self._lent[name].nulls
        return nulls if nulls is None or rows is None else gpus.take(nulls, rows)

    def text_extent(self, name: str) -> TextExtent | None:
        """See ``Relation``."""
        strings = self._lent[name].values
        if isinstance(strings, Strings) and name not in self._extents:
            self._extents[name] = TextExtent.of(*self._gpus.extent(strings, self._lent[name].nulls))
        return self._extents.get(name)

    def words_on_gpus(self, name: str, extent: TextExtent, gpus: GpuColumns, rows: Parts | None = None) -> list[Parts]:
        """See ``Relation``."""
        words = gpus.words(cast(Strings, self._lent[name].values), extent, self._lent[name].nulls)
        return words if rows is None else gpus.take_all(words, rows)

    def strings_on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Strings:
        """See ``Relation``."""
        strings = cast(Strings, self._lent[name].values)
        return strings if rows is None else gpus.take_strings(strings, rows)


class GpuTable:
    """Columns that lie on the GPUs, or are copied there when they are compared; sorts and joins have results there.

    Sorts and joins find row numbers; a column is gathered when it is asked for, or is a key of a later join (late
    materialisation). So a chain of joins moves no column that the result does not need.

    Parameters
    ----------
    columns
        By name, an array on a GPU, or a list with one for each of several GPUs: of CuPy, torch or any library with
        DLPack or the CUDA array interface: integers and floats of 8 to 64 bits and, of CuPy and torch, bools; with
        nulls, a ``MaskedArray`` of two. Or a column with Arrow's ``__arrow_c_device_array__``: numbers, bools, times,
        strings and bytes, nulls included; or a table with that interface, as a whole, or a frame of cuDF. All columns
        have as many rows on each GPU; fewer than 2**32 in all. They are never changed, and must not be while the table
        or one made from it is in use. On a described machine (``machine=``), NumPy and PyArrow arrays stand in for
        them.

        Or a table in host memory, of PyArrow, Polars, pandas or Narwhals, for the GPUs that ``gpus`` names. Its columns
        may have any type; one that is a key is copied to the GPUs once. Other keys than numbers, times, bools, strings
        and bytes, such as decimals, are compared by their ranks among the column's distinct values, which the host
        finds.
    **execution
        Where and how it runs: see ``linkwise.options``.

    Raises
    ------
    UsageError, OutOfMemoryError, DeviceError, CorruptDataError

    """

    @takes_execution(JoinExecution)
    def __init__(self, columns: Any, **execution: Unpack[JoinExecution]) -> None:
        options = ExecutionOptions.of(execution, JoinPlan)
        self._like: dict[str, GivenColumn] = {}  # by inner name, what a column of a result is to be like
        on_gpus = columns if isinstance(columns, Mapping) else columns_of_frame(columns) or columns_of_table(columns)
        self._relation = self._of_table(columns, options) if on_gpus is None else self._of_arrays(on_gpus, options)

    def _of_arrays(self, columns: Mapping[str, Any], options: ExecutionOptions) -> Relation:
        arrays = ArraysOnGpus(columns, options)
        self._gpus, self._is_list = JoinableColumns(arrays.execution, shared=True), arrays.is_list
        self._names = _inner_names(arrays.columns)
        self._like = {self._names[name]: column for name, column in arrays.columns.items()}
        return _Arrays(arrays, self._names, self._gpus)

    def _of_table(self, columns: Any, options: ExecutionOptions) -> Relation:
        table, _ = hold_table(columns)
        if not table.num_columns or len(set(table.column_names)) < table.num_columns:
            raise UsageError("a table has at least one column, and each has another name")
        if table.num_rows > MOST_ROWS:
            raise UsageError("a table on the GPUs has fewer than 2**32 rows; sort or join it in host memory")
        gpus = tuple(JoinableColumns(options, shared=True).found)
        self._gpus, self._is_list = JoinableColumns(replace(options, gpus=gpus), shared=True), len(gpus) > 1
        self._names = _inner_names(table.column_names)
        return ArrowColumns(table.rename_columns(list(self._names.values())))

    def _made(self, relation: Relation, names: dict[str, str], *others: Self) -> Self:
        made = object.__new__(type(self))
        made._gpus, made._is_list, made._relation, made._names = self._gpus, self._is_list, relation, names
        made._like = {**self._like, **{name: like for other in others for name, like in other._like.items()}}
        return made

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._names)

    def __len__(self) -> int:
        """How many rows there are."""
        return self._relation.num_rows

    def __repr__(self) -> str:
        on = ", ".join(map(str, self._gpus.gpus))
        return f"GpuTable({len(self):,} rows of {', '.join(self._names)} on GPU{'s' * (len(self._gpus.gpus) > 1)} {on})"

    def __getitem__(self, name: str) -> Any:
        """A column, gathered if necessary: in the library of its array, one for each GPU if the table came so.

        A column that may have nulls, also because an outer join may have made some, is a ``MaskedArray``. One that
        came through Arrow's interface, and text, is a ``GpuColumn``.
        """
        lent, given = self._lent(name), self._like.get(self._names[name])
        parts = own_columns(lent, plain_type(self._type(name))) if given is None else given.like(lent)
        return parts if self._is_list else parts[0]

    def __arrow_c_device_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Arrow's C device interface, as a struct: ``pylibcudf.Table.from_arrow(table)``. Of a table on one GPU."""
        if len(self._gpus.gpus) > 1:
            raise UsageError("a table on several GPUs is no single one for other software; take its columns")
        return struct_of({name: gpu_columns(self._lent(name), plain_type(self._type(name)))[0] for name in self._names})

    def to_dict(self) -> dict[str, Any]:
        """All columns by name; see ``__getitem__``."""
        return as_dict({name: self[name] for name in self._names})

    def to_arrow(self) -> pa.Table:
        """A copy of all columns in host memory.

        Columns that are there already have their rows gathered there; many rows of numbers, on the GPUs.
        """
        names = self._names.values()
        stored = [inside for inside in names if self._relation.is_in_host_memory(inside)]
        few = [inside for inside in stored if not self._is_worth_fetching(inside)]
        try:
            fetched = self._fetched([inside for inside in names if inside not in few])
        except OutOfMemoryError:
            few, fetched = stored, self._fetched([inside for inside in names if inside not in stored])
        gathered = self._relation.columns(few, self._gpus.execution) if few else []
        columns = fetched | dict(zip(few, gathered, strict=True))
        return pa.table({name: columns[inside] for name, inside in self._names.items()})

    def select(self, names: Sequence[str]) -> Self:
        """The table with some of its columns."""
        return self._made(self._relation, {name: self._inside(name) for name in names})

    def sort(self, by: By, *, descending: Descending = False, nulls: Nulls = "last") -> Self:
        """The rows in the order of ``linkwise.sort``. Stable."""
        keys = sort_keys_of(self.column_names, by, descending, nulls)
        return self._taken(sorted_rows(self._gpus, keys, self._words, self._nulls)[0])

    def join(
        self,
        other: Self,
        on: Columns | None = None,
        *,
        left_on: Columns | None = None,
        right_on: Columns | None = None,
        how: How = "inner",
        suffix: str = "_right",
        order: Order = None,
    ) -> Self:
        """Join with another table on the same GPUs by equal keys, as ``linkwise.join`` does; null keys match nothing.

        Several keys that are integers of 4 or 8 bytes and fit into 64 bits together are packed into one. Others, and
        text, are joined by hashes of 64 bits, and the pairs that are found are compared. For semi and anti joins, and
        for the order of the keys, both sides are sorted together instead, and joined by the ranks of their rows. A pair
        of keys that is one column of a right or full join has one type.
        """
        check_how(how)
        check_order(order)
        if self._gpus.gpus != other._gpus.gpus:
            raise UsageError(f"one table lies on GPUs {self._gpus.gpus}, and the other on {other._gpus.gpus}")
        other = other._apart_from(self)
        keys = key_pairs(self.column_names, other.column_names, on, left_on, right_on)
        names = self._names if how in ("semi", "anti") else self._names_with(other, keys.merged.values(), suffix)
        self._check_keys(other, keys.pairs, how)
        left, right, sides = self._compared(other, keys.pairs)
        matched = left._matched(right, keys.pairs, sides, how, order)
        either = {left._names[one]: right._names[two] for one, two in keys.pairs} if how in KEEPS_RIGHT else {}
        joined = left._made(left._rows_of(right, matched, how, either if keys.are_one else {}), names, right)
        if order != "key" or not any(side.has_nulls for side in sides):
            return joined
        by_key = left._made(left._rows_of(right, matched, how, either), left._names)
        return joined._taken(by_key._in_key_order([name for name, _ in keys.pairs]))

    def _compared(self, other: Self, pairs: list[tuple[str, str]]) -> tuple[Self, Self, tuple[SideKeys, SideKeys]]:
        """Both tables, and their keys as columns that can be compared."""
        extents = [self._common_extent(other, pair) for pair in pairs]
        ranked = [pair for pair, extent in zip(pairs, extents, strict=True) if extent is None]
        left, right = self._in_common_ranks(other, ranked)
        of_left, of_right = (
            SideKeys(self._gpus, list(map(side._key_of, names, extents)), list(map(side._nulls, names)))
            for side, names in zip((left, right), zip(*pairs, strict=True), strict=True)
        )
        return left, right, (of_left, of_right)

    def _key_of(self, name: str, extent: TextExtent | None) -> Column:
        """The column by which a key is compared; ``extent`` is that of both sides' text."""
        if extent is None:
            return self._column(name)
        inside = self._names[name]
        if extent.words == 1:
            return self._relation.words_on_gpus(inside, extent, self._gpus)[0]
        return self._relation.strings_on_gpus(inside, self._gpus)

    def _common_extent(self, other: Self, pair: tuple[str, str]) -> TextExtent | None:
        """The extent of a pair of keys that are text; ``None`` for others."""
        extents = self._relation.text_extent(self._names[pair[0]]), other._relation.text_extent(other._names[pair[1]])
        if extents[0] is None or extents[1] is None:
            return None
        return TextExtent.together(extents[0], extents[1])

    def _in_common_ranks(self, other: Self, pairs: list[tuple[str, str]]) -> tuple[Self, Self]:
        """Both tables, with numbers that can be compared in columns of text and the like."""
        inside = [(self._names[left], other._names[right]) for left, right in pairs]
        left, right = in_common_ranks((self._relation, other._relation), inside, self._gpus)
        return self._made(left, self._names), other._made(right, other._names)

    def _rows_of(self, other: Self, rows: tuple[Parts, Parts | None], how: How, merged: dict[str, str]) -> Relation:
        """The rows of a join. ``merged``: see ``Beside``."""
        if rows[1] is None:
            return Taken(self._relation, RowNumbers(self._gpus, rows[0]))
        left = RowNumbers(self._gpus, rows[0], may_miss=how in KEEPS_RIGHT)
        right = RowNumbers(self._gpus, rows[1], may_miss=how in KEEPS_LEFT)
        return Beside((self._relation, other._relation), (left, right), merged=merged)

    def _apart_from(self, other: Self) -> Self:
        """This table with other inner names than another's, with some of which it may share its columns."""
        if set(self._relation.names).isdisjoint(other._relation.names):
            return self
        anew = _inner_names(self._relation.names)
        renamed = Overlay(self._relation, {new: name for name, new in anew.items()})
        made = self._made(renamed, {name: anew[inside] for name, inside in self._names.items()})
        made._like = {anew[name]: like for name, like in self._like.items() if name in anew}
        return made

    def _names_with(self, other: Self, merged: Collection[str], suffix: str) -> dict[str, str]:
        """The columns of a join: all but the other table's that are merged with one of this table."""
        names = dict(self._names)
        for name, inside in other._names.items():
            if name in merged:
                continue
            named = f"{name}{suffix}" if name in self._names else name
            if named in names:
                raise UsageError(f"the result would have two columns '{named}'; choose another suffix=")
            names[named] = inside
        return names

    def _inside(self, name: str) -> str:
        """A column's name in the relation."""
        if name not in self._names:
            raise UsageError(f"there is no column {name!r}; there are {', '.join(map(repr, self._names))}")
        return self._names[name]

    def _lent(self, name: str) -> Lent:
        """A column as it is on the GPUs. Raises ``UsageError`` for one that is there as ranks alone."""
        inside = self._inside(name)
        if is_text(plain_type(self._type(name))):
            return Lent(self._relation.strings_on_gpus(inside, self._gpus), self._nulls(name))
        numbers = self._column(name)
        if self._relation.ranked_values(inside) is not None:
            raise UsageError(f"column '{name}' is {self._type(name)}, of which there are no arrays; to_arrow() has it")
        return Lent(numbers, self._nulls(name))

    def _column(self, name: str) -> Parts:
        return self._relation.on_gpus(self._names[name], self._gpus)

    def _nulls(self, name: str) -> Parts | None:
        return self._relation.nulls_on_gpus(self._names[name], self._gpus)

    def _type(self, name: str) -> pa.DataType:
        return self._relation.type_of(self._names[name])

    def _is_worth_fetching(self, inside: str) -> bool:
        """Whether the rows of a column in host memory are better gathered on the GPUs and fetched."""
        if len(self) < _MANY_ROWS or not is_number(self._relation.type_of(inside)):
            return False
        return all(len(self) >= len(piece.stored[0]) // WORTH_BRINGING for piece in self._relation.pieces([inside]))

    def _fetched(self, names: list[str]) -> dict[str, Any]:
        """Columns, by their inner names, gathered on the GPUs."""
        kinds = {name: self._relation.type_of(name) for name in names}
        strings = {
            name: self._relation.strings_on_gpus(name, self._gpus) for name in names if is_text(plain_type(kinds[name]))
        }
        numbers = {name: self._relation.on_gpus(name, self._gpus) for name in names if name not in strings}
        nulls = {name: of_column for name in names if (of_column := self._relation.nulls_on_gpus(name, self._gpus))}
        going = [*numbers.values(), *nulls.values(), *(parts for column in strings.values() for parts in column)]
        fetched = iter(self._gpus.fetch(going))
        values = {name: next(fetched) for name in numbers}
        is_null = {name: next(fetched) for name in nulls}
        columns = {
            name: in_host_memory(column, is_null.get(name), self._relation.ranked_values(name), kinds[name])
            for name, column in values.items()
        }
        return columns | {
            name: text_in_host_memory(next(fetched), next(fetched), of_column.ends, is_null.get(name), kinds[name])
            for name, of_column in strings.items()
        }

    def _in_key_order(self, keys: list[str]) -> Parts:
        """The row numbers in the order of keys of a join, null ones last. Stable."""

        def words(name: str) -> list[Parts]:
            found = self._words(name)
            return found if len(found) > 1 else [self._gpus.joined_codes(found[0])]

        return sorted_rows(self._gpus, list(map(SortKey, keys)), words, self._nulls)[0]

    def _words(self, name: str) -> list[Parts]:
        """The numbers that a column sorts by: itself, or those for its strings."""
        inside = self._names[name]
        extent = self._relation.text_extent(inside)
        if extent is None:
            return [self._column(name)]
        if extent.words <= FEW_WORDS:
            return self._relation.words_on_gpus(inside, extent, self._gpus)
        return text_keys(self._gpus, self._relation.strings_on_gpus(inside, self._gpus), extent, self._nulls(name))

    def _taken(self, rows: Parts) -> Self:
        return self._made(Taken(self._relation, RowNumbers(self._gpus, rows)), self._names)

    def _check_keys(self, other: Self, pairs: list[tuple[str, str]], how: How) -> None:
        """Raise ``UsageError`` if the GPUs cannot compare the keys, or cannot have both sides' in one column."""
        for left, right in pairs:
            types = self._type(left), other._type(right)
            told = f"keys '{left}' and '{right}' are {types[0]} and {types[1]}"
            if how in KEEPS_RIGHT and types[0] != types[1]:
                raise UsageError(f"{told}; right and full joins have keys of one type")
            if not are_comparable(*types) and not are_packable(*types):
                raise UsageError(
                    f"{told}; keys of two types are integers of 4 or 8 bytes, both signed or both unsigned, or text"
                )
        if how in KEEPS_RIGHT and len(self) + len(other) > MOST_ROWS:
            raise UsageError("the tables of right and full joins on the GPUs have fewer than 2**32 rows together")

    def _matched(
        self, other: Self, pairs: list[tuple[str, str]], sides: tuple[SideKeys, SideKeys], how: How, order: Order
    ) -> tuple[Parts, Parts | None]:
        """The row numbers of a join in both sides."""
        keys = self._short_keys(other, pairs, sides)
        if keys is not None:
            return matched_rows(self._gpus, sides, keys, how, order)
        left, right = (list(map(self._gpus.codes_of_key, side.keys)) for side in sides)
        matched = None
        if how not in ("semi", "anti") and order != "key":
            matched = matched_by_hash(self._gpus, sides, (left, right), how, order)
        return matched or matched_rows(self._gpus, sides, self._gpus.common_ranks(left, right), how, order)

    def _short_keys(
        self, other: Self, pairs: list[tuple[str, str]], sides: tuple[SideKeys, SideKeys]
    ) -> tuple[Parts, Parts] | None:
        """Both sides' keys as a column each; ``None`` if they take more than 64 bits."""
        types = [(self._type(left), other._type(right)) for left, right in pairs]
        lefts, rights = ([key for key in side.keys if not isinstance(key, Strings)] for side in sides)
        if len(lefts) == len(pairs) == 1 and are_comparable(*types[0]):
            return lefts[0], rights[0]
        if len(lefts) == len(pairs) and all(are_packable(*pair) for pair in types):
            packed = self._gpus.pack(lefts, rights)
            if packed is not None:
                return packed
        if not all(are_comparable(*pair) for pair in types):
            raise UsageError(f"the {len(pairs)} keys take more than 64 bits together, and differ in type; cast them")
        return None
