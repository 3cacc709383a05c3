"""GPUs whose kernels cannot reach each other's memory, and callers' memory that only its own GPU can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import linkwise
from linkwise import _core
from linkwise._typing import Array

APART: dict[str, Any] = {"machine": "dgx1-v100", "gpus": [0, 5]}  # no NVLink joins these two
TOGETHER: dict[str, Any] = {"machine": "h200x8", "gpus": [0, 1]}


def numbers(count: int, kind: type[np.generic] = np.int64, seed: int = 1, below: int = 1 << 30) -> Array:
    return np.random.default_rng(seed).integers(0, below, count).astype(kind)


def test_which_gpus_reach_each_other() -> None:
    """Over NVLink; over PCIe, a machine with staged peers copies through host memory."""
    runtime = _core.VirtualRuntime(linkwise.load_machine("dgx1-v100"), _core.VirtualMode.execute, 0)
    assert runtime.reach_each_other([0, 1, 2, 3])
    assert not runtime.reach_each_other([0, 5])
    assert not runtime.reach_each_other([0, 1, 5])


@pytest.mark.parametrize("strategy", ["auto", "radix", "het"])
def test_host_arrays_are_sorted_by_gpus_that_are_apart(strategy: str) -> None:
    data = numbers(200_000)
    assert (linkwise.sort(data, strategy=strategy, **APART) == np.sort(data)).all()


@pytest.mark.parametrize("streamed", [False, True])
def test_every_exchange_reaches_gpus_that_are_apart(streamed: bool) -> None:
    data = numbers(100_000, np.uint32, below=1000)
    plan = linkwise.SortPlan(strategy="radix", streamed=streamed)
    assert (linkwise.sort_indices(data, plan=plan, **APART) == np.argsort(data, kind="stable")).all()


def test_what_needs_peers_says_so() -> None:
    """Where no plan can do without: P2P merge sort, and an exchange by stores."""
    with pytest.raises(linkwise.UsageError, match=r"p2p_merge reads the memory of peers.* use radix or het"):
        linkwise.sort(numbers(1000), strategy="p2p_merge", **APART)
    fused, data = linkwise.SortPlan(strategy="radix", exchange="fused"), numbers(100_000)
    with pytest.raises(linkwise.UsageError, match="exchange is fused"):
        linkwise.sort(data, plan=fused, **APART)
    assert (linkwise.sort(data, plan=fused, machine="dgx1-v100", gpus=[0, 1]) == np.sort(data)).all()


@pytest.mark.parametrize("donate", [False, True])
@pytest.mark.parametrize("buckets", [None, 2])
def test_arrays_on_gpus_that_are_apart_are_sorted(donate: bool, buckets: int | None) -> None:
    keys = [numbers(30_000, np.uint64, seed) for seed in range(2)]
    rows = [numbers(30_000, np.uint64, seed) for seed in (2, 3)]
    whole, carried = np.concatenate(keys), np.concatenate(rows)
    plan = None if buckets is None else linkwise.SortPlan(device_buckets=buckets)
    found, with_them = linkwise.sort(keys, payload=rows, donate=donate, plan=plan, **APART)
    order = np.argsort(whole, kind="stable")
    assert (np.concatenate([np.asarray(part) for part in found]) == whole[order]).all()
    assert (np.concatenate([np.asarray(part) for part in with_them]) == carried[order]).all()


@pytest.mark.parametrize("order", [None, "key"])
@pytest.mark.parametrize("on_gpus", [False, True])
def test_gpus_that_are_apart_join(order: str | None, on_gpus: bool) -> None:
    left, right = numbers(20_000, below=3000), numbers(5_000, seed=2, below=3000)
    sides: list[Any] = [left, right]
    if on_gpus:
        sides = [[side[: len(side) // 2].copy(), side[len(side) // 2 :].copy()] for side in sides]
    found = linkwise.join_indices(*sides, order=order, **APART)
    of_left, of_right = (np.concatenate([np.asarray(part) for part in rows]) if on_gpus else rows for rows in found)
    assert (left[of_left] == right[of_right]).all()
    values, counts = np.unique(right, return_counts=True)
    matches = dict(zip(values.tolist(), counts.tolist(), strict=True))
    assert len(of_left) == sum(matches.get(key, 0) for key in left.tolist())


def test_tables_of_lent_columns_are_gathered() -> None:
    """One column alone is gathered as it lies; that of another GPU is copied by its owner first."""
    keys = [numbers(4_000, below=1000, seed=seed) for seed in range(2)]
    values = [np.arange(4_000, dtype=np.int64) + 4_000 * part for part in range(2)]
    found = linkwise.sort({"k": keys, "v": values}, by="k", **TOGETHER)
    whole, order = np.concatenate(keys), np.argsort(np.concatenate(keys), kind="stable")
    assert (np.concatenate([np.asarray(part) for part in found["k"]]) == whole[order]).all()
    assert (np.concatenate([np.asarray(part) for part in found["v"]]) == order).all()


def test_lent_text_is_compared_and_gathered() -> None:
    text = [pa.array([f"a name of {number}" for number in numbers(1000, below=300, seed=s)]) for s in range(2)]
    rows = [np.arange(1000, dtype=np.int64), np.arange(1000, 2000, dtype=np.int64)]
    found = linkwise.sort({"s": text, "r": rows}, by="s", **TOGETHER)
    whole = pa.concat_arrays(text)
    order = np.array(sorted(range(2000), key=lambda row: whole[row].as_py()))
    in_order = pa.concat_arrays([part.to_arrow() for part in found["s"]])
    assert in_order.to_pylist() == whole.take(order).to_pylist()
    assert (np.concatenate([np.asarray(part) for part in found["r"]]) == order).all()


def test_ranges_of_lent_keys() -> None:
    left = [numbers(4_000, below=1000, seed=seed) for seed in range(2)]
    right = [numbers(4_000, below=1000, seed=seed) for seed in (2, 3)]
    ranges = linkwise.join_ranges(left, right, **TOGETHER)
    assert ranges is not None


def test_the_virtual_machine_finds_accesses_that_gpus_could_not_make() -> None:
    def read(machine: str, here: int, there: int) -> None:
        runtime = _core.VirtualRuntime(linkwise.load_machine(machine), _core.VirtualMode.execute, 0)
        place, stream = _core.Place.gpu(here), runtime.stream(_core.Place.gpu(here), "compute")
        keys = runtime.allocate(_core.Place.gpu(there), 800, "keys")
        rows, to = runtime.allocate(place, 400, "rows"), runtime.allocate(place, 800, "to")
        _core.iota(runtime, stream, 4, rows.view, 0)
        _core.gather(runtime, stream, 8, 4, [keys.view], rows.view, to.view)
        runtime.synchronize()

    read("h200x8", 0, 1)
    with pytest.raises(_core.ProgramError, match="touches memory of gpu5, which gpu0 cannot reach"):
        read("dgx1-v100", 0, 5)
