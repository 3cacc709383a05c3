"""Lazy sorts and joins in the plans of Polars."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.io.plugins import register_io_source
from polars.testing import assert_frame_equal

import linkwise
import linkwise.polars as lazily

RANDOM = np.random.default_rng(3)


def frame(rows: int, keys: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "key": RANDOM.integers(0, keys, rows),
            "text": [None if n % 7 == 0 else f"text {n}" for n in RANDOM.integers(0, keys, rows)],
            "value": RANDOM.random(rows),
            "row": np.arange(rows),
        }
    )


class Watched:
    """A frame as a source that notes what it is asked for."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.rows, self.columns, self.predicate = rows, None, None

    def lazy(self) -> pl.LazyFrame:
        def source(
            columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
        ) -> Iterator[pl.DataFrame]:
            self.columns, self.predicate = columns, predicate
            found = self.rows if predicate is None else self.rows.filter(predicate)
            yield (found if columns is None else found.select(columns)).head(len(found) if n_rows is None else n_rows)

        return register_io_source(source, schema=self.rows.schema)


def test_a_lazy_sort_is_polars_own() -> None:
    rows = frame(5000, 50)
    ours = lazily.scan_sorted(rows.lazy(), ["text", "key"], descending=[True, False], nulls="first")
    theirs = rows.lazy().sort("text", "key", descending=[True, False], nulls_last=False, maintain_order=True)
    for query in (
        lambda frame: frame,
        lambda frame: frame.filter(pl.col("value") < 0.1),
        lambda frame: frame.select("row"),
        lambda frame: frame.head(7),
        lambda frame: (
            frame.filter(pl.col("key") > 20, pl.col("text").is_not_null()).select("row", "value").slice(5, 40)
        ),
        lambda frame: frame.group_by("key", maintain_order=True).agg(pl.col("row").first()),
        lambda frame: frame.filter(pl.col("row").shift(1) > pl.col("row")),  # of the order that rows have then
        lambda frame: frame.with_row_index().filter(pl.col("index") % 3 == 0).tail(9),
        lambda frame: frame.filter(pl.col("value") == pl.col("value").max()),
    ):
        assert_frame_equal(query(ours).collect(), query(theirs).collect())


def test_what_nobody_asks_for_is_not_read() -> None:
    watched = Watched(frame(1000, 10))
    found = lazily.scan_sorted(watched.lazy(), "key").filter(pl.col("value") < 0.5).select("row").collect()
    assert set(watched.columns or ()) == {"key", "value", "row"}
    assert len(found) == watched.rows.filter(pl.col("value") < 0.5).height
    assert watched.predicate is not None


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
def test_a_lazy_join_is_polars_own(how: str) -> None:
    left, right = frame(2000, 300), frame(300, 300).rename({"value": "other"})
    ours = lazily.join(left.lazy(), right.lazy(), "key", how=how)
    theirs = left.lazy().join(right.lazy(), on="key", how=how, coalesce=True)  # type: ignore[arg-type]
    assert ours.collect_schema() == theirs.collect_schema()
    queries = [lambda frame: frame, lambda frame: frame.filter(pl.col("row") > 100).select("key", "text")]
    if how not in ("semi", "anti"):
        queries.append(lambda frame: frame.select("row_right", "other"))
    for query in queries:
        assert_frame_equal(query(ours).collect(), query(theirs).collect(), check_row_order=False)


def test_a_lazy_join_reads_what_is_asked_for() -> None:
    left = Watched(frame(500, 50).with_columns(extra=pl.lit(1)))
    right = Watched(frame(50, 50).rename({"value": "other"}))
    joined = lazily.join(left.lazy(), right.lazy(), "key").filter(pl.col("other") < 0.5).select("value").collect()
    assert set(left.columns or ()) == {"key", "value", "row", "text"}  # those that the right one has keep its names
    assert set(right.columns or ()) == {"key", "other"}
    expected = left.rows.join(right.rows.filter(pl.col("other") < 0.5), on="key").select("value")
    assert_frame_equal(joined, expected, check_row_order=False)


def test_a_sort_in_the_middle_of_a_plan(tmp_path: Path) -> None:
    frame(3000, 40).write_parquet(tmp_path / "rows.parquet")
    scan = pl.scan_parquet(tmp_path / "rows.parquet")
    per_key = scan.group_by("key").agg(pl.col("value").sum().alias("sum"))
    query = lazily.join(lazily.scan_sorted(scan, "row", descending=True), per_key, "key", how="left", order="left")
    result = query.filter(pl.col("sum") > 30).head(10).collect(engine="streaming")
    expected = scan.sort("row", descending=True).join(per_key, on="key", how="left", maintain_order="left")
    assert_frame_equal(result, expected.filter(pl.col("sum") > 30).head(10).collect())


def test_fields_of_structs() -> None:
    rows = frame(500, 40).select(pl.struct(inner="key").alias("outer"), "value", "row")
    ours = lazily.scan_sorted(rows.lazy(), ["outer.inner", "row"], descending=[True, False]).select("row").collect()
    by_field = rows.sort(pl.col("outer").struct.field("inner"), "row", descending=[True, False], nulls_last=True)
    assert_frame_equal(ours, by_field.select("row"))
    names = frame(40, 40).select("key", name="text")
    joined = (
        lazily.join(rows.lazy(), names.lazy(), left_on="outer.inner", right_on="key").select("row", "name").collect()
    )
    expected = rows.with_columns(pl.col("outer").struct.field("inner")).join(names, left_on="inner", right_on="key")
    assert_frame_equal(joined, expected.select("row", "name"), check_row_order=False)
    with pytest.raises(linkwise.UsageError, match="there is no column 'outer.key'; .*'outer.inner'"):
        lazily.scan_sorted(rows.lazy(), "outer.key")


def test_what_is_wrong_is_said_at_once() -> None:
    with pytest.raises(linkwise.UsageError, match="there is no column 'kay'; there are 'key', 'text', 'value', 'row'"):
        lazily.scan_sorted(frame(10, 2).lazy(), "kay")
    with pytest.raises(linkwise.UsageError, match="how"):
        lazily.join(frame(10, 2).lazy(), frame(10, 2).lazy(), "key", how="sideways")


def test_frames_that_are_not_lazy() -> None:
    rows, other = frame(500, 20), frame(300, 20).select("key", other="row")
    assert_frame_equal(lazily.scan_sorted(rows, "key").collect(), rows.sort("key", maintain_order=True))
    joined = lazily.join(rows.lazy(), other, "key").collect()
    assert_frame_equal(joined, rows.join(other, on="key"), check_row_order=False)
    for call in (lambda: lazily.scan_sorted({"key": [1]}, "key"), lambda: lazily.join(rows, other.to_pandas(), "key")):  # type: ignore[arg-type]
        with pytest.raises(linkwise.UsageError, match=r"a frame of Polars is needed, not a (builtins.dict|pandas)"):
            call()
