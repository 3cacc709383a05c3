"""An engine for Polars' lazy frames: ``lf.collect(engine=linkwise.PolarsEngine())``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Unpack

import polars as pl
from polars.exceptions import ComputeError, PerformanceWarning
from polars.lazyframe.engine import Engine, InMemoryEngine, StreamingEngine
from polars.lazyframe.query_result import SingleNodeQueryResult

from linkwise._core import CorruptDataError, UsageError
from linkwise.exceptions import warn_caller
from linkwise.polars.expressions import NotRebuilt
from linkwise.polars.plans import Plan, Rebuilt
from linkwise.polars.taken import Run, Step, Taken
from linkwise.runtime.execution import Execution, ExecutionOptions
from linkwise.runtime.sort_plan import SortPlan
from linkwise.sorting.api import sort

_PLANS_KNOWN = 16  # the supported version of Polars' plans; another one may have other nodes
_SINKS = ("sink_batches", "sink_csv", "sink_ipc", "sink_ndjson", "sink_parquet")


class PolarsEngine(Engine):
    """Runs a Polars query, with its sorts, joins, distinct rows and top-k by Linkwise where that pays.

    Polars runs everything else, including scans, into which it has pushed projections and predicates. A part of a
    query that cannot be rebuilt from Polars' plan stays with Polars; ``explain`` names it and says why. With the
    environment variable ``POLARS_VERBOSE=1`` it also causes a ``PerformanceWarning``.

    Results are those of Polars. As with Polars, rows come in any order unless the query asks for one.

    Parameters
    ----------
    pricing
        ``True``: Linkwise takes steps with a million rows or more, for a join on both sides, and eight million if rows
        come from files; with fewer, Polars is as fast or faster. How many rows of files a step will have is estimated
        first, from the plan, since learning it takes time. ``False``: it takes all steps that it can.
    raise_on_fail
        Whether a part that stays with Polars is an error.
    **execution
        Where and how it runs: see ``linkwise.options``.

    """

    def __init__(self, *, pricing: bool = True, raise_on_fail: bool = False, **execution: Unpack[Execution]) -> None:
        ExecutionOptions.of(execution, SortPlan)
        if "plan" in execution:
            raise UsageError("plan= is for one sort or one join; an engine takes machine=, gpus=, strategy= and so on")
        self.pricing = pricing
        self.raise_on_fail = raise_on_fail
        self.execution: dict[str, Any] = dict(execution)
        self._is_checked = False
        self.steps: list[Step] = []
        """The steps of the last query that was collected, and which engine ran each."""

    @property
    def name(self) -> str:
        """The engine's name."""
        return "linkwise"

    @property
    def plan_engine(self) -> str:
        """The name of the engine whose plans Polars draws."""
        return "in-memory"

    def __repr__(self) -> str:
        given = {"pricing": self.pricing, "raise_on_fail": self.raise_on_fail, **self.execution}
        return f"PolarsEngine({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def _pays(self, step: Taken, rows: int) -> bool:
        return rows >= step.least_rows or not self.pricing

    def _rebuilt(self, traverser: Any, *, validates: bool) -> tuple[dict[int, Rebuilt], list[str]]:
        """The parts of a plan in which Linkwise takes steps, by their root nodes, and the reasons why others stay."""
        version = traverser.version()[0]
        if version != _PLANS_KNOWN:
            return {}, [f"this Polars shows plans of version {version}, and Linkwise knows version {_PLANS_KNOWN}"]
        plan = Plan(traverser, self._pays, validates=validates)
        parts: dict[int, Rebuilt] = {}
        reasons: dict[str, None] = {}
        nodes = [traverser.get_node()]
        while nodes:
            node = nodes.pop()
            try:
                part = plan.rebuilt(node)
            except NotRebuilt as reason:
                reasons[str(reason)] = None
                nodes += plan.inputs(node) if reason.is_open else ()
            except RecursionError:  # hundreds of steps on each other
                reasons["a plan that is too deep"] = None
            else:
                reasons |= dict.fromkeys(part.left.values())
                if part.taken:
                    parts[node] = part
        return parts, [*reasons]

    def _check_execution(self) -> None:
        """Raise what is wrong with machine=, gpus= and so on; of a step, it would be a reason to leave it to Polars."""
        if not self._is_checked:
            sort(pl.DataFrame({"key": [1, 0]}), by="key", **self.execution)
            self._is_checked = True

    def _planned(self, lf: pl.LazyFrame, flags: pl.QueryOptFlags) -> tuple[dict[int, Rebuilt], list[str], int, bool]:
        """``_rebuilt`` for a query that is not running yet; its root node; and whether ``validates`` holds for it."""
        traverser = lf._ldf.with_optimizations(flags._pyoptflags).visit()
        parts, reasons = self._rebuilt(traverser, validates=False)
        validates = bool(parts) and _validates_joins(lf, flags)
        if validates:
            parts, reasons = self._rebuilt(traverser, validates=True)
        return parts, reasons, traverser.get_node(), validates

    def _replace(self, run: Run, traverser: Any, _since: int | None = None, *, validates: bool) -> None:
        """Put Linkwise's steps into the plan that Polars is about to run."""
        parts, _ = self._rebuilt(traverser, validates=validates)
        for node, part in parts.items():
            traverser.set_node(node)
            traverser.set_udf(run.remembering_errors(partial(_run_part, part, run)))

    def _tell(self, reasons: list[str]) -> None:
        """Warn of what stays with Polars, or raise an error, as is asked for."""
        if not reasons:
            return
        told = "stays with Polars: " + "; ".join(reasons)
        if self.raise_on_fail:
            raise UsageError(told)
        if os.environ.get("POLARS_VERBOSE") == "1":
            warn_caller(f"a part of the query {told}", PerformanceWarning)

    def explain(self, lf: pl.LazyFrame, *, optimizations: pl.QueryOptFlags | None = None) -> str:
        """Which steps of a query Linkwise takes, one a line, and why others stay with Polars. Nothing is run."""
        parts, reasons, *_ = self._planned(lf, optimizations or pl.QueryOptFlags())
        taken = {key: each for part in parts.values() for key, each in part.taken.items()}
        lines = [
            f"{each.name} {each.described()}: Linkwise" + (f", from {each.least_rows} rows on" if self.pricing else "")
            for each in taken.values()
        ]
        lines += [f"stays with Polars: {reason}" for reason in reasons]
        return "\n".join(lines) or "all stays with Polars: no sort, join or distinct rows that pay"

    def collect(
        self,
        lf: pl.LazyFrame,
        *,
        optimizations: pl.QueryOptFlags,
        background: bool = False,
        post_opt_callback: Callable[[Any, int | None], None] | None = None,
    ) -> Any:
        """Run a query; see ``polars.LazyFrame.collect``. Queries in the background run entirely on Polars."""
        if background or post_opt_callback is not None or optimizations._pyoptflags.eager:
            return InMemoryEngine().collect(
                lf, optimizations=optimizations, background=background, post_opt_callback=post_opt_callback
            )
        run = Run(self.execution, self._pays, self.raise_on_fail)
        self.steps = run.steps
        parts, reasons, root, validates = self._planned(lf, optimizations)
        self._tell(reasons)
        if not parts:
            return StreamingEngine().collect(lf, optimizations=optimizations)
        self._check_execution()
        if root in parts:
            return _result_of(parts[root], run)
        replace = run.remembering_errors(partial(self._replace, run, validates=validates))
        try:  # by the in-memory engine, the only one that lets a plan be changed
            return InMemoryEngine().collect(lf, optimizations=optimizations, post_opt_callback=replace)
        except ComputeError:
            if run.error is None:
                raise
            raise run.error from None  # the original error, of which Polars raises only the text

    def collect_async(self, lf: pl.LazyFrame, *, optimizations: pl.QueryOptFlags, gevent: bool = False) -> Any:
        """Run a query asynchronously; all of it is Polars'."""
        return InMemoryEngine().collect_async(lf, optimizations=optimizations, gevent=gevent)

    def execute(self, lf: pl.LazyFrame, *, optimizations: pl.QueryOptFlags) -> Any:
        """Run a query; see ``polars.LazyFrame.execute``."""
        return SingleNodeQueryResult(self.collect(lf, optimizations=optimizations))

    def collect_all(self, lfs: Iterable[pl.LazyFrame], *, optimizations: pl.QueryOptFlags) -> list[pl.DataFrame]:
        """Run several queries, one after another."""
        return [self.collect(lf, optimizations=optimizations) for lf in lfs]

    def collect_batches(self, lf: pl.LazyFrame, *, optimizations: pl.QueryOptFlags, **options: Any) -> Any:
        """Run a query, and give its result in batches."""
        frame = self.collect(lf, optimizations=optimizations).lazy()
        return InMemoryEngine().collect_batches(frame, optimizations=optimizations, **options)


def _validates_joins(lf: pl.LazyFrame, optimizations: pl.QueryOptFlags) -> bool:
    """Whether a join of the query has ``validate=``.

    Polars shows that in no plan, but its streaming engine leaves such joins, and no others, to the in-memory engine.
    """
    graph = lf.show_graph(raw_output=True, engine="streaming", plan_stage="physical", optimizations=optimizations)
    return '[label="in-memory-join' in str(graph)


def _sink(name: str) -> Callable[..., None]:
    def sink(
        self: PolarsEngine, lf: pl.LazyFrame, *target: Any, optimizations: pl.QueryOptFlags, **options: Any
    ) -> None:
        frame = self.collect(lf, optimizations=optimizations).lazy()
        getattr(InMemoryEngine(), name)(frame, *target, optimizations=optimizations, **options)

    sink.__name__ = name
    sink.__doc__ = f"Run a query, then write its result; see ``polars.LazyFrame.{name}``."
    return sink


for _name in _SINKS:
    setattr(PolarsEngine, _name, _sink(_name))


def _result_of(part: Rebuilt, run: Run) -> pl.DataFrame:
    result = part.frame(run).collect(engine="streaming")
    if result.schema != part.schema:
        raise CorruptDataError(f"a part of the query has columns {result.schema}, and its plan {part.schema}")
    return result


def _run_part(
    part: Rebuilt,
    run: Run,
    with_columns: None,
    predicate: None,
    rows: None,
    is_timed: bool = False,
) -> Any:
    """Run a replaced part; Polars calls this. It asks for all columns and rows."""
    assert with_columns is None and predicate is None and rows is None
    result = _result_of(part, run)
    return (result, []) if is_timed else result
