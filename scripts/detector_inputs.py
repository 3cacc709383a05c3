"""What the programs of ``detector_programs.py`` are made of: keys, and plans whose pieces and rounds are small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linkwise import _core

Array = np.ndarray[Any, Any]
Result = list[Array]
Machine = _core.VirtualRuntime | _core.AuditedRuntime
Program = Callable[[Any], Result]
HOST, GPU = _core.Place.host(), _core.Place.gpu
ROWS = 3000


def random_keys(count: int, dtype: str = "u4", seed: int = 1, distinct: int = 1 << 20) -> Array:
    """Random keys, some of which are repeated."""
    return np.random.default_rng(seed).integers(0, distinct, count).astype(dtype)


def keys_of_few_buckets(count: int, dtype: str) -> Array:
    """Keys that differ in their first and last bytes only: few buckets, as each has waits of its own."""
    last = random_keys(count, dtype, seed=2, distinct=4)
    return random_keys(count, dtype, distinct=4) * np.dtype(dtype).type(256 ** (last.itemsize - 1)) + last


def sort_plan(gpus: list[int], **fields: Any) -> _core.SortPlan:
    """A plan with these fields on those GPUs, with few samples and small pieces."""
    plan = _core.SortPlan()
    plan.gpus, plan.samples, plan.piece_bytes, plan.slack = gpus, 512, 3000, 1.0
    for name, value in fields.items():
        setattr(plan, name, value)
    return plan


def crossed(gpus: list[int]) -> list[_core.Path]:
    """Paths that relay transfers over the next GPU."""
    paths = []
    for at, gpu in enumerate(gpus):
        over = gpus[(at + 1) % len(gpus)]
        paths += [_core.Path(HOST, GPU(gpu), [over], 0.5), _core.Path(GPU(gpu), HOST, [over], 0.5)]
        paths += [_core.Path(GPU(gpu), GPU(to), [over], 0.5) for to in gpus if to not in (gpu, over)]
    return paths


def join_plan(gpus: list[int], **fields: Any) -> _core.JoinPlan:
    """A plan with several batches and windows."""
    plan = _core.JoinPlan()
    plan.batches, plan.window_rows, plan.pair_bytes = 9, 200, 4000
    own = {name: value for name, value in fields.items() if hasattr(plan, name)}
    for name, value in own.items():
        setattr(plan, name, value)
    plan.sort = sort_plan(gpus, **{name: value for name, value in fields.items() if name not in own})
    return plan


def sides(seed: int = 5, *, skewed: bool = False) -> tuple[Array, Array]:
    """Two sides that match in part; if skewed, a third of the left and a ninth of the right are one key."""
    left, right = random_keys(1500, seed=seed, distinct=2000), random_keys(900, seed=seed + 1, distinct=2000)
    if skewed:
        left[::3], right[::9] = 1000, 1000
    return left, right
