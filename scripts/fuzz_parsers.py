"""Coverage-guided fuzzing of parsers of text and bytes: any input must give a result or one of our errors.

    pip install atheris
    python scripts/fuzz_parsers.py machine --seconds 600 --corpus build/corpus/machine

Needs Atheris (https://pypi.org/project/atheris/), which takes the options of libFuzzer as well, and keeps an input that
ends otherwise as ``crash-…``. Without Atheris, ``--drawn N`` runs N inputs that are drawn from the seeds.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import linkwise
from linkwise.apps.matrix_market import read_matrix
from linkwise.columns.row_filter import filter_from_text
from linkwise.columns.sort_keys import sort_keys_from_text
from linkwise.encoders import thrift
from linkwise.files.listing import is_like
from linkwise.files.reading.arrow_sizes import decoded_sizes
from linkwise.machines.nccl_topology import import_nccl
from linkwise.runtime.arguments import parse_bytes
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.sort_plan import SortPlan

DESCRIBED = Path(linkwise.__file__).parent / "machines" / "described"
SCHEMA = pa.schema(
    {"a": pa.int64(), "b": pa.string(), "c d": pa.float64(), "e": pa.dictionary(pa.int32(), pa.string())}
)
NCCL = """<system version="1"><cpu numaid="0" affinity="ff" arch="x86_64" vendor="Intel"><pci busid="0000:01:00.0"
class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16"><pci busid="0000:02:00.0" class="0x030200"
link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="0000:04:00.0"
count="18" tclass="0x068000"/></gpu></pci></pci></cpu></system>"""

Target = Callable[[bytes], object]


def text(data: bytes) -> str:
    """Decode any bytes as text."""
    return data.decode("utf-8", "surrogateescape")


def in_file(parse: Callable[[Path], object], suffix: str) -> Target:
    """A target for a parser of files."""
    folder = Path(tempfile.mkdtemp())

    def run(data: bytes) -> object:
        path = folder / f"input{suffix}"
        path.write_bytes(data)
        return parse(path)

    return run


def machine(path: Path) -> object:
    """A description of a machine."""
    return linkwise.load_machine(path)


def plan(data: bytes) -> object:
    """Words of plans."""
    kind = SortPlan if data[:1] < b"\x80" else JoinPlan
    return kind.parse(text(data[1:]))


def metadata(data: bytes) -> object:
    """Thrift's compact protocol, and back."""
    found, _ = thrift.parse(data)
    again, _ = thrift.parse(thrift.serialised(found))
    if again != found:
        raise AssertionError("what is written is not what was read")
    return found


def pattern(data: bytes) -> object:
    """A name and a pattern."""
    name, _, like = text(data).partition("\0")
    return is_like(name.split("/"), like.split("/"))


def _arrow_file() -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
        file.write_table(pa.table([[1], ["x"], [1.5], pa.array(["y"]).dictionary_encode()], schema=SCHEMA))
    return bytes(out.getvalue())


def _thrift() -> list[bytes]:
    out = pa.BufferOutputStream()
    import pyarrow.parquet as pq  # noqa: PLC0415

    pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", None]}), out)
    whole = bytes(out.getvalue())
    (length,) = struct.unpack("<I", whole[-8:-4])
    return [whole[-8 - length : -8]]


TARGETS: dict[str, tuple[Target, Callable[[], list[bytes]]]] = {
    "machine": (in_file(machine, ".json"), lambda: [path.read_bytes() for path in DESCRIBED.glob("*.json")][:4]),
    "nccl": (in_file(import_nccl, ".xml"), lambda: [NCCL.encode()]),
    "matrix": (
        in_file(read_matrix, ".mtx"),
        lambda: [b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.5\n2 2 3\n", b"0 1\n1 2 0.5\n# x\n"],
    ),
    "keys": (
        lambda data: sort_keys_from_text(text(data).split("\n"), SCHEMA.names, "last"),
        lambda: [b"a:desc:nulls-first,b\n1", b"c d:asc"],
    ),
    "plan": (plan, lambda: [b"\0het,buffers=3,eager", b"\xffsorted,pair_bytes=4MiB", b"\0radix,gpus=0+2"]),
    "filter": (
        lambda data: filter_from_text(text(data), SCHEMA),
        lambda: [b"a > 3 and (b in ('x', 'y''z') or not \"c d\" is null)", b"e = 'x' or a <= -1.5e3", b"a in (1, 2.5)"],
    ),
    "metadata": (metadata, _thrift),
    "arrow": (lambda data: decoded_sizes(memoryview(data)), lambda: [_arrow_file()]),
    "size": (lambda data: parse_bytes(text(data), 1 << 30), lambda: [b"4GiB", b"80%", b"1.5 k"]),
    "pattern": (pattern, lambda: [b"a/b/c.parquet\0a/**/*.parquet", b"x/[a-c]?\0x/*"]),
}
ALLOWED = (linkwise.Error, ValueError, IndexError, struct.error, UnicodeEncodeError)
"""Exceptions of inner parsers, which callers turn into an ``Error``; others raise ``Error`` or ``OSError``."""
INNER = ("metadata", "arrow")


def guarded(name: str) -> Target:
    """The target, with its allowed errors caught."""
    run, _ = TARGETS[name]
    allowed = ALLOWED if name in INNER else (linkwise.Error, OSError)

    def one(data: bytes) -> None:
        try:
            run(data)
        except allowed as error:
            if isinstance(error, linkwise.Error) and "\n" in str(error):
                raise AssertionError(f"more than one line: {error!r}") from error

    return one


def drawn(name: str, count: int, seed: int = 0) -> None:
    """Run inputs that are drawn from the seeds, always the same."""
    one, seeds = guarded(name), TARGETS[name][1]()
    draw = random.Random(seed)
    for _ in range(count):
        data = bytearray(draw.choice(seeds))
        for _ in range(draw.randrange(6)):
            at = draw.randrange(len(data) + 1)
            other = draw.choice(seeds)
            kind = draw.randrange(4)
            if kind == 0:
                data[at:at] = bytes([draw.randrange(256)])
            elif kind == 1:
                del data[at : at + draw.randrange(9)]
            elif kind == 2:
                begin = draw.randrange(len(other) + 1)
                data[at:at] = other[begin : begin + draw.randrange(60)]
            elif at < len(data):
                data[at] = draw.choice(b'0123456789",:{}[]()<>/\\ -+eE\0\xff')
        try:
            one(bytes(data))
        except BaseException:
            print(f"{name}: {bytes(data)!r}", file=sys.stderr)
            raise


def main() -> int:
    """Fuzz one parser."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, help="where inputs are kept that reach more; the seeds go there first")
    parser.add_argument("--drawn", type=int, help="so many inputs drawn from the seeds, without Atheris")
    options, more = parser.parse_known_args()
    if options.drawn is not None:
        drawn(options.target, options.drawn)
        return 0
    import atheris  # noqa: PLC0415

    atheris.instrument_all()
    corpus = options.corpus or Path(tempfile.mkdtemp())
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(TARGETS[options.target][1]()):
        (corpus / f"seed-{number}").write_bytes(seed)
    arguments = [sys.argv[0], *more, str(corpus), f"-max_total_time={options.seconds}", "-timeout=20"]
    atheris.Setup(arguments, guarded(options.target))
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
