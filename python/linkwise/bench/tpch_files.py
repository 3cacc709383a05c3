"""TPC-H Q3, Q5, Q9, Q18 and Q21 from Parquet files to their results: read, filter, join, group, order.

Our queries are what a user would write: short tables are read, and long ones are streamed through joins with them
(``linkwise.join_batches``). PyArrow does the grouping. The same queries run in Polars with ``PolarsEngine``, where
Polars is installed: it scans, filters and groups. Nothing is prepared, and DuckDB reads the same files.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linkwise._core import CorruptDataError
from linkwise.bench import tpch_queries
from linkwise.columns.gather import in_one_array
from linkwise.files.batch_stream import join_batches
from linkwise.files.formats import FileOptions
from linkwise.files.reading.readers import keep_of_tables, open_reader
from linkwise.joining.api import join
from linkwise.runtime.parallel import in_order
from linkwise.sorting.api import sort, top_k

_ONE = pa.scalar(1, pa.decimal128(15, 2))
_BLOCK = 1 << 20


class Files:
    """The tables in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        """The path of a table's file."""
        return self._folder / f"{name}.parquet"

    def read(self, name: str, columns: Sequence[str], rows: pc.Expression | None = None) -> pa.Table:
        """Some columns of the rows for which an expression is true."""
        reader = open_reader([self.path(name)], FileOptions())
        keep_of_tables(reader, columns, rows)
        return reader.everything()

    def by(
        self, name: str, columns: Sequence[str], others: pa.Table, on: tuple[str, str], how: Any = "inner",
        rows: pc.Expression | None = None,
    ) -> pa.Table:  # fmt: skip
        """Stream a table through a join with ``others``, and collect the result."""
        stream = join_batches(
            self.path(name),
            others,
            left_on=on[0],
            right_on=on[1],
            how=how,
            left_columns=list(columns),
            left_filter=rows,
        )
        return stream.read_all()


def _revenue(table: pa.Table, keys: list[str]) -> pa.Table:
    product = pc.multiply(table["l_extendedprice"], pc.subtract(_ONE, table["l_discount"]))
    return table.select(keys).append_column("revenue", product).group_by(keys).aggregate([("revenue", "sum")])


def _sums_of_runs(table: pa.Table, key: str, summed: str) -> pa.Table:
    """Sums of decimals by an integer key: the rows are sorted, and the runs of equal keys summed.

    PyArrow's group-by would find millions of groups on one core.
    """
    ordered = sort(table.select([key, summed]), by=key)
    keys = in_one_array(ordered[key]).to_numpy()
    kind = ordered.schema.field(summed).type
    values = in_one_array(ordered[summed])
    words = np.frombuffer(values.buffers()[1], np.int64)[2 * values.offset :: 2]  # each value fits its lower half
    cuts = [0, *(int(np.searchsorted(keys, keys[at])) for at in range(_BLOCK, len(keys), _BLOCK)), len(keys)]

    def of_runs(first: int, end: int) -> tuple[Any, Any]:
        of_block = keys[first:end]
        starts = np.flatnonzero(np.diff(of_block, prepend=of_block[:1] - 1))
        return of_block[starts], np.add.reduceat(words[first:end], starts)

    blocks = [(first, end) for first, end in itertools.pairwise(cuts) if first < end]
    found_keys, sums = zip(*in_order(partial(of_runs, *block) for block in blocks), strict=True)
    return pa.table({key: np.concatenate(found_keys), f"{summed}_sum": _decimals(np.concatenate(sums), kind.scale)})


def _decimals(unscaled: Any, scale: int) -> pa.Array:
    """Decimals from integers of 64 bits, in units of the last digit."""
    words = np.stack([unscaled, unscaled >> 63], axis=1)
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(unscaled), [None, pa.py_buffer(words)])


def q3(files: Files) -> pa.Table:
    """The ten unshipped orders of the highest value."""
    day = pa.scalar(date(1995, 3, 15))
    customers = files.read("customer", ["c_custkey"], pc.field("c_mktsegment") == "BUILDING")
    orders = files.by(
        "orders", ["o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"], customers, ("o_custkey", "c_custkey"),
        "semi", pc.field("o_orderdate") < day,
    )  # fmt: skip
    lines = files.by(
        "lineitem", ["l_orderkey", "l_extendedprice", "l_discount"], orders, ("l_orderkey", "o_orderkey"),
        rows=pc.field("l_shipdate") > day,
    )  # fmt: skip
    groups = _revenue(lines, ["l_orderkey", "o_orderdate", "o_shippriority"])
    first = top_k(groups, 10, by=["revenue_sum", "o_orderdate", "l_orderkey"], descending=[True, False, False])
    return first.select(["l_orderkey", "revenue_sum", "o_orderdate", "o_shippriority"])


def q5(files: Files) -> pa.Table:
    """Revenue between customers and suppliers of one nation, by nation."""
    regions = files.read("region", ["r_regionkey"], pc.field("r_name") == "ASIA")
    nations = files.read("nation", ["n_nationkey", "n_name", "n_regionkey"])
    nations = join(nations, regions, left_on="n_regionkey", right_on="r_regionkey", how="semi")
    suppliers = files.by("supplier", ["s_suppkey", "s_nationkey"], nations, ("s_nationkey", "n_nationkey"))
    customers = files.by("customer", ["c_custkey", "c_nationkey"], nations, ("c_nationkey", "n_nationkey"), "semi")
    in_year = (pc.field("o_orderdate") >= pa.scalar(date(1994, 1, 1))) & (
        pc.field("o_orderdate") < pa.scalar(date(1995, 1, 1))
    )
    orders = files.by(
        "orders", ["o_orderkey", "o_custkey"], customers, ("o_custkey", "c_custkey"), rows=in_year
    ).select(["o_orderkey", "c_nationkey"])
    lines = files.by(
        "lineitem", ["l_orderkey", "l_suppkey", "l_extendedprice", "l_discount"], orders, ("l_orderkey", "o_orderkey")
    )
    local = join(
        lines, suppliers, left_on=["l_suppkey", "c_nationkey"], right_on=["s_suppkey", "s_nationkey"]
    )  # fmt: skip
    return sort(_revenue(local, ["n_name"]), by="revenue_sum", descending=True).select(["n_name", "revenue_sum"])


def q9(files: Files) -> pa.Table:
    """Profit with parts that are called green, by nation and year."""
    parts = files.read("part", ["p_partkey"], pc.match_substring(pc.field("p_name"), "green"))
    offers = files.by(
        "partsupp", ["ps_partkey", "ps_suppkey", "ps_supplycost"], parts, ("ps_partkey", "p_partkey"), "semi"
    )
    lines = files.by(
        "lineitem", ["l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice", "l_discount"], parts,
        ("l_partkey", "p_partkey"), "semi",
    )  # fmt: skip
    lines = join(lines, offers, left_on=["l_partkey", "l_suppkey"], right_on=["ps_partkey", "ps_suppkey"])
    nations = files.read("nation", ["n_nationkey", "n_name"])
    suppliers = files.by("supplier", ["s_suppkey", "s_nationkey"], nations, ("s_nationkey", "n_nationkey"))
    lines = join(lines, suppliers.select(["s_suppkey", "n_name"]), left_on="l_suppkey", right_on="s_suppkey")
    lines = lines.select(["l_orderkey", "l_quantity", "l_extendedprice", "l_discount", "ps_supplycost", "n_name"])
    sold = files.by("orders", ["o_orderkey", "o_orderdate"], lines, ("o_orderkey", "l_orderkey"))
    income = pc.multiply(sold["l_extendedprice"], pc.subtract(_ONE, sold["l_discount"]))
    profit = pc.subtract(income, pc.multiply(sold["ps_supplycost"], sold["l_quantity"]))
    of_year = pa.table([sold["n_name"], pc.year(sold["o_orderdate"]), profit], ["nation", "year", "profit"])
    groups = of_year.group_by(["nation", "year"]).aggregate([("profit", "sum")])
    return sort(groups, by=["nation", "year"], descending=[False, True])


def q18(files: Files) -> pa.Table:
    """The hundred largest orders of more than 300 pieces."""
    sums = _sums_of_runs(files.read("lineitem", ["l_orderkey", "l_quantity"]), "l_orderkey", "l_quantity")
    large = sums.filter(pc.field("l_quantity_sum") > pa.scalar(300, pa.decimal128(5, 2)))
    orders = files.by(
        "orders", ["o_orderkey", "o_custkey", "o_orderdate", "o_totalprice"], large, ("o_orderkey", "l_orderkey")
    )
    sold = files.by("customer", ["c_custkey", "c_name"], orders, ("c_custkey", "o_custkey"))
    first = top_k(sold, 100, by=["o_totalprice", "o_orderdate", "o_orderkey"], descending=[True, False, False])
    columns = ["c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "l_quantity_sum"]
    return first.select(columns)


def q21(files: Files) -> pa.Table:
    """Suppliers who alone kept an order of several waiting."""
    nations = files.read("nation", ["n_nationkey"], pc.field("n_name") == "SAUDI ARABIA")
    suppliers = files.by(
        "supplier", ["s_suppkey", "s_name", "s_nationkey"], nations, ("s_nationkey", "n_nationkey"), "semi"
    )
    is_late = pc.field("l_receiptdate") > pc.field("l_commitdate")
    waiting = files.by("lineitem", ["l_orderkey", "l_suppkey"], suppliers, ("l_suppkey", "s_suppkey"), rows=is_late)
    orders = files.by(
        "orders", ["o_orderkey"], waiting, ("o_orderkey", "l_orderkey"), "semi", pc.field("o_orderstatus") == "F"
    )
    columns = ["l_orderkey", "l_suppkey", "l_receiptdate", "l_commitdate"]
    lines = files.by("lineitem", columns, orders, ("l_orderkey", "o_orderkey"), "semi")
    of_suppliers: Any = [("l_suppkey", "min"), ("l_suppkey", "max")]
    everybody = lines.group_by("l_orderkey").aggregate(of_suppliers)
    late = lines.filter(is_late).group_by("l_orderkey").aggregate(of_suppliers)
    is_one = pc.field("l_suppkey_min") == pc.field("l_suppkey_max")
    alone = join(late.filter(is_one), everybody.filter(~is_one), "l_orderkey", how="semi")
    blamed = join(waiting, alone, "l_orderkey", how="semi")
    counts = join(
        blamed.group_by("l_suppkey").aggregate([([], "count_all")]),
        suppliers,
        left_on="l_suppkey",
        right_on="s_suppkey",
    )
    first = top_k(counts, 100, by=["count_all", "s_name"], descending=[True, False])
    return first.select(["s_name", "count_all"])


@dataclass(frozen=True)
class FileQuery:
    """A query, ours and in SQL."""

    name: str
    ours: Callable[[Files], pa.Table]
    sql: str


_SQL = {query.name: query.sql for query in tpch_queries.QUERIES}
QUERIES = (
    FileQuery("Q3", q3, _SQL["Q3"]),
    FileQuery("Q5", q5, _SQL["Q5"]),
    FileQuery(
        "Q9", q9,
        "select nation, o_year, sum(amount) from (select n_name as nation, year(o_orderdate) as o_year, "
        "l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity as amount "
        "from part, supplier, lineitem, partsupp, orders, nation where s_suppkey = l_suppkey "
        "and ps_suppkey = l_suppkey and ps_partkey = l_partkey and p_partkey = l_partkey and o_orderkey = l_orderkey "
        "and s_nationkey = n_nationkey and p_name like '%green%') group by nation, o_year "
        "order by nation, o_year desc",
    ),
    FileQuery(
        "Q18", q18,
        "select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) "
        "from customer, orders, lineitem where o_orderkey in (select l_orderkey from lineitem group by l_orderkey "
        "having sum(l_quantity) > 300) and c_custkey = o_custkey and o_orderkey = l_orderkey "
        "group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice "
        "order by o_totalprice desc, o_orderdate, o_orderkey limit 100",
    ),
    FileQuery(
        "Q21", q21,
        "select s_name, count(*) as numwait from supplier, lineitem l1, orders, nation where s_suppkey = l1.l_suppkey "
        "and o_orderkey = l1.l_orderkey and o_orderstatus = 'F' and l1.l_receiptdate > l1.l_commitdate "
        "and exists (select * from lineitem l2 where l2.l_orderkey = l1.l_orderkey "
        "and l2.l_suppkey <> l1.l_suppkey) and not exists (select * from lineitem l3 "
        "where l3.l_orderkey = l1.l_orderkey and l3.l_suppkey <> l1.l_suppkey "
        "and l3.l_receiptdate > l3.l_commitdate) and s_nationkey = n_nationkey and n_name = 'SAUDI ARABIA' "
        "group by s_name order by numwait desc, s_name limit 100",
    ),
)  # fmt: skip
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


@dataclass(frozen=True, kw_only=True)
class FromFiles:
    """The times of a whole query from its files to its result: ours, in Polars with our engine, and DuckDB's."""

    query: str
    seconds: list[float]
    rows: int
    in_polars_seconds: list[float] | None = None
    duckdb_seconds: list[float] | None = None

    @property
    def ratio(self) -> float | None:
        """Our median over DuckDB's."""
        return _ratio(self.seconds, self.duckdb_seconds)

    @property
    def in_polars_ratio(self) -> float | None:
        """The same in Polars."""
        return _ratio(self.in_polars_seconds, self.duckdb_seconds)


def _ratio(ours: list[float] | None, theirs: list[float] | None) -> float | None:
    return None if ours is None or theirs is None else statistics.median(ours) / statistics.median(theirs)


def run_from_files(folder: Path, repetitions: int) -> list[FromFiles]:
    """Time each query in each way that is installed, in turn, after an uncounted run of each.

    Raises ``CorruptDataError`` if the results differ.
    """
    ways, found = _ways(folder), []
    for query in QUERIES:
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        results: dict[str, list[tuple[Any, ...]]] = {}
        for _ in range(repetitions + 1):
            for way, rows_of in ways.items():
                began = time.perf_counter()
                results[way] = rows_of(query)
                seconds[way].append(time.perf_counter() - began)
        for way, rows in results.items():
            if not _are_same(rows, results["ours"]):
                raise CorruptDataError(f"{query.name} has another result by {way} than by us: one of the two is wrong")
        counted = {way: some[1:] for way, some in seconds.items()}
        found.append(
            FromFiles(
                query=query.name,
                seconds=counted["ours"],
                rows=len(results["ours"]),
                in_polars_seconds=counted.get("Polars"),
                duckdb_seconds=counted.get("DuckDB"),
            )
        )
    return found


def _ways(folder: Path) -> dict[str, Callable[[FileQuery], list[tuple[Any, ...]]]]:
    """What runs a query over the files of a folder, and returns its rows."""
    files = Files(folder)
    ways: dict[str, Callable[[FileQuery], list[tuple[Any, ...]]]] = {
        "ours": lambda query: [tuple(row.values()) for row in query.ours(files).to_pylist()]
    }
    if find_spec("polars") is not None:
        from linkwise.bench import tpch_lazy  # noqa: PLC0415 - only where Polars is installed
        from linkwise.polars.engine import PolarsEngine  # noqa: PLC0415

        tables, engine = tpch_lazy.scanned(folder), PolarsEngine()
        ways["Polars"] = lambda query: tpch_lazy.QUERIES[int(query.name[1:])](tables).collect(engine=engine).rows()
    if find_spec("duckdb") is not None:
        import duckdb  # noqa: PLC0415 - only where it is installed

        connection = duckdb.connect()
        for name in TABLES:
            connection.execute(f"create view {name} as select * from '{folder}/{name}.parquet'")
        ways["DuckDB"] = lambda query: connection.execute(query.sql).fetchall()
    return ways


def _are_same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> bool:
    """Whether rows are equal; decimals are, whatever their scale."""
    return len(found) == len(expected) and all(
        tuple(map(_plain, row)) == tuple(map(_plain, other)) for row, other in zip(found, expected, strict=True)
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, Decimal | int) else str(value)
