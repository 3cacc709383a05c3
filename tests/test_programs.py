"""Programs in C++ that try what the headers promise, and say what is not so."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import ROOT
from cpp_programs import build_and_run


@pytest.mark.parametrize("program", sorted((ROOT / "tests" / "programs").glob("*.cpp")), ids=lambda path: path.stem)
def test_program(program: Path, tmp_path: Path) -> None:
    assert build_and_run(program, tmp_path / program.stem) == "0 failures\n"
