"""Rebuilds Polars expressions from the nodes of an optimised plan.

An optimised plan exposes its expressions as nodes that can be read but not run. ``rebuilt`` makes equivalent
expressions of them; for an unknown node it raises ``NotRebuilt``, and that part of the query stays with Polars.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

Inputs = Sequence[pl.Expr]


@dataclass(frozen=True)
class Key:
    """A key of a join: an expression, the column that it is or casts, and whether it is that column as it is."""

    expression: pl.Expr
    column: str | None
    is_plain: bool


class NotRebuilt(Exception):
    """Raised with the reason why a part of a plan cannot be rebuilt. ``is_open``: parts below it may be replaced."""

    def __init__(self, reason: str, *, is_open: bool = True) -> None:
        super().__init__(reason)
        self.is_open = is_open


_OPERATORS: dict[str, Callable[[Any, Any], pl.Expr]] = {
    "Plus": operator.add, "Minus": operator.sub, "Multiply": operator.mul, "TrueDivide": operator.truediv,
    "FloorDivide": operator.floordiv, "Modulus": operator.mod,
    "Lt": operator.lt, "LtEq": operator.le, "Gt": operator.gt, "GtEq": operator.ge,
    "Eq": operator.eq, "NotEq": operator.ne, "EqValidity": pl.Expr.eq_missing, "NotEqValidity": pl.Expr.ne_missing,
    "And": operator.and_, "Or": operator.or_, "Xor": operator.xor,
    "LogicalAnd": operator.and_, "LogicalOr": operator.or_,
}  # fmt: skip

# Functions by Polars' name for them; each is given its inputs and its options.
_FUNCTIONS: dict[str, Callable[..., pl.Expr]] = {
    # A filter by the rows that a top-k has so far: it is an optimisation, and not needed for the result.
    "dynamic_pred": lambda inputs, *_: pl.lit(True),
    "abs": lambda inputs: inputs[0].abs(),
    "negate": lambda inputs: -inputs[0],
    "pow": lambda inputs: inputs[0] ** inputs[1],
    "round": lambda inputs, decimals, mode: inputs[0].round(decimals, mode=mode),
    "fill_null": lambda inputs: inputs[0].fill_null(inputs[1]),
    "coalesce": pl.coalesce,
    "drop_nulls": lambda inputs: inputs[0].drop_nulls(),
    "null_count": lambda inputs: inputs[0].null_count(),
    "product": lambda inputs: inputs[0].product(),
    "quantile": lambda inputs, how: inputs[0].quantile(inputs[1], how),
    "max_horizontal": pl.max_horizontal,
    "min_horizontal": pl.min_horizontal,
    "shift": lambda inputs: inputs[0].shift(inputs[1]),
    "BooleanFunction.Not": lambda inputs: ~inputs[0],
    "BooleanFunction.IsNull": lambda inputs: inputs[0].is_null(),
    "BooleanFunction.IsNotNull": lambda inputs: inputs[0].is_not_null(),
    "BooleanFunction.IsNan": lambda inputs: inputs[0].is_nan(),
    "BooleanFunction.IsNotNan": lambda inputs: inputs[0].is_not_nan(),
    "BooleanFunction.IsFinite": lambda inputs: inputs[0].is_finite(),
    "BooleanFunction.IsInfinite": lambda inputs: inputs[0].is_infinite(),
    "BooleanFunction.IsIn": lambda inputs, nulls_equal: inputs[0].is_in(inputs[1], nulls_equal=nulls_equal),
    "BooleanFunction.IsBetween": lambda inputs, closed: inputs[0].is_between(inputs[1], inputs[2], closed),
    "BooleanFunction.AllHorizontal": pl.all_horizontal,
    "BooleanFunction.AnyHorizontal": pl.any_horizontal,
    "StringFunction.Contains": lambda inputs, literal, strict: inputs[0].str.contains(
        inputs[1], literal=literal, strict=strict
    ),
    "StringFunction.StartsWith": lambda inputs: inputs[0].str.starts_with(inputs[1]),
    "StringFunction.EndsWith": lambda inputs: inputs[0].str.ends_with(inputs[1]),
    "StringFunction.Slice": lambda inputs: inputs[0].str.slice(*inputs[1:]),
    "StringFunction.Head": lambda inputs: inputs[0].str.head(inputs[1]),
    "StringFunction.Tail": lambda inputs: inputs[0].str.tail(inputs[1]),
    "StringFunction.LenChars": lambda inputs: inputs[0].str.len_chars(),
    "StringFunction.LenBytes": lambda inputs: inputs[0].str.len_bytes(),
    "StringFunction.Lowercase": lambda inputs: inputs[0].str.to_lowercase(),
    "StringFunction.Uppercase": lambda inputs: inputs[0].str.to_uppercase(),
    "StringFunction.StripChars": lambda inputs: inputs[0].str.strip_chars(inputs[1]),
    "StringFunction.ConcatHorizontal": lambda inputs, separator, ignore_nulls: pl.concat_str(
        inputs, separator=separator, ignore_nulls=ignore_nulls
    ),
    **{
        f"TemporalFunction.{name}": lambda inputs, method=method: getattr(inputs[0].dt, method)()
        for name, method in {
            "Year": "year", "IsoYear": "iso_year", "Quarter": "quarter", "Month": "month", "Week": "week",
            "WeekDay": "weekday", "Day": "day", "OrdinalDay": "ordinal_day", "Hour": "hour", "Minute": "minute",
            "Second": "second", "Date": "date", "Time": "time", "MonthStart": "month_start", "MonthEnd": "month_end",
        }.items()
    },
    "TemporalFunction.Truncate": lambda inputs: inputs[0].dt.truncate(inputs[1]),
    "TemporalFunction.OffsetBy": lambda inputs: inputs[0].dt.offset_by(inputs[1]),
}  # fmt: skip

# The fraction of rows that probably pass; of other predicates a third, as of a comparison.
_COMPARISON = 1 / 3
_PASSING = {
    "Eq": 0.1, "EqValidity": 0.1, "NotEq": 0.9, "NotEqValidity": 0.9, "dynamic_pred": 1.0,
    "BooleanFunction.IsBetween": 0.25, "BooleanFunction.IsIn": 0.5,
    "BooleanFunction.IsNull": 0.1, "BooleanFunction.IsNotNull": 0.9,
    "StringFunction.Contains": 0.1, "StringFunction.StartsWith": 0.1, "StringFunction.EndsWith": 0.1,
}  # fmt: skip

_AGGREGATIONS: dict[str, Callable[[pl.Expr, Any], pl.Expr]] = {
    "sum": lambda values, _: values.sum(),
    "mean": lambda values, _: values.mean(),
    "median": lambda values, _: values.median(),
    "min": lambda values, propagates_nan: values.nan_min() if propagates_nan else values.min(),
    "max": lambda values, propagates_nan: values.nan_max() if propagates_nan else values.max(),
    "first": lambda values, _: values.first(),
    "last": lambda values, _: values.last(),
    "n_unique": lambda values, _: values.n_unique(),
    "std": lambda values, ddof: values.std(ddof),
    "var": lambda values, ddof: values.var(ddof),
    "count": lambda values, with_nulls: values.len() if with_nulls else values.count(),
    "implode": lambda values, maintain_order: values.implode(maintain_order=maintain_order),
}


def plain_name(name: str) -> str:
    """A column's name, if it names nothing but this column where Polars takes names."""
    if name == "*" or (name.startswith("^") and name.endswith("$")):
        raise NotRebuilt(f"a column that is called {name!r}")
    return name


class Expressions:
    """Reads the expressions of a plan. ``traverser`` is Polars' view of it, and valid only while Polars shows it."""

    def __init__(self, traverser: Any) -> None:
        self._traverser = traverser

    def named(self, expression: Any) -> pl.Expr:
        """An expression with its output's name."""
        return self.rebuilt(expression.node).alias(expression.output_name)

    def all_named(self, expressions: Sequence[Any]) -> list[pl.Expr]:
        """Several expressions with their outputs' names."""
        return [self.named(expression) for expression in expressions]

    def key_of(self, expression: Any) -> Key:
        """The key of a join."""
        node = self._view(expression.node)
        is_plain = type(node).__name__ == "Column"
        while type(node).__name__ == "Cast":  # by which Polars gives both sides one type
            node = self._view(node.expr)
        name = node.name if type(node).__name__ == "Column" else None
        return Key(self.rebuilt(expression.node), name, is_plain=is_plain)

    def rebuilt(self, index: int) -> pl.Expr:
        """The expression whose node has this number. Raises ``NotRebuilt``."""
        node = self._view(index)
        kind = type(node).__name__
        make = getattr(self, f"_{kind.lower()}", None)
        if make is None:
            raise NotRebuilt(f"an expression of kind {kind}")
        made: pl.Expr = make(node)
        return made

    def selectivity(self, index: int) -> float:
        """The fraction of rows that probably pass a predicate, by its form alone.

        The factors of comparisons, ranges and lists, and how they combine, are those of Selinger et al., "Access Path
        Selection in a Relational Database Management System" (SIGMOD 1979), table 1, for columns without statistics.
        Tests of text and of nulls, which it lacks, count as equality.
        """
        node = self._view(index)
        if type(node).__name__ == "BinaryExpr":
            name = str(node.op).rpartition(".")[2]
            if name in ("And", "LogicalAnd", "Or", "LogicalOr"):
                left, right = self.selectivity(node.left), self.selectivity(node.right)
                return left * right if name.endswith("And") else left + right - left * right
            return _PASSING.get(name, _COMPARISON)
        if type(node).__name__ != "Function":
            return _COMPARISON
        function = str(node.function_data[0])
        if function == "BooleanFunction.Not":
            return 1 - self.selectivity(node.input[0])
        return _PASSING.get(function, _COMPARISON)

    def _view(self, index: int) -> Any:
        try:
            return self._traverser.view_expression(index)
        except (NotImplementedError, ValueError, OverflowError) as error:  # a Python function, for example
            raise NotRebuilt(f"an expression that Polars does not show: {error}") from None

    def _inputs(self, indices: Sequence[int]) -> list[pl.Expr]:
        return [self.rebuilt(index) for index in indices]

    def _column(self, node: Any) -> pl.Expr:
        return pl.col(plain_name(node.name))

    def _literal(self, node: Any) -> pl.Expr:
        if node.dtype in (pl.Time, pl.Datetime("ns")):
            raise NotRebuilt("a literal in nanoseconds, of which plans show microseconds")
        if type(node.value).__name__ == "PySeries":
            return pl.lit(pl.Series._from_pyseries(node.value))
        return pl.lit(node.value, dtype=node.dtype)

    def _len(self, _node: Any) -> pl.Expr:
        return pl.len()

    def _alias(self, node: Any) -> pl.Expr:
        return self.rebuilt(node.expr).alias(node.name)

    def _cast(self, node: Any) -> pl.Expr:
        # A value that does not fit: 0, is an error; 1, becomes null; 2, wraps around.
        return self.rebuilt(node.expr).cast(node.dtype, strict=node.options == 0, wrap_numerical=node.options == 2)

    def _binaryexpr(self, node: Any) -> pl.Expr:
        name = str(node.op).rpartition(".")[2]
        if name not in _OPERATORS:
            raise NotRebuilt(f"the operator {name}")
        return _OPERATORS[name](self.rebuilt(node.left), self.rebuilt(node.right))

    def _ternary(self, node: Any) -> pl.Expr:
        return pl.when(self.rebuilt(node.predicate)).then(self.rebuilt(node.truthy)).otherwise(self.rebuilt(node.falsy))

    def _function(self, node: Any) -> pl.Expr:
        function, *options = node.function_data
        if str(function) not in _FUNCTIONS:
            raise NotRebuilt(f"the function {function}")
        return _FUNCTIONS[str(function)](self._inputs(node.input), *options)

    def _agg(self, node: Any) -> pl.Expr:
        if node.name not in _AGGREGATIONS or len(node.arguments) != 1:
            raise NotRebuilt(f"the aggregation {node.name}")
        return _AGGREGATIONS[node.name](self.rebuilt(node.arguments[0]), node.options)

    def _filter(self, node: Any) -> pl.Expr:
        return self.rebuilt(node.input).filter(self.rebuilt(node.by))

    def _sort(self, node: Any) -> pl.Expr:
        _, nulls_last, descending = node.options
        return self.rebuilt(node.expr).sort(descending=descending, nulls_last=nulls_last)

    def _sortby(self, node: Any) -> pl.Expr:
        maintain_order, nulls_last, descending = node.sort_options
        return self.rebuilt(node.expr).sort_by(
            self._inputs(node.by), descending=descending, nulls_last=nulls_last, maintain_order=maintain_order
        )

    def _slice(self, node: Any) -> pl.Expr:
        return self.rebuilt(node.input).slice(self.rebuilt(node.offset), self.rebuilt(node.length))

    def _gather(self, node: Any) -> pl.Expr:
        if node.scalar:
            raise NotRebuilt("an expression that gathers one value")
        return self.rebuilt(node.expr).gather(self.rebuilt(node.idx))

    def _window(self, node: Any) -> pl.Expr:
        if node.order_by is not None or getattr(node.options, "kind", None) not in ("groups_to_rows", "GroupsToRows"):
            raise NotRebuilt("a window with an order, or with lists for rows")
        return self.rebuilt(node.function).over(self._inputs(node.partition_by))
