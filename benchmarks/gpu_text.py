"""Tables of cuDF on one GPU, with text as keys and carried: sorted and joined by us, and by libcudf.

    python benchmarks/gpu_text.py --rows 3e7 --output text.json

Both take the same columns of libcudf where these lie. The table has a name of 4 to 18 letters, a timestamp, a comment
like the name and a row number, and is sorted by name and falling timestamp, stably. It is joined with a tenth as many
rows by text of 20 digits; the result has all columns of both. A third as many rows are sorted by addresses of 37 to 93
bytes, which begin alike, and have their row numbers beside them.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pylibcudf

import linkwise
from cudf_peer import library_with_pool
from gpu_arrow_joins import in_text
from harness import times_in_turn, write_results
from local_sorts import timed
from tables import words_of

REPETITIONS = 9
_NAMES = 1_000_000


def table_of(rows: int, keys: int) -> pa.Table:
    """The longer table; keys are among so many."""
    random = np.random.default_rng(0)
    names = words_of(random, _NAMES)
    return pa.table(
        {
            "name": names.take(pa.array(random.integers(0, _NAMES, rows, dtype=np.int32))),
            "at": pa.array(random.integers(1_500_000_000, 1_700_000_000, rows), pa.timestamp("s")),
            "comment": names.take(pa.array(random.integers(0, _NAMES, rows, dtype=np.int32))),
            "row": np.arange(rows),
            "key": in_text(random.integers(0, keys, rows)),
        }
    )


def addresses(rows: int) -> pa.Table:
    """Few sites, more sections, and many pages."""
    random = np.random.default_rng(1)
    words = words_of(random, _NAMES)

    def part(among: int) -> pa.Array:
        return words.slice(0, among).take(pa.array(random.integers(0, among, rows, dtype=np.int32)))

    parts = [pa.scalar("https://www."), part(100), pa.scalar(".org/"), part(1000), part(_NAMES), part(_NAMES)]
    return pa.table({"address": pc.binary_join_element_wise(*parts, "/"), "row": np.arange(rows)})


def sorted_by_cudf(table: pylibcudf.Table, *descending: bool) -> pylibcudf.Table:
    """By the first columns."""
    by = pylibcudf.Table(table.columns()[: len(descending)])
    order, nulls = pylibcudf.types.Order, pylibcudf.types.NullOrder
    orders = [order.DESCENDING if falls else order.ASCENDING for falls in descending]
    return pylibcudf.sorting.stable_sort_by_key(
        table, by, orders, [nulls.BEFORE if falls else nulls.AFTER for falls in descending]
    )


def joined_by_cudf(left: pylibcudf.Table, right: pylibcudf.Table) -> pylibcudf.Table:
    """By the left table's last column and the right one's first."""
    keys = pylibcudf.Table(left.columns()[-1:]), pylibcudf.Table(right.columns()[:1])
    rows = pylibcudf.join.inner_join(*keys, pylibcudf.types.NullEquality.EQUAL)
    inside = pylibcudf.copying.OutOfBoundsPolicy.DONT_CHECK
    sides = [pylibcudf.copying.gather(side, of, inside) for side, of in zip((left, right), rows, strict=True)]
    return pylibcudf.Table(sides[0].columns() + sides[1].columns())


def check(ours: Any, theirs: pylibcudf.Table, what: str, *, in_order: bool) -> None:
    """The same rows."""
    of_libcudf = pylibcudf.Table.from_arrow(ours), theirs
    tables = [pa.table(pa.RecordBatch._import_from_c_capsule(*table.__arrow_c_array__())) for table in of_libcudf]
    columns = [table.rename_columns([str(n) for n in range(table.num_columns)]) for table in tables]
    if not in_order:
        columns = [table.sort_by("3") for table in columns]  # every row of the left table has one partner
    if not columns[0].equals(columns[1].cast(columns[0].schema)):
        raise SystemExit(f"libcudf's {what} has other rows than ours")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=3e7)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    library_with_pool()
    rows = int(options.rows)
    keys = rows // 10
    left = pylibcudf.Table.from_arrow(table_of(rows, keys))
    right = pylibcudf.Table.from_arrow(pa.table({"key": in_text(np.arange(keys)), "more": np.arange(keys)}))
    long = pylibcudf.Table.from_arrow(addresses(rows // 3))
    calls = {
        "sort": lambda: linkwise.sort(left, by=["0", "1"], descending=[False, True]),
        "cudf, sort": lambda: sorted_by_cudf(left, False, True),
        "join": lambda: linkwise.join(left, right, left_on="4", right_on="0"),
        "cudf, join": lambda: joined_by_cudf(left, right),
        "long": lambda: linkwise.sort(long, by="0"),
        "cudf, long": lambda: sorted_by_cudf(long, False),
    }
    check(calls["sort"](), calls["cudf, sort"](), "sort", in_order=True)
    check(calls["long"](), calls["cudf, long"](), "sort by long text", in_order=True)
    check(calls["join"](), calls["cudf, join"](), "join", in_order=False)
    seconds = times_in_turn(calls, options.repetitions, timed)
    medians = {call: statistics.median(times) for call, times in seconds.items()}
    print(", ".join(f"{call} {1e3 * s:.2f} ms" for call, s in medians.items()), flush=True)
    write_results(options.output, [{"rows": rows, "keys": keys, "seconds": seconds, "medians": medians}])


if __name__ == "__main__":
    main()
