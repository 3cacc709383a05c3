"""`make demo`: what it checks its result with finds what is wrong, and it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from linkwise import demo


def test_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(
        sys, "argv", ["demo", "--rows", "20000", "--simulated-rows", "5000", "--folder", str(tmp_path / "demo")]
    )
    demo.main()
    assert "in order, and with the rows of the input" in capsys.readouterr().out
    assert (tmp_path / "demo" / "orders.sorted.parquet").exists()


def test_rows_that_are_not_the_inputs_are_found() -> None:
    before = demo.make_table(1000)
    after = before.sort_by("customer")
    demo.verify(before, after, "customer")
    others = np.roll(np.arange(1000), 1)
    for wrong in (
        before,  # not in order
        after.slice(1),
        after.set_column(1, "ts", after["ts"].take(pa.array(others))),
        pa.concat_tables([after.slice(0, 1), after.slice(0, 1), after.slice(2)]),
    ):
        with pytest.raises(AssertionError):
            demo.verify(before, wrong, "customer")
