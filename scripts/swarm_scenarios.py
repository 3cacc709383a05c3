"""One scenario of the swarm, run by the public functions and checked against NumPy, which DuckDB and Polars check."""

from __future__ import annotations

import itertools
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import linkwise
from linkwise import _core
from linkwise.machines.catalog import load_machine
from linkwise.machines.description import machine_from_dict, machine_to_dict
from linkwise.runtime import session
from swarm_data import TooLargeError, by_left, column_of, exact, firsts, in_order, order_of, pairs_of
from swarm_draw import Scenario
from swarm_peers import agree_on_order, agree_on_pairs


class WrongError(AssertionError):
    """A result that is not what it should be."""


def run(scenario: Scenario) -> str:
    """How a scenario ended: ``right``, or the name of an ``Error`` that is allowed. Raises if anything is wrong."""
    work = _WORK[scenario["operation"]]
    os.environ["LINKWISE_SEED"] = str(scenario["order"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not scenario["fault"]:
            return _ended(scenario, work)
        with _faults(dict([scenario["fault"]])):
            first = _ended(scenario, work, may_fail=True)
        second = _ended(scenario, work)  # the next call works as if nothing had happened
        return f"{scenario['fault'][0]}: {first}, then {second}"


def _ended(scenario: Scenario, work: Callable[[Scenario, dict[str, Any]], None], *, may_fail: bool = False) -> str:
    try:
        work(scenario, _options(scenario))
    except TooLargeError:
        return "too large"
    except (_core.ProgramError, _core.CorruptDataError, _core.Cancelled):
        raise
    except (linkwise.UsageError, linkwise.OutOfMemoryError, linkwise.DeviceError) as error:
        if not str(error).strip() or len(str(error).splitlines()) != 1:
            raise WrongError(f"not one line: {error}") from error
        if isinstance(error, linkwise.DeviceError) and not may_fail:
            raise
        limits = (
            scenario["execution"].get("plan"),
            scenario["execution"].get("memory_limit"),
            scenario.get("host memory"),
        )
        if not any(limits) and not may_fail:
            raise  # without limits, nothing may be refused
        return type(error).__name__
    return "right"


def _options(scenario: Scenario) -> dict[str, Any]:
    told = dict(scenario["execution"])
    scaled = told.pop("scaled", 0)
    if scaled:
        told["machine"] = _scaled(told["machine"], scaled)
    if "plan" in told:
        fields = told.pop("plan")
        if fields:
            kind = linkwise.JoinPlan if scenario["operation"].startswith("join") else linkwise.SortPlan
            told["plan"] = kind(**{name: tuple(value) if name == "paths" else value for name, value in fields.items()})
    return told


def _scaled(name: str, seed: int) -> _core.Machine:
    """The machine with randomly scaled bandwidths of its links."""
    random = Random(seed)
    told = machine_to_dict(load_machine(name))

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: item * factor if isinstance(item, float) else item for key, item in value.items()}
        return value * factor

    for link in told["links"]:
        factor = 2.0 ** random.uniform(-2, 2)
        for way in ("forward", "backward", "duplex", "gb_per_s", "both_ways"):
            if way in link:
                link[way] = changed(link[way])
    return machine_from_dict(told)


@contextmanager
def _faults(faults: dict[str, int]) -> Iterator[None]:
    """Inject faults into every virtual machine that is made meanwhile."""
    really_make = session._virtual_runtime

    def make(machine: _core.Machine) -> _core.Runtime:
        runtime = really_make(machine)
        assert isinstance(runtime, _core.VirtualRuntime)
        runtime.set_faults(**faults)
        return runtime

    session._virtual_runtime = make
    try:
        yield
    finally:
        session._virtual_runtime = really_make


def _same(found: Any, expected: Any, what: str) -> None:
    if exact(found) != exact(expected):
        raise WrongError(f"{what}: {str(found)[:300]} … where {str(expected)[:300]} … should be")


def _table(scenario: Scenario, side: str = "") -> pa.Table:
    rows = scenario[f"{side}rows"]
    columns = {f"k{at}": column_of(told, rows) for at, told in enumerate(scenario[f"{side}keys"])}
    if not side:
        columns |= {f"o{at}": column_of(told, rows) for at, told in enumerate(scenario["others"])}
    return pa.table(columns)


def _keys(scenario: Scenario, table: pa.Table) -> list[pa.ChunkedArray]:
    return [table[f"k{at}"] for at in range(len(scenario["keys"]))]


def _by(scenario: Scenario) -> dict[str, Any]:
    names = [f"k{at}" for at in range(len(scenario["keys"]))]
    return {"by": names, "descending": scenario["descending"], "nulls": scenario["nulls"]}


def _order(scenario: Scenario, table: pa.Table) -> Any:
    keys = _keys(scenario, table)
    order = order_of(keys, scenario["descending"], scenario["nulls"])
    agree_on_order(keys, scenario["descending"], scenario["nulls"], order)
    return order


def _taken(table: pa.Table, rows: Any) -> pa.Table:
    """Take rows of a table; in plain Python where PyArrow cannot."""

    def column(values: pa.ChunkedArray) -> pa.ChunkedArray:
        try:
            return values.take(pa.array(rows))
        except pa.ArrowNotImplementedError:
            plain = values.to_pylist()
            return pa.chunked_array([pa.array([plain[row] for row in rows], values.type)])

    return pa.table([column(values) for values in table.columns], schema=table.schema)


def _numbers(scenario: Scenario, side: str = "") -> Any:
    told = scenario[f"{side}keys"][0] | {"nulls": 0}
    return np.concatenate(
        [np.asarray(chunk) for chunk in column_of(told, scenario[f"{side}rows"]).chunks] or [np.empty(0, told["type"])]
    )


def _sorted_numbers(scenario: Scenario, values: Any) -> Any:
    return values[order_of([pa.chunked_array([pa.array(values)])], scenario["descending"], ["last"])]


def _array(scenario: Scenario, options: dict[str, Any]) -> None:
    values = _numbers(scenario)
    _same(
        linkwise.sort(values, descending=scenario["descending"][0], **options),
        _sorted_numbers(scenario, values),
        "sort",
    )


def _sort_table(scenario: Scenario, options: dict[str, Any]) -> None:
    table = _table(scenario)
    _same(linkwise.sort(table, **_by(scenario), **options), _taken(table, _order(scenario, table)), "sort")


def _indices(scenario: Scenario, options: dict[str, Any]) -> None:
    table = _table(scenario)
    _same(linkwise.sort_indices(table, **_by(scenario), **options), _order(scenario, table).astype(np.int64), "rows")


def _top_k(scenario: Scenario, options: dict[str, Any]) -> None:
    table = _table(scenario)
    expected = _taken(table, _order(scenario, table)[: scenario["limit"]])
    _same(linkwise.top_k(table, scenario["limit"], **_by(scenario), **options), expected, "top_k")


def _unique(scenario: Scenario, options: dict[str, Any]) -> None:
    table = _table(scenario)
    expected = _taken(table, firsts(_keys(scenario, table), _order(scenario, table)))
    _same(linkwise.unique(table, **_by(scenario), **options), expected, "unique")


def _is_sorted(scenario: Scenario, options: dict[str, Any]) -> None:
    table = _table(scenario)
    order = _order(scenario, table)
    expected = bool((order == np.arange(len(order))).all())
    if linkwise.is_sorted(table, **_by(scenario)) != expected or not linkwise.is_sorted(
        _taken(table, order), **_by(scenario)
    ):
        raise WrongError("is_sorted")


def _halves(values: Any, options: dict[str, Any]) -> list[Any]:
    """Cut values into one part per GPU."""
    gpus = len(options.get("gpus") or range(2))
    cuts = [len(values) * at // gpus for at in range(gpus + 1)]
    return [values[a:b] for a, b in itertools.pairwise(cuts)]


def _lists(scenario: Scenario, options: dict[str, Any]) -> None:
    values = _numbers(scenario)
    machine = {"machine": "dgx-a100"} | {k: v for k, v in options.items() if k != "strategy"}
    parts = linkwise.sort(_halves(values, machine), descending=scenario["descending"][0], **machine)
    _same(np.concatenate([np.asarray(part) for part in parts]), _sorted_numbers(scenario, values), "sort of lists")


def _sides(scenario: Scenario) -> tuple[pa.Table, pa.Table, Any]:
    left, right = _table(scenario), _table(scenario, "right ")
    keys, how, nulls_equal = (_keys(scenario, left), _keys(scenario, right)), scenario["how"], scenario["nulls_equal"]
    pairs = pairs_of(*keys, how, nulls_equal=nulls_equal)
    agree_on_pairs(*keys, how, nulls_equal=nulls_equal, pairs=pairs)
    return left, right, pairs


def _key_tables(scenario: Scenario, *tables: pa.Table) -> list[pa.Table]:
    return [table.select([f"k{at}" for at in range(len(scenario["keys"]))]) for table in tables]


def _join_indices(scenario: Scenario, options: dict[str, Any]) -> None:
    left, right, pairs = _sides(scenario)
    found = linkwise.join_indices(
        *_key_tables(scenario, left, right), scenario["how"], nulls_equal=scenario["nulls_equal"],
        order=scenario.get("join order"), **options,
    )  # fmt: skip
    found_pairs = np.column_stack(found)
    _same(in_order(found_pairs), in_order(pairs), "pairs")
    if scenario.get("join order") == "left":
        _same(found_pairs, by_left(pairs), "pairs by left row")


def _join_count(scenario: Scenario, options: dict[str, Any]) -> None:
    left, right, pairs = _sides(scenario)
    found = linkwise.join_count(
        *_key_tables(scenario, left, right), scenario["how"], nulls_equal=scenario["nulls_equal"], **options
    )
    if found != len(pairs):
        raise WrongError(f"{found} rows of a join, and not {len(pairs)}")


def _join_ranges(scenario: Scenario, options: dict[str, Any]) -> None:
    left, right, pairs = _sides(scenario | {"how": "inner"})
    ranges = linkwise.join_ranges(*_key_tables(scenario, left, right), nulls_equal=scenario["nulls_equal"], **options)
    found = [
        (a, b)
        for key in range(len(ranges.left_first) - 1)
        for a in ranges.left_rows[ranges.left_first[key] : ranges.left_first[key + 1]]
        for b in ranges.right_rows[ranges.right_first[key] : ranges.right_first[key + 1]]
    ]
    _same(in_order(np.array(found, np.int64).reshape(-1, 2)), in_order(pairs), "ranges")


def _joined(left: pa.Table, right: pa.Table, pairs: Any, scenario: Scenario) -> list[tuple[Any, ...]]:
    """The expected pairs of row ids, sorted; -1 where a side has no row."""
    ids = left["row"].to_pylist(), right["row"].to_pylist()
    return sorted(
        tuple(-1 if row < 0 else side[row] for side, row in zip(ids, pair, strict=True)) for pair in pairs.tolist()
    )


def _numbered(scenario: Scenario) -> tuple[pa.Table, pa.Table, Any]:
    left, right, pairs = _sides(scenario)
    return (
        left.append_column("row", pa.array(range(left.num_rows), pa.int64())),
        right.append_column("row", pa.array(range(right.num_rows), pa.int64())),
        pairs,
    )


def _check_joined(result: pa.Table, left: pa.Table, right: pa.Table, pairs: Any, scenario: Scenario) -> None:
    columns = [result["row"].to_pylist()]
    columns.append(result["row_right"].to_pylist() if "row_right" in result.column_names else [-1] * result.num_rows)
    found = sorted(tuple(-1 if value is None else value for value in row) for row in zip(*columns, strict=True))
    is_by_left = scenario.get("join order") == "left" and scenario["how"] not in ("right", "full")
    if is_by_left and columns[0] != sorted(columns[0]):
        raise WrongError("the rows of a join are not in the order of the left side")
    if found != _joined(left, right, pairs, scenario):
        raise WrongError(f"{len(found)} rows of a join, or others than there should be ({len(pairs)})")
    whole = [at for at, row in enumerate(result["row"].to_pylist()) if row is not None]
    others = [name for name in left.column_names if name.startswith("o")]
    picked = [result["row"][at].as_py() for at in whole]
    _same(
        _taken(result.select(others), np.array(whole, np.int64)),
        _taken(left.select(others), np.array(picked, np.int64)),
        "columns",
    )


def _join(scenario: Scenario, options: dict[str, Any]) -> None:
    left, right, pairs = _numbered(scenario)
    names = [f"k{at}" for at in range(len(scenario["keys"]))]
    result = linkwise.join(
        left, right, names, how=scenario["how"], nulls_equal=scenario["nulls_equal"], order=scenario.get("join order"),
        **options,
    )  # fmt: skip
    _check_joined(result, left, right, pairs, scenario)


def _join_lists(scenario: Scenario, options: dict[str, Any]) -> None:
    sides = [_numbers(scenario), _numbers(scenario, "right ")]
    machine = {"machine": "dgx-a100"} | {k: v for k, v in options.items() if k != "strategy"}
    keys = [[pa.chunked_array([pa.array(values)])] for values in sides]
    expected = len(pairs_of(keys[0], keys[1], scenario["how"], nulls_equal=False))
    found = linkwise.join_count(*(_halves(values, machine) for values in sides), scenario["how"], **machine)
    if found != expected:
        raise WrongError(f"{found} rows of a join of lists, and not {expected}")


@contextmanager
def _folder() -> Iterator[Path]:
    """A directory in which nothing may be left behind but what the caller has named."""
    with tempfile.TemporaryDirectory(prefix="swarm-") as name:
        yield Path(name)


def _left_behind(folder: Path, *named: str) -> None:
    found = {path.name for path in folder.iterdir()} - set(named)
    if found:
        raise WrongError(f"left behind: {sorted(found)}")


def _write(table: pa.Table, path: Path, scenario: Scenario) -> None:
    codec = scenario["compression"]
    if path.suffix == ".parquet":
        pq.write_table(table, path, compression=codec, row_group_size=scenario["row group"])
        return
    options = pa.ipc.IpcWriteOptions(compression=None if codec == "none" else codec, unify_dictionaries=True)
    # PyArrow writes all bytes of string views with every batch: batches of 7 of 65,535 rows made a file of 12 GB.
    has_views = any(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind) for kind in table.schema.types)
    with pa.ipc.new_file(path, table.schema, options=options) as file:
        file.write_table(table, max_chunksize=max(scenario["row group"], table.num_rows // 16 if has_views else 0))


def _read(path: Path) -> pa.Table:
    return (
        pq.read_table(path)
        if path.suffix == ".parquet"
        else pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all()
    )


def _file(scenario: Scenario, options: dict[str, Any]) -> None:
    with _folder() as folder:
        source, out = folder / f"in.{scenario['format']}", folder / f"out.{scenario['out']}"
        _write(_table(scenario), source, scenario)
        table = _read(source)
        rows = _order(scenario, table)
        if scenario["unique"]:
            rows = firsts(_keys(scenario, table), rows)
        try:
            linkwise.sort_file(
                source, out, unique=scenario["unique"], host_memory_limit=scenario["host memory"],
                temporary_directory=folder, **_by(scenario), **options,
            )  # fmt: skip
        except linkwise.Error:
            _left_behind(folder, source.name)
            raise
        _left_behind(folder, source.name, out.name)
        result = _read(out)
        _same(
            pa.table(result.columns, names=result.column_names),
            _as_read(_taken(table, rows), folder, scenario),
            "sort_file",
        )


def _as_read(table: pa.Table, folder: Path, scenario: Scenario) -> pa.Table:
    """The table after a round trip through the output's format, which may change its types."""
    path = folder / f"expected.{scenario['out']}"
    _write(table, path, scenario)
    result = _read(path)
    return pa.table(result.columns, names=result.column_names)


def _array_file(scenario: Scenario, options: dict[str, Any]) -> None:
    values = _numbers(scenario)
    with _folder() as folder:
        source, out = folder / f"in.{scenario['format']}", folder / f"out.{scenario['out']}"
        np.save(source, values) if source.suffix == ".npy" else values.tofile(source)
        try:
            linkwise.sort_file(
                source, out, descending=scenario["descending"][0], dtype=values.dtype.str,
                host_memory_limit=scenario["host memory"], temporary_directory=folder, **options,
            )  # fmt: skip
        except linkwise.Error:
            _left_behind(folder, source.name)
            raise
        _left_behind(folder, source.name, out.name)
        result = np.load(out) if out.suffix == ".npy" else np.fromfile(out, values.dtype)
        _same(result, _sorted_numbers(scenario, values), "sort_file")


def _join_files(scenario: Scenario, options: dict[str, Any]) -> None:
    left, right, pairs = _numbered(scenario)
    with _folder() as folder:
        paths = [folder / f"{side}.{scenario['format']}" for side in ("left", "right")]
        out = folder / f"out.{scenario['out']}"
        for table, path in zip((left, right), paths, strict=True):
            _write(table, path, scenario)
        try:
            linkwise.join_file(
                *paths,
                out,
                [f"k{at}" for at in range(len(scenario["keys"]))],
                how=scenario["how"],
                **options,
                nulls_equal=scenario["nulls_equal"],
                order=scenario.get("join order"),
                host_memory_limit=scenario["host memory"],
                temporary_directory=folder,
            )
        except linkwise.Error:
            _left_behind(folder, *(path.name for path in paths))
            raise
        _left_behind(folder, out.name, *(path.name for path in paths))
        _check_joined(_read(out), left, right, pairs, scenario)


_WORK: dict[str, Callable[[Scenario, dict[str, Any]], None]] = {
    "array": _array, "table": _sort_table, "indices": _indices, "top_k": _top_k, "unique": _unique,
    "is_sorted": _is_sorted, "lists": _lists, "file": _file, "array file": _array_file, "join_indices": _join_indices,
    "join": _join, "join_count": _join_count, "join_ranges": _join_ranges, "join lists": _join_lists,
    "join files": _join_files,
}  # fmt: skip
