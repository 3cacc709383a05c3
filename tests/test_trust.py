"""What was once seen to go wrong with files, limits and signals, and does no longer."""

from __future__ import annotations

import copy
import gzip
import os
import pickle
import signal
import stat
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise import _core
from linkwise.apps.matrix_market import read_matrix
from linkwise.columns import row_checksum
from linkwise.columns.row_checksum import RowChecksum
from linkwise.files.spilling.spill_file import SpillFile
from linkwise.files.writing import free_space
from linkwise.files.writing.writer import Writer
from linkwise.machines.description import machine_from_dict, machine_to_dict
from linkwise.machines.nccl_topology import import_nccl
from linkwise.runtime.host_memory import cgroup_limits
from linkwise.sorting.tables import SortedTable

CPU: dict[str, Any] = {"strategy": "cpu"}
SPILLED: dict[str, Any] = {**CPU, "host_memory_limit": "256KiB"}
TABLE = pa.table({"k": np.random.default_rng(0).permutation(20_000), "text": [f"row {n}" for n in range(20_000)]})


@pytest.fixture
def table_file(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "t.parquet", row_group_size=3000)
    return tmp_path / "t.parquet"


@pytest.mark.parametrize("at", [0.0, 0.3, 0.7, 0.999])
def test_a_bit_of_a_run_that_flips_is_found(at: float, table_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really_read = SpillFile.read
    flipped: list[int] = []

    def flip(self: SpillFile, run: Any) -> Any:
        if not flipped:
            flipped.append(int(at * self._end))
            byte = os.pread(self._file.fileno(), 1, flipped[0])[0]
            os.pwrite(self._file.fileno(), bytes([byte ^ 16]), flipped[0])
        return really_read(self, run)

    monkeypatch.setattr(SpillFile, "read", flip)
    out = table_file.with_name("o.parquet")
    with pytest.raises(linkwise.CorruptDataError, match="is not what was written"):
        linkwise.sort_file(table_file, out, by="k", **SPILLED)
    assert flipped and not out.exists()


def test_rows_that_are_lost_or_changed_are_found(table_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really_put_together = SortedTable._table

    def forgetful(self: SortedTable, columns: dict[int, pa.ChunkedArray]) -> pa.Table:
        result = really_put_together(self, columns)
        return result.set_column(1, "text", result["text"].combine_chunks()[::-1])

    monkeypatch.setattr(SortedTable, "_table", forgetful)
    for how in (CPU, SPILLED):
        with pytest.raises(linkwise.CorruptDataError, match="not those of the input"):
            linkwise.sort_file(table_file, table_file.with_name("o.parquet"), by="k", **how)
        assert not table_file.with_name("o.parquet").exists()
        linkwise.sort_file(table_file, table_file.with_name("u.parquet"), by="k", verify=False, **how)
        assert pq.read_metadata(table_file.with_name("u.parquet")).num_rows == TABLE.num_rows


class _NothingIsKnown:
    def __init__(self, _: object) -> None: ...

    def sum_of_hashes(self) -> None: ...


def test_checksums_are_the_same_however_columns_are_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All columns at once in the caches, and one after the other, beside those that only PyArrow knows."""
    wider = TABLE.append_column("f", pa.array(np.arange(20_000) % 3 == 0, mask=np.arange(20_000) % 7 == 0))
    parts = [wider.slice(0, 100), wider.slice(777, 1), wider.slice(100, 9000)]
    table = pa.concat_tables([*parts, wider.slice(5, 0)]).append_column("none", pa.nulls(9101))
    at_once = RowChecksum(table)
    monkeypatch.setattr(row_checksum, "_core", SimpleNamespace(Columns=_NothingIsKnown, hash_rows=_core.hash_rows))
    assert RowChecksum(table) == at_once == RowChecksum(*parts) != RowChecksum(*parts[1:])


def test_checksums_of_rows_tell_their_values_and_not_their_order() -> None:
    column = pa.array([[1, None], None, [], [3]], pa.list_(pa.int32()))
    table = pa.table({"x": [1, 2, None, 4], "l": column, "d": pa.array(["a", None, "b", "a"]).dictionary_encode()})
    turned = pa.concat_tables([table.slice(2), table.slice(0, 2)])
    assert RowChecksum(table) == RowChecksum(turned) == RowChecksum(table.slice(0, 1), table.slice(1))
    for other in (table.set_column(0, "x", pa.array([1, 2, 0, 4])), table.slice(1), pa.concat_tables([table, table])):
        assert RowChecksum(table) != RowChecksum(other)
    swapped = table.set_column(0, "x", pa.array([2, 1, None, 4]))  # as many of each, in other rows
    assert RowChecksum(table) != RowChecksum(swapped)


def test_more_runs_than_are_merged_at_once(tmp_path: Path) -> None:
    keys = np.random.default_rng(0).permutation(200_000)
    with pa.ipc.new_stream(tmp_path / "t.arrow", pa.schema({"k": pa.int64()})) as stream:
        stream.write_table(pa.table({"k": keys}), max_chunksize=500)
    for source in (tmp_path / "t.arrow", "-"):
        command = [sys.executable, "-m", "linkwise", "sort", source, "-o", "o.arrow", "-k", "k", "-S", "40KiB",
                   "--strategy", "cpu",
                   "--input-format", "arrow"]  # fmt: skip
        with (tmp_path / "t.arrow").open("rb") as pipe:
            done = subprocess.run(command, cwd=tmp_path, stdin=pipe, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert (np.asarray(pa.ipc.open_file(tmp_path / "o.arrow").read_all()["k"]) == np.arange(len(keys))).all()


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_what_compressed_batches_take_is_known(codec: str, kind: str, tmp_path: Path) -> None:
    from linkwise.files.reading.arrow_sizes import decoded_sizes

    table = pa.table(
        {
            "x": np.zeros(200_000, np.int64),
            "t": ["same"] * 200_000,
            "d": pa.array(["a", "b"] * 100_000).dictionary_encode(),
        }
    )
    path = tmp_path / "t.arrow"
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with new(path, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as file:
        file.write_table(table, max_chunksize=120_000)
    sizes = decoded_sizes(memoryview(path.read_bytes()))
    assert len(sizes) == 2 and path.stat().st_size < table.nbytes // 4
    assert table.nbytes <= sum(sizes) < 1.1 * table.nbytes
    result = linkwise.sort_file(path, tmp_path / "o.parquet", by="t", host_memory_limit="6MiB", **CPU)
    assert "spilled" in result.told_plan()
    with pytest.raises(linkwise.UsageError, match="a record batch takes 2 MiB when it is decompressed.*give"):
        linkwise.sort_file(path, tmp_path / "o.parquet", by="x", host_memory_limit="64KiB", **CPU)


def test_what_a_killed_process_left_is_swept_and_what_another_writes_is_not(table_file: Path) -> None:
    out = table_file.with_name("o.parquet")
    stale, foreign = out.with_name(".o.parquet.01234567.linkwise-tmp"), out.with_name(".o.parquet.linkwise-tmp")
    for path in (stale, foreign):
        path.write_text("left")
    with stale.with_name(".o.parquet.89abcdef.linkwise-tmp").open("w") as held:
        import fcntl

        fcntl.flock(held, fcntl.LOCK_EX)
        linkwise.sort_file(table_file, out, by="k", **CPU)
        assert not stale.exists() and foreign.exists() and Path(held.name).exists()


def test_without_nameless_files_names_are_random(table_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really_open = os.open
    names: list[str] = []

    def open_named(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        names.append(str(path))
        return really_open(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", open_named)
    for name in ("a.parquet", "a.parquet"):
        linkwise.sort_file(table_file, table_file.with_name(name), by="k", **CPU)
    temporary = [name for name in names if name.endswith("linkwise-tmp")]
    assert len(set(temporary)) == 2
    with pytest.raises(linkwise.Error):
        linkwise.sort_file(table_file, table_file.with_name("no.parquet"), by="missing", **CPU)
    assert sorted(path.name for path in table_file.parent.iterdir()) == ["a.parquet", "t.parquet"]


@pytest.mark.parametrize("suffix", [".npy", ".bin", ".arrow"])
@pytest.mark.parametrize("memory", [None, "256KiB"])
def test_an_input_that_becomes_shorter(suffix: str, memory: str | None, tmp_path: Path) -> None:
    """Behind the new end of a mapped file is SIGBUS, which would end the process without a word."""
    path = tmp_path / f"t{suffix}"
    numbers = np.random.default_rng(0).permutation(400_000)
    if suffix == ".arrow":
        with pa.ipc.new_file(path, pa.schema({"k": pa.int64()})) as file:
            file.write_table(pa.table({"k": numbers}), max_chunksize=20_000)
    else:
        np.save(path, numbers) if suffix == ".npy" else numbers.tofile(path)
    program = f"""
import os, linkwise
from linkwise.files import file_sort
really = file_sort.read_within
def shorten(*arguments):
    os.truncate({str(path)!r}, 100_000)
    return really(*arguments)
file_sort.read_within = shorten
try:
    linkwise.sort_file({str(path)!r}, {str(tmp_path / f"o{suffix}")!r}, by={"k" if suffix == ".arrow" else None!r},
        dtype={"int64" if suffix == ".bin" else None!r}, strategy="cpu", host_memory_limit={memory!r})
except linkwise.Error as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert "was changed while it was read" in done.stdout and len(done.stdout.splitlines()) == 1
    assert not (tmp_path / f"o{suffix}").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")
def test_setuid_goes_and_owner_and_mode_stay(table_file: Path) -> None:
    out = table_file.with_name("o.parquet")
    out.write_text("x")
    os.chown(out, 1234, 4321)
    out.chmod(0o6751)
    linkwise.sort_file(table_file, out, by="k", **CPU)
    told = out.stat()
    assert (told.st_uid, told.st_gid, stat.S_IMODE(told.st_mode)) == (1234, 4321, 0o751)


def test_a_read_only_output_is_replaced_when_forced(table_file: Path) -> None:
    out = table_file.with_name("o.parquet")
    out.write_text("precious")
    out.chmod(0o444)
    with pytest.raises(linkwise.UsageError, match="o.parquet is read-only; make it writable, or force"):
        linkwise.sort_file(table_file, out, by="k", **CPU)
    assert out.read_text() == "precious"
    linkwise.sort_file(table_file, out, by="k", force=True, **CPU)
    assert pq.read_table(out)["k"].to_pylist() == list(range(20_000)) and stat.S_IMODE(out.stat().st_mode) == 0o444


def nccl_topology(gpus: int) -> str:
    pci = '<pci busid="{0:08x}:00:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">{1}</pci>'
    gpu = '<gpu dev="{0}" sm="90" rank="{0}"/>'
    each = [pci.format(number, gpu.format(number)) for number in range(gpus)]
    cpus = (f'<cpu numaid="{c}" arch="x86_64">{"".join(each[8 * c : 8 * c + 8])}</cpu>' for c in range(gpus // 8))
    return f'<system version="1">{"".join(cpus)}</system>'


def test_plans_for_very_many_gpus(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text(nccl_topology(96))
    machine = machine_from_dict(import_nccl(tmp_path / "m.xml"))
    best = linkwise.plan_sort(10**9, machine=machine).best
    assert 1 < len(best.gpus or ()) <= 64
    with pytest.raises(linkwise.UsageError, match="at most 64 GPUs work together, not 70"):
        linkwise.plan_sort(10**6, machine=machine, gpus=list(range(70)))
    (tmp_path / "m.xml").write_text(nccl_topology(3000))
    with pytest.raises(linkwise.UsageError, match="3000 GPUs; at most 512 make one machine"):
        machine_from_dict(import_nccl(tmp_path / "m.xml"))


def test_text_that_is_no_unicode() -> None:
    told = machine_to_dict(linkwise.load_machine("h200x8"))
    for name in ("name", "description"):
        with pytest.raises(linkwise.UsageError, match="some of its text is no Unicode"):
            machine_from_dict(told | {name: "a\ud800"})


def test_a_line_without_end(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "m.mtx.gz", "wb") as file:
        for _ in range(64):
            file.write(b"1 " * (1 << 20))
    with pytest.raises(linkwise.UsageError, match="a line has more than 65536 characters"):
        read_matrix(tmp_path / "m.mtx.gz")
    with gzip.open(tmp_path / "m.mtx.gz", "wb") as file:
        file.write(b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 " + b"1" * (1 << 20))
    with pytest.raises(linkwise.UsageError, match="a line has more than 65536 characters"):
        read_matrix(tmp_path / "m.mtx.gz")


@pytest.mark.parametrize("how", ["anti", "semi", "left", "full"])
def test_no_offset_of_an_estimate_wraps(how: Any) -> None:
    """Anti joins were once expected to leave fewer rows than none: what was copied began before the beginning."""
    for left, right, machine in (
        (10**6, 2, "dgx1-v100"),
        (5 * 10**6, 7, "delta-d22x"),
        (1000, 7, "dgx-a100"),
        (10**8, 10**8, "h200x8"),
    ):
        for matches in (None, 0, 10 * left):
            linkwise.plan_join(left, right, how=how, wants_rows=True, value_bytes=8, matches=matches, machine=machine)


def test_integers_beyond_64_bits_stay_integers(tmp_path: Path) -> None:
    ids = [18446744073709551617, 18446744073709551616, 3]
    (tmp_path / "t.csv").write_text("id,x\n" + "".join(f"{n},0.5\n" for n in ids))
    with pytest.warns(linkwise.FallbackWarning, match="column 'id' has integers of more than 64 bits.*decimal128"):
        linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.parquet", by="id", **CPU)
    assert [int(value) for value in pq.read_table(tmp_path / "o.parquet")["id"].to_pylist()] == sorted(ids)
    assert pq.read_schema(tmp_path / "o.parquet").field("x").type == pa.float64()
    (tmp_path / "t.csv").write_text("id\n" + "9" * 50 + "\n1\n")
    with pytest.warns(linkwise.FallbackWarning, match="read as string"):
        linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.parquet", by="id", **CPU)
    (tmp_path / "t.csv").write_text("zip\n02139\n00501\n")
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.csv", by="zip", column_types={"zip": "string"}, **CPU)
    assert (tmp_path / "o.csv").read_text() == "zip\n00501\n02139\n"


@pytest.mark.parametrize("memory", [None, "4KiB"])
def test_blank_lines_of_one_column_are_nulls(memory: str | None, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n3\n\n1\n")
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.csv", by="a", host_memory_limit=memory, **CPU)
    assert (tmp_path / "o.csv").read_text() == "a\n1\n3\n\n"
    (tmp_path / "t.csv").write_text("a,b\n3,1\n\n1,2\n")  # with several, they are between rows
    linkwise.sort_file(tmp_path / "t.csv", tmp_path / "o.csv", by="a", host_memory_limit=memory, **CPU)
    assert (tmp_path / "o.csv").read_text() == "a,b\n1,2\n3,1\n"


def test_categories_sort_in_the_order_that_their_type_states(tmp_path: Path) -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    order, values = ["low", "medium", "high"], ["high", "low", "medium", "low", None]
    frame = pd.DataFrame({"c": pd.Categorical(values, categories=order, ordered=True)})
    assert linkwise.sort(frame, by="c", **CPU)["c"].tolist() == frame.sort_values("c", kind="stable")["c"].tolist()
    enum = pl.Series("c", values, dtype=pl.Enum(order)).to_frame()
    assert linkwise.sort(enum, by="c", descending=True, **CPU)["c"].to_list() == ["high", "medium", "low", "low", None]
    plain = pd.DataFrame({"c": pd.Categorical(values, categories=order)})
    assert linkwise.sort(plain, by="c", **CPU)["c"].tolist()[:4] == ["high", "low", "low", "medium"]
    many = pa.table(
        {"c": pa.DictionaryArray.from_arrays(pa.array(np.arange(9000) % 3, pa.int8()), pa.array(order), ordered=True)}
    )
    pq.write_table(many, tmp_path / "c.parquet", row_group_size=1000)
    linkwise.sort_file(tmp_path / "c.parquet", tmp_path / "o.parquet", by="c", host_memory_limit="16KiB", **CPU)
    assert pq.read_table(tmp_path / "o.parquet")["c"].to_pylist() == [name for name in order for _ in range(3000)]
    turned = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(order[::-1]), ordered=True)
    with pytest.raises(linkwise.UsageError, match="order the same categories differently"):
        linkwise.sort(pa.table({"c": pa.chunked_array([*many["c"].chunks, turned])}), by="c", **CPU)


def test_limits_of_containers(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "self"
    group = root / "outer" / "inner"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (root / "outer" / "memory.max").write_text(f"{2 << 30}\n")
    (root / "outer" / "memory.current").write_text(f"{1 << 30}\n")
    (root / "outer" / "memory.stat").write_text(f"anon 5\ninactive_file {1 << 28}\n")
    own.write_text("0::/outer/inner\n")
    assert cgroup_limits(own, root) == [(2 << 30, (1 << 30) - (1 << 28))]
    (root / "memory").mkdir()
    (root / "memory" / "memory.limit_in_bytes").write_text(f"{1 << 30}\n")
    (root / "memory" / "memory.usage_in_bytes").write_text("4096\n")
    own.write_text("4:memory:/docker/of/the/host\n0::/\n")
    assert cgroup_limits(own, root) == [(1 << 30, 4096)]
    (root / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert cgroup_limits(own, root) == []


def test_limits_of_the_shell() -> None:
    program = "from linkwise.runtime.host_memory import host_memory as of; print(of('MemTotal'), of('MemAvailable'))"
    limited = f'ulimit -v {4 << 20}; exec {sys.executable} -c "{program}"'
    total, free = map(
        int, subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=True).stdout.split()
    )
    assert total <= 4 << 30 and free < total


def test_what_no_disk_holds_is_not_begun(tmp_path: Path) -> None:
    same = pa.table({"k": np.zeros(600_000, np.int8), "row": np.arange(600_000)})
    pq.write_table(same, tmp_path / "t.parquet")
    command = [
        sys.executable,
        "-m",
        "linkwise",
        "join",
        "t.parquet",
        "t.parquet",
        "-o",
        "o.arrow",
        "--on",
        "k",
        "--strategy",
        "cpu",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "MiB at least, and" in done.stderr and "--force" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.parquet"]


@pytest.mark.parametrize("is_heavy", [False, True])
def test_spilled_joins_that_no_disk_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_heavy: bool) -> None:
    """Each of 400 keys has 40,000 rows, a fiftieth of what there is room for; or one key has more than there is."""
    rows = 80_000
    keys = np.where(np.arange(rows) < rows // 2, 77, np.arange(rows)) if is_heavy else np.arange(rows) % 400
    pq.write_table(pa.table({"k": keys, "row": np.arange(rows)}), tmp_path / "t.parquet")
    room = 400_000_000 if is_heavy else 40_000_000
    written: list[int] = []

    def told(_: object) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=room, f_frsize=1)

    really_write = Writer.write

    def write(self: Writer, contents: pa.Table) -> None:
        written.append(contents.num_rows)
        really_write(self, contents)

    monkeypatch.setattr(free_space.os, "statvfs", told)
    monkeypatch.setattr(Writer, "write", write)
    path = tmp_path / "t.parquet"
    with pytest.raises(linkwise.UsageError, match="MiB at least, and"):
        linkwise.join_file(path, path, tmp_path / "o.arrow", "k", host_memory_limit="1MiB", strategy="cpu")
    assert sum(written) < (1 if is_heavy else rows // 400 * rows // 10)
    assert [each.name for each in tmp_path.iterdir()] == ["t.parquet"]


def test_an_outlook_is_the_least_that_is_left() -> None:
    checked: list[int] = []
    readers: list[Any] = [SimpleNamespace(size=1200, format="arrow"), SimpleNamespace(size=3200, format="csv")]
    outlook = free_space.Outlook(checked.append, readers)  # of whose 2000 bytes half may be there
    for read, rows in ((0, 0), (100, 1000), (100, 100), (100, 5000), (100, 200), (700, 700)):
        outlook.check(read, rows)
    assert checked == [0, 1000, 100, 5000, 200 + 600, 700]


def test_more_files_than_may_be_open(tmp_path: Path) -> None:
    for number in range(150):
        pq.write_table(pa.table({"k": [number, -number]}), tmp_path / f"{number:03}.parquet")
        pyarrow.csv.write_csv(pa.table({"k": [number, -number]}), tmp_path / f"{number:03}.csv")
        np.save(tmp_path / f"{number:03}.npy", np.array([number, -number]))
    for suffix, by in (("parquet", "-k k"), ("csv", "-k k"), ("npy", "")):
        command = (
            f"ulimit -n 60; exec {sys.executable} -m linkwise sort '*.{suffix}' -o out.{suffix} {by} --strategy cpu"
        )
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_nobody_reads_what_is_written(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(pa.table({"k": np.arange(300_000)}), tmp_path / "t.csv")
    sort = f"{sys.executable} -m linkwise sort t.csv -o - --output-format csv -k k --strategy cpu"
    command = f"{sort} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ['"k"', "141"] and done.stderr == ""


def test_arguments_and_messages() -> None:
    with pytest.raises(linkwise.UsageError, match="out must be a NumPy array, not a list"):
        linkwise.sort(np.array([2, 1]), out=[0, 0], **CPU)  # type: ignore[arg-type]
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "when": pd.interval_range(0, 2)})
    with pytest.raises(linkwise.UsageError, match="column 'when' of type .*interval.* cannot be a key"):
        linkwise.sort(frame, by="when", **CPU)
    done = subprocess.run(
        [sys.executable, "-m", "linkwise", "plan", "sort", "--rows", "2.5"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "--rows is 2.5; it is a whole number" in done.stderr


def test_reports_profiles_and_machines_go_to_other_processes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keys = np.arange(1000)[::-1].copy()
        reports = [linkwise.sort_and_report(keys, machine="h200x8", strategy=name)[1] for name in ("radix", "cpu")]
    profile = linkwise.probe("dgx-a100", tests="smallest")
    for value in (*reports, profile, profile.machine, linkwise.plan_sort(10**6, machine="h200x8")):
        for other in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), copy.copy(value)):
            assert type(other) is type(value)
    again = pickle.loads(pickle.dumps(reports[0]))
    assert again.predicted_phases() == reports[0].predicted_phases() and len(again.timeline) == len(reports[0].timeline)
    assert [repr(entry.place) for entry in again.timeline] == [repr(entry.place) for entry in reports[0].timeline]
    assert machine_to_dict(pickle.loads(pickle.dumps(profile.machine))) == machine_to_dict(profile.machine)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_while_modules_are_imported(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\n")
    done = subprocess.run(
        [sys.executable, "-m", "linkwise", "doctor"], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # even if these tests ignore it, as behind nohup
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "linkwise: interrupted; nothing was written\n")


def test_a_mapped_file_that_becomes_shorter_reads_zeros(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x" * 100_000)
    mapped = _core.MappedFile(str(tmp_path / "x"))
    assert mapped.bytes[60_000] == ord("x") and mapped.is_whole()
    mapped.forget(0, 100_000)
    os.truncate(tmp_path / "x", 5000)
    assert mapped.bytes[60_000] == 0 and not mapped.is_whole()
    with pytest.raises(FileNotFoundError):
        _core.MappedFile(str(tmp_path / "missing"))


def test_a_mapped_file_where_others_have_taken_the_signal_since(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x" * 100_000)
    script = f"""
import os, signal, linkwise
from linkwise import _core
_core.MappedFile({str(tmp_path / "x")!r})
signal.signal(signal.SIGBUS, lambda *_: os._exit(3))  # as Ray does when it starts
mapped = _core.MappedFile({str(tmp_path / "x")!r})
os.truncate({str(tmp_path / "x")!r}, 5000)
mapped.forget(0, 100_000)
print(mapped.bytes[60_000], mapped.is_whole())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0 False\n")


def test_huge_pages_are_left_alone_where_the_host_takes_them_back(tmp_path: Path) -> None:
    assert _core.huge_pages_pay(str(tmp_path / "none"))
    features = tmp_path / "virtio0" / "features"
    features.parent.mkdir()
    for told, pays in (("11001", True), ("110010", True), ("110001", False), ("", True)):
        features.write_text(told + "\n")
        assert _core.huge_pages_pay(str(tmp_path)) == pays


def test_what_is_spilled_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else may read runs, and they have no name that somebody could wait for, or put a link at."""
    from linkwise.files.spilling import spill_file

    made, really = [], spill_file.tempfile.TemporaryFile

    def temporary(*given: Any, **named: Any) -> Any:
        file = really(*given, **named)
        made.append(os.fstat(file.fileno()))
        return file

    monkeypatch.setattr(spill_file.tempfile, "TemporaryFile", temporary)
    pq.write_table(pa.table({"x": np.random.default_rng(1).integers(0, 1 << 40, 100_000)}), tmp_path / "in.parquet")
    before = os.umask(0)
    try:
        linkwise.sort_file(
            tmp_path / "in.parquet", tmp_path / "out.parquet", by="x", host_memory_limit="128KiB",
            temporary_directory=tmp_path,
        )  # fmt: skip
    finally:
        os.umask(before)
    assert made and all(stat.S_IMODE(each.st_mode) == 0o600 and each.st_nlink == 0 for each in made)
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "out.parquet"}
