"""Lazy sorts and joins in Polars plans, as sources into which Polars pushes projections, predicates and limits.

The input of such a source is a Polars lazy frame, which Polars optimises and runs; Linkwise sorts or joins the
resulting rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Unpack

import polars as pl
from polars.io.plugins import register_io_source

from linkwise._core import UsageError
from linkwise.columns.inside import names_inside, outer_columns
from linkwise.columns.sort_keys import Descending, Nulls
from linkwise.joining.api import join as join_now
from linkwise.polars.taken import projected
from linkwise.runtime.execution import SortExecution
from linkwise.sorting.api import sort as sort_now

__all__ = ["join", "scan_sorted"]


def _names(columns: str | Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)


def _lazy(frame: pl.LazyFrame | pl.DataFrame) -> pl.LazyFrame:
    if not isinstance(frame, pl.LazyFrame | pl.DataFrame):
        raise UsageError(f"a frame of Polars is needed, not a {type(frame).__module__}.{type(frame).__qualname__}")
    return frame.lazy()


def _outer(schema: pl.Schema, keys: list[str]) -> list[str]:
    """The columns of keys that may be fields of structs. Raises ``UsageError`` if there is none."""
    inside = names_inside(schema.to_frame().to_arrow().schema)
    for name in keys:
        if name not in schema and name not in inside:
            raise UsageError(f"there is no column {name!r}; there are {', '.join(map(repr, [*schema, *inside]))}")
    return outer_columns(keys, list(schema))


def _in_batches(
    frame: pl.DataFrame, columns: list[str] | None, rows: int | None, batch_rows: int | None
) -> Iterator[pl.DataFrame]:
    frame = (frame if columns is None else projected(frame, columns)).head(len(frame) if rows is None else rows)
    yield from [frame] if batch_rows is None or len(frame) <= batch_rows else frame.iter_slices(batch_rows)


def scan_sorted(
    frame: pl.LazyFrame | pl.DataFrame,
    by: str | Sequence[str],
    *,
    descending: Descending = False,
    nulls: Nulls = "last",
    **execution: Unpack[SortExecution],
) -> pl.LazyFrame:
    """A lazy frame with the rows of another one, sorted by Linkwise when it is collected.

    Unused columns are not read, and predicates on single rows are applied before the sort.

    Parameters
    ----------
    frame
        Whatever Polars can scan or compute. It runs on Polars' streaming engine.
    by, descending, nulls
        As for ``linkwise.sort``.
    **execution
        Where and how it is sorted: see ``linkwise.options``.

    Raises
    ------
    UsageError
        Immediately, if a column does not exist or the frame is none of Polars. Errors of the sort are raised when the
        frame is collected.

    """
    frame = _lazy(frame)
    keys, schema = _names(by), frame.collect_schema()
    outer = _outer(schema, keys)

    def rows_in_order(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        source = frame if predicate is None else frame.filter(predicate)
        if with_columns is not None:
            wanted = {*with_columns, *outer}
            source = source.select([name for name in schema if name in wanted])
        in_order = sort_now(
            source.collect(engine="streaming"), by=keys, descending=descending, nulls=nulls, **execution
        )
        return _in_batches(in_order, with_columns, n_rows, batch_size)

    return register_io_source(rows_in_order, schema=schema)


def join(
    left: pl.LazyFrame | pl.DataFrame,
    right: pl.LazyFrame | pl.DataFrame,
    on: str | Sequence[str] | None = None,
    *,
    left_on: str | Sequence[str] | None = None,
    right_on: str | Sequence[str] | None = None,
    suffix: str = "_right",
    **options: Any,
) -> pl.LazyFrame:
    """A lazy frame with the rows of a join, which Linkwise runs when it is collected.

    Unused columns of either side are not read. Predicates are applied to the joined rows.

    Parameters
    ----------
    left, right
        Whatever Polars can scan or compute. Both run on Polars' streaming engine.
    on, left_on, right_on, suffix, options
        As for ``linkwise.join``, including ``how=`` and ``order=``.

    Raises
    ------
    UsageError
        Immediately, if a column does not exist, an option is wrong or a frame is none of Polars. Errors of the join
        are raised when the frame is collected.

    """
    left, right = _lazy(left), _lazy(right)
    schemas = left.collect_schema(), right.collect_schema()
    chosen = (on or left_on or (), on or right_on or ())
    keys = [_outer(schema, _names(names)) for schema, names in zip(schemas, chosen, strict=True)]

    def joined(sides: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return join_now(sides[0], sides[1], on, left_on=left_on, right_on=right_on, suffix=suffix, **options)

    schema_of_joined = joined([schema.to_frame() for schema in schemas]).schema

    def rows_of_join(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        sides = left, right
        if with_columns is not None:
            asked = {*with_columns, *(predicate.meta.root_names() if predicate is not None else ())}
            # A right column keeps its suffix only as long as the left side has a column of that name.
            kept = (
                [name for name in schemas[0] if name in asked or name in keys[0] or name in schemas[1]],
                [name for name in schemas[1] if name in asked or name in keys[1] or f"{name}{suffix}" in asked],
            )
            sides = left.select(kept[0]), right.select(kept[1])
        found = joined(pl.collect_all(sides, engine="streaming"))
        return _in_batches(found if predicate is None else found.filter(predicate), with_columns, n_rows, batch_size)

    return register_io_source(rows_of_join, schema=schema_of_joined)
