"""Runs one multi-GPU sort through the core and checks everything that can be wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from data import expected_order
from linkwise import _core
from linkwise.columns.key_types import key_type_of

Array = np.ndarray[Any, Any]
# (strategy, exchange); "streamed" is the radix sort that exchanges pieces as they arrive; "msb": cut by histograms.
# het: with two or three buffers, and with eager merging. cpu: by which algorithm.
VARIANTS = [
    ("radix", "streamed"), ("radix", "copies"), ("radix", "fused"), ("p2p_merge", "copies"),
    ("radix", "streamed msb"), ("radix", "fused msb"), ("radix", "copies buckets"),
    ("het", "2n"), ("het", "3n"), ("het", "3n eager"),
    ("cpu", "radix"), ("cpu", "comparison"),
]  # fmt: skip


def plan_for(gpus: list[int], strategy: str, exchange: str, **fields: Any) -> _core.SortPlan:
    plan = _core.SortPlan()
    plan.gpus = gpus
    plan.strategy = getattr(_core.SortStrategy, strategy)
    exchange, _, splitting = exchange.partition(" ") if strategy == "radix" else (exchange, "", "")
    plan.streamed = exchange == "streamed"
    if splitting:
        plan.splitting = getattr(_core.Splitting, splitting)
    if strategy == "het":
        plan.het_buffers = int(exchange[0])
        plan.eager_merge = exchange.endswith("eager")
    elif strategy == "cpu":
        plan.cpu_algorithm = getattr(_core.CpuAlgorithm, exchange)
    elif not plan.streamed:
        plan.exchange = getattr(_core.Exchange, exchange)
    for name, value in fields.items():
        setattr(plan, name, value)
    return plan


def can_run(strategy: str, num_gpus: int) -> bool:
    return strategy != "p2p_merge" or num_gpus & (num_gpus - 1) == 0


def check_sort(
    runtime: _core.Runtime, plan: _core.SortPlan, data: Array, *, value_bytes: int = 4, descending: bool = False
) -> _core.SortReport:
    """Sorts `data` with its row numbers; both must come out in the documented, stable order, bit for bit."""
    before = data.copy()
    out_keys = np.empty_like(data)
    out_rows = np.empty(len(data), f"u{value_bytes}") if value_bytes else None
    report = _core.sort_host(
        runtime, plan, key_type_of(data.dtype), data, None, out_keys, out_rows, value_bytes,
        _core.SortOptions(descending, True),
    )  # fmt: skip
    order = expected_order(data, descending)
    assert out_keys.tobytes() == data[order].tobytes()
    if out_rows is not None:
        assert (out_rows == order).all(), "equal keys must keep their order"
    assert data.tobytes() == before.tobytes(), "the input was changed"
    assert report.verified
    return report
