"""How values show themselves, what the logger tells, and what profilers see."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import linkwise
from linkwise import UsageError

KEYS = np.random.default_rng(0).integers(0, 1000, 20_000, dtype=np.uint32)


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "linkwise", *arguments],
        capture_output=True, text=True, timeout=120, check=False, env=os.environ | variables,
    )  # fmt: skip


def shown() -> dict[str, Any]:
    plan = linkwise.plan_sort(10**9, machine="dgx-a100")
    return {
        "<SortReport: 20,000 rows sorted on dgx-a100 in ": linkwise.sort_and_report(KEYS, machine="dgx-a100")[1],
        "<PlanReport: dgx-a100, ": plan,
        "PricedPlan(strategy='radix', ": plan.best,
        "<JoinPlanReport: dgx-a100, ": linkwise.plan_join(10**8, 10**9, machine="dgx-a100"),
        "<Profile: dgx-a100-probed, 8 GPUs, simulated>": linkwise.probe("dgx-a100"),
        "<Machine: dgx-a100, 8 GPUs>": linkwise.load_machine("dgx-a100"),
        "SortPlan(gpus=(0, 1))": linkwise.SortPlan(gpus=(0, 1)),
    }


def test_values_show_themselves_in_a_line_and_in_notebooks() -> None:
    for line, value in shown().items():
        assert repr(value).startswith(line)
        assert len(repr(value)) < 400
        assert "\n" not in repr(value)
        page = value._repr_html_()
        assert page.startswith(("<table", "<svg"))
        assert page.rstrip().endswith(("</table>", "</svg>"))


def test_what_is_shown_is_escaped() -> None:
    machine = linkwise.load_machine("dgx-a100")
    machine.name = "<b>"
    assert "<b>" not in linkwise.probe(machine)._repr_html_().replace("<b>", "", 1)  # but for the caption's own


def test_a_join_of_files_shows_itself(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(pa.table({"k": KEYS[:100]}), tmp_path / name)
    report = linkwise.join_file(tmp_path / "a.parquet", tmp_path / "b.parquet", tmp_path / "c.parquet", on="k")
    assert repr(report).startswith(f"<JoinReport: {report.rows:,} rows joined (inner) in ")
    assert "<th style='text-align:left'>strategy</th>" in report._repr_html_()


def test_the_logger_tells_the_plan_and_the_steps(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    table = pa.table({"k": KEYS, "s": ["a" * 500] * len(KEYS)})
    pq.write_table(table, tmp_path / "t.parquet")
    with caplog.at_level(logging.DEBUG, logger="linkwise"):
        linkwise.sort(KEYS, machine="dgx-a100")
        linkwise.join_count(KEYS, KEYS[:10], machine="dgx-a100")
        linkwise.sort_file(tmp_path / "t.parquet", tmp_path / "o.parquet", by="k", host_memory_limit=4 << 20)
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert any(level == "INFO" and text.startswith("plan of a sort of 20000 rows on dgx-a100") for level, text in told)
    assert any(text.startswith("plan of a join of 20000 with 10 rows on dgx-a100") for _, text in told)
    assert any(text.startswith("20,000 rows sorted on dgx-a100") for _, text in told)
    assert sum(text.startswith("spilled ") for _, text in told) > 1
    assert any(level == "DEBUG" and text.startswith("write took ") for level, text in told)


def test_nothing_is_told_unless_it_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    linkwise.sort(KEYS, machine="dgx-a100")
    assert capfd.readouterr() == ("", "")


def test_the_command_line_tells_what_it_does(tmp_path: Path) -> None:
    np.save(tmp_path / "k.npy", KEYS)
    sort = ["sort", str(tmp_path / "k.npy"), "-o", str(tmp_path / "s.npy")]
    assert run(*sort).stderr == ""
    once, twice = run(*sort, "-v").stderr, run("-vv", *sort).stderr
    assert "20,000 rows sorted" in once
    assert "took" not in once
    assert "read took" in twice
    assert all(line.startswith("linkwise: ") for line in (once + twice).splitlines())
    assert len(run("-v", *sort, "-v").stderr.splitlines()) == len(once.splitlines())


def test_help_completion_and_colours() -> None:
    for command in ([], ["sort"], ["plan", "join"]):
        assert "Usage: " in run(*command, "-h").stdout
    script = run("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1").stdout
    assert "complete" in script
    listed = run(_LINKWISE_COMPLETE="complete_bash", COMP_WORDS="linkwise so", COMP_CWORD="1").stdout
    assert listed.split() == ["sort"]
    colour = re.compile(r"\x1b\[(\d+;)*3\d")
    assert colour.search(run("-h", FORCE_COLOR="1").stdout)
    assert not colour.search(run("-h", FORCE_COLOR="1", NO_COLOR="1").stdout)


def test_importing_changes_no_environment_variable() -> None:
    """And OpenMP has read how long its threads look for work nevertheless."""
    program = "import os, json; was = dict(os.environ); import linkwise; print(json.dumps(was == dict(os.environ)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True,
        env=os.environ | {"OMP_DISPLAY_ENV": "verbose"},
    )  # fmt: skip
    assert json.loads(done.stdout) is True
    assert "GOMP_SPINCOUNT = '1000'" in done.stderr


def test_pinned_memory_of_a_numa_node() -> None:
    array = linkwise.empty((3, 5), np.int16, numa=0)
    array[:] = 7
    assert array.shape == (3, 5)
    assert array.sum() == 105
    for node, says in (
        (1000, "NUMA node 1000 cannot be had"),
        (-1, "from 0 on, not -1"),
        (5000, "from 0 on, not 5000"),
    ):
        with pytest.raises(UsageError, match=says):
            linkwise.empty(10, numa=node)


PROFILER = """
#include <nvtx3/nvToolsExt.h>
#include <cstdio>
#include <cstdlib>
#include <mutex>
namespace {
std::mutex one_at_a_time;
void tell(const char* what) {
  const std::lock_guard lock(one_at_a_time);
  std::FILE* file = std::fopen(std::getenv("RANGES"), "a");
  std::fprintf(file, "%s\\n", what);
  std::fclose(file);
}
nvtxDomainHandle_t made(const char* name) { return tell(name), reinterpret_cast<nvtxDomainHandle_t>(1); }
int pushed(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) { return tell(range->message.ascii), 0; }
int popped(nvtxDomainHandle_t) { return tell("-"), 0; }
}
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table) {
  auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size);
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(made);
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(pushed);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(popped);
  return 1;
}
"""


def test_profilers_see_the_phases(tmp_path: Path) -> None:
    """A library that stands for one is injected as NVTX has it."""
    headers = next(Path(sys.prefix).glob("lib/python*/site-packages/nvidia/cu13/include"), None)
    if headers is None:
        pytest.skip("NVTX's headers are from elsewhere")
    (tmp_path / "profiler.cpp").write_text(PROFILER)
    library = tmp_path / "profiler.so"
    command = ["g++", "-std=c++20", "-shared", "-fPIC", f"-I{headers}", tmp_path / "profiler.cpp", "-o", library]
    subprocess.run(command, check=True, timeout=120)
    program = (
        "import linkwise, numpy as np\n"
        "plan = linkwise.SortPlan(strategy='p2p_merge', gpus=(0, 2))\n"
        "linkwise.sort(np.arange(9999, dtype='u4')[::-1].copy(), machine='dgx-a100', plan=plan)"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=120,
        env=os.environ | {"NVTX_INJECTION64_PATH": str(library), "RANGES": str(tmp_path / "ranges")},
    )  # fmt: skip
    told = (tmp_path / "ranges").read_text().splitlines()
    assert told[0] == "linkwise"
    assert {"HtoD", "sort", "merge", "DtoH"} <= set(told)
    assert told.count("-") == len(told) // 2
