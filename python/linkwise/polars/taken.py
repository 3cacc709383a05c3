"""The steps of a plan that Linkwise takes from Polars: sorts, joins and distinct rows, with the same results.

Either engine can run a step, which is decided when its input has been computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast

import polars as pl
from polars import selectors

from linkwise._core import UsageError
from linkwise._log import log
from linkwise.joining.api import join
from linkwise.joining.matching import How
from linkwise.polars.expressions import Key
from linkwise.sorting.api import sort, top_k, unique

Rows = TypeVar("Rows", pl.DataFrame, pl.LazyFrame)

_MANY_ROWS, _MANY_STREAMED_ROWS = 1_000_000, 8_000_000

_COLUMN, _KEY = "column {}", "key {}"  # of frames whose columns are named by position
_LEFT, _RIGHT = "left {}", "right {}"


def sliced(frame: Rows, part: Sequence[Any] | None) -> Rows:
    """A frame, or only its slice ``part`` (offset, length, if there is an end)."""
    return frame if part is None else frame.slice(part[0], part[1])


def projected(frame: Rows, names: Sequence[str]) -> Rows:
    """A frame with some of its columns, or with none and as many rows, which selecting none would lose."""
    return frame.select(names) if names else frame.drop(selectors.all())


class Taken(Protocol):
    """A step that Linkwise can take. ``name`` is what it is called in explanations."""

    name: ClassVar[str]

    @property
    def least_rows(self) -> int:
        """The rows from which on it pays, for a join of its smaller side."""

    def unfit(self) -> str | None:
        """Why Linkwise cannot run the step; ``None`` if it can."""

    def described(self) -> str:
        """A one-line description: the columns, and the kind of step."""

    def by_linkwise(self, frames: Sequence[pl.DataFrame], execution: dict[str, Any]) -> pl.DataFrame:
        """The result, computed by Linkwise."""

    def by_polars(self, frames: Sequence[pl.LazyFrame]) -> pl.LazyFrame:
        """The result, as a lazy frame that Polars computes."""


@dataclass(frozen=True)
class Step:
    """How a step was run: by which engine, and why not by Linkwise. ``rows`` are those of a join's smaller side."""

    name: str
    description: str
    rows: int
    by: str
    reason: str | None = None


@dataclass
class Run:
    """One run of a plan: its shared parts, and the steps that it has run so far."""

    execution: dict[str, Any]
    pays: Callable[[Taken, int], bool]
    raise_on_fail: bool = False
    steps: list[Step] = field(default_factory=list)
    error: BaseException | None = None
    _shared: dict[Any, pl.LazyFrame] = field(default_factory=dict)

    def remembering_errors(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function for Polars to call, such that its exception is kept; Polars keeps only the text."""

        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except BaseException as error:
                self.error = error
                raise

        return call

    def once(self, key: Any, frame: Callable[[Run], pl.LazyFrame]) -> pl.LazyFrame:
        """A part that occurs several times in the plan, and is computed once."""
        if key not in self._shared:
            self._shared[key] = frame(self).collect(engine="streaming").lazy()
        return self._shared[key]

    def take(
        self, taken: Taken, inputs: Sequence[pl.LazyFrame], likely_rows: Sequence[float], are_known: Sequence[bool]
    ) -> pl.LazyFrame:
        """Run a step by Linkwise, or by Polars if that is faster or Linkwise cannot.

        ``likely_rows``: of each input; ``are_known``: whether it has exactly as many. An input whose number of rows is
        not known is computed first; of two such inputs, the one that probably has fewer. If it has too few rows, the
        other one stays a part of Polars' plan, which need not hold it in memory.
        """
        frames: dict[int, pl.DataFrame] = {}
        for place in sorted(range(len(inputs)), key=lambda place: (are_known[place], likely_rows[place])):
            frames[place] = inputs[place].collect(engine="streaming")
            if not self.pays(taken, len(frames[place])):
                reason = "too few rows to pay"
                break
        else:
            try:
                result = taken.by_linkwise([frames[place] for place in range(len(inputs))], self.execution)
            except UsageError as error:  # an unsupported type, for example
                if self.raise_on_fail:
                    raise
                reason = str(error)
            else:
                self._tell(taken, frames.values(), "Linkwise")
                return result.lazy()
        self._tell(taken, frames.values(), "Polars", reason)
        return taken.by_polars([frames[at].lazy() if at in frames else lazy for at, lazy in enumerate(inputs)])

    def _tell(self, taken: Taken, frames: Iterable[pl.DataFrame], by: str, reason: str | None = None) -> None:
        step = Step(taken.name, taken.described(), min(map(len, frames)), by, reason)
        self.steps.append(step)
        log.info("%s %s of %d rows by %s", step.name, step.description, step.rows, step.by)


def _text(expressions: Sequence[pl.Expr]) -> str:
    return ", ".join(expression.meta.output_name() for expression in expressions)


def _has_order(dtype: pl.DataType) -> bool:
    """Whether Linkwise and Polars order values of this type alike."""
    return dtype.is_numeric() or dtype.is_temporal() or dtype in (pl.Boolean, pl.String, pl.Binary)


def _unordered(kinds: Iterable[pl.DataType]) -> str | None:
    unordered = [str(kind) for kind in kinds if not _has_order(kind)]
    return f"keys of type {', '.join(unordered)} have an order of Polars' own" if unordered else None


def _types_of(keys: Sequence[pl.Expr], schema: pl.Schema) -> list[pl.DataType]:
    """The types of keys; none if the plan does not tell."""
    named = [key.alias(_KEY.format(place)) for place, key in enumerate(keys)]
    try:
        return list(pl.LazyFrame(schema=schema).select(named).collect_schema().values())
    except pl.exceptions.PolarsError:
        return []


def _unreadable(schema: pl.Schema) -> str | None:
    strange = [name for name, kind in schema.items() if kind in (pl.Int128, pl.UInt128)]
    return f"{', '.join(strange)} of 128 bits, which Arrow does not have" if strange else None


@dataclass
class Sort:
    """Rows sorted by some keys, or only their slice ``part`` (offset, length)."""

    name: ClassVar = "sort"
    least_rows: ClassVar = _MANY_ROWS

    schema: pl.Schema
    keys: list[pl.Expr]
    descending: tuple[bool, ...]
    nulls_last: tuple[bool, ...]
    part: tuple[int, int | None] | None
    is_stable: bool

    def unfit(self) -> str | None:
        """See ``Taken``."""
        if self.part is not None and self.part[0] < 0:
            return "rows from the end of an order"
        return _unordered(_types_of(self.keys, self.schema)) or _unreadable(self.schema)

    def described(self) -> str:
        """See ``Taken``."""
        return f"by {_text(self.keys)}" + (f", rows {self.part[0]} and {self.part[1]} on" if self.part else "")

    def by_linkwise(self, frames: Sequence[pl.DataFrame], execution: dict[str, Any]) -> pl.DataFrame:
        """See ``Taken``."""
        frame, names = _with_keys(frames[0], self.keys, _COLUMN)
        if reason := _unordered(frame.schema[name] for name in names):
            raise UsageError(reason)
        # To Polars -0.0 and 0.0 are one key, and so are all NaNs; to Linkwise they are two each.
        frame = frame.with_columns(
            pl.when(pl.col(name) == 0.0)
            .then(0.0)
            .when(pl.col(name).is_nan())
            .then(float("nan"))
            .otherwise(pl.col(name))
            .cast(dtype)
            .alias(name)
            for name, dtype in frame.select(names).schema.items()
            if dtype.is_float()
        )
        how = {
            "by": names,
            "descending": list(self.descending),
            "nulls": ["last" if last else "first" for last in self.nulls_last],
            **execution,
        }
        offset, length = self.part or (0, None)
        in_order = sort(frame, **how) if length is None else top_k(frame, offset + length, **how)
        return _renamed(sliced(in_order, self.part).drop(names), self.schema.names())

    def by_polars(self, frames: Sequence[pl.LazyFrame]) -> pl.LazyFrame:
        """See ``Taken``."""
        in_order = frames[0].sort(
            self.keys,
            descending=list(self.descending),
            nulls_last=list(self.nulls_last),
            maintain_order=self.is_stable,
        )
        return sliced(in_order, self.part)


@dataclass
class Distinct:
    """One row of each key; if ``columns`` is ``None``, the key is all columns."""

    name: ClassVar = "distinct"
    least_rows: ClassVar = _MANY_ROWS

    schema: pl.Schema
    keep: Literal["first", "last", "any", "none"]
    columns: list[str] | None
    part: tuple[int, int | None] | None
    is_in_order: bool

    def unfit(self) -> str | None:
        """See ``Taken``."""
        if self.keep not in ("any", "first") or self.is_in_order:
            return "distinct rows in the order of the input, or last ones"
        keys = {name: self.schema[name] for name in self.columns or self.schema.names()}
        unfit = [name for name, dtype in keys.items() if dtype.is_float() or not _has_order(dtype)]
        if unfit:
            return f"distinct rows by {', '.join(unfit)}: equal floats and nested values are Polars' own"
        return _unreadable(self.schema)

    def described(self) -> str:
        """See ``Taken``."""
        return f"by {', '.join(self.columns or self.schema.names())}"

    def by_linkwise(self, frames: Sequence[pl.DataFrame], execution: dict[str, Any]) -> pl.DataFrame:
        """See ``Taken``."""
        places = {name: _COLUMN.format(place) for place, name in enumerate(frames[0].columns)}
        frame = _renamed(frames[0], [*places.values()])
        found = unique(frame, by=[places[name] for name in self.columns or places], **execution)
        return sliced(_renamed(found, self.schema.names()), self.part)

    def by_polars(self, frames: Sequence[pl.LazyFrame]) -> pl.LazyFrame:
        """See ``Taken``."""
        return sliced(frames[0].unique(self.columns, keep=self.keep, maintain_order=self.is_in_order), self.part)


@dataclass
class Join:
    """A join by equal keys. ``sides``: the keys of each side."""

    name: ClassVar = "join"

    schema: pl.Schema
    how: Literal["inner", "left", "right", "full", "semi", "anti", "cross"]
    sides: list[list[Key]]
    nulls_equal: bool
    part: tuple[int, int | None] | None
    suffix: str
    coalesces: bool
    order: Literal["none", "left", "right", "left_right", "right_left"]
    of_files: bool
    """Whether rows of a side come from files: Polars streams these through its join, and for ours all are collected."""

    @property
    def least_rows(self) -> int:
        """See ``Taken``."""
        return _MANY_STREAMED_ROWS if self.of_files else _MANY_ROWS

    def unfit(self) -> str | None:
        """See ``Taken``."""
        if self.how not in ("inner", "left", "right", "full", "semi", "anti"):
            return f"a {self.how} join"
        if self.order not in ("none", "left", "left_right") or (self.order != "none" and self.how in ("right", "full")):
            return f"a {self.how} join in the order of {self.order}"
        return _unreadable(self.schema)

    def described(self) -> str:
        """See ``Taken``."""
        left, right = (_text([key.expression for key in keys]) for keys in self.sides)
        return f"{self.how}, {left} = {right}"

    def by_linkwise(self, frames: Sequence[pl.DataFrame], execution: dict[str, Any]) -> pl.DataFrame:
        """See ``Taken``."""
        (left, left_names), (right, right_names) = (
            _as_side(frame, keys, pattern)
            for frame, keys, pattern in zip(frames, self.sides, (_LEFT, _RIGHT), strict=True)
        )
        if self.how in ("semi", "anti"):
            right = right.select([*dict.fromkeys(right_names)])
        joined = join(
            left, right, left_on=left_names, right_on=right_names, how=cast("How", self.how),
            nulls_equal=self.nulls_equal, order=None if self.order == "none" else "left", **execution,
        )  # fmt: skip
        columns = self._columns([frame.columns for frame in frames])
        result = joined.select(expression.alias(name) for name, expression in columns.items())
        if result.columns != self.schema.names():
            raise UsageError(f"Polars' join has columns {self.schema.names()}, not {result.columns}")
        result = result.cast({name: kind for name, kind in self.schema.items() if result.schema[name] != kind})
        return sliced(result, self.part)

    def _columns(self, names: Sequence[Sequence[str]]) -> dict[str, pl.Expr]:
        """The columns of the result by name, as expressions over the sides' columns, which are named by position."""
        left = [_LEFT.format(place) for place in range(len(names[0]))]
        right = [_RIGHT.format(place) for place in range(len(names[1]))]
        found = dict(zip(names[0], map(pl.col, left), strict=True))
        if self.how in ("semi", "anti"):
            return found
        keys = [[key.column for key in keys] for keys in self.sides]
        pairs = [(a, b) for a, b in zip(*keys, strict=True) if a is not None and b is not None and self.coalesces]
        if self.how == "right":
            for of_left, _ in pairs:
                found.pop(of_left, None)
        for of_left, of_right in pairs if self.how == "full" else ():
            found[of_left] = pl.coalesce(found[of_left], pl.col(right[names[1].index(of_right)]))
        for name, place in zip(names[1], right, strict=True):
            shown = f"{name}{self.suffix}" if name in found else name
            is_coalesced = self.how == "full" and name in {of_right for _, of_right in pairs}
            # A filter by equal columns that Polars has made a key of keeps both of them: the plan's columns say so.
            is_dropped = self.how in ("inner", "left") and name in keys[1] and shown not in self.schema
            if not is_coalesced and not is_dropped:
                found[shown] = pl.col(place)
        return found

    def by_polars(self, frames: Sequence[pl.LazyFrame]) -> pl.LazyFrame:
        """See ``Taken``."""
        if self.how == "cross":
            joined = frames[0].join(frames[1], how="cross", suffix=self.suffix)
        else:
            keeps_both = self.how in ("inner", "left")
            coalesces = self.coalesces and not keeps_both  # which Polars does with columns, not with casts of them
            left_on, right_on = (
                [pl.col(key.column) if coalesces and key.column is not None else key.expression for key in side]
                for side in self.sides
            )
            joined = frames[0].join(
                frames[1], left_on=left_on, right_on=right_on, how=self.how, suffix=self.suffix,
                nulls_equal=self.nulls_equal, coalesce=coalesces, maintain_order=self.order,
            )  # fmt: skip
            if keeps_both:
                joined = joined.select(self.schema.names())
        return sliced(joined, self.part)


def _renamed(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """A frame with other names, whatever they are."""
    frame = frame.clone()
    frame.columns = list(names)
    return frame


def _with_keys(frame: pl.DataFrame, keys: Sequence[pl.Expr], pattern: str) -> tuple[pl.DataFrame, list[str]]:
    """A frame with its columns named by position, followed by keys; and the names of these.

    Raises ``UsageError`` for keys that do not have a value for each row.
    """
    names = [_KEY.format(place) for place in range(len(keys))]
    try:
        made = frame.select(key.alias(name) for key, name in zip(keys, names, strict=True))
    except pl.exceptions.PolarsError as error:
        raise UsageError(f"keys that differ in length: {error}") from None
    if keys and len(made) != len(frame):
        raise UsageError(f"{len(made)} keys for {len(frame)} rows")
    return _renamed(frame, [pattern.format(place) for place in range(frame.width)]).hstack(made), names


def _as_side(frame: pl.DataFrame, keys: Sequence[Key], pattern: str) -> tuple[pl.DataFrame, list[str]]:
    """A side with its columns named by position, followed by computed keys; and the names of all keys."""
    columns = frame.columns
    side, made = _with_keys(frame, [key.expression for key in keys if not key.is_plain], pattern)
    computed = iter(made)
    names = [pattern.format(columns.index(str(key.column))) if key.is_plain else next(computed) for key in keys]
    return side, names
