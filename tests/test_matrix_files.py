"""Matrices from files: Matrix Market's, and lists of edges."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import linkwise
from linkwise import UsageError, _core
from linkwise.apps.matrix_market import read_matrix
from linkwise.apps.registry import application
from linkwise.apps.run import run_app

MARKET = "%%MatrixMarket matrix coordinate real"


def virtual() -> _core.Runtime:
    return _core.VirtualRuntime(linkwise.load_machine("volta4"), _core.VirtualMode.execute, 0)


@pytest.mark.parametrize("header", [f"{MARKET} symmetric", f"{MARKET} Symmetric".replace("matrix c", "MATRIX C")])
def test_matrix_market(header: str, tmp_path: Path) -> None:
    market = tmp_path / "a.mtx"
    market.write_text(f"{header}\n% a comment\n\n3 3 2\n2 1 0.5\n3 3 -2\n")
    matrix = read_matrix(market)
    assert matrix.rows == 3
    assert list(matrix.rows_of_entries()) == [0, 1, 2]
    assert list(matrix.column) == [1, 0, 2]
    assert list(matrix.value) == [0.5, 0.5, -2]
    market.write_text("\n%%MatrixMarket matrix coordinate pattern general\n2 3 1\n2 3\n")
    matrix = read_matrix(market, square=False)
    assert (matrix.rows, matrix.columns, list(matrix.first), list(matrix.value)) == (2, 3, [0, 0, 1], [1])
    with pytest.raises(UsageError, match="has 2 rows and 3 columns; give a square matrix"):
        read_matrix(market)
    market.write_text(f"{MARKET} skew-symmetric\n2 2 1\n2 1 4\n")
    assert sorted(read_matrix(market).value) == [-4, 4]


def test_lists_of_edges(tmp_path: Path) -> None:
    edges = tmp_path / "edges.txt"
    edges.write_text("# from to\n0 1\n1 2 7\n\n2 0\n")
    assert list(read_matrix(edges).value) == [1, 7, 1]
    assert run_app("pagerank", machine="volta4", agent="bulk", matrix=edges, gpus=[0, 1]).correct
    edges.write_text("0 1 -3\n")
    with pytest.raises(UsageError, match="lengths below 0"):
        application("sssp", 1, edges)
    some = np.random.default_rng(1).integers(0, 50_000, (200_000, 2))
    np.savetxt(edges, some, "%d", "\t")
    matrix = read_matrix(edges)
    pairs = np.unique(some, axis=0)
    assert (matrix.rows_of_entries() == pairs[:, 0]).all() and (matrix.column == pairs[:, 1]).all()


@pytest.mark.parametrize("how", ["plain", "gz", "pipe"])
@pytest.mark.parametrize("mixed", [False, True])
def test_everything_is_read_wherever_it_comes_from(how: str, mixed: bool, tmp_path: Path) -> None:
    """Also what must be read a second time, since its lines have several lengths."""
    ring = [f"{i} {(i + 1) % 4000}" for i in range(4000)]
    text = "\n".join(["% Zürich", ring[0] + (" 1" if mixed else ""), *ring[1:]]).encode("latin-1")
    path = tmp_path / ("ring.txt.gz" if how == "gz" else "ring.txt")
    if how == "pipe":
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_bytes, args=(text,))
        writer.start()
        matrix = read_matrix(path)
        writer.join()
    else:
        path.write_bytes(gzip.compress(text) if how == "gz" else text)
        matrix = read_matrix(path)
    assert (matrix.rows, matrix.columns) == (4000, 4000)
    assert (matrix.rows_of_entries() == np.arange(4000)).all()
    assert (matrix.column == (np.arange(4000) + 1) % 4000).all()


def test_ratings(tmp_path: Path) -> None:
    """Of more users than items, and so large that steps of a fixed length would grow without end."""
    random = np.random.default_rng(3)
    cells = np.sort(random.choice(300 * 40, 4000, replace=False))
    ratings = np.column_stack([*np.divmod(cells, 40), random.uniform(20, 100, 4000)])
    np.savetxt(tmp_path / "ratings.txt", ratings, "%g")
    als = application("als", 1, tmp_path / "ratings.txt")
    gpus = [0, 1, 2]
    running = als.start(virtual(), gpus, _core.AgentPlan("polling", 4096))
    running.run(20)
    running.wait()
    assert als.error(als.result(running, 1), 20) <= 1
    assert np.abs(als.result(running, 2)).max() < 10
    report = run_app("als", machine="volta4", matrix=tmp_path / "ratings.txt", iterations=20)
    assert report.correct and report.scale is None and report.timed == "data"
    with pytest.raises(UsageError, match="has its own size; leave the scale away"):
        run_app("als", machine="volta4", matrix=tmp_path / "ratings.txt", scale=0.5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0 x\n", r"line 1: '0 x' is no row"),
        ("nan 1\n", "line 1"), ("1.5 2\n", "line 1"), ("0 1 inf\n", "line 1"),
        ("0 1 2 3\n", "line 1"), ("7\n", "line 1"),
        ("", "no entries"), ("0 1\n-1 2\n", "line 2"),
        ("%%MatrixMarket matrix array real general\n", "coordinates"),
        (f"{MARKET} hermitian\n1 1 1\n1 1 1\n", "not hermitian"),
        (f"{MARKET} general\nx\n", "no line with rows"),
        (f"{MARKET} general\n1 1 1\n2 1 1\n", "line 3: '2 1 1' lies outside of 1 rows and 1 columns"),
        (f"{MARKET} general\n5 3 1\n4 5 7\n", "line 3: '4 5 7' lies outside of 5 rows and 3 columns"),
        (f"{MARKET} general\n4000000000 2 1\n1 1 1\n", "from 1 to 2.31 rows and columns, not 4000000000 and 2"),
        (f"{MARKET} general\n2 2 2\n1 1 1\n2 1\n", "line 4: '2 1' has 2 words, not 3"),
        (f"{MARKET} general\n2 2 1\n2 1\n", "line 3: '2 1' has 2 words, not 3"),
        ("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n2 1 5\n", "line 3: '2 1 5' has 3 words, not 2"),
        (f"{MARKET} skew-symmetric\n2 2 1\n1 1 4\n", "line 3: '1 1 4' lies on a skew-symmetric matrix's diagonal"),
        (f"{MARKET} symmetric\n2 3 1\n1 1 4\n", "a symmetric matrix has as many rows as columns, not 2 and 3"),
        ("0 1\n0 18446744073709551615\n", "line 2: '0 18446744073709551615' lies outside of"),
        ("0 1\n9223372036854775808 1\n", "line 2: '9223372036854775808 1' lies outside of"),
        ("0 1 2\n1 0 1e300\n", "line 2: '1 0 1e300' has a value beyond"),
        (f"{MARKET} general\n5 5 3\n1 1 1\n0 1 1\n2 1 1\n", "line 4: '0 1 1' is no row"),
        (f"{MARKET} general\n5 5 5\n1 1 1\n2 1 1\n", "has 2 entries, and says that it has 5"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "m").write_text(text)
    with pytest.raises(UsageError, match=told):
        read_matrix(tmp_path / "m")


def test_files_that_are_no_matrices(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_matrix(tmp_path / "nothing")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="line 1: .* is no row, column and value"):
        read_matrix(tmp_path / "bytes")
    for contents in (b"0 1\n", gzip.compress(b"0 1\n" * 1000)[:-9]):
        (tmp_path / "broken.gz").write_bytes(contents)
        with pytest.raises(UsageError, match="cannot be read"):
            read_matrix(tmp_path / "broken.gz")
    with pytest.raises(UsageError, match="takes no matrix"):
        application("jacobi", 0.001, tmp_path / "bytes")
