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
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Self, cast

import polars as pl

from linkwise.polars.expressions import Expressions, NotRebuilt, plain_name
from linkwise.polars.taken import Distinct, Join, Run, Sort, Taken, projected, sliced

Frame = Callable[[Run], pl.LazyFrame]


@dataclass(frozen=True)
class Size:
    """How many rows a part of a plan reads at most, how many it probably has, and how many without its filters."""

    most: int
    likely: float
    unfiltered: float

    @classmethod
    def of(cls, rows: int, selectivity: float = 1.0) -> Self:
        """The size of a source with so many rows, of which this fraction passes its filter."""
        return cls(rows, rows * selectivity, rows)

    @classmethod
    def sum(cls, sizes: Sequence[Self]) -> Self:
        """The size of several parts together."""
        return cls(*(sum(numbers) for numbers in zip(*map(astuple, sizes), strict=True)))

    def filtered(self, selectivity: float) -> Self:
        """The size of the fraction that passes a filter."""
        return replace(self, likely=self.likely * selectivity)

    def joined(self, other: Self, how: str) -> Self:
        """The size of a join with another part.

        Of an inner join it is assumed that each row of the larger side has one match before any filter, so that the
        smaller side's filters pass the same fraction of both.
        """
        most = self.most + other.most
        if how == "anti":
            return replace(self, most=most, likely=self.likely / 2)
        if how in ("inner", "semi"):
            large, small = (other, self) if how == "inner" and self.unfiltered < other.unfiltered else (self, other)
            fraction = small.likely / small.unfiltered if small.unfiltered else 0.0
            return replace(large, most=most, likely=large.likely * min(fraction, 1.0))
        if how in ("left", "right"):
            return replace(self if how == "left" else other, most=most)
        return self.sum([self, other])


@dataclass
class Rebuilt:
    """A rebuilt part of a plan."""

    frame: Frame
    schema: pl.Schema
    size: Size
    reads_files: bool
    has_all_rows: bool = False
    """Whether it has exactly as many rows as it reads."""
    taken: dict[int, Taken] = field(default_factory=dict)
    """The steps in it that Linkwise takes, by identity."""
    left: dict[int, str] = field(default_factory=dict)
    """Why others stay with Polars that would pay, by identity."""


class Plan:
    """Reads a Polars plan. ``traverser`` is valid only while Polars exposes the plan; rebuilt parts stay valid.

    ``pays`` tells whether Linkwise takes a step with this many rows; of a join, the smaller side counts.
    ``validates`` tells whether a join of the query has ``validate=``.
    """

    def __init__(self, traverser: Any, pays: Callable[[Taken, int], bool], *, validates: bool) -> None:
        self._traverser = traverser
        self._pays = pays
        self._validates = validates
        self._expressions = Expressions(traverser)
        self._known: dict[int, Rebuilt] = {}
        self._file_rows: dict[tuple[str, ...], int] = {}

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
        return pl.Schema({plain_name(name): kind for name, kind in self._traverser.get_schema().items()})

    def _made(self, make: Callable[[list[pl.LazyFrame]], pl.LazyFrame], inputs: Sequence[int]) -> Rebuilt:
        """A step on its rebuilt inputs, if that has the columns which the plan says."""
        sources = [self.rebuilt(each) for each in inputs]
        schema = self._schema()
        try:
            found = make([pl.LazyFrame(schema=source.schema) for source in sources]).collect_schema()
        except pl.exceptions.PolarsError as error:
            raise NotRebuilt(f"a step that cannot be made again: {error}") from None
        if found != schema:
            raise NotRebuilt("a step that has other columns, or of other types, when it is made again")
        return Rebuilt(
            lambda run: make([source.frame(run) for source in sources]),
            schema,
            Size.sum([source.size for source in sources]),
            any(source.reads_files for source in sources),
            taken={key: taken for source in sources for key, taken in source.taken.items()},
            left={key: reason for source in sources for key, reason in source.left.items()},
        )

    def _on(self, below: int, make: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Rebuilt:
        """A step that Polars runs, on the rebuilt part below it."""
        return self._made(lambda frames: make(frames[0]), [below])

    # Where rows come from.

    def _dataframescan(self, node: Any) -> Rebuilt:
        frame, schema = pl.DataFrame._from_pydf(node.df), self._schema()
        return Rebuilt(
            lambda run: projected(frame.lazy(), schema.names()),
            schema,
            Size.of(len(frame)),
            reads_files=False,
            has_all_rows=True,
        )

    def _scan(self, node: Any) -> Rebuilt:
        kind, told, *_ = node.scan_type
        options = node.file_options
        unusual = ("column_mapping", "default_values", "deletion_files", "hive_options")
        casts = {name: how for name, how in options.cast_columns_policy.items() if name != "null_upcast"}
        if (
            node.hive_parts is not None
            or any(getattr(options, name, None) is not None for name in unusual)
            or {options.missing_columns_policy, options.extra_columns_policy, *casts.values()} - {"raise", False}
            or any("://" in str(path) for path in node.paths)
        ):
            raise NotRebuilt("a scan of partitioned, remote or differing files")
        index = options.row_index
        named = {
            "row_index_name": index and index[0],
            "row_index_offset": index[1] if index else 0,
            "include_file_paths": options.include_file_paths,
        }
        schema = self._schema()
        predicate = None if node.predicate is None else self._expressions.rebuilt(node.predicate.node)
        try:
            if kind == "parquet":
                source = pl.scan_parquet(node.paths, glob=False, hive_partitioning=False, **named)
                rows = self._rows_of(source, tuple(map(str, node.paths)))
                has_all_rows = predicate is None and options.n_rows is None
            elif kind == "csv":
                source = pl.scan_csv(node.paths, glob=False, **_csv_options(json.loads(told)), **named)
                rows, has_all_rows = _MANY, False
            else:
                raise NotRebuilt(f"a scan of {kind} files")
            source = sliced(source, options.n_rows)
            source = projected(source if predicate is None else source.filter(predicate), schema.names())
            found = source.collect_schema()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise NotRebuilt(f"a scan of {kind} files that cannot be made again: {error}") from None
        if found != schema:
            raise NotRebuilt(f"a scan of {kind} files whose columns have other types when they are read again")
        passing = 1.0 if node.predicate is None else self._expressions.selectivity(node.predicate.node)
        size = Size.of(rows, passing)
        return Rebuilt(lambda run: source, schema, size, reads_files=True, has_all_rows=has_all_rows)

    def _rows_of(self, source: pl.LazyFrame, paths: tuple[str, ...]) -> int:
        """The rows of Parquet files, whose footers are read once."""
        if paths not in self._file_rows:
            self._file_rows[paths] = source.select(pl.len()).collect().item()
        return self._file_rows[paths]

    def _cache(self, node: Any) -> Rebuilt:
        source, key = self.rebuilt(node.input), node.id_
        return replace(source, frame=lambda run: run.once(key, source.frame))

    # What Polars does itself.

    def _sink(self, _node: Any) -> Rebuilt:
        raise NotRebuilt("a lazy sink", is_open=False)

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
        made = self._on(node.input, lambda frame: projected(frame, names))
        return replace(made, has_all_rows=self.rebuilt(node.input).has_all_rows)

    def _filter(self, node: Any) -> Rebuilt:
        predicate = self._expressions.rebuilt(node.predicate.node)
        made = self._on(node.input, lambda frame: frame.filter(predicate))
        return replace(made, size=made.size.filtered(self._expressions.selectivity(node.predicate.node)))

    def _slice(self, node: Any) -> Rebuilt:
        return self._on(node.input, lambda frame: frame.slice(node.offset, node.len))

    def _union(self, node: Any) -> Rebuilt:
        return self._made(lambda frames: sliced(pl.concat(frames), node.slice), node.inputs)

    def _groupby(self, node: Any) -> Rebuilt:
        options = node.options
        if node.apply or options.dynamic is not None or options.rolling is not None:
            raise NotRebuilt("groups by windows, or of functions of Python's")
        keys, values = (self._expressions.all_named(some) for some in (node.keys, node.aggs))
        made = self._on(
            node.input,
            lambda frame: sliced(frame.group_by(keys, maintain_order=node.maintain_order).agg(values), options.slice),
        )
        return replace(made, size=made.size.filtered(_GROUPS))

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
        part = node.slice and tuple(node.slice[:2])
        taken = Sort(self._schema(), keys, tuple(descending), tuple(nulls_last), part, is_stable=in_order)
        return self._step(taken, [node.input], self.rebuilt(node.input).size)

    def _distinct(self, node: Any) -> Rebuilt:
        keep, subset, in_order, part = node.options
        size = self.rebuilt(node.input).size.filtered(_GROUPS)
        return self._step(Distinct(self._schema(), keep, subset, part, is_in_order=in_order), [node.input], size)

    def _join(self, node: Any) -> Rebuilt:
        if self._validates:
            raise NotRebuilt("the joins of a query in which one has validate=: plans do not show which")
        how, nulls_equal, part, suffix, coalesces, order = node.options
        if how == ("Inner", "fused_predicate"):
            how = "Inner"  # the predicate is applied as a filter after the join
        elif not isinstance(how, str) or node.predicate is not None:
            raise NotRebuilt("a join by something else than equal keys")
        sides = [[self._expressions.key_of(each) for each in keys] for keys in (node.left_on, node.right_on)]
        names = [[key.column for key in keys] for keys in sides]
        if how in ("Full", "Right") and any(len({*some}) < len(some) for some in names):
            raise NotRebuilt(f"a {how.lower()} join that names a column twice")
        inputs = [node.input_left, node.input_right]
        taken = Join(
            self._schema(), cast(Any, how.lower()), sides, nulls_equal, part, suffix, coalesces, order,
            of_files=any(self.rebuilt(each).reads_files for each in inputs),
        )  # fmt: skip
        left, right = (self.rebuilt(each).size for each in inputs)
        size = left.joined(right, taken.how)
        if node.predicate is None:
            return self._step(taken, inputs, size)
        predicate = self._expressions.rebuilt(node.predicate.node)
        passing = self._expressions.selectivity(node.predicate.node)
        return self._step(taken, inputs, size.filtered(passing), lambda frame: frame.filter(predicate))

    def _step(
        self,
        taken: Taken,
        inputs: list[int],
        size: Size,
        finish: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda frame: frame,
    ) -> Rebuilt:
        """A step that Linkwise may take, of that size, and what Polars does with its rows."""
        made = replace(self._made(lambda frames: finish(taken.by_polars(frames)), inputs), size=size)
        sources = [self.rebuilt(each) for each in inputs]
        # What is read from files is collected to learn how many rows it has only if these are probably many.
        rows = [source.size.likely if made.reads_files else source.size.most for source in sources]
        if not self._pays(taken, int(min(rows))):
            return made
        if reason := taken.unfit():
            made.left[id(taken)] = reason
        else:
            are_known = [source.has_all_rows for source in sources]
            made.frame = lambda run: finish(run.take(taken, [source.frame(run) for source in sources], rows, are_known))
            made.taken[id(taken)] = taken
        return made


_GROUPS = 1 / 3  # of the rows, where nothing is known of how many groups there are
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
