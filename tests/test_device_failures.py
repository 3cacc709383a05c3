"""Device calls that fail: nothing stays in use, the next call works, and arguments are checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import linkwise
from linkwise import _core
from linkwise._typing import Array


def virtual(**faults: int) -> _core.VirtualRuntime:
    runtime = _core.VirtualRuntime(linkwise.load_machine("h200x8"), _core.VirtualMode.execute, 0)
    runtime.set_faults(**faults)
    return runtime


def plan_of(*gpus: int, **fields: Any) -> _core.SortPlan:
    plan = _core.SortPlan()
    plan.gpus = list(gpus)
    for name, value in fields.items():
        setattr(plan, name, value)
    return plan


def columns(*lengths: int) -> list[Array]:
    random = np.random.default_rng(1)
    return [random.integers(0, 1 << 30, length).astype(np.uint32) for length in lengths]


def sort(runtime: _core.Runtime, *lengths: int, donate: bool = False) -> list[Any]:
    none = [None] * len(lengths)
    plan, options = plan_of(*range(len(lengths))), _core.SortOptions(False, False)
    return _core.sort_device(runtime, plan, columns(*lengths), [], none, donate, options)


def test_a_sort_that_fails_leaves_nothing_in_use() -> None:
    """Whichever operation fails, the same runtime sorts again."""
    for failing in range(1, 80):
        runtime = virtual(failing_operation=failing)
        try:
            sort(runtime, 5000, 5000)
        except linkwise.DeviceError:
            runtime.set_faults()
            keys = [np.from_dlpack(part) for part, _ in sort(runtime, 5000, 5000)]
            assert (np.concatenate(keys) == np.sort(np.concatenate(columns(5000, 5000)))).all()
        else:
            assert failing > 20, "so many operations at least"
            return


@pytest.mark.parametrize("lengths", [(9000, 10, 0), (9000, 4000, 500)])
@pytest.mark.parametrize("donate", [False, True])
def test_memory_that_is_not_there_is_not_freed_in_use(lengths: tuple[int, ...], donate: bool) -> None:
    for failing in range(1, 60):
        try:
            sort(virtual(failing_allocation=failing), *lengths, donate=donate)
        except linkwise.OutOfMemoryError:
            continue


def test_available_memory_can_be_had_in_one_piece() -> None:
    """Beside a small result that lies in a block which would otherwise be free."""
    runtime, place = virtual(), _core.Place.gpu(0)
    runtime.set_memory_limit(64 << 20)
    runtime.reserve(place, 40 << 20)
    kept = runtime.allocate(place, 1 << 10, "a result that is kept")
    available = runtime.available(place)
    assert available == (40 << 20) - kept.view.bytes
    runtime.allocate(place, available, "all of it")
    count = _core.records_that_fit(virtual(), plan_of(0), _core.RecordType(8, 0), False)
    assert count > 1 << 20


class Converted:
    """A producer that converts when it is asked, as the PyCapsule interface permits."""

    def __len__(self) -> int:
        return 200_000

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        del requested_schema
        return pa.array([f"prefix-{number:032}" for number in range(len(self))]).__arrow_c_array__()


@pytest.fixture
def fresh_memory() -> Iterator[None]:
    """Freed memory is given back, so that reading it would fail."""
    pool = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    yield
    pa.set_memory_pool(pool)


@pytest.mark.usefixtures("fresh_memory")
def test_strings_of_a_producer_that_converts() -> None:
    assert _core.extent_of_strings([Converted()]) == (len("prefix-") + 26, len("prefix-") + 32)


def test_plans_are_checked() -> None:
    with pytest.raises(linkwise.UsageError, match="a sort needs at least one GPU"):
        sort(virtual())
    plan = _core.JoinPlan()
    plan.sort = plan_of(0, 1, strategy=_core.SortStrategy.het, het_buffers=1)
    plan.path = _core.JoinPath.sorted
    keys = np.arange(5000, dtype=np.uint32)
    with pytest.raises(linkwise.UsageError, match="het sorts with 2 or 3 buffers, not 1"):
        _core.join_totals(virtual(), plan, _core.KeyType.u32, keys, keys)
