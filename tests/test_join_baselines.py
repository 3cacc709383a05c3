"""Rui et al.'s joins (join25 §4.1.4): as right as ours, and priced."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import linkwise
from conftest import cuda_runtime
from linkwise import JoinPlan, SortPlan, UsageError, _core
from linkwise.columns.key_types import key_type_of
from linkwise.joining.api import JoinRanges
from linkwise.planning.join import plan_join

Array = np.ndarray[Any, Any]
PATHS = ["pairwise", "hybrid_radix"]


def sides(rows: tuple[int, int], kind: str, most: int, seed: int) -> tuple[Array, Array, Array, Array]:
    random = np.random.default_rng(seed)
    left, right = (random.integers(0, most, count).astype(kind) for count in rows)
    width = left.dtype.itemsize
    values = [random.integers(0, 1000, count).astype(f"u{width}") for count in rows]
    return left, right, values[0], values[1]


def expected(left: Array, right: Array, left_values: Array, right_values: Array) -> tuple[int, int, int]:
    of_right: Counter[int] = Counter(right.tolist())
    of_left: Counter[int] = Counter(left.tolist())
    pairs = sum(count * of_right[key] for key, count in of_left.items())
    left_sum = sum(value * of_right[key] for key, value in zip(left.tolist(), left_values.tolist(), strict=True))
    right_sum = sum(value * of_left[key] for key, value in zip(right.tolist(), right_values.tolist(), strict=True))
    return pairs, left_sum, right_sum


def plan_of(path: str, gpus: tuple[int, ...], at_once: int = 0, pair_bytes: int = 1 << 16) -> _core.JoinPlan:
    sort = SortPlan(strategy="het", gpus=gpus, chunkset_records=at_once)
    return JoinPlan(path=path, sort=sort, pair_bytes=pair_bytes).to_core()  # type: ignore[arg-type]


def check(runtime: _core.Runtime, plan: _core.JoinPlan, columns: tuple[Array, Array, Array, Array]) -> None:
    left, right, left_values, right_values = columns
    kind = key_type_of(left.dtype)
    found = _core.join_totals(runtime, plan, kind, left, right, left_values, right_values)
    assert (found.rows, found.left_sum, found.right_sum) == expected(*columns)
    assert _core.join_totals(runtime, plan, kind, left, right, None, None).rows == found.rows


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["uint32", "int64"])
@pytest.mark.parametrize("rows", [(0, 5), (1, 1), (1000, 7000), (30_000, 20_000)])
def test_baselines_find_what_there_is(path: str, kind: str, rows: tuple[int, int]) -> None:
    for seed, (gpus, most) in enumerate((((0,), 50_000), ((1, 3), 3000), ((0, 1, 2), 50))):
        runtime = _core.VirtualRuntime(linkwise.load_machine("dgx-a100"), _core.VirtualMode.execute, seed)
        columns = sides(rows, kind, max(most, max(rows) // 20), seed)
        check(runtime, plan_of(path, gpus, at_once=0 if seed == 0 else 4000 if max(rows) > 1000 else 0), columns)


@pytest.mark.parametrize("runs", [1, 2, 3, 5, 8])
def test_runs_are_merged_two_by_two(runs: int) -> None:
    left, right, *_ = columns = sides((900, 16_000), "uint32", 5000, runs)
    runtime = _core.VirtualRuntime(linkwise.load_machine("dgx-a100"), _core.VirtualMode.execute, runs)
    plan = plan_of("pairwise", (0, 2), at_once=-(-16_000 // runs))
    check(runtime, plan, columns)
    ranges = JoinRanges(*_core.join_ranges(runtime, plan, key_type_of(left.dtype), left, right, 4, True))
    both = np.intersect1d(left, right)
    assert len(ranges.left_first) - 1 == len(both)
    np.testing.assert_array_equal(np.sort(left[ranges.left_rows]), np.sort(left[np.isin(left, both)]))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("path", PATHS)
def test_every_legal_order(path: str, seed: int) -> None:
    runtime = _core.VirtualRuntime(linkwise.load_machine("ibm-ac922"), _core.VirtualMode.execute, seed)
    check(
        runtime, plan_of(path, (0, 1, 3), at_once=3000, pair_bytes=1 << 14), sides((4000, 9000), "uint64", 4000, seed)
    )


@pytest.mark.gpu
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["uint32", "uint64"])
def test_baselines_on_gpus(path: str, kind: str) -> None:
    runtime = cuda_runtime()
    gpus = tuple(range(min(runtime.machine.num_gpus, 2)))
    columns = sides((200_000, 1_500_000), kind, 300_000, 1)
    check(runtime, plan_of(path, gpus, at_once=400_000, pair_bytes=1 << 20), columns)


def test_what_the_hybrid_radix_join_does_not_do() -> None:
    runtime = _core.VirtualRuntime(linkwise.load_machine("dgx-a100"), _core.VirtualMode.execute, 0)
    keys = np.arange(10, dtype=np.float32)
    with pytest.raises(UsageError, match="which is a baseline, does inner joins of 32-bit and 64-bit integers"):
        _core.join_totals(runtime, plan_of("hybrid_radix", (0,)), key_type_of(keys.dtype), keys, keys, None, None)
    left = np.arange(10, dtype=np.uint32)
    with pytest.raises(UsageError, match="ranges are found among sorted relations"):
        _core.join_ranges(runtime, plan_of("hybrid_radix", (0,)), key_type_of(left.dtype), left, left, 4, True)


@pytest.mark.parametrize("path", PATHS)
def test_baselines_are_priced_and_never_chosen(path: str) -> None:
    machine = linkwise.load_machine("dgx-h100")
    best = plan_join(10**8, 10**9, "uint32", machine=machine, verify=False)
    assert best.best.path in ("in_core", "sorted")
    asked = JoinPlan(path=path, sort=SortPlan(gpus=(0, 1, 2, 3)))  # type: ignore[arg-type]
    priced = plan_join(10**8, 10**9, "uint32", machine=machine, plan=asked, verify=False).best
    assert priced.path == path
    assert priced.seconds > best.best.seconds
