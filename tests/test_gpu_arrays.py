"""`linkwise.sort` of lists of arrays on GPUs: torch's and CuPy's, and NumPy's on simulated machines."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import linkwise
from conftest import cuda_runtime
from linkwise import UsageError


def parts(dtype: Any = np.int64, lengths: tuple[int, ...] = (3000, 0, 5000)) -> list[np.ndarray]:
    return [np.random.default_rng(i).integers(-99, 99, n).astype(dtype) for i, n in enumerate(lengths)]


@pytest.mark.parametrize("strategy", ["auto", "radix", "p2p_merge"])
@pytest.mark.parametrize("descending", [False, True])
def test_numpy_stands_in_on_a_simulated_machine(strategy: str, descending: bool) -> None:
    lengths = (3000, 10, 5000, 1) if strategy == "p2p_merge" else (3000, 0, 5000)
    data = parts(lengths=lengths)
    rows = [np.arange(len(part), dtype=np.uint32) + 100_000 * g for g, part in enumerate(data)]
    before = [part.copy() for part in data]
    keys, carried = linkwise.sort(
        data, payload=rows, machine="h200x8", strategy=strategy, descending=descending, donate=False
    )
    everything = np.concatenate(data)
    order = np.argsort(~everything if descending else everything, kind="stable")
    assert (np.concatenate(keys) == everything[order]).all()
    assert (np.concatenate(carried) == np.concatenate(rows)[order]).all()
    assert all((a == b).all() for a, b in zip(data, before, strict=True))


def test_the_report_tells_phases_and_gpus() -> None:
    _, report = linkwise.sort_and_report(parts(), machine="h200x8", gpus=[5, 2, 7])
    assert report.gpus == [5, 2, 7] and report.rows == 8000 and report.bytes == 64_000
    assert report.simulated and report.verified and {"exchange", "sort"} <= set(report.phases)


@pytest.mark.parametrize("descending", [False, True])
def test_row_numbers(descending: bool) -> None:
    """Of all arrays, one after the other, on the GPUs; of equal keys, the first ones come first."""
    arrays = [part % 100 for part in parts()]
    rows = linkwise.sort_indices(arrays, descending=descending, machine="dgx-a100")
    together = np.concatenate(arrays)
    assert len(rows) == len(arrays) and all(part.dtype == np.int64 for part in rows)
    assert np.array_equal(np.concatenate(rows), np.argsort(-together if descending else together, kind="stable"))
    with pytest.raises(UsageError, match="by= is for tables"):
        linkwise.sort_indices(arrays, by="key", machine="dgx-a100")


def test_bad_input_is_refused() -> None:
    def refused(match: str, values: Any, **options: Any) -> None:
        with pytest.raises(linkwise.UsageError, match=match):
            linkwise.sort(values, **{"machine": "h200x8", **options})

    refused("work in host memory", parts(), strategy="het")
    refused("one for each array of keys", parts(), payload=parts()[:2])
    refused("not for arrays on GPUs", parts(), by="x")
    refused("for arrays on GPUs", parts()[0], donate=True)
    refused("one for each", parts(), gpus=[0])
    refused("has 2 dimensions; sorts and joins take arrays of one", [part.reshape(1, -1) for part in parts()])
    refused("has 2 dimensions", parts(), payload=[part.reshape(1, -1) for part in parts()])
    masked = np.ma.array([3, 1, 2], mask=[1, 0, 0])
    refused("whose mask would be lost", [masked])
    refused("whose mask would be lost", {"a": masked}, by="a")
    refused("it is a column", linkwise.MaskedArray(np.arange(3), np.arange(3) > 1))
    for dtype in ("M8[s]", "U3", "g", "V3"):
        refused("is no array of numbers on a GPU", [np.zeros(3, dtype)])
        refused("is no array of numbers on a GPU", [np.arange(3)], payload=[np.zeros(3, dtype)])
    refused("a list cannot be sorted", [pa.array([2, 1])])
    refused("nulls is 'first' or 'last'", parts(), nulls="both")
    with pytest.raises(UsageError, match="top_k and unique are for data in host memory"):
        linkwise.top_k({"a": np.arange(5)}, 2, by="a", machine="h200x8")
    with pytest.raises(UsageError, match="out must be a NumPy array, not a MaskedArray"):
        linkwise.sort(np.arange(3), out=masked)
    with pytest.raises(UsageError, match="has 0 dimensions"):
        linkwise.join_count(parts(), [np.array(1)] * 3, machine="h200x8")


def test_arrays_of_other_layouts_stand_in_as_well() -> None:
    """Big-endian ones, strided ones, and those that are read-only, which stay as they are."""
    for array in (np.array([3, 1, 2], ">i8"), np.arange(6)[::-2], np.broadcast_to(np.int64(7), 3)):
        before = array.copy()
        (found,) = linkwise.sort([array], machine="h200x8")
        assert np.array_equal(found, np.sort(array)) and np.array_equal(array, before)
        _, (carried,) = linkwise.sort([np.array([2, 1, 0])], payload=[array], machine="h200x8")
        assert np.array_equal(carried, array[::-1])
    values = np.array([1, 2j, 3])  # complex numbers are carried as well
    _, (carried,) = linkwise.sort([np.array([2, 1, 0])], payload=[values], machine="h200x8")
    assert np.array_equal(carried, values[::-1])


def devices(count: int) -> list[int]:
    return [gpu % cuda_runtime().machine.num_gpus for gpu in range(count)][: cuda_runtime().machine.num_gpus]


@pytest.mark.gpu
def test_torch_tensors_on_streams_of_their_own() -> None:
    """The sort waits for what is on the caller's streams, and they for it, while nobody synchronises."""
    torch = pytest.importorskip("torch")
    gpus = devices(8)
    length = 3_000_000
    streams = [torch.cuda.Stream(gpu) for gpu in gpus]
    for repetition in range(5):
        keys, rows = [], []
        for gpu, stream in zip(gpus, streams, strict=True):
            torch.cuda.set_stream(stream)
            generator = torch.Generator(device=f"cuda:{gpu}").manual_seed(repetition)
            slow = torch.randn(3000, 3000, device=f"cuda:{gpu}")
            for _ in range(20):
                slow = slow @ slow  # what the sort must wait for
            keys.append(
                torch.randint(-1000, 1000, (length,), generator=generator, device=f"cuda:{gpu}", dtype=torch.int32)
            )
            rows.append(torch.arange(length, device=f"cuda:{gpu}") + gpu * length)
        originals = [key.clone() for key in keys]
        result, carried = linkwise.sort(keys, payload=rows, verify=False)
        copies = []
        for g in range(len(gpus)):
            torch.cuda.set_stream(streams[g])
            copies.append((result[g] + 0, carried[g] + 0))  # on their streams, right behind
            keys[g].zero_()  # must not reach the sort
        del result, carried
        gc.collect()
        again = linkwise.sort([o for o in originals], verify=True)  # takes the memory of the first result
        for stream in streams:
            stream.synchronize()
        everything = np.concatenate([o.cpu().numpy() for o in originals])
        order = np.argsort(everything, kind="stable")
        assert (np.concatenate([k.cpu().numpy() for k, _ in copies]) == everything[order]).all()
        assert (np.concatenate([v.cpu().numpy() for _, v in copies]) == order).all()
        assert (np.concatenate([a.cpu().numpy() for a in again]) == everything[order]).all()
    for gpu in gpus:
        torch.cuda.set_stream(torch.cuda.default_stream(gpu))


@pytest.mark.gpu
def test_row_numbers_of_cupy_and_torch() -> None:
    """In the library of the keys, on their GPU, so that they index them."""
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    for made in (cupy.random.randint(0, 1000, 100_000, dtype=np.int32), torch.randint(0, 1000, (100_000,)).cuda()):
        rows = linkwise.sort_indices(made)
        assert type(rows) is type(made) and str(rows.dtype).endswith("int64")
        in_host_memory = [
            array.get() if isinstance(array, cupy.ndarray) else array.cpu().numpy() for array in (made, rows)
        ]
        assert np.array_equal(in_host_memory[1], np.argsort(in_host_memory[0], kind="stable"))


@pytest.mark.gpu
@pytest.mark.parametrize("donate", [False, True])
def test_cupy_arrays(donate: bool) -> None:
    cupy = pytest.importorskip("cupy")
    gpus = devices(8)
    host = [np.random.default_rng(g).random(1_000_000 + g) for g in gpus]
    arrays = []
    for gpu, data in zip(gpus, host, strict=True):
        with cupy.cuda.Device(gpu):
            arrays.append(cupy.asarray(data))
    result = linkwise.sort(arrays, donate=donate, descending=True)
    assert all(isinstance(part, cupy.ndarray) and part.device.id == gpu for part, gpu in zip(result, gpus, strict=True))
    assert (np.concatenate([part.get() for part in result]) == np.sort(np.concatenate(host))[::-1]).all()


@pytest.mark.gpu
def test_the_cuda_array_interface() -> None:
    cupy = pytest.importorskip("cupy")
    cupy.cuda.Device(0).use()

    class Foreign:  # an array of a library that nobody knows
        def __init__(self, array: Any) -> None:
            self.array = array
            self.shape, self.dtype = array.shape, array.dtype

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    (result,) = linkwise.sort([Foreign(cupy.asarray([3.0, 1.0, 2.0]))])
    assert isinstance(result, linkwise.DeviceArray)
    assert cupy.asarray(result).tolist() == [1.0, 2.0, 3.0] == result.numpy().tolist()


@pytest.mark.gpu
def test_arrays_in_the_wrong_place_are_refused() -> None:
    cupy = pytest.importorskip("cupy")
    cupy.cuda.Device(0).use()
    array = cupy.arange(10)
    with pytest.raises(linkwise.UsageError, match="named twice"):
        linkwise.sort([array, array])
    with pytest.raises(linkwise.UsageError, match="only be sorted there"):
        linkwise.sort([array], machine="h200x8")
    with pytest.raises(linkwise.UsageError, match="must all lie on GPUs"):
        linkwise.sort([array, np.arange(10)])
    with pytest.raises(linkwise.UsageError, match="simulated machine"):
        linkwise.sort([np.arange(10)])


class Only:
    """An array that speaks one interface alone."""

    def __init__(self, array: Any, name: str) -> None:
        self._array, self._name = array, name

    def __getattr__(self, name: str) -> Any:
        if name != self._name:
            raise AttributeError(name)
        return getattr(self._array, name)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["i8", "f4", "u2"])
def test_single_arrays_and_other_interfaces(dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    torch = pytest.importorskip("torch")
    gpu = devices(2)[-1]
    host = parts(dtype)[2]
    with cupy.cuda.Device(gpu):
        array = cupy.asarray(host)
        result = linkwise.sort(array)
        assert isinstance(result, cupy.ndarray) and result.device.id == gpu
        assert (cupy.asnumpy(result) == np.sort(host)).all()
        rows = cupy.arange(len(host), dtype="i8")
        keys, carried = linkwise.sort(array, payload=rows, descending=True)
        assert (host[cupy.asnumpy(carried)] == cupy.asnumpy(keys)).all()
        assert (cupy.asnumpy(keys) == np.sort(host)[::-1]).all()

        by_interface = linkwise.sort(Only(array, "__cuda_array_interface__"))
        assert isinstance(by_interface, linkwise.DeviceArray) and by_interface.gpu == gpu
        assert (by_interface.numpy() == np.sort(host)).all()
        by_arrow = linkwise.sort(Only(by_interface, "__arrow_c_device_array__"), descending=True)
        assert (by_arrow.numpy() == np.sort(host)[::-1]).all()
        del by_interface
        gc.collect()
        assert (by_arrow.numpy() == np.sort(host)[::-1]).all()

        class WithNulls:
            __cuda_array_interface__ = array.__cuda_array_interface__ | {"mask": array}

        with pytest.raises(linkwise.UsageError, match="has no mask"):
            linkwise.sort(WithNulls())
    if dtype != "u2":
        tensor = linkwise.sort(torch.tensor(host, device=f"cuda:{gpu}"))
        assert isinstance(tensor, torch.Tensor) and (tensor.cpu().numpy() == np.sort(host)).all()
    both = linkwise.sort([Only(array, "__cuda_array_interface__")])
    assert (both[0].numpy() == np.sort(host)).all()
