"""Rebuilds an optimised Polars plan as lazy frames, with sorts, joins and distinct rows by Linkwise.

Polars lets a node of a plan be replaced together with everything below it (``NodeTraverser.set_udf``), but does not
pass the frames of its inputs to the replacement. So the plan below such a node is rebuilt: scans, with the columns
and predicates that Polars pushed into them, projections, filters and groups as Polars lazy frames, and Linkwise's
steps between them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import polars as pl

from linkwise.polars.expressions import Expressions, NotRebuilt
from linkwise.polars.taken import Distinct, Join, Run, Sort, Taken

Frame = Callable[[Run], pl.LazyFrame]


@dataclass
class Rebuilt:
    """A rebuilt part of a plan: how to make its frame, Linkwise's steps in it, and how many rows it reads at most."""

    frame: Frame
    taken: list[Taken] = field(default_factory=list)
    rows: int = 0


def _sliced(frame: pl.LazyFrame, part: Sequence[int] | None) -> pl.LazyFrame:
    return frame if part is None else frame.slice(part[0], part[1])


class Plan:
    """Reads a Polars plan. ``traverser`` is valid only while Polars exposes the plan; rebuilt parts stay valid.

    ``pays`` tells whether Linkwise takes a step with this many rows; of a join, the smaller side counts.
    ``validates`` tells whether a join of the query has ``validate=``.
    """

    def __init__(self, traverser: Any, pays: Callable[[int], bool], *, validates: bool) -> None:
        self._traverser = traverser
        self._pays = pays
        self._validates = validates
        self._expressions = Expressions(traverser)
        self._known: dict[int, Rebuilt] = {}

    def inputs(self, node: int) -> list[int]:
        """The nodes from which this one takes its rows."""
        with self._at(node):
            return list(self._traverser.get_inputs())

    def rebuilt(self, node: int) -> Rebuilt:
        """The part of the plan whose root is this node. Raises ``NotRebuilt``."""
        if node not in self._known:
            with self._at(node):
                try:
                    viewed = self._traverser.view_current_node()
                except NotImplementedError as error:
                    raise NotRebuilt(f"a step that Polars does not show: {error}") from None
                kind = type(viewed).__name__
                make = getattr(self, f"_{kind.lower()}", None)
                if make is None:
                    raise NotRebuilt(f"a step of kind {kind}")
                self._known[node] = make(viewed)
        return self._known[node]

    @contextmanager
    def _at(self, node: int) -> Iterator[None]:
        before = self._traverser.get_node()
        self._traverser.set_node(node)
        try:
            yield
        finally:
            self._traverser.set_node(before)

    def _schema(self) -> pl.Schema:
        return pl.Schema(self._traverser.get_schema())

    def _on(self, below: int, make: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Rebuilt:
        """A step that Polars runs, on the rebuilt part below it."""
        source = self.rebuilt(below)
        return Rebuilt(lambda run: make(source.frame(run)), source.taken, source.rows)

    # Where rows come from.

    def _dataframescan(self, node: Any) -> Rebuilt:
        frame, names = pl.DataFrame._from_pydf(node.df), list(self._schema())
        return Rebuilt(lambda run: frame.lazy().select(names), rows=len(frame))

    def _scan(self, node: Any) -> Rebuilt:
        kind, told, *_ = node.scan_type
        options = node.file_options
        unusual = ("column_mapping", "default_values", "deletion_files", "hive_options")
        if (
            node.hive_parts is not None
            or any(getattr(options, name, None) is not None for name in unusual)
            or options.missing_columns_policy != "raise"
            or any("://" in str(path) for path in node.paths)
        ):
            raise NotRebuilt("a scan of partitioned, remote or differing files")
        index = options.row_index
        named = {
            "row_index_name": index and index[0],
            "row_index_offset": index[1] if index else 0,
            "include_file_paths": options.include_file_paths,
        }
        if kind == "parquet":
            source = pl.scan_parquet(node.paths, glob=False, hive_partitioning=False, **named)
        elif kind == "csv":
            source = pl.scan_csv(node.paths, glob=False, **_csv_options(json.loads(told)), **named)
        else:
            raise NotRebuilt(f"a scan of {kind} files")
        rows = source.select(pl.len()).collect().item() if kind == "parquet" else _MANY
        source = _sliced(source, options.n_rows)
        if node.predicate is not None:
            source = source.filter(self._expressions.rebuilt(node.predicate.node))
        source = source.select(list(self._schema()))
        if source.collect_schema() != self._schema():
            raise NotRebuilt(f"a scan of {kind} files whose columns have other types when they are read again")
        return Rebuilt(lambda run: source, rows=rows)

    def _cache(self, node: Any) -> Rebuilt:
        source, key = self.rebuilt(node.input), node.id_
        return Rebuilt(lambda run: run.once(key, source.frame), source.taken, source.rows)

    # What Polars does itself.

    def _select(self, node: Any) -> Rebuilt:
        expressions = self._expressions.all_named(node.expr)
        return self._on(node.input, lambda frame: frame.select(expressions))

    def _reduce(self, node: Any) -> Rebuilt:
        expressions = self._expressions.all_named(node.exprs)
        return self._on(node.input, lambda frame: frame.select(expressions))

    def _hstack(self, node: Any) -> Rebuilt:
        expressions = self._expressions.all_named(node.exprs)
        return self._on(node.input, lambda frame: frame.with_columns(expressions))

    def _simpleprojection(self, node: Any) -> Rebuilt:
        names = list(self._schema())
        return self._on(node.input, lambda frame: frame.select(names))

    def _filter(self, node: Any) -> Rebuilt:
        predicate = self._expressions.rebuilt(node.predicate.node)
        return self._on(node.input, lambda frame: frame.filter(predicate))

    def _slice(self, node: Any) -> Rebuilt:
        return self._on(node.input, lambda frame: frame.slice(node.offset, node.len))

    def _union(self, node: Any) -> Rebuilt:
        sources = [self.rebuilt(each) for each in node.inputs]
        return Rebuilt(
            lambda run: _sliced(pl.concat([source.frame(run) for source in sources]), node.slice),
            [taken for source in sources for taken in source.taken],
            sum(source.rows for source in sources),
        )

    def _groupby(self, node: Any) -> Rebuilt:
        options = node.options
        if node.apply or options.dynamic is not None or options.rolling is not None:
            raise NotRebuilt("groups by windows, or of functions of Python's")
        keys, values = (self._expressions.all_named(some) for some in (node.keys, node.aggs))
        return self._on(
            node.input,
            lambda frame: _sliced(frame.group_by(keys, maintain_order=node.maintain_order).agg(values), options.slice),
        )

    def _mapfunction(self, node: Any) -> Rebuilt:
        name, *arguments = node.function
        if name == "row_index":
            return self._on(node.input, lambda frame: frame.with_row_index(*arguments))
        if name in ("hint_sorted", "rechunk"):
            return self._on(node.input, lambda frame: frame)
        raise NotRebuilt(f"a step of kind {name}")

    # What Linkwise takes.

    def _sort(self, node: Any) -> Rebuilt:
        in_order, nulls_last, descending = node.sort_options
        keys = self._expressions.all_named(node.by_column)
        taken = Sort(self._schema(), keys, tuple(descending), tuple(nulls_last), node.slice and tuple(node.slice[:2]))
        taken.is_stable = in_order
        return self._step(taken, [node.input])

    def _distinct(self, node: Any) -> Rebuilt:
        keep, subset, in_order, part = node.options
        return self._step(Distinct(self._schema(), keep, subset, part, is_in_order=in_order), [node.input])

    def _join(self, node: Any) -> Rebuilt:
        if self._validates:
            raise NotRebuilt("the joins of a query in which one has validate=: plans do not show which")
        how, nulls_equal, part, suffix, coalesces, order = node.options
        if how == ("Inner", "fused_predicate"):
            how = "Inner"  # the predicate is applied as a filter after the join
        elif not isinstance(how, str) or node.predicate is not None:
            raise NotRebuilt("a join by something else than equal keys")
        sides = [
            (
                [self._expressions.rebuilt(each.node) for each in keys],
                [self._expressions.column_of(each) for each in keys],
            )
            for keys in (node.left_on, node.right_on)
        ]
        taken = Join(self._schema(), cast(Any, how.lower()), sides, nulls_equal, part, suffix, coalesces, order)
        joined = self._step(taken, [node.input_left, node.input_right])
        if node.predicate is None:
            return joined
        predicate = self._expressions.rebuilt(node.predicate.node)
        return Rebuilt(lambda run: joined.frame(run).filter(predicate), joined.taken, joined.rows)

    def _step(self, taken: Taken, inputs: list[int]) -> Rebuilt:
        sources = [self.rebuilt(each) for each in inputs]
        rows = [source.rows for source in sources]
        below = [each for source in sources for each in source.taken]
        if taken.unfit() is not None or not self._pays(min(rows)):
            return Rebuilt(lambda run: taken.by_polars([source.frame(run) for source in sources]), below, sum(rows))
        return Rebuilt(
            lambda run: run.take(taken, [source.frame(run) for source in sources], rows), [*below, taken], sum(rows)
        )


_MANY = 1 << 62  # the assumed rows of a file whose rows can only be counted by reading it
_CSV_KNOWN = {
    "skip_rows", "has_header", "infer_schema_length", "raise_if_empty", "ignore_errors", "skip_rows_after_header",
}  # fmt: skip
_CSV_OF_NO_EFFECT = {"chunk_size", "infer_schema_files", "low_memory", "n_threads", "path", "rechunk", "row_index"}


def _csv_options(told: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``scan_csv`` from a plan. Raises ``NotRebuilt`` for unusual options."""
    text = told.pop("parse_options")
    options = {name: value for name, value in told.items() if name in _CSV_KNOWN}
    usual = {"eol_char": 10, "encoding": "Utf8", "null_values": None, "comment_prefix": None, "decimal_comma": False,
             "missing_is_null": True}  # fmt: skip
    others = [told[name] for name in told.keys() - _CSV_KNOWN - _CSV_OF_NO_EFFECT]
    if any(others) or any(text[name] != value for name, value in usual.items()):
        raise NotRebuilt("a scan of CSV files with unusual options")
    quote = text["quote_char"]
    return options | {
        "separator": chr(text["separator"]),
        "quote_char": None if quote is None else chr(quote),
        "truncate_ragged_lines": text["truncate_ragged_lines"],
        "try_parse_dates": text["try_parse_dates"],
    }
