"""Programs on device-resident arrays, which other software writes before and uses afterwards."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from detector_inputs import (
    GPU,
    HOST,
    ROWS,
    Array,
    Machine,
    Program,
    Result,
    crossed,
    join_plan,
    random_keys,
    sides,
    sort_plan,
)
from linkwise import _core

CALLERS_STREAM, ANOTHER_STREAM = 77, 78  # handles of streams of other software


class Caller:
    """Other software with arrays on the GPUs: it writes them on its own streams, and reads what comes back there."""

    def __init__(self, runtime: Machine, gpus: list[int], stream: int = CALLERS_STREAM) -> None:
        self._runtime = runtime.inner if isinstance(runtime, _core.AuditedRuntime) else runtime
        self._gpus, self._stream = gpus, stream
        self._kept: list[Array] = []  # alive until queued copies are done

    def writes(self, column: Array, seed: int = 3, *, evenly: bool = False) -> list[Array]:
        """Copies a column to the GPUs, in uneven parts unless told otherwise, on its own streams."""
        cuts = np.sort(np.random.default_rng(seed).integers(0, len(column) + 1, len(self._gpus) - 1))
        parts = []
        cut = np.array_split(column, len(self._gpus)) if evenly else np.split(column, cuts)
        for gpu, part in zip(self._gpus, cut, strict=True):
            parts.append(np.full_like(part, 0xA5 & np.iinfo(part.dtype).max))
            self._copies(gpu, parts[-1], np.ascontiguousarray(part))
        return parts

    def overwrites(self, parts: list[Array]) -> None:
        """Overwrites its memory, stream-ordered after that was handed back to it."""
        for gpu, part in zip(self._gpus, parts, strict=True):
            self._copies(gpu, part, np.full_like(part, 0x5A & np.iinfo(part.dtype).max))

    def reads(self, arrays: list[Any], dtype: Any) -> Result:
        """Copies our arrays from the GPUs on its own streams, and waits for the copies."""
        found = []
        for gpu, array in zip(self._gpus, arrays, strict=True):
            found.append(np.zeros(len(array), dtype))
            self._runtime.caller_copies(GPU(gpu), self._stream, self._runtime.view(HOST, found[-1]), array.view)
        for gpu in self._gpus:
            self._runtime.caller_synchronizes(GPU(gpu), self._stream)
        return found

    def _copies(self, gpu: int, to: Array, source: Array) -> None:
        self._kept += [to, source]
        self._runtime.caller_copies(
            GPU(gpu), self._stream, self._runtime.view(GPU(gpu), to), self._runtime.view(HOST, source)
        )


def sort_device(
    runtime: Machine, plan: _core.SortPlan, keys: Array, values: Array | None = None, *,
    donated: bool = False, verify: bool = True, descending: bool = False, evenly: bool = False,
) -> Result:  # fmt: skip
    """Sort arrays that the caller writes before, and overwrites afterwards unless donated."""
    caller = Caller(runtime, plan.gpus)
    given = [caller.writes(column, evenly=evenly) for column in (keys, values) if column is not None]
    sorted_parts = _core.sort_device(
        runtime, plan, given[0], given[1] if values is not None else [], [CALLERS_STREAM] * len(plan.gpus), donated,
        _core.SortOptions(descending, verify),
    )  # fmt: skip
    if not donated:
        for parts in given:
            caller.overwrites(parts)
    found = caller.reads([part for part, _ in sorted_parts], keys.dtype)
    if values is not None:
        found += caller.reads([part for _, part in sorted_parts], values.dtype)
    return found


def device_sorts() -> Iterator[tuple[str, Program]]:
    """Radix sorts on one and several GPUs, in one and several buckets, by digits that GPUs share, and merge sorts;
    donated, verified or not."""
    strategies = {"radix": 1, "radix in buckets": 7, "p2p_merge": 1}
    keys, values = random_keys(ROWS), random_keys(ROWS, "u8", 2)
    for verify, (name, buckets) in itertools.product((True, False), strategies.items()):
        told = "" if verify else ", unverified"
        gpus = [0, 1] if name == "p2p_merge" else [0, 1, 2]
        plan = sort_plan(
            gpus, strategy=getattr(_core.SortStrategy, name.split()[0]), streamed=False, device_buckets=buckets,
            exchange=_core.Exchange.fused,
        )  # fmt: skip
        yield (
            f"sort resident {name}{told}",
            functools.partial(sort_device, plan=plan, keys=keys, values=values, verify=verify),
        )
        yield f"sort resident {name} of donated floats{told}", functools.partial(
            sort_device, plan=plan, keys=keys.astype("f4").view("u4").view("i4"), donated=True, verify=verify,
            descending=True,
        )  # fmt: skip
    several = sort_plan([0, 1, 2], streamed=False)
    for verify, donated in itertools.product((True, False), (True, False)):
        told = ", donated" * donated + ", unverified" * (not verify)
        sort = functools.partial(
            sort_device, plan=several, verify=verify, donated=donated, evenly=donated, descending=donated
        )
        yield f"sort resident by shared digits{told}", functools.partial(sort, keys=random_keys(3 * ROWS, "i8"))
        yield (
            f"sort resident with values by shared digits{told}",
            functools.partial(sort, keys=random_keys(3 * ROWS), values=random_keys(3 * ROWS, "u8", 2)),
        )
    one = sort_plan([0], streamed=False)
    for verify, dtype in itertools.product((True, False), ("u4", "i8", "i2")):
        told = "" if verify else ", unverified"
        yield (
            f"sort resident {dtype} on one{told}",
            functools.partial(sort_device, plan=one, keys=random_keys(ROWS, dtype), verify=verify),
        )
        yield (
            f"sort resident {dtype} with values on one{told}",
            functools.partial(sort_device, plan=one, keys=random_keys(ROWS, dtype), values=values, verify=verify),
        )


class CallerOfJoins:
    """Other software with both sides on the GPUs, each on a stream of its own."""

    def __init__(self, runtime: Machine, gpus: list[int], left: Array, right: Array, *, values: bool) -> None:
        self._callers = [Caller(runtime, gpus, stream) for stream in (CALLERS_STREAM, ANOTHER_STREAM)]
        self._parts: list[list[list[Array]]] = []
        self.sides: list[_core.ArraysOfSide] = []
        for caller, side, stream in zip(self._callers, (left, right), (CALLERS_STREAM, ANOTHER_STREAM), strict=True):
            columns = [caller.writes(side)]
            if values:
                columns.append(caller.writes(np.arange(len(side), dtype="i8")))
            self.sides.append(_core.ArraysOfSide(columns[0], columns[1] if values else [], [stream] * len(gpus)))
            self._parts.append(columns)

    def overwrites(self) -> None:
        """Overwrites the memory of both sides."""
        for caller, columns in zip(self._callers, self._parts, strict=True):
            for parts in columns:
                caller.overwrites(parts)

    def reads(self, rows: list[tuple[Any, Any]]) -> Result:
        """Copies the row numbers of both sides, or of one."""
        found = self._callers[0].reads([part for part, _ in rows], "i8")
        if rows[0][1] is not None:
            found += self._callers[0].reads([part for _, part in rows], "i8")
        return found


def join_device_totals(
    runtime: Machine, plan: _core.JoinPlan, left: Array, right: Array, how: str, *, way: str = "sort_merge",
    table_rows: int = 0,
) -> Result:  # fmt: skip
    """Counts and sums."""
    caller = CallerOfJoins(runtime, plan.sort.gpus, left, right, values=True)
    totals = _core.join_device_totals(runtime, plan, *caller.sides, how, way=way, table_rows=table_rows)
    caller.overwrites()
    return [np.array([totals.rows, totals.left_sum, totals.right_sum], "u8")]


def join_device_rows(
    runtime: Machine, plan: _core.JoinPlan, left: Array, right: Array, how: str, *, values: bool = True,
    way: str = "sort_merge", any_order: bool = False, table_rows: int = 0,
) -> Result:  # fmt: skip
    """Row numbers of both sides."""
    caller = CallerOfJoins(runtime, plan.sort.gpus, left, right, values=values)
    rows = _core.join_device_rows(
        runtime, plan, *caller.sides, how, way=way, any_order=any_order, table_rows=table_rows
    )
    caller.overwrites()
    return caller.reads(rows)


def device_joins() -> Iterator[tuple[str, Program]]:
    """Totals and rows, by sorting, by hashing, and with the small side replicated."""
    for how, skewed in itertools.product(("inner", "full"), (False, True)):
        left, right = sides(skewed=skewed)
        told = f"{how}{' of a heavy key' if skewed else ''}"
        plan = join_plan([0, 1, 2], window_rows=3000 if skewed else 200)
        yield (
            f"join resident, totals, {told}",
            functools.partial(join_device_totals, plan=plan, left=left, right=right, how=how),
        )
        yield (
            f"join resident, rows, {told}",
            functools.partial(join_device_rows, plan=plan, left=left, right=right, how=how),
        )
    left, right = sides()
    yield (
        "join resident, row numbers, semi",
        functools.partial(join_device_rows, plan=join_plan([0, 1]), left=left, right=right, how="semi", values=False),
    )
    over = join_plan([0, 1, 2], paths=crossed([0, 1, 2]), relay_bytes=1024)
    heavy = sides(skewed=True)
    yield (
        "join resident, over other GPUs",
        functools.partial(join_device_totals, plan=over, left=heavy[0], right=heavy[1], how="inner"),
    )
    yield (
        "join resident, by hashes",
        functools.partial(
            join_device_totals, plan=join_plan([0, 1, 2]), left=left, right=right, how="full", way="hash", table_rows=8
        ),
    )
    yield (
        "join resident, rows by hashes",
        functools.partial(
            join_device_rows, plan=join_plan([0, 1, 2]), left=left, right=right, how="full", way="hash", table_rows=8
        ),
    )
    yield (
        "join resident, by hashes over other GPUs",
        functools.partial(join_device_rows, plan=over, left=left, right=right, how="semi", way="hash", values=False),
    )
    for way in ("auto", "hash"):
        yield (
            f"join resident, small side on every GPU, {'hashed' if way == 'hash' else 'whatever suits'}",
            functools.partial(
                join_device_rows, plan=join_plan([0, 1, 2]), left=left, right=right[:40], how="inner", way=way,
                any_order=True,
            ),
        )  # fmt: skip
