"""The engine for Polars' lazy frames: results are Polars' own, whatever of a query Linkwise takes."""

from __future__ import annotations

import datetime
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linkwise

pl = pytest.importorskip("polars")
engine_module = pytest.importorskip("linkwise.polars.engine", reason="engines are plugged in since Polars 1.44")
PerformanceWarning = pl.exceptions.PerformanceWarning
assert_frame_equal = pytest.importorskip("polars.testing").assert_frame_equal
scan_sorted = pytest.importorskip("linkwise.polars").scan_sorted
Size = pytest.importorskip("linkwise.polars.plans").Size
PolarsEngine = engine_module.PolarsEngine

col = pl.col
EVERYTHING = PolarsEngine(pricing=False)
ROWS = 500


def frame_of(seed: int, rows: int = ROWS) -> pl.DataFrame:
    """Keys that occur several times, nulls, and floats with both zeros and NaN."""
    random = np.random.default_rng(seed)
    floats = random.choice([-1.5, -0.0, 0.0, 2.5, np.nan, np.inf], rows)
    frame = pl.DataFrame({
        "row": np.arange(rows),
        "key": random.integers(-20, 20, rows),
        "wide": random.integers(-(2**62), 2**62, rows),
        "float": floats,
        "text": random.choice(["", "ä", "b", "zz", "a longer text of more than twelve bytes"], rows),
        "flag": random.random(rows) < 0.5,
        "day": pl.Series(random.integers(0, 20_000, rows), dtype=pl.Int32).cast(pl.Date),
    })  # fmt: skip
    with_nulls = pl.Series(random.random(rows) < 0.1)
    return frame.with_columns(
        pl.when(with_nulls).then(None).otherwise(col(name)).alias(name) for name in ("key", "float", "text", "day")
    )


def check(
    query: pl.LazyFrame, *, taken: int | None = None, ordered: bool = False, engine: PolarsEngine = EVERYTHING
) -> None:
    """Linkwise's engine gives what Polars gives, and takes that many steps."""
    found = query.collect(engine=engine)
    assert_frame_equal(found, query.collect(), check_row_order=ordered)
    if taken is not None:
        assert [step.by for step in engine.steps].count("Linkwise") == taken


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("coalesce", [None, False, True])
@pytest.mark.parametrize("nulls_equal", [False, True])
def test_joins(how: str, coalesce: bool | None, nulls_equal: bool) -> None:
    left, right = frame_of(1).lazy(), frame_of(2, 60).lazy()
    options = {"how": how, "coalesce": coalesce, "nulls_equal": nulls_equal}
    check(left.join(right, on="key", **options), taken=1)
    check(left.join(right, on=["key", "text"], suffix="_of_right", **options), taken=1)
    renamed = right.rename({"key": "other", "day": "key"})
    check(left.join(renamed, left_on="key", right_on="other", **options), taken=1)


def test_joins_by_expressions() -> None:
    left, right = frame_of(3).lazy(), frame_of(4).lazy()
    check(left.join(right, left_on=col("key") + 1, right_on="key", coalesce=False), taken=1)
    check(left.join(right, left_on=[col("key") % 7, "text"], right_on=["key", col("text")], how="left"), taken=1)
    check(left.join(right, left_on=col("key") + 1, right_on=col("key"), how="semi"), taken=1)
    check(left.join(right, on="key").filter(col("float") < col("float_right")))


@pytest.mark.parametrize("order", ["left", "left_right"])
def test_joins_in_the_order_of_the_left_side(order: str) -> None:
    left, right = frame_of(5).lazy(), frame_of(6).lazy()
    for how in ("inner", "left"):
        joined = left.join(right.unique("key", keep="first"), on="key", how=how, maintain_order=order)
        check(joined, ordered=True)
        assert EVERYTHING.steps[-1].by == "Linkwise"


@pytest.mark.parametrize("validate", ["1:1", "1:m", "m:1"])
def test_validated_joins_stay_with_polars(validate: str) -> None:
    """No plan shows validate=; a query that has it anywhere keeps all of its joins, and sorts below them are taken."""
    left, right = frame_of(26).lazy(), frame_of(27).lazy()
    query = left.sort("wide", "row").head(ROWS // 2).join(right, on="row", validate=validate)
    check(query.join(right.select("key"), on="key", how="semi").sort("row"))
    assert [step.name for step in EVERYTHING.steps if step.by == "Linkwise"] == ["sort"]
    assert "validate=" in EVERYTHING.explain(query)
    with pytest.raises(pl.exceptions.ComputeError, match=f"did not fulfill {validate}"):
        left.join(right, on="key", validate=validate).collect(engine=EVERYTHING)


def test_columns_of_joins() -> None:
    """Keys that Polars casts, or makes of filters, and names with a meaning."""
    left, right = pl.LazyFrame({"k": [1, 2, 2], "v": [1, 2, 3]}), pl.LazyFrame({"j": [1, 2, 2], "w": [1, 2, 9]})
    both = left.join(right, left_on="k", right_on="j").filter(col("v") == col("w"))
    check(both, taken=1)
    check(both.select("k", col("w") * 2), taken=1)
    narrow, wide = pl.LazyFrame({"k": pl.Series([1, 2], dtype=pl.Int32), "x": [1, 2]}), pl.LazyFrame({"k": [1, 3]})
    for how in ("inner", "left", "right", "full", "semi", "anti"):
        check(narrow.join(wide, on="k", how=how), taken=1)
        check(narrow.join(wide, on="k", how=how, coalesce=False), taken=1)
        check(narrow.join(wide, on="k", how=how).select("k"))
        check(wide.join(narrow, on="k", how=how).group_by("k").agg(pl.len()))
    third = pl.LazyFrame({"k": [1, 2, 5], "w": [1, 2, 3]})
    for how in ("full", "right"):
        check(left.join(third, left_on=["k", "k"], right_on=["k", "w"], how=how, coalesce=True), taken=0)
    check(left.join(third, left_on=["k", "k"], right_on=["k", "w"]))


@pytest.mark.parametrize("name", ["", "*", "^k.*$", "column 0", "key 0", "left 0", "in-memory-join"])
def test_odd_names(name: str) -> None:
    frame = pl.LazyFrame({name: [3, 1, 2], "k": [2, 1, 1]})
    others = pl.LazyFrame({"k": [1, 2], "x": [5, 6]})
    check(frame.sort("k", maintain_order=True), ordered=True)
    check(frame.sort("k", maintain_order=True).head(2), ordered=True)
    check(frame.join(others, on="k"))
    check(frame.join(others.select("k").with_columns(x=col("k")), on="k", how="left"))
    check(frame.unique("k", keep="any").select("k"))
    if name not in ("*", "^k.*$"):
        check(frame.sort(name, descending=True), ordered=True, taken=1)
        check(frame.unique([name]), taken=1)


def test_expressions_that_lose_something_in_plans() -> None:
    rows = pl.LazyFrame({"o": range(5), "i": [3, None, 2, 5, 4]})
    check(rows.sort(col("i").sort(descending=True), "o"), ordered=True)
    check(rows.sort(col("i").sort(nulls_last=True), "o").head(2), ordered=True)
    check(rows.with_columns(s=pl.struct(x=col("o"), y=pl.lit(2))).sort("o", descending=True), ordered=True)
    for kind in (pl.Datetime("ns"), pl.Time):
        moments = pl.LazyFrame({"t": pl.Series([4, 5, 6], dtype=kind)})
        check(moments.filter(col("t") >= pl.lit(5).cast(kind)).sort("t"), ordered=True)
    check(rows.filter(pl.lit(10**7, dtype=pl.Int32).cast(pl.Date) > pl.lit(datetime.date(2020, 1, 1))).sort("o"))
    check(rows.sort(pl.lit(pl.Series([1])), "o"), ordered=True)
    check(rows.sort(col("i").gather(0), "o", descending=[False, True]), ordered=True)


def test_lazy_sinks(tmp_path: Path) -> None:
    path = tmp_path / "sorted.parquet"
    sink = frame_of(28).lazy().sort("wide", "row").sink_parquet(path, lazy=True)
    sink.collect(engine=EVERYTHING)
    assert_frame_equal(pl.read_parquet(path), frame_of(28).sort("wide", "row"))
    assert "a lazy sink" in EVERYTHING.explain(sink)


def test_files_that_differ(tmp_path: Path) -> None:
    whole, narrow = pl.DataFrame({"o": [3, 1], "x": [1, 2]}), pl.DataFrame({"o": [5], "x": [9]}).cast(pl.Int32)
    wider = whole.with_columns(extra=col("x"))
    for name, frame in (("a", whole), ("b", narrow), ("c", wider)):
        frame.write_parquet(tmp_path / f"{name}.parquet")
    files = {name: tmp_path / f"{name}.parquet" for name in "abc"}
    upcast = pl.ScanCastOptions(integer_cast="upcast")
    check(pl.scan_parquet([files["a"], files["b"]], cast_options=upcast).sort("o"), taken=0, ordered=True)
    check(pl.scan_parquet([files["a"], files["c"]], extra_columns="ignore").sort("o"), taken=0, ordered=True)
    check(pl.scan_parquet([files["a"], files["c"]]).head(2).sort("o"), taken=0, ordered=True)


def test_deep_plans_stay_with_polars() -> None:
    """Polars makes a chain of 512 joins of this."""
    query = pl.LazyFrame({"k": [1, 2, 3]})
    for _ in range(10):
        query = query.join(query, on="k")
    check(query, taken=0)
    assert "too deep" in EVERYTHING.explain(query)


def test_joins_that_stay_with_polars() -> None:
    left, right = frame_of(7).lazy(), frame_of(8).lazy()
    check(left.join(right, on="key", maintain_order="right"), taken=0)
    check(left.sort("row").join_asof(right.sort("row"), on="row"))
    check(left.join_where(right, col("key") < col("key_right"), col("row") > 2 * col("row_right")), taken=0)
    check(left.select("key").join(right.select("text").head(3), how="cross"), taken=0)


@pytest.mark.parametrize("by", [["float"], ["text"], ["key", "float"], ["flag", "day"], ["wide"]])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_last", [False, True])
def test_sorts(by: list[str], descending: bool, nulls_last: bool) -> None:
    frame = frame_of(9).lazy()
    keys = [*by, "row"]
    how = {"descending": [descending] * len(by) + [False], "nulls_last": [nulls_last] * len(by) + [False]}
    check(frame.sort(keys, **how), taken=1, ordered=True)
    check(frame.sort(by, descending=descending, nulls_last=nulls_last, maintain_order=True), taken=1, ordered=True)
    check(frame.sort(keys, **how).head(7), taken=1, ordered=True)
    check(frame.sort(keys, **how).slice(20, 30), ordered=True)
    check(frame.sort(keys, **how).tail(5), ordered=True)


def test_sorts_by_expressions() -> None:
    frame = frame_of(10).lazy()
    check(frame.sort(col("key") * -1, col("row"), nulls_last=[True, False]), taken=1, ordered=True)
    check(frame.sort(col("text").str.len_bytes(), "row", descending=[True, True]), taken=1, ordered=True)
    check(frame.top_k(10, by="wide"), taken=1)
    check(frame.bottom_k(10, by="wide"), taken=1)


def test_distinct_rows() -> None:
    frame = frame_of(11).lazy()
    check(frame.select("key", "text").unique(), taken=1)
    check(frame.unique(["key", "text"], keep="first"), taken=1)
    check(frame.unique("key", keep="first", maintain_order=True), taken=0, ordered=True)
    check(frame.unique("key", keep="none"), taken=0)
    check(frame.select("float").unique(), taken=0)  # to Polars both zeros are one


def test_what_is_around_steps() -> None:
    """Every kind of step and expression that is made again, below a join."""
    left, right = frame_of(12).lazy(), frame_of(13).lazy()
    aggregated = left.group_by("key").agg(
        col("wide").sum().alias("sum"), col("float").min().alias("least"), col("row").max().alias("most"),
        col("row").mean().alias("mean"), col("text").n_unique().alias("texts"), col("text").count().alias("some"),
        col("row").std().alias("std"), col("row").var(0).alias("var"), col("row").median().alias("median"),
        col("row").sort_by("wide").slice(1, 2).sum().alias("two"), col("row").filter(col("flag")).len().alias("flags"),
        col("row").quantile(0.25, "linear").alias("quantile"), pl.len(),
    )  # fmt: skip
    made = right.with_columns(
        pl.when(col("flag")).then(col("row")).otherwise(-col("row")).alias("sign"),
        col("day").dt.year().alias("year"),
        col("day").dt.truncate("1mo").alias("month"),
        col("text").str.slice(0, 2).alias("two"),
        col("text").str.to_uppercase().alias("upper"),
        col("text").str.contains("^a").alias("a"),
        col("text").str.starts_with("b").alias("b"),
        col("key").fill_null(0).alias("filled"),
        pl.coalesce("key", "row").alias("coalesced"),
        col("row").cast(pl.Int8, strict=False).alias("small"),
        (col("row") / 3).round(2).alias("third"),
        col("row").sum().over("flag").alias("of flag"),
        pl.max_horizontal("row", "key").alias("greater"),
        (col("row") // 7 % 5 ** col("flag").cast(pl.Int64)).alias("numbers"),
        pl.lit("x").alias("literal"),
        pl.lit(datetime.datetime(2024, 2, 29, 1)).alias("moment"),
        (col("day") + datetime.timedelta(days=3)).alias("on"),
        col("float").is_nan().alias("nan"),
        col("key").eq_missing(3).alias("missing"),
        (col("flag") ^ True).alias("xor"),
    ).filter(
        col("key").is_in([1, 2, 3, 4, 5, None])
        & col("day").is_between(datetime.date(1975, 1, 1), datetime.date(2020, 1, 1), closed="left")
        | ~col("flag") & col("text").is_not_null()
    )
    check(aggregated.join(made, on="key"), taken=1)
    check(pl.concat([made, made.filter(col("row") < 9)]).join(aggregated, on="key", how="semi"), taken=1)
    check(made.with_row_index("at").join(aggregated, on="key", how="anti").select(pl.len(), col("at").sum()), taken=1)
    check(aggregated.group_by("texts").agg(col("sum").max()).sort("texts", "sum").slice(1, 2), ordered=True)


def test_frames_without_columns_have_rows(tmp_path: Path) -> None:
    """Polars leaves no column of what a cross join or numbers of rows need only the height of."""
    frame_of(5, 7).write_parquet(tmp_path / "t.parquet")
    other = pl.LazyFrame({"y": [20, 10]})
    for source in (
        frame_of(5, 7).lazy(), pl.scan_parquet(tmp_path / "t.parquet"),
        pl.scan_parquet(tmp_path / "t.parquet").filter(col("row") > 2),
        frame_of(5, 7).lazy().unique("row"), frame_of(5, 7).lazy().select(col("row") + 1, "text").sort("row").slice(2),
    ):  # fmt: skip
        crossed = source.join(other, how="cross")
        check(crossed.select("y").sort("y"), ordered=True)
        check(other.join(source, how="cross").sort("y").select("y"), ordered=True)
        check(crossed.unique("row").select("row"))
        check(crossed.select("y").join(other, on="y"))
        check(source.sort("row").with_row_index().select("index"), ordered=True)
        check(source.drop(pl.selectors.all()).join(other.sort("y"), how="cross"))
        check(pl.concat([source, source]).select(pl.len()).join(other.sort("y"), how="cross"), ordered=True)
        assert crossed.sort("y").drop("y", *source.collect_schema()).collect(engine=EVERYTHING).height == (
            crossed.collect().height
        )
        assert scan_sorted(source, "row").with_row_index().select("index").collect().height == source.collect().height
        joined = linkwise.polars.join(source, source, "row")
        check(joined.join(other, how="cross").select("y").sort("y"))
        assert joined.join(other, how="cross").select("y").collect().height == 2 * source.collect().height


@pytest.mark.parametrize("seed", range(60))
def test_random_queries(seed: int) -> None:
    random = np.random.default_rng(seed)
    query = frame_of(seed).lazy()
    steps: list[Callable[[pl.LazyFrame], pl.LazyFrame]] = [
        lambda q: q.filter(col("row") % 3 != seed % 3),
        lambda q: q.with_columns(key=(col("key") + col("row")) % 13, text=col("text").str.to_lowercase()),
        lambda q: q.join(frame_of(seed + 1, 80).lazy().select("key", "flag"), on="key", how="left"),
        lambda q: q.join(frame_of(seed + 2, 80).lazy().select("text", "day"), on="text", suffix=f"_{seed}"),
        lambda q: q.join(frame_of(seed + 3, 80).lazy(), on=["key", "flag"], how="semi"),
        lambda q: q.join(frame_of(seed + 4, 9).lazy(), on="day", how="anti"),
        lambda q: q.sort("text", "row", "wide", descending=[True, False, False]),
        lambda q: q.group_by("key", "text").agg(pl.exclude("key", "text").max()),
        lambda q: q.drop("float", strict=False).unique(),
        lambda q: pl.concat([q, q.filter(col("flag"))]),
        lambda q: q.join(q.group_by("key").agg(least=col("row").min()), on="key"),
    ]
    for place in random.integers(0, len(steps), 4):
        names = query.collect_schema().names()
        query = steps[place](query.select(name for name in names if not name.startswith(("flag_", "day_", "least"))))
    check(query)


def test_shared_parts_run_once() -> None:
    calls = []

    def numbered(frame: pl.DataFrame) -> pl.DataFrame:
        calls.append(len(frame))
        return frame

    shared = frame_of(14).lazy().map_batches(numbered).sort("wide", "row")
    joined = shared.join(shared.group_by("key").agg(pl.len()), on="key")
    assert "does not show" in EVERYTHING.explain(joined)
    check(joined, taken=0)
    sums = frame_of(14).lazy().join(frame_of(15).lazy(), on="key").group_by("key").agg(col("wide").sum())
    check(sums.join(sums.select(col("wide").max()), on="wide"))
    assert [step.name for step in EVERYTHING.steps] == ["join", "join"]


def test_files(tmp_path: Path) -> None:
    frame = frame_of(16)
    frame.write_parquet(tmp_path / "one.parquet")
    frame.write_csv(tmp_path / "one.csv")
    frame.write_ipc(tmp_path / "one.arrow")
    for source in (
        pl.scan_parquet(tmp_path / "one.parquet"),
        pl.scan_parquet([tmp_path / "one.parquet"] * 2, row_index_name="at", include_file_paths="path"),
        pl.scan_csv(tmp_path / "one.csv", try_parse_dates=True),
        pl.scan_csv(tmp_path / "one.csv", skip_rows=2, has_header=False).rename({"column_1": "row", "column_2": "key"}),
    ):
        few = source.filter(col("row") > 50).select("row", "key")
        check(few.join(frame.lazy().select("key", "text"), on="key"), taken=1)
        check(source.head(40).sort("row", descending=True), taken=1, ordered="path" not in source.collect_schema())
    stays = pl.scan_ipc(tmp_path / "one.arrow").sort("row")
    check(stays, taken=0, ordered=True)
    assert "stays with Polars" in EVERYTHING.explain(stays)
    check(pl.scan_csv(tmp_path / "one.csv", comment_prefix="#").sort("row"), taken=0, ordered=True)


def test_only_what_can_be_made_again_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below a function of Python's a join is taken, and what is above stays with Polars."""
    joined = frame_of(17).lazy().join(frame_of(18).lazy(), on="key").map_batches(lambda frame: frame.head(3))
    query = joined.select(pl.len())
    assert EVERYTHING.explain(query).splitlines() == [
        "join inner, key = key: Linkwise",
        "stays with Polars: a step that Polars does not show: opaque python mapfunction",
    ]
    check(query, taken=1)
    monkeypatch.setenv("POLARS_VERBOSE", "1")
    with pytest.warns(PerformanceWarning, match="opaque python mapfunction"):
        query.collect(engine=EVERYTHING)
    with pytest.raises(linkwise.UsageError, match="stays with Polars"):
        query.collect(engine=PolarsEngine(pricing=False, raise_on_fail=True))


def test_types_that_linkwise_does_not_know() -> None:
    frame = frame_of(19).with_columns(col("text").cast(pl.Categorical).alias("kind")).lazy()
    check(frame.sort("kind", "row"), taken=0, ordered=True)
    assert "order of Polars' own" in EVERYTHING.explain(frame.sort("kind", "row"))
    check(scan_sorted(frame_of(20).lazy(), "row").join(frame_of(21).lazy(), on="key"), taken=0)


def test_what_stays_is_told_and_an_error_if_asked_for() -> None:
    strict = PolarsEngine(pricing=False, raise_on_fail=True)
    rows, lists = frame_of(24).lazy().select("row", "key"), pl.LazyFrame({"key": [[1], [2]]})
    for query, why in (
        (rows.unique(keep="last"), "last ones"),
        (rows.sort("row").tail(2), "end of an order"),
        (rows.join(rows, how="cross"), "a cross join"),
        (rows.with_columns(wide=col("row").cast(pl.Int128)).sort("row"), "128 bits"),
    ):
        assert why in strict.explain(query)
        with pytest.raises(linkwise.UsageError, match=why):
            query.collect(engine=strict)
    with pytest.raises(linkwise.UsageError, match="cannot be a key"):
        lists.join(lists, on="key").collect(engine=strict)
    check(lists.join(lists, on="key"), taken=0)


@pytest.mark.parametrize("wrong", [{"machine": "zz"}, {"strategy": "zz"}, {"memory_limit": "zz"}])
def test_wrong_options_are_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(linkwise.UsageError, match="zz"):
        frame_of(25).lazy().sort("row").collect(engine=PolarsEngine(pricing=False, **wrong))


def test_floats_are_sorted_as_polars_does() -> None:
    """To which all NaNs are one key, as both zeros are."""
    floats = pl.LazyFrame({"row": range(8), "x": [0.0, float("nan"), -0.0, -1.0] * 2}).with_columns(
        x=pl.when(col("row") < 4).then(-col("x")).otherwise(col("x"))
    )
    for descending in (False, True):
        check(floats.sort("x", maintain_order=True, descending=descending), taken=1, ordered=True)
        check(floats.sort("x", "row", descending=[descending, not descending]), taken=1, ordered=True)


def test_few_rows_stay_with_polars(caplog: pytest.LogCaptureFixture) -> None:
    engine = PolarsEngine()
    few = frame_of(22).lazy().sort("wide")
    assert engine.explain(few) == "all stays with Polars: no sort, join or distinct rows that pay"
    check(few, taken=0, ordered=True, engine=engine)
    many = pl.LazyFrame({"key": np.random.default_rng(1).permutation(1_200_000)})
    assert engine.explain(many.sort("key")) == "sort by key: Linkwise, from 1000000 rows on"
    with caplog.at_level(logging.INFO, "linkwise"):
        check(many.sort("key"), taken=1, ordered=True, engine=engine)
    assert "sort by key of 1200000 rows by Linkwise" in caplog.text
    filtered = many.filter(col("key") < 9)
    check(many.join(filtered, on="key").sort("key"), taken=0, ordered=True, engine=engine)
    assert engine.steps[0].reason == "too few rows to pay"


def test_joins_of_files_stay_with_polars_for_longer(tmp_path: Path) -> None:
    frame = pl.DataFrame({"key": np.arange(1_200_000)})
    frame.write_parquet(tmp_path / "many.parquet")
    of_file, engine = pl.scan_parquet(tmp_path / "many.parquet"), PolarsEngine()
    assert engine.explain(frame.lazy().join(frame.lazy(), on="key")).endswith("Linkwise, from 1000000 rows on")
    assert engine.explain(frame.lazy().join(of_file, on="key")).startswith("all stays with Polars")
    assert engine.explain(of_file.sort("key")) == "sort by key: Linkwise, from 1000000 rows on"
    every = PolarsEngine(pricing=False)
    assert every.explain(frame.lazy().join(of_file, on="key")) == "join inner, key = key: Linkwise"


def test_a_file_is_not_collected_to_learn_that_few_rows_join_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filtered side may have more rows than the file, but only computing it tells."""
    monkeypatch.setattr("linkwise.polars.taken._MANY_STREAMED_ROWS", 250)
    pl.DataFrame({"key": np.arange(2000), "a": np.arange(2000)}).write_parquet(tmp_path / "file.parquet")
    pl.DataFrame({"key": np.arange(3000) % 2000, "b": np.arange(3000)}).write_parquet(tmp_path / "longer.parquet")
    few = pl.scan_parquet(tmp_path / "longer.parquet").filter(col("b") % 100 == 7)
    query = few.join(pl.scan_parquet(tmp_path / "file.parquet"), on="key").filter(col("a") + col("b") >= 0)
    engine, collected = PolarsEngine(), []
    real = pl.LazyFrame.collect

    def watched(frame: pl.LazyFrame, *arguments: Any, **options: Any) -> Any:
        found = real(frame, *arguments, **options)
        collected.append(len(found))
        return found

    monkeypatch.setattr(pl.LazyFrame, "collect", watched)
    found = query.collect(engine=engine)
    assert engine.steps[0].reason == "too few rows to pay" and engine.steps[0].rows == 30
    assert 2000 not in collected and sorted(found["b"].to_list()) == list(range(7, 3000, 100))


def test_likely_rows_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read from files is not collected if, going by the plan, too few rows will pass its filters."""
    monkeypatch.setattr("linkwise.polars.taken._MANY_STREAMED_ROWS", 1000)
    numbers = np.arange(6000)
    pl.DataFrame({"key": numbers, "a": numbers, "b": numbers.astype(str)}).write_parquet(tmp_path / "file.parquet")
    of_file, engine = pl.scan_parquet(tmp_path / "file.parquet"), PolarsEngine()
    likely = {
        1: of_file, 3: of_file.filter(col("a") > 4), 10: of_file.filter(col("a") == 4), 5: of_file.filter(
            (col("a") == 4) | (col("b").str.contains("9"))), 30: of_file.filter((col("a") == 4) & (col("key") < 9)),
    }  # fmt: skip
    for fraction, side in likely.items():
        is_likely = 6000 / fraction >= 1000
        assert engine.explain(of_file.join(side, on="key")).startswith("all stays with Polars") != is_likely
    grouped = of_file.group_by("a").agg(col("key").sum())
    assert "Linkwise" in engine.explain(of_file.join(grouped, on="a"))
    assert engine.explain(of_file.join(grouped.filter(col("key") > 4), on="a")).startswith("all stays with Polars")


@pytest.mark.parametrize(
    ("how", "likely"),
    [("inner", 50), ("left", 100), ("right", 5), ("semi", 50), ("anti", 50), ("full", 105)],
)
def test_likely_rows_of_joins(how: str, likely: float) -> None:
    large, small = Size(300, 100, 200), Size.of(10, 0.5)
    joined = large.joined(small, how)
    assert joined.likely == likely and joined.most == 310
    if how == "inner":
        assert small.joined(large, how) == joined


def test_plans_of_another_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_PLANS_KNOWN", 1)
    check(frame_of(23).lazy().sort("row"), taken=0, ordered=True)
    assert "plans of version" in EVERYTHING.explain(frame_of(23).lazy().sort("row"))


def test_ways_to_collect(tmp_path: Path) -> None:
    query = frame_of(24).lazy().drop("flag").sort("wide", "row")
    wanted = query.collect()
    assert [len(found) for found in pl.collect_all([query, query.head(2)], engine=EVERYTHING)] == [ROWS, 2]
    assert_frame_equal(pl.concat(query.collect_batches(engine=EVERYTHING)), wanted)
    query.sink_parquet(tmp_path / "sorted.parquet", engine=EVERYTHING)
    assert EVERYTHING.steps[-1].by == "Linkwise"
    query.sink_csv(tmp_path / "sorted.csv", engine=EVERYTHING)
    query.sink_ipc(tmp_path / "sorted.arrow", engine=EVERYTHING)
    query.sink_ndjson(tmp_path / "sorted.json", engine=EVERYTHING)
    assert_frame_equal(pl.read_parquet(tmp_path / "sorted.parquet"), wanted)
    assert_frame_equal(pl.read_ipc(tmp_path / "sorted.arrow"), wanted)
    assert len(pl.read_csv(tmp_path / "sorted.csv")) == len(pl.read_ndjson(tmp_path / "sorted.json")) == ROWS


def test_older_polars_and_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources work with any Polars; the engine says what it needs."""
    monkeypatch.setitem(sys.modules, "polars.lazyframe.engine", None)
    monkeypatch.delitem(sys.modules, "linkwise.polars.engine")
    with pytest.raises(ImportError, match="needs Polars 1.44 or newer"):
        _ = linkwise.PolarsEngine
    assert "PolarsEngine" not in linkwise.__all__  # which import * imports, with Polars or without


def test_options() -> None:
    query = frame_of(25).lazy().sort("wide", "row")
    simulated = PolarsEngine(pricing=False, machine="h200x8", strategy="radix")
    check(query, taken=1, ordered=True, engine=simulated)
    assert repr(simulated) == "PolarsEngine(pricing=False, raise_on_fail=False, machine='h200x8', strategy='radix')"
    with pytest.raises(linkwise.UsageError, match="plan= is for one sort"):
        PolarsEngine(plan=linkwise.SortPlan())
    with pytest.raises(linkwise.UsageError, match="verify="):
        PolarsEngine(verify="some")


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TPC-H at a hundredth of its size, as Parquet files."""
    folder = tmp_path_factory.mktemp("tpch")
    subprocess.run(
        [Path(sys.executable).parent / "tpchgen-cli", "parquet", "-s", "0.01", f"--output-dir={folder}"], check=True
    )
    return folder


def test_tpch(tpch: Path) -> None:
    """All 22 queries give what Polars gives, and Linkwise takes a join or a sort of most of them."""
    tpch_lazy = pytest.importorskip("linkwise.bench.tpch_lazy")
    taken = 0
    for query in tpch_lazy.QUERIES.values():
        lazy = query(tpch_lazy.scanned(tpch))
        assert_frame_equal(lazy.collect(engine=EVERYTHING), lazy.collect(), rel_tol=1e-9)
        taken += any(step.by == "Linkwise" for step in EVERYTHING.steps)
    assert taken >= 20
