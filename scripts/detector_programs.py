"""Programs that the race detector is scored with: everything that orders work between streams, the host and callers.

Each takes a virtual machine and returns what it computed. Sizes are small, and pieces, windows and rounds smaller
still, so that the programs reach every wait of the code.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from detector_callers import device_joins, device_sorts
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
    keys_of_few_buckets,
    random_keys,
    sides,
    sort_plan,
)
from linkwise import _core
from linkwise.columns.gather import gather_columns_on_gpus
from linkwise.columns.key_types import key_type_of

# Sorts of host arrays


def sort_host(
    runtime: Machine, plan: _core.SortPlan, keys: Array, values: int | Array = 4, *,
    descending: bool = False,
) -> Result:  # fmt: skip
    """Sort keys with row numbers of ``values`` bytes, or with the given values."""
    carried = None if isinstance(values, int) else values
    width = values if isinstance(values, int) else values.itemsize
    out_keys, out_rows = np.zeros_like(keys), np.zeros(len(keys), f"u{width}") if width else None
    options = _core.SortOptions(descending, True)
    _core.sort_host(
        runtime, plan, key_type_of(keys.dtype), keys, carried, out_keys, out_rows,
        width if carried is None else 0, options,
    )  # fmt: skip
    return [out_keys] if out_rows is None else [out_keys, out_rows]


def host_sorts() -> Iterator[tuple[str, Program]]:
    """Every strategy, in core and in rounds, with groups of one size and of several."""
    strategy, exchange, splitting = _core.SortStrategy, _core.Exchange, _core.Splitting
    ways: dict[str, dict[str, Any]] = {
        "streamed": {"streamed": True},
        "streamed, cut by histograms": {"streamed": True, "splitting": splitting.msb},
        "copies": {"streamed": False, "exchange": exchange.copies},
        "in whole buckets": {"streamed": False, "splitting": splitting.buckets},
        "fused": {"streamed": False, "exchange": exchange.fused},
        "p2p_merge": {"strategy": strategy.p2p_merge, "streamed": False},
        "het 2n": {"strategy": strategy.het, "het_buffers": 2},
        "het 3n": {"strategy": strategy.het, "het_buffers": 3},
        "het 3n eager": {"strategy": strategy.het, "het_buffers": 3, "eager_merge": True},
    }
    groups = {"streamed": [[0], [0, 1, 2]], "p2p_merge": [[0, 1], [0, 1, 2, 3]]}
    for name, fields in ways.items():
        keys = functools.partial(keys_of_few_buckets if name == "in whole buckets" else random_keys, ROWS)
        for gpus in groups.get(name, [[0, 1, 2]]):
            plan = sort_plan(gpus, **fields)
            yield (
                f"sort {name} on {len(gpus)}",
                functools.partial(sort_host, plan=plan, keys=keys("u4"), values=4),
            )
        rounds = sort_plan(gpus, chunkset_records=700, merge_on_gpus=False, **fields)
        yield f"sort {name} in rounds", functools.partial(sort_host, plan=rounds, keys=keys("u4"), values=4)
        if not name.startswith("het"):
            merged = sort_plan(gpus, chunkset_records=1000, merge_on_gpus=True, **fields)
            yield (
                f"sort {name} merged on GPUs",
                functools.partial(sort_host, plan=merged, keys=keys("i8"), values=8, descending=True),
            )
        relayed = sort_plan([0, 1, 2, 3], paths=crossed([0, 1, 2, 3]), relay_bytes=1024, **fields)
        yield (
            f"sort {name} over other GPUs",
            functools.partial(sort_host, plan=relayed, keys=keys("u4"), values=random_keys(ROWS, "u8")),
        )
    narrow = sort_plan([0, 1], streamed=True)
    yield "sort narrow keys alone", functools.partial(sort_host, plan=narrow, keys=random_keys(ROWS, "i2"), values=0)
    on_cores = sort_plan([], strategy=strategy.cpu)
    yield "sort on the cores", functools.partial(sort_host, plan=on_cores, keys=random_keys(ROWS), values=4)
    alike = np.where(np.arange(ROWS) % 3, 7, random_keys(ROWS)).astype("u4")
    yield (
        "sort a heavy key",
        functools.partial(sort_host, plan=sort_plan([0, 1, 2], streamed=True), keys=alike, values=4),
    )
    rising = np.sort(random_keys(ROWS))
    yield (
        "sort where samples misjudge",
        functools.partial(
            sort_host, plan=sort_plan([0, 1], streamed=True, samples=4, slack=0.0), keys=rising, values=4
        ),
    )


# Joins of host arrays


def join_host_totals(
    runtime: Machine, plan: _core.JoinPlan, left: Array, right: Array, how: str, *,
    presorted: bool = False,
) -> Result:  # fmt: skip
    """Counts and sums."""
    values = [np.arange(len(side), dtype="i8") for side in (left, right)]
    totals = _core.join_totals(
        runtime, plan, key_type_of(left.dtype), left, right, *values, how, True, presorted, presorted
    )
    return [np.array([totals.rows, totals.left_sum, totals.right_sum], "u8")]


def join_host_rows(runtime: Machine, plan: _core.JoinPlan, left: Array, right: Array, how: str) -> Result:
    """Row numbers of both sides, and keys if every row has one from the left."""
    made: list[Array | None] = []

    def outputs(rows: int) -> tuple[Array | None, Array, Array | None]:
        keys = None if how in ("right", "full") else np.zeros(rows, left.dtype)
        filters = how in ("semi", "anti")
        made.extend([keys, np.zeros(rows, "u4"), None if filters else np.zeros(rows, "u4")])
        return made[0], made[1], made[2]  # type: ignore[return-value]

    _core.join_rows(runtime, plan, key_type_of(left.dtype), left, right, None, None, 4, how, True, outputs)
    return [array for array in made if array is not None]


def join_host_ranges(runtime: Machine, plan: _core.JoinPlan, left: Array, right: Array) -> Result:
    """The rows of each key."""
    return [
        np.asarray(array) for array in _core.join_ranges(runtime, plan, key_type_of(left.dtype), left, right, 4, True)
    ]


def host_joins() -> Iterator[tuple[str, Program]]:
    """In core, and out of core by sorted runs."""
    for path, how, skewed in itertools.product(("in_core", "sorted"), ("inner", "full"), (False, True)):
        left, right = sides(skewed=skewed)
        told = f"{path}, {how}{' of a heavy key' if skewed else ''}"
        fields: dict[str, Any] = {"path": getattr(_core.JoinPath, path)}
        if path == "sorted":
            fields |= {"chunkset_records": 400}
        if skewed:  # which has many rows
            fields |= {"window_rows": 3000}
        plan = join_plan([0, 1, 2], **fields)
        yield f"join, totals, {told}", functools.partial(join_host_totals, plan=plan, left=left, right=right, how=how)
        yield f"join, rows, {told}", functools.partial(join_host_rows, plan=plan, left=left, right=right, how=how)
    left, right = sides()
    out_of_core = {"path": _core.JoinPath.sorted, "chunkset_records": 400}
    narrow = left.astype("i2"), right.astype("i2")
    yield (
        "join, totals of narrow keys",
        functools.partial(join_host_totals, plan=join_plan([0, 1]), left=narrow[0], right=narrow[1], how="inner"),
    )
    yield (
        "join, ranges",
        functools.partial(join_host_ranges, plan=join_plan([0, 1], **out_of_core), left=left, right=right),
    )
    yield (
        "join, merged runs",
        functools.partial(
            join_host_totals,
            plan=join_plan([0, 1], merges_runs=True, **out_of_core),
            left=left,
            right=right,
            how="inner",
        ),
    )
    yield "join, presorted", functools.partial(
        join_host_totals, plan=join_plan([0, 1], path=_core.JoinPath.sorted), left=np.sort(left), right=np.sort(right),
        how="inner", presorted=True,
    )  # fmt: skip
    shared_nothing = {"chunkset_records": 400, "strategy": _core.SortStrategy.het}
    for path in ("pairwise", "hybrid_radix"):
        plan = join_plan([0, 1, 2], path=getattr(_core.JoinPath, path), **shared_nothing)
        yield (
            f"join, totals, {path}",
            functools.partial(join_host_totals, plan=plan, left=left, right=right, how="inner"),
        )
    yield "join over other GPUs", functools.partial(
        join_host_rows, plan=join_plan([0, 1, 2], paths=crossed([0, 1, 2]), relay_bytes=1024), left=left, right=right,
        how="inner",
    )  # fmt: skip


# Columns


def gather(runtime: Machine, gpus: list[int]) -> Result:
    """Integers, bits, strings and nulls, in chunks."""
    random = np.random.default_rng(8)
    numbers, mask = random.integers(0, 100, 800), random.random(800) < 0.2
    texts = [f"text {number}" * (number % 4) for number in numbers]
    columns = [
        pa.chunked_array([column.slice(0, 300), column.slice(300)])
        for column in (
            pa.array(numbers, pa.int32(), mask=mask), pa.array(numbers > 50, mask=mask), pa.array(texts, mask=mask),
            pa.array(texts, pa.large_string()), pa.array(numbers, pa.float64()),
        )
    ]  # fmt: skip
    gathered = gather_columns_on_gpus(runtime, gpus, columns, random.integers(-1, 800, 2000))
    return [np.array(str(column.to_pylist())) for column in gathered]


def columns_on_gpus(runtime: Machine, gpus: list[int]) -> Result:
    """The steps of successive joins: columns are copied in, keys packed, rows taken, and all is fetched."""
    numbers = random_keys(40_000, "i8", distinct=1000)
    column = _core.bring_column(runtime, gpus, numbers)
    rows = _core.bring_column(runtime, gpus, random_keys(3000, distinct=len(numbers)))
    packed = _core.pack_keys(runtime, gpus, [column, column], [column, column])
    assert packed is not None
    taken = _core.take_rows(runtime, gpus, column, rows)
    large = _core.bring_column(runtime, gpus, np.resize(numbers, 300_000 * len(gpus)))  # fetched unlike small ones
    return [np.asarray(each) for each in _core.fetch_columns(runtime, [taken, packed[0], packed[1], large])]


def column_programs() -> Iterator[tuple[str, Program]]:
    """On one GPU and several."""
    for gpus in ([0], [0, 1, 2]):
        yield f"gather columns on {len(gpus)}", functools.partial(gather, gpus=gpus)
        yield f"columns that stay on {len(gpus)}", functools.partial(columns_on_gpus, gpus=gpus)


# Proactive regions


def region(runtime: Machine, agent: str, gpus: list[int]) -> Result:
    """Three epochs of a kernel whose output all GPUs read."""
    app = _core.make_synthetic(runtime, gpus, _core.AgentPlan(agent, 4096, 512), 1 << 15, 2)
    app.run(3)
    found = []
    for gpu in gpus:
        found.append(np.zeros(1 << 13, np.uint32))
        app.fetch(gpu, found[-1])
    app.wait()
    return found


def jacobi(runtime: Machine, agent: str, gpus: list[int]) -> Result:
    """An application that reads what its peers wrote, and overwrites it."""
    rows = 4096
    diagonals = np.full((3, rows), 0.25)
    diagonals[1] = 2
    cuts = np.linspace(0, rows, len(gpus) + 1).astype(int).tolist()
    app = _core.make_jacobi(
        runtime, gpus, cuts, _core.AgentPlan(agent, 4096, 512), rows, 1, diagonals.ravel(), np.ones(rows)
    )
    app.run(4)
    found = np.zeros(rows)
    app.fetch(gpus[-1], found)
    app.wait()
    return [found]


def goes(runtime: Machine, agent: str, *, alternates: bool) -> Result:
    """An application that is destroyed as soon as it is done."""
    plan = _core.AgentPlan(agent, 4096, 512)
    if alternates:
        app = _core.make_jacobi(runtime, [0, 1], [0, 2048, 4096], plan, 4096, 1, np.full(3 * 4096, 0.2), np.ones(4096))
    else:
        app = _core.make_synthetic(runtime, [0, 1], plan, 1 << 15, 2)
    app.run(3)
    app.wait()
    del app
    return []


def flags(runtime: Machine) -> Result:
    """Two streams that take turns by flags."""
    buffers = [runtime.allocate(GPU(gpu), 4096, "turns") for gpu in (0, 1)]
    streams = [runtime.stream(GPU(gpu), "turns") for gpu in (0, 1)]
    ball = runtime.flag("ball")
    start, found = np.arange(4096, dtype=np.uint32).astype(np.uint8), np.zeros(4096, np.uint8)
    runtime.copy_in(streams[0], buffers[0].view, start)
    for turn in range(4):
        if turn:
            runtime.wait_flag(streams[turn % 2], ball, turn)
        runtime.copy(streams[turn % 2], buffers[(turn + 1) % 2].view, buffers[turn % 2].view)
        runtime.set_flag(streams[turn % 2], ball, turn + 1)
    runtime.wait_flag(streams[0], ball, 4)
    runtime.copy_out(streams[0], found, buffers[0].view)
    runtime.wait(runtime.record(streams[0]))
    runtime.host_reads(runtime.view(HOST, found))
    runtime.synchronize()
    return [found]


def region_programs() -> Iterator[tuple[str, Program]]:
    """Every agent that the virtual machine has."""
    for agent in ("bulk", "inline", "polling", "dynamic", "copy_engine", "hardware", "infinite"):
        yield f"region, {agent}", functools.partial(region, agent=agent, gpus=[2, 0, 3])
    for agent in ("bulk", "inline", "copy_engine"):
        yield f"jacobi, {agent}", functools.partial(jacobi, agent=agent, gpus=[0, 1, 2])
        yield f"synthetic that goes, {agent}", functools.partial(goes, agent=agent, alternates=False)
        yield f"jacobi that goes, {agent}", functools.partial(goes, agent=agent, alternates=True)
    yield "flags", flags


def programs() -> dict[str, Program]:
    """All of them, by name."""
    rooms = (host_sorts, device_sorts, host_joins, device_joins, column_programs, region_programs)
    return dict(itertools.chain.from_iterable(room() for room in rooms))
