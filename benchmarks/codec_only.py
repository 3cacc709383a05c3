"""Decodes a Parquet file and encodes it again, on all cores: what remains of a sort without sorting.

    python benchmarks/codec_only.py IN OUT
    python benchmarks/codec_only.py LEFT RIGHT OUT
    python benchmarks/codec_only.py --decode IN …
    python benchmarks/codec_only.py --decode=a,b IN …

By Linkwise's own reader and writer, so with PyArrow's codec, in memory, rows in the order they are in. ``files.py``
runs it beside the sorts with ``--bounds``: a sort that takes little longer is bound by the codec. Of two tables, the
rows of the longer one are encoded beside those of the other, repeated: as many columns and rows as their join by one
key has, where each row of the longer one has one match. With ``--decode``, files are only decoded, all columns or some:
where most rows are left out, that is what remains.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("MIMALLOC_PURGE_DELAY", "1000")  # as the command line does
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pyarrow as pa

from linkwise.cli.main import _WithoutPandas
from linkwise.columns.string_codes import StringCodes
from linkwise.files.formats import FileOptions
from linkwise.files.reading.reader import Stored
from linkwise.files.reading.readers import open_reader
from linkwise.files.writing.writer import Writer


def copy(*sources: str, out: str) -> None:
    """Decode all rows, and encode them; of two tables, those of their join."""
    options = FileOptions()
    readers = [open_reader([Path(source)], options) for source in sources]
    first, *others = readers
    stored = Stored([], []) if others else first.storable(0)  # as sorts read them, and joins do not
    codes = StringCodes(stored.strings)
    first.read_stored(stored)
    table = beside(*(reader.everything(codes.coded) for reader in readers))
    schema = table.schema if others else first.schema
    with Writer(Path(out), options, like=first, schema=schema) as writer:
        writer.write_parts(
            table.num_rows, table.nbytes // table.num_rows,
            lambda first, count: codes.with_dictionaries(table.slice(first, count)),
        )  # fmt: skip
        writer.flush()


def beside(left: pa.Table, *rights: pa.Table) -> pa.Table:
    """The left table with the columns that only the other one has, whose rows are repeated."""
    for right in rights:
        times = -(-left.num_rows // right.num_rows)
        repeated = pa.concat_tables([right] * times).slice(0, left.num_rows)
        for name in right.column_names:
            if name not in left.column_names:
                left = left.append_column(right.schema.field(name), repeated[name])
    return left


def decode(sources: list[Path], columns: list[str] | None) -> None:
    """Read all rows."""
    for source in sources:
        reader = open_reader([source], FileOptions())
        if columns is not None:
            reader.keep(columns, None)
        reader.everything()


if __name__ == "__main__":
    sys.meta_path.insert(0, _WithoutPandas())  # as the command line does: PyArrow would load it, for half a second
    how, _, named = sys.argv[1].partition("=")
    if how == "--decode":
        decode([Path(each) for each in sys.argv[2:]], named.split(",") if named else None)
    else:
        copy(*sys.argv[1:-1], out=sys.argv[-1])
