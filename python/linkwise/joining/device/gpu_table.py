"""Tables whose columns lie on the GPUs: sorted and joined there, with the results there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, Unpack, cast

from linkwise._arrow import pa
from linkwise._core import UsageError
from linkwise.columns.sort_keys import By, Descending, sort_keys_of
from linkwise.joining.device.device_columns import JoinableColumns
from linkwise.joining.device.late_materialization import Joined, Piece, Relation, RowNumbers, Taken
from linkwise.joining.matching import Columns, How, Order, check_order
from linkwise.joining.tables import check_how, key_pairs
from linkwise.runtime.execution import ExecutionOptions, JoinExecution, takes_execution
from linkwise.runtime.join_plan import JoinPlan
from linkwise.sorting.device_columns import GpuColumns, Parts
from linkwise.sorting.device_tables import ArraysOnGpus, given_back

_tables = itertools.count()  # numbers the tables, so that their columns never have one name


class _Arrays(Relation):
    """Columns that lie on the GPUs: an array for each."""

    def __init__(self, columns: dict[str, Parts], types: dict[str, pa.DataType], gpus: GpuColumns) -> None:
        super().__init__(list(columns), sum(map(len, next(iter(columns.values())))))
        self._columns, self._types, self._gpus = columns, types, gpus

    def pieces(self, names: list[str], rows: RowNumbers | None = None) -> Iterator[Piece]:
        """See ``Relation``: copies in host memory."""
        fetched = self._gpus.fetch([self._columns[name] for name in names])
        bools = [pa.types.is_boolean(self._types[name]) for name in names]
        columns = [column.view(bool) if are else column for column, are in zip(fetched, bools, strict=True)]
        yield Piece(names, [pa.chunked_array([pa.array(column)]) for column in columns], rows)

    def type_of(self, name: str) -> pa.DataType:
        """See ``Relation``."""
        return self._types[name]

    def on_gpus(self, name: str, gpus: GpuColumns, rows: Parts | None = None) -> Parts:
        """See ``Relation``."""
        column = self._columns[name]
        return column if rows is None else gpus.take(column, rows)


class GpuTable:
    """Columns of numbers and bools that lie on the GPUs, with sorts and joins whose results lie there too.

    Sorts and joins find row numbers; a column is gathered when it is asked for, or is a key of a later join (late
    materialisation). So a chain of joins moves no column that the result does not need.

    Parameters
    ----------
    columns
        By name, an array on a GPU, or a list with one for each of several GPUs: of CuPy, torch or any library with
        DLPack, the CUDA array interface or Arrow's ``__arrow_c_device_array__``; integers and floats of 8 to 64 bits
        and, of CuPy and torch, bools; without nulls. All columns have as many rows on each GPU; fewer than 2**32 in
        all. They are never changed, and must not be while the table or one made from it is in use. On a described
        machine (``machine=``), NumPy arrays stand in for them.
    **execution
        Where and how it runs: see ``linkwise.options``.

    Raises
    ------
    UsageError, OutOfMemoryError, DeviceError, CorruptDataError

    """

    @takes_execution(JoinExecution)
    def __init__(self, columns: Mapping[str, Any], **execution: Unpack[JoinExecution]) -> None:
        arrays = ArraysOnGpus(columns, ExecutionOptions.of(execution, JoinPlan))
        self._gpus = JoinableColumns(arrays.execution, shared=True)
        self._is_list = arrays.is_list
        table = next(_tables)
        self._names = {name: f"{table}.{name}" for name in arrays.arrays}
        self._like = {self._names[name]: originals for name, originals in arrays.arrays.items()}
        lent = {self._names[name]: parts for name, parts in arrays.lent_to(self._gpus).items()}
        types = {self._names[name]: pa.from_numpy_dtype(arrays.dtype(name)) for name in arrays.arrays}
        self._relation: Relation = _Arrays(lent, types, self._gpus)

    def _made(self, relation: Relation, names: dict[str, str], *others: Self) -> Self:
        made = object.__new__(type(self))
        made._gpus, made._is_list, made._relation, made._names = self._gpus, self._is_list, relation, names
        made._like = {**self._like, **{name: arrays for other in others for name, arrays in other._like.items()}}
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
        """A column, gathered if necessary: in the library of its array, one for each GPU if the table came so."""
        inside = self._inside(name)
        parts = cast(Parts, self._relation.on_gpus(inside, self._gpus))
        return given_back(parts, self._like[inside], is_list=self._is_list)

    def to_dict(self) -> dict[str, Any]:
        """All columns by name; see ``__getitem__``."""
        return {name: self[name] for name in self._names}

    def select(self, names: Sequence[str]) -> Self:
        """The table with some of its columns."""
        return self._made(self._relation, {name: self._inside(name) for name in names})

    def sort(self, by: By, *, descending: Descending = False) -> Self:
        """The rows in the order of ``linkwise.sort``. Stable."""
        keys = sort_keys_of(self.column_names, by, descending, "last")
        columns = [self._key(key.column) for key in keys]
        numbers, _ = self._gpus.sorted(columns, [key.descending for key in keys])
        return self._made(Taken(self._relation, RowNumbers(self._gpus, None, numbers)), self._names)

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
        """Join with another table on the same GPUs by equal keys, as ``linkwise.join`` does.

        ``how`` is ``"inner"``, ``"semi"`` or ``"anti"``: the others make rows that lack one side, which arrays cannot
        hold; ``linkwise.join_indices`` numbers these. Several keys are integers of 4 or 8 bytes that fit into 64 bits
        together.
        """
        check_how(how)
        if how not in ("inner", "semi", "anti"):
            raise UsageError(
                f"a {how} join has rows that lack one side, and arrays have no nulls; join_indices numbers such rows -1"
            )
        check_order(order)
        if self._gpus.gpus != other._gpus.gpus:
            raise UsageError(f"one table lies on GPUs {self._gpus.gpus}, and the other on {other._gpus.gpus}")
        keys = key_pairs(self.column_names, other.column_names, on, left_on, right_on)
        of_left, of_right = self._matched_keys(other, keys.pairs)
        left, right = self._gpus.matches(of_left, of_right, how, order)
        left_rows = RowNumbers(self._gpus, None, left)
        if right is None:
            return self._made(Taken(self._relation, left_rows), self._names)
        joined = Joined((self._relation, other._relation), (left_rows, RowNumbers(self._gpus, None, right)), set())
        merged = set(keys.merged.values())
        names = dict(self._names)
        for name, inside in other._names.items():
            if name in merged:
                continue
            named = f"{name}{suffix}" if name in self._names else name
            if named in names:
                raise UsageError(f"the result would have two columns '{named}'; choose another suffix=")
            names[named] = inside
        return self._made(joined, names, other)

    def _inside(self, name: str) -> str:
        """A column's name in the relation."""
        if name not in self._names:
            raise UsageError(f"there is no column {name!r}; there are {', '.join(map(repr, self._names))}")
        return self._names[name]

    def _key(self, name: str) -> Parts:
        return cast(Parts, self._relation.on_gpus(self._names[name], self._gpus))

    def _type(self, name: str) -> pa.DataType:
        return self._relation.type_of(self._names[name])

    def _matched_keys(self, other: Self, pairs: list[tuple[str, str]]) -> tuple[Parts, Parts]:
        """Both sides' keys as a column each."""
        lefts, rights = [self._key(left) for left, _ in pairs], [other._key(right) for _, right in pairs]
        if len(pairs) == 1 and self._type(pairs[0][0]) == other._type(pairs[0][1]):
            return lefts[0], rights[0]
        for left, right in pairs:
            types = self._type(left), other._type(right)
            is_signed = [pa.types.is_signed_integer(kind) for kind in types]
            if is_signed[0] != is_signed[1] or not all(pa.types.is_integer(k) and k.bit_width >= 32 for k in types):
                raise UsageError(
                    f"keys '{left}' and '{right}' are {types[0]} and {types[1]}; several keys, or keys of two types, "
                    "are integers of 4 or 8 bytes, both signed or both unsigned"
                )
        packed = self._gpus.pack(lefts, rights)
        if packed is None:
            raise UsageError(f"the {len(pairs)} keys take more than 64 bits together; join by fewer of them")
        return packed
