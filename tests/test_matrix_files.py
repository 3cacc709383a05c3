"""Matrices from files: Matrix Market's, and lists of edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from linkwise import UsageError
from linkwise.app_runs import run_app
from linkwise.apps import application
from linkwise.matrix_files import read_matrix

MARKET = "%%MatrixMarket matrix coordinate real"


@pytest.mark.parametrize("header", [f"{MARKET} symmetric", f"{MARKET} Symmetric".replace("matrix c", "MATRIX C")])
def test_matrix_market(header: str, tmp_path: Path) -> None:
    market = tmp_path / "a.mtx"
    market.write_text(f"{header}\n% a comment\n\n3 3 2\n2 1 0.5\n3 3 -2\n")
    matrix = read_matrix(market)
    assert matrix.rows == 3
    assert list(matrix.rows_of_entries()) == [0, 1, 2]
    assert list(matrix.column) == [1, 0, 2]
    assert list(matrix.value) == [0.5, 0.5, -2]
    market.write_text("%%MatrixMarket matrix coordinate pattern general\n2 3 1\n2 3\n")
    assert (read_matrix(market).rows, list(read_matrix(market).value)) == (3, [1])
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
        (f"{MARKET} general\n1 1 1\n2 1 1\n", "row or column 2 is too large"),
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
    with pytest.raises(UsageError, match="cannot be read"):
        read_matrix(tmp_path / "bytes")
    with pytest.raises(UsageError, match="takes no matrix"):
        application("jacobi", 0.001, tmp_path / "bytes")
