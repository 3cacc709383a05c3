"""What plans pin is kept, or refused by name: the ways in which it once was not."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import linkwise
from linkwise import FallbackWarning, JoinPlan, OutOfMemoryError, SortPlan, UsageError
from linkwise.runtime.plan_fields import PlanPath

MACHINE: dict[str, Any] = {"machine": "dgx-a100"}
RNG = np.random.default_rng(7)
KEYS = RNG.integers(0, 1 << 32, 20_000, dtype=np.uint32)
LEFT = RNG.integers(0, 5000, 20_000)
RIGHT = LEFT[:6000].copy()
MATCHES = int(sum(np.bincount(LEFT, minlength=5000) * np.bincount(RIGHT, minlength=5000)))
SORTED = JoinPlan(path="sorted")


@pytest.mark.parametrize("samples", [1, 2, 7])
@pytest.mark.parametrize("more", [{}, {"streamed": False, "slack": 1.0}])
def test_few_samples(samples: int, more: dict[str, Any]) -> None:
    """In a process of its own, which fewer samples than GPUs once killed."""
    program = (
        "import linkwise, numpy as np\n"
        "keys = np.random.default_rng(0).integers(0, 1 << 32, 20_000, dtype=np.uint32)\n"
        f"plan = linkwise.SortPlan(samples={samples}, gpus=(0, 1), **{more})\n"
        "assert (linkwise.sort(keys, plan=plan, machine='dgx-a100') == np.sort(keys)).all()\n"
        f"plan = linkwise.JoinPlan(path='sorted', sort=linkwise.SortPlan(samples={samples}, gpus=(0, 1)))\n"
        "assert linkwise.join_count(keys, keys[:100], plan=plan, machine='dgx-a100') >= 100\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        # The strategy is one by which the cores join, or has not what is pinned.
        (lambda: _count(JoinPlan(path="in_core", batches=4, sort=SortPlan(strategy="het"))), "path is of joins on the"),
        (lambda: _count(JoinPlan(window_rows=100, sort=SortPlan(strategy="het"))), "window_rows is of joins on the"),
        (lambda: _count(SORTED, strategy="cpu"), "path is of joins on the GPUs, and with strategy 'cpu'"),
        (lambda: _sort(SortPlan(chunkset_records=3000), strategy="cpu"), "s is of radix, p2p_merge and het"),
        (lambda: _sort(SortPlan(merge_on_gpus=True), strategy="het"), "merge_on_gpus is of radix and p2p_merge"),
        (lambda: _count(JoinPlan(sort=SortPlan(relay_bytes=8192)), strategy="cpu"), "relay_bytes is of radix"),
        # Joins in core.
        (lambda: _count(JoinPlan(path="in_core", sort=SortPlan(chunkset_records=500))), "chunkset_records is 500, and"),
        (lambda: _count(JoinPlan(batches=2, sort=SortPlan(splitting="msb"))), "splitting is msb, and joins in core"),
        (lambda: _count(JoinPlan(batches=2, sort=SortPlan(buckets=2))), "buckets is 2, and joins in core"),
        (lambda: _count(JoinPlan(batches=64), how="full"), "batches is 64, and both sides of a full join"),
        # Joins in host memory.
        (lambda: _rows(JoinPlan(merges_runs=False)), "merges_runs is False, and rows and ranges"),
        (lambda: _count(JoinPlan(merges_runs=False), strategy="het"), "merges_runs is False, and het"),
        (
            lambda: _count(JoinPlan(path="sorted", sort=SortPlan(chunkset_records=100))),
            "chunkset_records is 100, and a join of 20000 rows is sorted in 64 parts at most",
        ),
        (
            lambda: linkwise.join_count(
                LEFT, RIGHT, machine="dgx1-v100",
                plan=JoinPlan(path="sorted", sort=SortPlan(exchange="fused", gpus=(0, 5))),
            ),
            "exchange is fused",
        ),
        (
            lambda: linkwise.plan_join(10**6, 10**6, wants_ranges=True, plan=JoinPlan(path="in_core"), **MACHINE),
            "path is in_core, and ranges",
        ),
        (lambda: _rows(JoinPlan(path="hybrid_radix")), "path is hybrid_radix, which only counts rows"),
        # GPUs that there are not.
        (lambda: linkwise.sort(KEYS, gpus=[0, 99], plan=SortPlan(exchange="fused"), **MACHINE), "there is no GPU 99"),
        (lambda: _count(JoinPlan(sort=SortPlan(gpus=(0, 10**6), exchange="fused"))), "there is no GPU 1000000"),
        # Paths that nothing takes.
        (lambda: _sort(_over(PlanPath("gpu0", "gpu1", (2,)), streamed=True)), "paths has one between"),
        (lambda: _sort(_over(PlanPath("gpu0", "gpu1", (2,)), exchange="fused")), "paths has one between"),
        (lambda: _sort(_over(PlanPath("gpu0", "gpu1", (2,)), strategy="het")), "paths has one between"),
        (lambda: _sort(_over(PlanPath("host9", "gpu1", (0,)))), "has an end at host9"),
        (lambda: _sort(_over(PlanPath("host0", "gpu5", (0,)))), "has an end at gpu5"),
        (lambda: _sort(_over(PlanPath("host0", "host0", (0,)))), "leads nowhere"),
        (lambda: linkwise.sort([KEYS, KEYS, KEYS], plan=_over(PlanPath("gpu0", "gpu1", (2,))), **MACHINE), "paths of"),
        (lambda: linkwise.sort([KEYS] * 8, plan=SortPlan(device_buckets=64), **MACHINE), "device_buckets is 64, and"),
        # Values.
        (lambda: SortPlan(gpus=()), "gpus is empty"),
        (lambda: SortPlan(gpus=[True, False]), "gpus is"),
        (lambda: SortPlan(gpus=np.zeros((40, 4))), r"^gpus is [^\n]*…; it is a list of GPU numbers$"),
        (lambda: SortPlan(paths=[(0, 1, (2,))]), "paths is"),
        (lambda: SortPlan(slack="0.5"), "slack is '0.5'"),
        (lambda: SortPlan(chunkset_records=np.True_), "chunkset_records is"),
        (lambda: JoinPlan(window_rows=1 << 60), "window_rows is"),
        (lambda: SortPlan.parse(5), "a plan in words is text"),
        (lambda: SortPlan.from_dict(5), "the fields of a plan are a dict"),
        (lambda: SortPlan.parse("het,radix"), "strategy is said twice, as het and radix"),
        (lambda: SortPlan.parse("buffers=2,buffers=3"), "het_buffers is said twice"),
        (lambda: SortPlan.parse("buckets=16.7"), "buckets is '16.7'"),
        (lambda: SortPlan.parse("records=inf"), "chunkset_records is 'inf'"),
        (lambda: JoinPlan.parse("in_core,sorted"), "path is said twice"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call()


def _count(plan: JoinPlan, how: Any = "inner", **more: Any) -> int:
    return linkwise.join_count(LEFT, RIGHT, how, plan=plan, **more, **MACHINE)


def _rows(plan: JoinPlan) -> Any:
    return linkwise.join_indices(LEFT, RIGHT, plan=plan, **MACHINE)


def _sort(plan: SortPlan, **more: Any) -> Any:
    return linkwise.sort_and_report(KEYS, plan=plan, **more, **MACHINE)[1].plan


def _over(path: PlanPath, **more: Any) -> SortPlan:
    return SortPlan(**{"strategy": "radix", "gpus": (0, 1, 2), "paths": (path,), **more})


def test_ways_between_gpus_are_taken() -> None:
    for strategy in ("radix", "p2p_merge"):
        gpus = (0, 1, 2) if strategy == "radix" else (0, 1, 2, 3)
        plan = _over(PlanPath("gpu0", "gpu1", (2,)), strategy=strategy, gpus=gpus)
        values, report = linkwise.sort_and_report(KEYS, plan=plan, **MACHINE)
        assert (values == np.sort(KEYS)).all() and report.plan.paths == plan.paths
        assert report.plan.streamed in (False, None)


def test_rows_that_are_sorted_at_once_lead_to_the_sorted_path() -> None:
    plan = JoinPlan(sort=SortPlan(chunkset_records=6000))
    assert _count(plan) == MATCHES and len(_rows(plan)[0]) == MATCHES
    assert linkwise.plan_join(20_000, 6_000, plan=plan, **MACHINE).best.path == "sorted"


def test_a_plan_in_core_says_only_what_joins_in_core_do() -> None:
    best = linkwise.plan_join(10**6, 10**6, key="i64", **MACHINE).best
    assert best.path == "in_core" and best.sort is not None and best.sort.chunkset_records is None
    assert linkwise.join_count(LEFT, RIGHT, plan=best, **MACHINE) == MATCHES


def test_a_plan_leaves_records_at_once_to_the_memory_that_is_free() -> None:
    """The machine is described with more than is free when the sort runs."""
    keys = np.tile(KEYS, 40)
    best = linkwise.plan_sort(len(keys), "u32", memory_limit="4MiB", gpus=[0, 1], strategy="radix", **MACHINE).best
    assert best.chunkset_records is None and "records at once" in str(best)
    assert (linkwise.sort(keys, plan=best, memory_limit="3MiB", **MACHINE) == np.sort(keys)).all()


def test_a_join_without_room_keeps_how_its_sides_are_sorted() -> None:
    plan = JoinPlan(sort=SortPlan(samples=20, gpus=(2, 3)))
    with pytest.warns(FallbackWarning), pytest.raises(OutOfMemoryError, match="too small to sort anything"):
        _count(plan, memory_limit="400KiB")
    with pytest.raises(OutOfMemoryError, match="path|gpus|in_core"):
        _count(JoinPlan(path="in_core", sort=SortPlan(gpus=(2,))), memory_limit="200KiB")


def test_what_only_counts_needs_no_room_for_rows() -> None:
    keys = RNG.integers(0, 1 << 62, 400_000, dtype=np.uint64)
    plan = JoinPlan(path="in_core", sort=SortPlan(gpus=(0,)))
    assert linkwise.join_count(keys, keys, plan=plan, memory_limit="80MiB", **MACHINE) >= len(keys)


def test_a_named_strategy_is_that_of_sorted_joins() -> None:
    for strategy in ("het", "p2p_merge"):
        best = linkwise.plan_join(10**6, 10**6, strategy=strategy, path="sorted", **MACHINE).best
        assert best.strategy == strategy


def test_an_empty_side_has_nothing_to_be_planned() -> None:
    assert linkwise.join_count(LEFT, RIGHT[:0], plan=JoinPlan(path="in_core", batches=4), **MACHINE) == 0


def test_fields_of_radix_hold_for_joins_of_data_on_gpus() -> None:
    sides = [LEFT[:10_000], LEFT[10_000:]], [RIGHT[:3000], RIGHT[3000:]]
    for plan in (SortPlan(samples=100), SortPlan(strategy="radix", slack=0.3)):
        assert linkwise.join_count(*sides, plan=JoinPlan(sort=plan), **MACHINE) == MATCHES


def test_resident_plans_look_at_the_limit() -> None:
    with pytest.raises(OutOfMemoryError):
        linkwise.plan_sort(10**9, resident=True, memory_limit="1MiB", **MACHINE)
    with pytest.raises(UsageError, match="not a size"):
        linkwise.plan_sort(10**9, resident=True, memory_limit="nonsense", **MACHINE)


def test_falling_back_warns_every_time() -> None:
    for _ in range(2):
        with pytest.warns(FallbackWarning, match="p2p_merge runs on 2, 4, 8"):
            linkwise.sort(KEYS, strategy="p2p_merge", gpus=[0, 1, 2], **MACHINE)


def test_none_leaves_a_field_to_the_planner() -> None:
    assert SortPlan(strategy="het", het_buffers=3, gpus=(0,)).replace(strategy=None) == SortPlan(gpus=(0,))
    assert SortPlan(strategy="radix", buckets=4).replace(streamed=None) == SortPlan(strategy="radix")
    assert JoinPlan(path="in_core", batches=4).replace(path=None) == JoinPlan()


def test_inner_blocks_win() -> None:
    gpus, het = SortPlan(strategy="radix", gpus=(0, 2)), SortPlan(strategy="het")

    def ran(**more: Any) -> SortPlan:
        plan = linkwise.sort_and_report(KEYS, **more)[1].plan
        assert isinstance(plan, SortPlan)
        return plan

    with warnings.catch_warnings(), linkwise.options(**MACHINE):
        warnings.simplefilter("error")
        with linkwise.options(plan=gpus), linkwise.options(gpus=[5]):
            assert (ran().strategy, ran().gpus) == ("radix", (5,))
        with linkwise.options(gpus=[5], strategy="het"), linkwise.options(plan=gpus):
            assert (ran().strategy, ran().gpus) == ("radix", (0, 2))
        with linkwise.options(plan=het), linkwise.options(strategy="radix"):
            assert ran().strategy == "radix"
        with linkwise.options(gpus=[0, 1]), linkwise.options(strategy="cpu"):
            assert ran().strategy == "cpu"
        with linkwise.options(gpus=[0, 1]):
            assert ran(plan=SortPlan(strategy="cpu")).strategy == "cpu"
        with linkwise.options(strategy="cpu"):
            assert ran(plan=SortPlan(strategy="radix", chunkset_records=9000)).chunkset_records == 9000
            assert ran(plan=SortPlan(chunkset_records=9000)).chunkset_records == 9000
        with linkwise.options(plan=SortPlan(strategy="radix", gpus=(3,))), linkwise.options(plan=SORTED):
            assert ran().gpus == (3,)
        with linkwise.options(plan=SortPlan(strategy="het", gpus=(3,))):
            assert ran(gpus="auto", strategy="radix").gpus != (3,)
            assert ran(strategy="auto").gpus == (3,)
        with linkwise.options(plan=_over(PlanPath("gpu0", "gpu1", (2,)))):
            assert ran(gpus=[3]).gpus == (3,)
        with linkwise.options(plan=JoinPlan(path="in_core")):
            assert linkwise.plan_join(10**6, 10**6, path="sorted").best.path == "sorted"


def test_what_options_refuses() -> None:
    for given, error in (({"on_progress": print}, TypeError), ({"plan": "het"}, UsageError), ({"plan": 5}, UsageError)):
        with pytest.raises(error), linkwise.options(**given):  # type: ignore[arg-type]
            pass


@pytest.mark.parametrize("rows", range(61, 81))
def test_a_last_chunk_that_is_a_record_longer_replaces_another(rows: int) -> None:
    """In place, piece by piece: of 20 records the third of eight GPUs has 2, and of the last 19 it has 3."""
    plan = SortPlan(strategy="het", het_buffers=3, chunkset_records=20)
    keys = KEYS[:rows]
    assert np.array_equal(linkwise.sort(keys, plan=plan, gpus=list(range(8)), **MACHINE), np.sort(keys))
