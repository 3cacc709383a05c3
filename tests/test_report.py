"""What the probe tells: every family, the profile and its schema, drawings, and the report in a browser."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import linkwise
from conftest import cuda_runtime
from linkwise import UsageError, _core
from linkwise.machines.catalog import load_machine
from linkwise.machines.profile import CHECKED, Profile, check_profile, load_profile, profile_schema
from linkwise.messages.schedules import COLLECTIVES
from linkwise.probing.probe import measurements
from linkwise.reports.machine_svg import machine_svg, shared_links
from linkwise.reports.profile_html import html_report
from mpi_launch import launch, needs_mpi

FAMILIES = [name for name, _ in _core.family_names()]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def full() -> Profile:
    return linkwise.probe("h200x8", mode="full")


def test_every_measurement_is_there_or_says_why_not(full: Profile) -> None:
    told = {row["name"] for row in full.measurements}
    assert told == set(measurements()) - {"device to device, beside the host"}  # where links leave no question
    for row in full.measurements:
        assert ("cannot" in row) != ("seconds" in row)
    reasons = {row["name"]: row["cannot"] for row in full.measurements if "cannot" in row}
    assert "collectives" in reasons
    assert reasons.pop("between processes") == "it takes several nodes, as --machine summit-node:4"
    assert set(reasons.values()) == {"it needs GPUs; this machine is a described one"}


def test_sets_and_shares_that_the_machine_was_not_fitted_to_are_predicted(full: Profile) -> None:
    """The bar for the real thing: 20 of them, 7 % in the median and 20 % at worst."""
    for name in ("host sets", "host sets uneven"):
        rows = full.rows(name)
        assert len(rows) >= 20
        assert all(abs(row["predicted_gb_per_s"] / row["gb_per_s"] - 1) < 0.10 for row in rows)
    assert full.median_error() < 0.02


def test_uneven_shares_carry_more_than_equal_ones(full: Profile) -> None:
    even = {row["what"]: row["gb_per_s"] for row in full.rows("host sets")}
    uneven = {row["what"]: row["gb_per_s"] for row in full.rows("host sets uneven")}
    assert uneven
    for what, rate in uneven.items():
        gpus, way = what.split(" (")[0], what.rsplit(", ", 1)[1]
        assert rate > 1.02 * even[f"{gpus}, {way}"]


def test_a_relay_in_chunks_is_faster_than_store_and_forward(full: Profile) -> None:
    rows = {row["what"]: row["gb_per_s"] for row in full.rows("peer relays")}
    assert rows["0→2→1, in chunks"] > 1.3 * rows["0→2→1, stored and forwarded"]


def test_a_pattern_chooses(tmp_path: Path) -> None:
    profile = linkwise.probe("dgx-a100", tmp_path / "p.json", tests="mirrored|LATENCY")
    names = {row["name"] for row in profile.measurements}
    assert names == {name for name in measurements() if "mirrored" in name or "latency" in name}
    assert load_profile(tmp_path / "p.json").measurements == profile.measurements
    with pytest.raises(UsageError, match="no measurement matches 'nothing'"):
        linkwise.probe("dgx-a100", tests="nothing")
    with pytest.raises(UsageError, match="is not a pattern"):
        linkwise.probe("dgx-a100", tests="(")


def test_profiles_follow_their_schema(full: Profile, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    written = json.loads(json.dumps(full.as_dict()))
    jsonschema.validate(written, profile_schema())
    check_profile(written, "it")
    path = tmp_path / "p.json"
    path.write_text(json.dumps(written))
    assert load_profile(path).as_dict() == full.as_dict()


def wrong(profile: dict[str, Any], how: str) -> dict[str, Any]:
    profile = copy.deepcopy(profile)
    row = profile["measurements"][0]
    if how == "host":
        profile["host"] = 3
    elif how == "spread":
        del row["spread"]
    elif how == "speed":
        row["speed"] = 3
    elif how == "seconds":
        row["seconds"] = "3"
    elif how == "bytes":
        row["bytes"] = True
    return profile


@pytest.mark.parametrize("how", ["host", "spread", "speed", "seconds", "bytes"])
def test_what_the_schema_refuses_is_refused_with_its_name(full: Profile, how: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    profile = wrong(json.loads(json.dumps(full.as_dict())), how)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(profile, profile_schema())
    with pytest.raises(UsageError, match="neither a result" if how == "spread" else f"'{how}'"):
        check_profile(profile, "it")


@pytest.mark.parametrize("name", [*linkwise.described_machines(), "summit-node:3"])
def test_a_drawing_shows_every_node_and_link(name: str) -> None:
    machine = load_machine(name)
    root = ET.fromstring(machine_svg(machine))
    space = {"s": "http://www.w3.org/2000/svg"}
    texts = {element.text for element in root.findall("s:text", space)}
    assert {node.name for node in machine.nodes} <= texts
    titles = [element.text or "" for element in root.findall("s:path/s:title", space)]
    assert len(titles) == len(machine.links)
    assert len({(e.get("x"), e.get("y")) for e in root.findall("s:rect", space)}) == len(machine.nodes)


class Page(HTMLParser):
    """Elements by id, cells of tables, and the profile inside."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.cells: list[str] = []
        self.profile = ""
        self.references: list[str] = []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.ids.add(found.get("id") or "")
        self.references += [found[key] or "" for key in ("src", "href", "xlink:href") if key in found]
        self._in = found.get("id") or tag

    def handle_data(self, data: str) -> None:
        if self._in == "td":
            self.cells.append(data)
        if self._in == "profile":
            self.profile += data


def test_the_report_needs_nothing_else_and_holds_the_profile(full: Profile) -> None:
    page = Page(html_report(full))
    assert json.loads(page.profile) == json.loads(json.dumps(full.as_dict()))
    assert {"findings", "machine", "maps", "curves", "bars", "tables"} <= page.ids
    assert all(reference.startswith(("#", "data:")) for reference in page.references)
    cells = set(page.cells)
    for row in full.measurements:
        if "gb_per_s" in row:
            assert f"{row['gb_per_s']:.4g}" in cells
    text = html_report(linkwise.probe("sli-rtx2080"))  # two GPUs, no curves
    assert "maps" in Page(text).ids and "curves" not in Page(text).ids  # sections without content are left out
    assert "measured" not in re.sub("was measured|--measured", "", text).lower()  # of what is simulated


def test_two_profiles_beside_each_other(full: Profile) -> None:
    older = linkwise.probe("dgx-a100")
    page = Page(html_report(linkwise.probe("dgx1-v100"), older))
    assert {"beside"} <= page.ids
    ratios = [float(cell) for cell in page.cells if re.fullmatch(r"\d+\.\d\d", cell)]
    assert ratios and any(abs(ratio - 1) > 0.1 for ratio in ratios)
    alike = html_report(full, full)
    assert f"{sum(1 for row in full.measurements if row.get('gb_per_s'))} rates that both have" in alike


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_the_report_in_a_browser(full: Profile, tmp_path: Path) -> None:
    """It loads, nothing is complained about, and the numbers that it shows are the profile's."""
    path = tmp_path / "report.html"
    path.write_text(
        html_report(full).replace(
            "</body>",
            """<script>
            const profile = JSON.parse(document.getElementById('profile').textContent);
            const told = [...document.querySelectorAll('#findings li')].map(e => e.textContent);
            const cells = [...document.querySelectorAll('td')].map(e => e.textContent);
            const drawn = document.querySelectorAll('svg').length;
            const bars = document.querySelectorAll('.bars i').length;
            const sizes = [...document.querySelectorAll('#machine svg')].map(e => e.getBoundingClientRect().width);
            const rates = profile.measurements.filter(r => 'gb_per_s' in r);
            const shown = rates.filter(r => cells.includes(String(Number(r.gb_per_s.toPrecision(4)))) ||
                cells.some(c => Math.abs(Number(c) / r.gb_per_s - 1) < 1e-3));
            document.title = JSON.stringify({told: told.length, drawn, bars, width: sizes[0],
                rates: rates.length, shown: shown.length});
            </script></body>""",
        ),
        encoding="utf-8",
    )
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", "--dump-dom"]
    done = subprocess.run(
        ["chromium", *options, f"--user-data-dir={tmp_path / 'browser'}", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ":CONSOLE" not in done.stderr, done.stderr
    title = done.stdout.split("<title>")[1].split("</title>")[0].replace("&quot;", '"')
    seen = json.loads(title)
    assert seen["told"] == len(full.findings)
    assert (
        seen["drawn"] >= 6
    )  # the machine, GPU to GPU, and over the size; what is predicted are bars of the page's own
    predicted = [row for name in CHECKED for row in full.rows(name) if row.get("predicted_gb_per_s")]
    assert seen["bars"] >= 2 * len(predicted) > 100
    assert seen["width"] > 400
    assert seen["shown"] == seen["rates"] > 600


def test_command_line(tmp_path: Path) -> None:
    listed = run("probe", "--list").stdout
    assert all(name in listed for name in FAMILIES)
    report, profile = tmp_path / "r.html", tmp_path / "p.json"
    done = run("probe", "--machine", "delta-d22x", "--full", "--report", str(report), "-o", str(profile))
    assert done.returncode == 0, done.stderr
    assert load_profile(profile).findings
    assert "<svg" in report.read_text(encoding="utf-8")
    done = run("probe", "--machine", "delta-d22x", "--report", str(report), "--beside", str(profile))
    assert done.returncode == 0 and "Beside another profile" in report.read_text(encoding="utf-8")
    done = run("probe", "--machine", "delta-d22x", "--beside", str(profile))
    assert done.returncode == 2 and "name one with --report" in done.stderr
    assert run("machine", "show", "dgx2", "--svg").stdout.startswith("<svg")
    assert "nvswitch" not in run("machine", "show", "dgx2", "--without", "nvlink").stdout
    assert run("machine", "show", "dgx2", "--without", "paper").returncode == 2
    done = run("machine", "show", "dgx2:4")
    assert done.returncode == 2
    assert "it names no network" in done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_runs_on_gpus(family: str) -> None:
    options = _core.FamilyOptions()
    options.patience_seconds, options.bytes, options.largest = 0.01, 1 << 20, 1 << 20
    runtime = cuda_runtime()
    rows = _core.measure_families(runtime, runtime.machine, [family], options)
    assert rows
    assert all(row.measured.verified for row in rows if row.measured.gb_per_s > 0)
    assert all(row.why_not or row.measured.seconds > 0 for row in rows)


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_messages_between_processes(processes: int) -> None:
    rows = json.loads(launch("messages.py", processes))
    if processes == 1:
        assert ["mpirun -n 2" in row["cannot"] for row in rows] == [True]
        return
    measured = [row for row in rows if "cannot" not in row]
    assert {row["what"].split(", ")[1] for row in measured} >= {"host", "host-pinned"}
    assert {row["what"].split(" of ")[0].split(",")[0] for row in measured} == {"message", *COLLECTIVES}
    assert max(row["bytes"] for row in measured) == 4**14
    assert all(row["verified"] and row["gb_per_s"] > 0 for row in measured)
    assert any("NCCL is between GPUs" in row.get("cannot", "") for row in rows)


def test_messages_need_two_processes() -> None:
    from linkwise.probing.mpi import between_processes

    rows = between_processes(_core.VirtualRuntime(load_machine("delta-d22x")))
    assert ["mpirun -n 2" in row["cannot"] for row in rows] == [True]


WEIRD: list[Any] = [None, True, -1, 0, 10**400, float("nan"), float("inf"), "x", "", [], {}, [[]], {"x": 1}]


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every field and every element of a parsed JSON file, of lists the first two."""
    if isinstance(value, dict):
        return [p for key, each in value.items() for p in [(*path, key), *places_in(each, (*path, key))]]
    if isinstance(value, list):
        return [p for index, each in enumerate(value[:2]) for p in [(*path, index), *places_in(each, (*path, index))]]
    return []


def test_no_damage_to_a_profile_is_more_than_a_line(tmp_path: Path) -> None:
    """Whatever stands anywhere: it is refused by name, or it is a profile that can be planned and written with."""
    written = json.loads(json.dumps(linkwise.probe("h200x8").as_dict()))
    written["measurements"] = written["measurements"][:2]
    path = tmp_path / "p.json"
    accepted = 0
    for place in places_in(written):
        for weird in WEIRD:
            damaged = copy.deepcopy(written)
            inner = damaged
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = weird
            path.write_text(json.dumps(damaged))
            try:
                profile = load_profile(path)
            except UsageError as error:
                assert str(path) in str(error) or "machine" in str(error), (place, weird, error)
                continue
            accepted += 1
            try:
                json.dumps(profile.as_dict(), allow_nan=False)
            except ValueError as error:
                raise AssertionError((place, weird)) from error
    assert accepted > 100  # names, descriptions and figures that may be 0


def test_numbers_that_cannot_be(tmp_path: Path) -> None:
    for arguments in (
        ("plan", "sort", "--rows", "nan"),
        ("plan", "sort", "--rows", "1e30"),
        ("plan", "sort", "--rows", "1e6", "--gpus", "99999999999999", "--machine", "h200x8"),
        ("plan", "sort", "--rows", "1e6", "--memory-limit", "99999999999999999TiB", "--machine", "h200x8"),
        ("plan", "sort", "--rows", "1e6", "--without", "nvlink"),
        ("bench", "plan", "--machine", "h200x8", "--scale", "nan"),
        ("machine", "show", "summit-node:²"),
        ("machine", "show", "summit-node:"),
    ):
        done = run(*arguments)
        assert done.returncode == 2, arguments
        assert done.stderr.startswith("linkwise: "), arguments
        assert done.stderr.count("\n") == 1, arguments
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "real.json")
    assert run("probe", "--machine", "delta-d22x", "-o", str(link)).returncode == 0
    assert link.is_symlink() and (tmp_path / "real.json").is_file()


def test_shared_links_are_marked() -> None:
    """PCIe switches of the DGX A100 have one uplink for two GPUs; on the AC922 each GPU has links of its own."""
    dgx = linkwise.load_machine("dgx-a100")
    named = {dgx.links[place].name: gpus for place, gpus in shared_links(dgx).items()}
    assert named["cpu0-switch0"] == [0, 1] and named["cpu1-switch3"] == [6, 7]
    assert named["mem1-cpu1"] == [4, 5, 6, 7] and "cpu0-cpu1" not in named and "switch0-gpu0" not in named
    assert machine_svg(dgx).count("24.5 for 2 GPUs") == 4 and "Orange: links to host memory" in machine_svg(dgx)
    h200 = linkwise.load_machine("h200x8")  # all memory is the first socket's
    assert {h200.links[place].name: len(gpus) for place, gpus in shared_links(h200).items()}["cpu0-cpu1"] == 4
    pascal = linkwise.load_machine("ibm-s822lc")
    assert {pascal.links[place].kind for place in shared_links(pascal)} <= {"dram"}
