"""TPC-H's 22 queries (specification 3.0, §2.4, with its validation parameters) as lazy frames of Polars.

``QUERIES`` has them by number. Sums of decimals are exact, so that two engines' results must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import polars as pl

from linkwise.bench.tpch_files import TABLES

col, lit = pl.col, pl.lit
Tables = Mapping[str, pl.LazyFrame]


def _exact(name: str) -> pl.Expr:
    """A decimal column with the four digits that a product has: Polars would round it to two."""
    return col(name).cast(pl.Decimal(38, 4))


def _revenue() -> pl.Expr:
    return _exact("l_extendedprice") * (1 - _exact("l_discount"))


def q1(t: Tables) -> pl.LazyFrame:
    """Pricing summary report."""
    price = _revenue()
    return (
        t["lineitem"]
        .filter(col("l_shipdate") <= date(1998, 9, 2))
        .group_by("l_returnflag", "l_linestatus")
        .agg(
            sum_qty=col("l_quantity").sum(),
            sum_base_price=col("l_extendedprice").sum(),
            sum_disc_price=price.sum(),
            avg_disc=col("l_discount").cast(pl.Float64).mean().round(9),
            count_order=pl.len(),
        )
        .sort("l_returnflag", "l_linestatus")
    )


def q2(t: Tables) -> pl.LazyFrame:
    """Minimum cost supplier."""
    of_europe = (
        t["partsupp"]
        .join(t["supplier"], left_on="ps_suppkey", right_on="s_suppkey")
        .join(t["nation"], left_on="s_nationkey", right_on="n_nationkey")
        .join(t["region"].filter(col("r_name") == "EUROPE"), left_on="n_regionkey", right_on="r_regionkey")
    )
    parts = t["part"].filter((col("p_size") == 15) & col("p_type").str.ends_with("BRASS"))
    offers = parts.join(of_europe, left_on="p_partkey", right_on="ps_partkey")
    least = offers.group_by("p_partkey").agg(col("ps_supplycost").min())
    return (
        offers.join(least, on=["p_partkey", "ps_supplycost"])
        .select("s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment")
        .sort("s_acctbal", "n_name", "s_name", "p_partkey", descending=[True, False, False, False])
        .head(100)
    )


def q3(t: Tables) -> pl.LazyFrame:
    """Shipping priority."""
    return (
        t["customer"]
        .filter(col("c_mktsegment") == "BUILDING")
        .join(t["orders"].filter(col("o_orderdate") < date(1995, 3, 15)), left_on="c_custkey", right_on="o_custkey")
        .join(t["lineitem"].filter(col("l_shipdate") > date(1995, 3, 15)), left_on="o_orderkey", right_on="l_orderkey")
        .group_by("o_orderkey", "o_orderdate", "o_shippriority")
        .agg(revenue=_revenue().sum())
        .sort("revenue", "o_orderdate", "o_orderkey", descending=[True, False, False])
        .head(10)
        .select("o_orderkey", "revenue", "o_orderdate", "o_shippriority")
    )


def q4(t: Tables) -> pl.LazyFrame:
    """Order priority checking."""
    quarter = col("o_orderdate").is_between(date(1993, 7, 1), date(1993, 10, 1), closed="left")
    late = t["lineitem"].filter(col("l_commitdate") < col("l_receiptdate"))
    return (
        t["orders"]
        .filter(quarter)
        .join(late, left_on="o_orderkey", right_on="l_orderkey", how="semi")
        .group_by("o_orderpriority")
        .agg(order_count=pl.len())
        .sort("o_orderpriority")
    )


def q5(t: Tables) -> pl.LazyFrame:
    """Local supplier volume."""
    year = col("o_orderdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left")
    return (
        t["region"]
        .filter(col("r_name") == "ASIA")
        .join(t["nation"], left_on="r_regionkey", right_on="n_regionkey")
        .join(t["customer"], left_on="n_nationkey", right_on="c_nationkey")
        .join(t["orders"].filter(year), left_on="c_custkey", right_on="o_custkey")
        .join(t["lineitem"], left_on="o_orderkey", right_on="l_orderkey")
        .join(t["supplier"], left_on=["l_suppkey", "n_nationkey"], right_on=["s_suppkey", "s_nationkey"])
        .group_by("n_name")
        .agg(revenue=_revenue().sum())
        .sort("revenue", descending=True)
    )


def q6(t: Tables) -> pl.LazyFrame:
    """Forecasting revenue change."""
    return (
        t["lineitem"]
        .filter(
            col("l_shipdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left"),
            col("l_discount").cast(pl.Float64).is_between(0.049, 0.071),
            col("l_quantity") < 24,
        )
        .select(revenue=(_exact("l_extendedprice") * _exact("l_discount")).sum())
    )


def q7(t: Tables) -> pl.LazyFrame:
    """Volume shipping."""
    two = t["nation"].filter(col("n_name").is_in(["FRANCE", "GERMANY"]))
    return (
        t["supplier"]
        .join(two.select("n_nationkey", supp_nation="n_name"), left_on="s_nationkey", right_on="n_nationkey")
        .join(t["lineitem"], left_on="s_suppkey", right_on="l_suppkey")
        .filter(col("l_shipdate").is_between(date(1995, 1, 1), date(1996, 12, 31)))
        .join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .join(t["customer"], left_on="o_custkey", right_on="c_custkey")
        .join(two.select("n_nationkey", cust_nation="n_name"), left_on="c_nationkey", right_on="n_nationkey")
        .filter(col("supp_nation") != col("cust_nation"))
        .group_by("supp_nation", "cust_nation", l_year=col("l_shipdate").dt.year())
        .agg(revenue=_revenue().sum())
        .sort("supp_nation", "cust_nation", "l_year")
    )


def q8(t: Tables) -> pl.LazyFrame:
    """National market share."""
    volume = _revenue().cast(pl.Float64)
    return (
        t["part"]
        .filter(col("p_type") == "ECONOMY ANODIZED STEEL")
        .join(t["lineitem"], left_on="p_partkey", right_on="l_partkey")
        .join(t["supplier"], left_on="l_suppkey", right_on="s_suppkey")
        .join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .filter(col("o_orderdate").is_between(date(1995, 1, 1), date(1996, 12, 31)))
        .join(t["customer"], left_on="o_custkey", right_on="c_custkey")
        .join(t["nation"], left_on="c_nationkey", right_on="n_nationkey")
        .join(t["region"].filter(col("r_name") == "AMERICA"), left_on="n_regionkey", right_on="r_regionkey")
        .join(t["nation"].select("n_nationkey", nation="n_name"), left_on="s_nationkey", right_on="n_nationkey")
        .group_by(o_year=col("o_orderdate").dt.year())
        .agg(
            mkt_share=(pl.when(col("nation") == "BRAZIL").then(volume).otherwise(0.0).sum() / volume.sum()).round(6),
        )
        .sort("o_year")
    )


def q9(t: Tables) -> pl.LazyFrame:
    """Product type profit measure."""
    amount = _revenue() - _exact("ps_supplycost") * _exact("l_quantity")
    return (
        t["part"]
        .filter(col("p_name").str.contains("green", literal=True))
        .join(t["lineitem"], left_on="p_partkey", right_on="l_partkey")
        .join(t["supplier"], left_on="l_suppkey", right_on="s_suppkey")
        .join(t["partsupp"], left_on=["p_partkey", "l_suppkey"], right_on=["ps_partkey", "ps_suppkey"])
        .join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .join(t["nation"], left_on="s_nationkey", right_on="n_nationkey")
        .group_by(nation="n_name", o_year=col("o_orderdate").dt.year())
        .agg(sum_profit=amount.sum())
        .sort("nation", "o_year", descending=[False, True])
    )


def q10(t: Tables) -> pl.LazyFrame:
    """Returned item reporting."""
    quarter = col("o_orderdate").is_between(date(1993, 10, 1), date(1994, 1, 1), closed="left")
    return (
        t["customer"]
        .join(t["orders"].filter(quarter), left_on="c_custkey", right_on="o_custkey")
        .join(t["lineitem"].filter(col("l_returnflag") == "R"), left_on="o_orderkey", right_on="l_orderkey")
        .join(t["nation"], left_on="c_nationkey", right_on="n_nationkey")
        .group_by("c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment")
        .agg(revenue=_revenue().sum())
        .sort("revenue", "c_custkey", descending=[True, False])
        .head(20)
    )


def q11(t: Tables) -> pl.LazyFrame:
    """Important stock identification."""
    of_germany = (
        t["partsupp"]
        .join(t["supplier"], left_on="ps_suppkey", right_on="s_suppkey")
        .join(t["nation"].filter(col("n_name") == "GERMANY"), left_on="s_nationkey", right_on="n_nationkey")
    )
    value = (_exact("ps_supplycost") * col("ps_availqty")).cast(pl.Float64).sum()
    least = of_germany.select(least=value * 0.0001)
    return (
        of_germany.group_by("ps_partkey")
        .agg(value=value)
        .join(least, how="cross")
        .filter(col("value") > col("least"))
        .select("ps_partkey", col("value").round(2))
        .sort("value", "ps_partkey", descending=[True, False])
    )


def q12(t: Tables) -> pl.LazyFrame:
    """Shipping modes and order priority."""
    urgent = col("o_orderpriority").is_in(["1-URGENT", "2-HIGH"])
    return (
        t["lineitem"]
        .filter(
            col("l_shipmode").is_in(["MAIL", "SHIP"]),
            col("l_commitdate") < col("l_receiptdate"),
            col("l_shipdate") < col("l_commitdate"),
            col("l_receiptdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left"),
        )
        .join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .group_by("l_shipmode")
        .agg(high_line_count=urgent.sum(), low_line_count=(~urgent).sum())
        .sort("l_shipmode")
    )


def q13(t: Tables) -> pl.LazyFrame:
    """Customer distribution."""
    usual = t["orders"].filter(~col("o_comment").str.contains("special.*requests"))
    return (
        t["customer"]
        .join(usual, left_on="c_custkey", right_on="o_custkey", how="left")
        .group_by("c_custkey")
        .agg(c_count=col("o_orderkey").count())
        .group_by("c_count")
        .agg(custdist=pl.len())
        .sort("custdist", "c_count", descending=[True, True])
    )


def q14(t: Tables) -> pl.LazyFrame:
    """Promotion effect."""
    volume = _revenue().cast(pl.Float64)
    promoted = pl.when(col("p_type").str.starts_with("PROMO")).then(volume).otherwise(0.0)
    return (
        t["lineitem"]
        .filter(col("l_shipdate").is_between(date(1995, 9, 1), date(1995, 10, 1), closed="left"))
        .join(t["part"], left_on="l_partkey", right_on="p_partkey")
        .select(promo_revenue=(100 * promoted.sum() / volume.sum()).round(6))
    )


def q15(t: Tables) -> pl.LazyFrame:
    """Top supplier."""
    quarter = col("l_shipdate").is_between(date(1996, 1, 1), date(1996, 4, 1), closed="left")
    revenue = t["lineitem"].filter(quarter).group_by("l_suppkey").agg(total_revenue=_revenue().sum())
    most = revenue.select(col("total_revenue").max())
    return (
        t["supplier"]
        .join(revenue, left_on="s_suppkey", right_on="l_suppkey")
        .join(most, on="total_revenue")
        .select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue")
        .sort("s_suppkey")
    )


def q16(t: Tables) -> pl.LazyFrame:
    """Parts/supplier relationship."""
    complained_of = t["supplier"].filter(col("s_comment").str.contains("Customer.*Complaints"))
    return (
        t["part"]
        .filter(
            col("p_brand") != "Brand#45",
            ~col("p_type").str.starts_with("MEDIUM POLISHED"),
            col("p_size").is_in([49, 14, 23, 45, 19, 3, 36, 9]),
        )
        .join(t["partsupp"], left_on="p_partkey", right_on="ps_partkey")
        .join(complained_of, left_on="ps_suppkey", right_on="s_suppkey", how="anti")
        .group_by("p_brand", "p_type", "p_size")
        .agg(supplier_cnt=col("ps_suppkey").n_unique())
        .sort("supplier_cnt", "p_brand", "p_type", "p_size", descending=[True, False, False, False])
    )


def q17(t: Tables) -> pl.LazyFrame:
    """Small-quantity-order revenue."""
    parts = t["part"].filter((col("p_brand") == "Brand#23") & (col("p_container") == "MED BOX"))
    lines = parts.join(t["lineitem"], left_on="p_partkey", right_on="l_partkey")
    few = lines.group_by("p_partkey").agg(few=0.2 * col("l_quantity").cast(pl.Float64).mean())
    return (
        lines.join(few, on="p_partkey")
        .filter(col("l_quantity").cast(pl.Float64) < col("few"))
        .select(avg_yearly=(col("l_extendedprice").sum().cast(pl.Float64) / 7.0).round(2))
    )


def q18(t: Tables) -> pl.LazyFrame:
    """Large volume customer."""
    large = (
        t["lineitem"].group_by("l_orderkey").agg(col("l_quantity").sum().alias("sum_qty")).filter(col("sum_qty") > 300)
    )
    return (
        large.join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .join(t["customer"], left_on="o_custkey", right_on="c_custkey")
        .select("c_name", "o_custkey", "l_orderkey", "o_orderdate", "o_totalprice", "sum_qty")
        .sort("o_totalprice", "o_orderdate", "l_orderkey", descending=[True, False, False])
        .head(100)
    )


def q19(t: Tables) -> pl.LazyFrame:
    """Discounted revenue."""

    def of(brand: str, containers: list[str], least: int, largest: int) -> pl.Expr:
        return (
            (col("p_brand") == brand)
            & col("p_container").is_in(containers)
            & col("l_quantity").is_between(least, least + 10)
            & col("p_size").is_between(1, largest)
        )

    lines = t["lineitem"].filter(
        col("l_shipmode").is_in(["AIR", "AIR REG"]), col("l_shipinstruct") == "DELIVER IN PERSON"
    )
    return (
        lines.join(t["part"], left_on="l_partkey", right_on="p_partkey")
        .filter(
            of("Brand#12", ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 1, 5)
            | of("Brand#23", ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10, 10)
            | of("Brand#34", ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 20, 15)
        )
        .select(revenue=_revenue().sum())
    )


def q20(t: Tables) -> pl.LazyFrame:
    """Potential part promotion."""
    year = col("l_shipdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left")
    shipped = t["lineitem"].filter(year).group_by("l_partkey", "l_suppkey").agg(shipped=col("l_quantity").sum())
    forest = t["part"].filter(col("p_name").str.starts_with("forest"))
    excess = (
        t["partsupp"]
        .join(forest, left_on="ps_partkey", right_on="p_partkey", how="semi")
        .join(shipped, left_on=["ps_partkey", "ps_suppkey"], right_on=["l_partkey", "l_suppkey"])
        .filter(2 * col("ps_availqty").cast(pl.Float64) > col("shipped").cast(pl.Float64))
    )
    return (
        t["supplier"]
        .join(t["nation"].filter(col("n_name") == "CANADA"), left_on="s_nationkey", right_on="n_nationkey")
        .join(excess, left_on="s_suppkey", right_on="ps_suppkey", how="semi")
        .select("s_name", "s_address")
        .sort("s_name")
    )


def q21(t: Tables) -> pl.LazyFrame:
    """Suppliers who kept orders waiting."""
    is_late = col("l_receiptdate") > col("l_commitdate")
    suppliers = t["supplier"].join(
        t["nation"].filter(col("n_name") == "SAUDI ARABIA"), left_on="s_nationkey", right_on="n_nationkey"
    )
    waiting = (
        t["lineitem"]
        .filter(is_late)
        .join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
        .join(t["orders"].filter(col("o_orderstatus") == "F"), left_on="l_orderkey", right_on="o_orderkey")
        .select("l_orderkey", "s_name")
    )
    lines = t["lineitem"].join(waiting, on="l_orderkey", how="semi")
    everybody = lines.group_by("l_orderkey").agg(col("l_suppkey").n_unique()).filter(col("l_suppkey") > 1)
    late = lines.filter(is_late).group_by("l_orderkey").agg(col("l_suppkey").n_unique()).filter(col("l_suppkey") == 1)
    return (
        waiting.join(everybody, on="l_orderkey", how="semi")
        .join(late, on="l_orderkey", how="semi")
        .group_by("s_name")
        .agg(numwait=pl.len())
        .sort("numwait", "s_name", descending=[True, False])
        .head(100)
    )


def q22(t: Tables) -> pl.LazyFrame:
    """Global sales opportunity."""
    customers = t["customer"].with_columns(cntrycode=col("c_phone").str.slice(0, 2))
    customers = customers.filter(col("cntrycode").is_in(["13", "31", "23", "29", "30", "18", "17"]))
    balance = col("c_acctbal").cast(pl.Float64)
    mean = customers.filter(balance > 0.0).select(mean=balance.mean())
    return (
        customers.join(mean, how="cross")
        .filter(balance > col("mean"))
        .join(t["orders"], left_on="c_custkey", right_on="o_custkey", how="anti")
        .group_by("cntrycode")
        .agg(numcust=pl.len(), totacctbal=col("c_acctbal").sum())
        .sort("cntrycode")
    )


QUERIES: dict[int, Callable[[Tables], pl.LazyFrame]] = {number: globals()[f"q{number}"] for number in range(1, 23)}
"""All queries, by number."""


def scanned(folder: Any) -> dict[str, pl.LazyFrame]:
    """The tables of TPC-H from Parquet files of their names."""
    return {name: pl.scan_parquet(f"{folder}/{name}.parquet") for name in TABLES}
