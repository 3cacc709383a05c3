"""The rows of a part of a file for which a filter is true, with each column decoded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from linkwise._arrow import pa, pc
from linkwise._typing import Rows
from linkwise.columns.gather import gather_rows
from linkwise.columns.gather_pyarrow import empty_table
from linkwise.columns.number_filter import NumberFilter


def rows_that_pass(table: pa.Table, rows: pc.Expression | NumberFilter) -> Rows | None:
    """The numbers of the rows for which a filter is true, found on this thread; ``None`` for all rows."""
    numbers = rows.rows_of(table) if isinstance(rows, NumberFilter) else _rows_of_expression(table, rows)
    return None if len(numbers) == table.num_rows else numbers


def _rows_of_expression(table: pa.Table, rows: pc.Expression) -> Rows:
    from pyarrow import acero  # noqa: PLC0415 - slow, and seldom needed

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    evaluated = acero.Declaration("project", acero.ProjectNodeOptions([rows], ["passes"]), [source])
    passes = evaluated.to_table(use_threads=False)["passes"]
    return np.flatnonzero((passes.fill_null(False) if passes.null_count else passes).to_numpy())


class FilteredPart:
    """Decodes the columns of a part, and keeps the rows for which ``rows`` is true.

    The first call decodes the columns that the filter refers to as well, and holds what it has decoded. Later calls
    decode the other columns; where no row has passed, they decode nothing. Not thread-safe.

    ``decode`` decodes all rows of columns by name; ``schema`` has the columns that may be requested.
    """

    def __init__(
        self, decode: Callable[[list[str]], pa.Table], schema: pa.Schema, rows: pc.Expression | NumberFilter,
        referenced: Sequence[str],
    ) -> None:  # fmt: skip
        self._decode, self._schema, self._filter, self._referenced = decode, schema, rows, referenced
        self._held: pa.Table | None = None  # the columns of the first call, before filtering
        self._passed: Rows | None = None  # row numbers; None for all

    def __call__(self, columns: Sequence[str]) -> pa.Table:
        """The rows of these columns that pass."""
        if self._held is None:
            self._held = self._decode(list(dict.fromkeys([*self._referenced, *columns])))
            self._passed = rows_that_pass(self._held, self._filter)
        held, passed = self._held, self._passed
        schema = pa.schema([self._schema.field(name) for name in columns], self._schema.metadata)
        if passed is not None and not len(passed):
            return empty_table(schema)
        others = [name for name in columns if name not in held.schema.names]
        decoded = self._decode(others) if others else held
        whole = pa.table([(decoded if name in others else held)[name] for name in columns], schema=schema)
        return whole if passed is None else gather_rows(whole, passed)
