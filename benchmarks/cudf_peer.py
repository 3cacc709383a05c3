"""cuDF's calls beside ours, where it is installed: libcudf by pylibcudf, on CuPy arrays of one GPU.

Its memory comes from CUDA's stream-ordered pool, which, like ours, keeps it from one call to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def library_with_pool() -> Any | None:
    """pylibcudf, with the pool; ``None`` if it is not installed."""
    try:
        import pylibcudf  # noqa: PLC0415
        import rmm  # noqa: PLC0415
    except ImportError:
        return None
    if not isinstance(rmm.mr.get_current_device_resource(), rmm.mr.CudaAsyncMemoryResource):
        rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    return pylibcudf


def _table(library: Any, keys: Any) -> Any:
    return library.Table([library.Column.from_cuda_array_interface(keys)])


def sort_calls(keys: Any) -> dict[str, Callable[[], Any]]:
    """cuDF's sort of an array; nothing without cuDF."""
    library = library_with_pool()
    if library is None:
        return {}
    table = _table(library, keys)
    how = [library.types.Order.ASCENDING], [library.types.NullOrder.AFTER]
    return {"cudf": lambda: library.sorting.sort(table, *how)}


def payload_sort_calls(keys: Any, payload: Any) -> dict[str, Callable[[], Any]]:
    """cuDF's stable sort of two arrays by the first; nothing without cuDF."""
    library = library_with_pool()
    if library is None:
        return {}
    by = _table(library, keys)
    table = library.Table([library.Column.from_cuda_array_interface(array) for array in (keys, payload)])
    how = [library.types.Order.ASCENDING], [library.types.NullOrder.AFTER]
    return {"cudf": lambda: library.sorting.stable_sort_by_key(table, by, *how)}


def join_calls(left: Any, right: Any) -> dict[str, Callable[[], Any]]:
    """cuDF's inner join of two arrays, which returns row numbers; nothing without cuDF."""
    library = library_with_pool()
    if library is None:
        return {}
    tables = _table(library, left), _table(library, right)
    return {"cudf, indices": lambda: library.join.inner_join(*tables, library.types.NullEquality.EQUAL)}
