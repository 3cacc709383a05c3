"""TPC-H Q3 and Q5: filters, joins, and what follows the joins."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from linkwise.bench.duckdb_baseline import Tables
from linkwise.bench.tpch_joins import Joiner

TABLE_COLUMNS = {
    "customer": ["c_custkey", "c_mktsegment", "c_nationkey"],
    "orders": ["o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"],
    "lineitem": ["l_orderkey", "l_suppkey", "l_extendedprice", "l_discount", "l_shipdate"],
    "supplier": ["s_suppkey", "s_nationkey"],
    "nation": ["n_nationkey", "n_name", "n_regionkey"],
    "region": ["r_regionkey", "r_name"],
}


def _revenue(table: pa.Table, keys: list[str]) -> pa.Table:
    one = pa.scalar(Decimal(1), pa.decimal128(15, 2))
    product = pc.multiply(table["l_extendedprice"], pc.subtract(one, table["l_discount"]))
    return table.select(keys).append_column("revenue", product).group_by(keys).aggregate([("revenue", "sum")])


class Query:
    """A query's joins over filtered tables, what follows them, and the same in SQL."""

    def __init__(
        self,
        name: str,
        filtered: Callable[[Tables], Tables],
        joins: Callable[[Tables, Joiner], pa.Table],
        rest: Callable[[pa.Table], pa.Table],
        sql: str,
        joins_sql: str,
    ) -> None:
        self.name, self.filtered, self.joins, self.rest = name, filtered, joins, rest
        self.sql, self.joins_sql = sql, joins_sql


# PyArrow filters by expressions on all cores, but by masks on one.
def _filtered_q3(tables: Tables) -> Tables:
    day = pa.scalar(datetime.date(1995, 3, 15))
    return {
        "customer": tables["customer"].filter(pc.field("c_mktsegment") == "BUILDING").select(["c_custkey"]),
        "orders": tables["orders"].filter(pc.field("o_orderdate") < day),
        "lineitem": tables["lineitem"]
        .filter(pc.field("l_shipdate") > day)
        .select(["l_orderkey", "l_extendedprice", "l_discount"]),
    }


def _joins_q3(tables: Tables, joiner: Joiner) -> pa.Table:
    orders = joiner.join(tables["customer"], tables["orders"], ("c_custkey", "o_custkey"))
    return joiner.table(joiner.join(orders, tables["lineitem"], ("o_orderkey", "l_orderkey")))


def _rest_q3(joined: pa.Table) -> pa.Table:
    groups = _revenue(joined, ["o_orderkey", "o_orderdate", "o_shippriority"])
    order = [("revenue_sum", "descending"), ("o_orderdate", "ascending"), ("o_orderkey", "ascending")]
    return groups.sort_by(order).slice(0, 10).select(["o_orderkey", "revenue_sum", "o_orderdate", "o_shippriority"])


def _filtered_q5(tables: Tables) -> Tables:
    begin, end = (pa.scalar(datetime.date(year, 1, 1)) for year in (1994, 1995))
    in_year = (pc.field("o_orderdate") >= begin) & (pc.field("o_orderdate") < end)
    return {
        "region": tables["region"].filter(pc.field("r_name") == "ASIA").select(["r_regionkey"]),
        "nation": tables["nation"],
        "supplier": tables["supplier"],
        "customer": tables["customer"].select(["c_custkey", "c_nationkey"]),
        "orders": tables["orders"].filter(in_year).select(["o_orderkey", "o_custkey"]),
        "lineitem": tables["lineitem"].select(["l_orderkey", "l_suppkey", "l_extendedprice", "l_discount"]),
    }


# Starts from the smallest relations, as an optimiser would; the paper does not state its join order.
def _joins_q5(tables: Tables, joiner: Joiner) -> pa.Table:
    nations = joiner.join(tables["region"], tables["nation"], ("r_regionkey", "n_regionkey"))
    customers = joiner.join(nations, tables["customer"], ("n_nationkey", "c_nationkey"))
    orders = joiner.join(customers, tables["orders"], ("c_custkey", "o_custkey"))
    items = joiner.join(orders, tables["lineitem"], ("o_orderkey", "l_orderkey"))
    return joiner.table(
        joiner.join(tables["supplier"], items, ("s_suppkey", "l_suppkey"), ("s_nationkey", "n_nationkey"))
    )


def _rest_q5(joined: pa.Table) -> pa.Table:
    groups = _revenue(joined, ["n_name"])
    return groups.sort_by([("revenue_sum", "descending")]).select(["n_name", "revenue_sum"])


QUERIES = (
    Query(
        "Q3", _filtered_q3, _joins_q3, _rest_q3,
        "select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority "
        "from customer, orders, lineitem where c_mktsegment = 'BUILDING' and c_custkey = o_custkey "
        "and l_orderkey = o_orderkey and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15' "
        "group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate, l_orderkey limit 10",
        "select * exclude (o_custkey, l_orderkey) "
        "from customer, orders, lineitem where c_custkey = o_custkey and l_orderkey = o_orderkey",
    ),
    Query(
        "Q5", _filtered_q5, _joins_q5, _rest_q5,
        "select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue "
        "from customer, orders, lineitem, supplier, nation, region where c_custkey = o_custkey "
        "and l_orderkey = o_orderkey and l_suppkey = s_suppkey and c_nationkey = s_nationkey "
        "and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'ASIA' "
        "and o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01' "
        "group by n_name order by revenue desc",
        "select * exclude (n_regionkey, n_nationkey, s_nationkey, l_suppkey, l_orderkey, o_custkey) "
        "from customer, orders, lineitem, supplier, nation, region where c_custkey = o_custkey "
        "and l_orderkey = o_orderkey and l_suppkey = s_suppkey and c_nationkey = s_nationkey "
        "and s_nationkey = n_nationkey and n_regionkey = r_regionkey",
    ),
)  # fmt: skip
