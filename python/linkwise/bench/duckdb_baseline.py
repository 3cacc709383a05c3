"""What DuckDB takes for queries, and for their joins alone, with the tables in its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

import pyarrow as pa

Tables = dict[str, pa.Table]


class Sql(Protocol):
    """A query: its filtered tables, and SQL of the whole query and of its joins alone."""

    name: str
    filtered: Callable[[Tables], Tables]
    sql: str
    joins_sql: str


@dataclass
class Baseline:
    """What DuckDB takes for a query, with the tables in its memory, and what it finds."""

    seconds: list[float]
    rows: list[tuple[Any, ...]]
    join_seconds: list[float]
    """For the joins alone, from filtered tables into a table."""
    joined_rows: int


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C is Ctrl-C also while DuckDB runs, which makes an error of its own of it."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from error


def run_duckdb(queries: Sequence[Sql], tables: Tables, repetitions: int) -> dict[str, Baseline]:
    """What each query takes, by name; nothing if DuckDB is not installed."""
    if find_spec("duckdb") is None:
        return {}
    import duckdb  # noqa: PLC0415 - only where it is installed

    connection = duckdb.connect()

    def store(tables: Tables, schema: str) -> None:
        connection.execute(f"create schema {schema}; use {schema}")
        for name, table in tables.items():
            connection.register(f"arrow_{name}", table)
            connection.execute(f"create table {name} as select * from arrow_{name}")

    def timed(sql: str) -> tuple[list[float], list[tuple[Any, ...]]]:
        seconds, rows = [], []
        for _ in range(repetitions + 1):  # the first one is not counted
            began = time.perf_counter()
            rows = connection.execute(sql).fetchall()
            seconds.append(time.perf_counter() - began)
        return seconds[1:], rows

    store(tables, "whole")
    found = {}
    for query in queries:
        connection.execute("use whole")
        seconds, rows = timed(query.sql)
        store(query.filtered(tables), f"filtered_{query.name}")
        join_seconds, _ = timed(f"create or replace table joined as {query.joins_sql}")
        joined_rows = connection.execute("select count(*) from joined").fetchall()[0][0]
        found[query.name] = Baseline(seconds, rows, join_seconds, joined_rows)
    return found
