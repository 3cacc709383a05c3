"""Programs that the race detector is scored with: everything that orders work between streams, the host and callers.

Each takes a virtual machine and returns what it computed. Sizes are small, and pieces, windows and rounds smaller, so
that every wait of the code is one that a program comes to.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from linkwise import _core
from linkwise.columns.gather import gather_columns_on_gpus
from linkwise.columns.key_types import key_type_of

Array = np.ndarray[Any, Any]
Result = list[Array]
Machine = _core.VirtualRuntime | _core.AuditedRuntime
Program = Callable[[Any], Result]
HOST, GPU = _core.Place.host(), _core.Place.gpu
ROWS = 3000
CALLERS_STREAM, ANOTHER_STREAM = 77, 78  # handles of streams of other software


def random_keys(count: int, dtype: str = "u4", seed: int = 1, distinct: int = 1 << 20) -> Array:
    """Keys of which some come more than once."""
    return np.random.default_rng(seed).integers(0, distinct, count).astype(dtype)


def sort_plan(gpus: list[int], **fields: Any) -> _core.SortPlan:
    """Fields by their names, on those GPUs, with few samples and small pieces."""
    plan = _core.SortPlan()
    plan.gpus, plan.samples, plan.piece_bytes, plan.slack = gpus, 512, 3000, 1.0
    for name, value in fields.items():
        setattr(plan, name, value)
    return plan


def crossed(gpus: list[int]) -> list[_core.Path]:
    """Everything takes the way over the next GPU."""
    paths = []
    for at, gpu in enumerate(gpus):
        over = gpus[(at + 1) % len(gpus)]
        paths += [_core.Path(HOST, GPU(gpu), [over], 0.5), _core.Path(GPU(gpu), HOST, [over], 0.5)]
        paths += [_core.Path(GPU(gpu), GPU(to), [over], 0.5) for to in gpus if to not in (gpu, over)]
    return paths


# Sorts of host arrays


def sort_host(
    runtime: Machine, plan: _core.SortPlan, keys: Array, values: int | Array = 4, *,
    descending: bool = False,
) -> Result:  # fmt: skip
    """Keys with row numbers of so many bytes, or with values."""
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
        "fused": {"streamed": False, "exchange": exchange.fused},
        "p2p_merge": {"strategy": strategy.p2p_merge, "streamed": False},
        "het 2n": {"strategy": strategy.het, "het_buffers": 2},
        "het 3n": {"strategy": strategy.het, "het_buffers": 3},
        "het 3n eager": {"strategy": strategy.het, "het_buffers": 3, "eager_merge": True},
    }
    groups = {"streamed": [[0], [0, 1, 2]], "p2p_merge": [[0, 1], [0, 1, 2, 3]]}
    for name, fields in ways.items():
        for gpus in groups.get(name, [[0, 1, 2]]):
            plan = sort_plan(gpus, **fields)
            yield (
                f"sort {name} on {len(gpus)}",
                functools.partial(sort_host, plan=plan, keys=random_keys(ROWS), values=4),
            )
        rounds = sort_plan(gpus, chunkset_records=700, merge_on_gpus=False, **fields)
        yield f"sort {name} in rounds", functools.partial(sort_host, plan=rounds, keys=random_keys(ROWS), values=4)
        if not name.startswith("het"):
            merged = sort_plan(gpus, chunkset_records=1000, merge_on_gpus=True, **fields)
            yield (
                f"sort {name} merged on GPUs",
                functools.partial(sort_host, plan=merged, keys=random_keys(ROWS, "i8"), values=8, descending=True),
            )
        relayed = sort_plan([0, 1, 2, 3], paths=crossed([0, 1, 2, 3]), relay_bytes=1024, **fields)
        yield (
            f"sort {name} over other GPUs",
            functools.partial(sort_host, plan=relayed, keys=random_keys(ROWS), values=random_keys(ROWS, "u8")),
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


# Sorts and joins of what lies on the GPUs


class Caller:
    """Other software with arrays on the GPUs: it writes them on its own streams, and reads what comes back there."""

    def __init__(self, runtime: Machine, gpus: list[int], stream: int = CALLERS_STREAM) -> None:
        self._runtime = runtime.inner if isinstance(runtime, _core.AuditedRuntime) else runtime
        self._gpus, self._stream = gpus, stream
        self._kept: list[Array] = []  # by copies that are still to come

    def writes(self, column: Array, seed: int = 3) -> list[Array]:
        """A column as uneven parts on the GPUs, which it copies there on its streams."""
        cuts = np.sort(np.random.default_rng(seed).integers(0, len(column) + 1, len(self._gpus) - 1))
        parts = []
        for gpu, part in zip(self._gpus, np.split(column, cuts), strict=True):
            parts.append(np.full_like(part, 0xA5 & np.iinfo(part.dtype).max))
            self._copies(gpu, parts[-1], np.ascontiguousarray(part))
        return parts

    def overwrites(self, parts: list[Array]) -> None:
        """Uses its memory for something else, behind what was handed back to it."""
        for gpu, part in zip(self._gpus, parts, strict=True):
            self._copies(gpu, part, np.full_like(part, 0x5A & np.iinfo(part.dtype).max))

    def reads(self, arrays: list[Any], dtype: Any) -> Result:
        """What lies in arrays of ours on the GPUs, by copies on its own streams, for which it waits."""
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
    donated: bool = False, verify: bool = True, descending: bool = False,
) -> Result:  # fmt: skip
    """Of arrays that the caller writes before, and overwrites after."""
    caller = Caller(runtime, plan.gpus)
    given = [caller.writes(column) for column in (keys, values) if column is not None]
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
    """By leading digits on one GPU, in one and in several buckets, merged; owned and donated; verified or not."""
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


def join_plan(gpus: list[int], **fields: Any) -> _core.JoinPlan:
    """With several batches and windows."""
    plan = _core.JoinPlan()
    plan.batches, plan.window_rows, plan.pair_bytes = 9, 200, 4000
    own = {name: value for name, value in fields.items() if hasattr(plan, name)}
    for name, value in own.items():
        setattr(plan, name, value)
    plan.sort = sort_plan(gpus, **{name: value for name, value in fields.items() if name not in own})
    return plan


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
        """Uses the memory of both sides for something else."""
        for caller, columns in zip(self._callers, self._parts, strict=True):
            for parts in columns:
                caller.overwrites(parts)

    def reads(self, rows: list[tuple[Any, Any]]) -> Result:
        """What is told of both sides of each row, or of one."""
        found = self._callers[0].reads([part for part, _ in rows], "i8")
        if rows[0][1] is not None:
            found += self._callers[0].reads([part for _, part in rows], "i8")
        return found


def join_device_totals(
    runtime: Machine, plan: _core.JoinPlan, left: Array, right: Array, how: str, *, hashed: bool = False
) -> Result:
    """Counts and sums."""
    caller = CallerOfJoins(runtime, plan.sort.gpus, left, right, values=True)
    if hashed:
        totals = _core.hash_join_device_totals(runtime, plan, *caller.sides)
    else:
        totals = _core.join_device_totals(runtime, plan, *caller.sides, how)
    caller.overwrites()
    return [np.array([totals.rows, totals.left_sum, totals.right_sum], "u8")]


def join_device_rows(
    runtime: Machine, plan: _core.JoinPlan, left: Array, right: Array, how: str, *, values: bool = True,
    any_order: bool = False,
) -> Result:  # fmt: skip
    """Row numbers of both sides."""
    caller = CallerOfJoins(runtime, plan.sort.gpus, left, right, values=values)
    rows = _core.join_device_rows(runtime, plan, *caller.sides, how, any_order=any_order)
    caller.overwrites()
    return caller.reads(rows)


def sides(seed: int = 5, *, skewed: bool = False) -> tuple[Array, Array]:
    """Of which a part matches; skewed: a third of both are one key."""
    left, right = random_keys(1500, seed=seed, distinct=2000), random_keys(900, seed=seed + 1, distinct=2000)
    if skewed:
        left[::3], right[::9] = 1000, 1000
    return left, right


def device_joins() -> Iterator[tuple[str, Program]]:
    """Totals and rows, by sorting, hashing and copies of the small side."""
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
            join_device_totals, plan=join_plan([0, 1, 2]), left=left, right=right, how="inner", hashed=True
        ),
    )
    yield (
        "join resident, small side on every GPU",
        functools.partial(
            join_device_rows, plan=join_plan([0, 1, 2]), left=left, right=right[:40], how="inner", any_order=True
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
    """Row numbers of both sides, and keys where all rows have one of the left."""
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
        if skewed:  # whose rows are many
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
    """What successive joins do: columns come, keys are packed, rows taken, and all is fetched."""
    numbers = random_keys(40_000, "i8", distinct=1000)
    column = _core.bring_column(runtime, gpus, numbers)
    rows = _core.bring_column(runtime, gpus, random_keys(3000, distinct=len(numbers)))
    packed = _core.pack_keys(runtime, gpus, [column, column], [column, column])
    assert packed is not None
    taken = _core.take_rows(runtime, gpus, column, rows)
    large = _core.bring_column(runtime, gpus, np.resize(numbers, 300_000 * len(gpus)))  # not fetched as a small one is
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
    """An application that goes as soon as it is done."""
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
