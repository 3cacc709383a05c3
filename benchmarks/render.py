"""Results as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).parent / "results"
MEASUREMENTS_PAGE = Path(__file__).parent.parent / "docs" / "measurements.md"


def _row(result: dict[str, Any]) -> str:
    seconds = result.get("median_wall_seconds", result.get("simulated_seconds", 0))
    spread = f" ± {result['spread'] / 2:.0%}" if "spread" in result else ""
    phases = ", ".join(f"{name} {value * 1e3:.1f}" for name, value in result["phases"].items())
    notes = []
    if "wire_seconds" in result:
        notes.append(f"{seconds / result['wire_seconds']:.2f} × wire")
    if "numpy_seconds" in result:
        notes.append(f"NumPy {result['numpy_seconds'] * 1e3:.2f} ms")
    if "largest_load" in result:
        notes.append(f"load {result['largest_load']:.3f}")
    if result.get("extra_memory"):
        notes.append(f"memory + {result['extra_memory']:.2f} ×")
    if result.get("plan"):
        notes.append(result["plan"])
    return f"| {result['case']['name']} | {seconds * 1e3:.1f}{spread} | {'; '.join(notes)} | {phases} |"


def _says_more_than_it_ran(result: dict[str, Any]) -> bool:
    """Whether a case names a third buffer or eager merging, but fits the GPUs at once, so that neither was used."""
    return "het 3n" in result["case"]["name"] and "groups" not in result["case"]["name"]


def _sections(results: list[dict[str, Any]]) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    names = dict.fromkeys(result.get("section", "sorts") for result in results)
    return ((name, [r for r in results if r.get("section", "sorts") == name]) for name in names)


def markdown(results: dict[str, Any]) -> str:
    """One file of results as tables, a section each."""
    kind = "simulated" if results["simulated"] else "measured, medians"
    lines = [f"{results['machine']}, {kind}, {results['date'][:10]}, commit {results['commit']}", ""]
    wire = results.get("wire_gb_per_s", {}).get("best")
    if wire:
        gpus = f"{len(results['gpus'])} × {results['gpus'][0]}"
        rates = f"{wire['in']:.0f} GB/s in, {wire['out']:.0f} GB/s out (the wire)"
        lines += [f"{gpus}. Best plain copies of equal shares: {rates}.", ""]
    for name, rows in _sections([row for row in results["results"] if not _says_more_than_it_ran(row)]):
        lines += [f"**{name}**", "", "| sort | ms | | phases, ms |", "|---|---:|---|---|", *map(_row, rows), ""]
    return "\n".join(lines)


def _join_row(row: dict[str, Any]) -> str:
    phases = ", ".join(f"{name} {value * 1e3:.1f}" for name, value in row.get("phases", {}).items())
    notes = []
    if "wire_seconds" in row:
        notes.append(f"{row['seconds'] / row['wire_seconds']:.2f} × wire")
    if "efficiency" in row:
        notes.append(f"efficiency {row['efficiency']:.0%}")
    spread = f" ± {row['spread'] / 2:.0%}" if "spread" in row else ""
    way = f", {row['way']}" if row.get("way", "sorted") != "sorted" else ""
    name = row.get("case") or f"keys on {row['gpus']} GPUs, counted{way}"
    return f"| {name} | {row['seconds'] * 1e3:.1f}{spread} | {'; '.join(notes)} | {phases} |"


def join_markdown(results: dict[str, Any]) -> str:
    """One file of ``linkwise bench join`` as a table."""
    workload, wire = results["workload"], results["wire_gb_per_s"]["best"]
    r, s = workload["rows"]
    rows = [*results["rows"], *results["on_gpus"], *results["baselines"]]
    heavy = ", a heavy hitter" if workload.get("heavy_hitter") else ""
    return "\n".join(
        [
            f"{len(results['gpus'])} × {results['gpus'][0]}, medians, {results['date'][:10]}, "
            f"commit {results['commit']}.",
            f"Workload {workload['name']} of join25: {r:,} ⋈ {s:,} rows, selectivity {workload['selectivity']:g}, "
            f"skew {workload['skew']:g}{heavy}. "
            f"Best plain copies: {wire['in']:.0f} GB/s in, {wire['out']:.0f} GB/s out.",
            "",
            "| join | ms | | phases, ms |",
            "|---|---:|---|---|",
            *map(_join_row, rows),
            "",
        ]
    )


def proactive_markdown(results: dict[str, Any]) -> str:
    """One file of ``linkwise bench proactive`` as a table."""
    when = f"{results['date'][:10]}, commit {results['commit']}"
    scales = sorted({row.get("scale", results["scale"]) for row in results["apps"]})
    scale = f", data at scale {', '.join(f'{each:g}' for each in scales)}" if scales else ""
    lines = [f"{results['machine']}, {results['gpus']} GPUs{scale}, {when}.", ""]
    micro = sorted((results["microbenchmark"] or {"rows": []})["rows"], key=lambda row: -row["speedup"])
    if micro:
        best = {row["agent"]: row for row in reversed(micro)}.values()
        lines += ["| 256 MiB to all others | × copying after the kernel |", "|---|---:|"]
        lines += [f"| {row['plan']} | {row['speedup']:.2f} |" for row in sorted(best, key=lambda row: -row["speedup"])]
        if stores := results["microbenchmark"].get("stores_seconds"):
            bound = results["microbenchmark"]["bulk_seconds"] / stores
            lines += [f"| as long as the stores alone take | {bound:.2f} |"]
        lines += [f"| links without limits | {results['microbenchmark']['ideal']:.2f} |"]
        goodput = ", ".join(f"{size} bytes {share:.0%}" for size, share in results["store_goodput"].items())
        lines += ["", f"Goodput of stores to a peer: {goodput}."] if goodput else []
    if results["apps"]:
        heading = "× one GPU | bulk | inline | decoupled | the most | share of it | copying | tracking | hidden | best"
        lines += [f"| {heading} |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"]
    for row in results["apps"]:
        gains = " | ".join(f"{row['speedups'][kind]:.2f}" for kind in ("bulk", "inline", "decoupled", "infinite"))
        copying = f"{row['bulk_share']:.0%} | {row['tracking']:.1%}"
        shares = f"{row['share_of_opportunity']:.0%} | {copying} | {max(row['overlap'], 0):.0%}"
        lines.append(f"| {row['app']} | {gains} | {shares} | {row['plan']} |")
    return "\n".join([*lines, ""])


def tune_markdown(results: dict[str, Any]) -> str:
    """One file of ``linkwise tune --exhaustive`` as a table: the best plan of each agent."""
    lines = [
        f"{results['app']} on {len(results['gpus'])} GPUs: {len(results['tried'])} plans.", "",
        "| best of each agent | an iteration, ms |", "|---|---:|",
    ]  # fmt: skip
    best = {row["agent"]: row for row in reversed(results["tried"])}.values()
    lines += [f"| {row['plan']} | {row['seconds'] * 1e3:.3f} |" for row in sorted(best, key=lambda row: row["seconds"])]
    return "\n".join([*lines, ""])


def tpch_markdown(results: dict[str, Any]) -> str:
    """One file of ``linkwise bench tpch`` as a table."""
    lines = [
        f"{results['cpu']}, {results['date'][:10]}, commit {results['commit']}, scale factor {results['scale']:g}.",
        "",
    ]
    if results["queries"]:
        lines += [
            "| query | joins, ms | of which sort, join, materialise | DuckDB's joins | whole query, ms | DuckDB's |",
            "|---|---:|---|---:|---:|---:|",
        ]
    for row in results["queries"]:
        of_parts = [row["shares"].get(name) for name in ("sort", "join", "materialise")]
        shares = ", ".join("–" if seconds is None else f"{seconds * 1e3:.0f}" for seconds in of_parts)
        joins_of_duckdb, of_duckdb = (
            f"{median(row[name]) * 1e3:.0f}" if name in row else ""
            for name in ("duckdb_join_seconds", "duckdb_seconds")
        )
        joins, whole = (f"{row['seconds'][name] * 1e3:.0f}" for name in ("joins", "whole"))
        lines.append(f"| {row['query']} | {joins} | {shares} | {joins_of_duckdb} | {whole} | {of_duckdb} |")
    if results.get("from_files"):
        lines += [
            *[""] * bool(results["queries"]),
            "| from files to the result, ms | linkwise | in Polars | DuckDB | × | × in Polars |",
            "|---|---|---|---|---:|---:|",
        ]
    for row in results.get("from_files", []):
        ways = ("seconds", "in_polars_seconds", "duckdb_seconds")
        times = {name: [1e3 * seconds for seconds in row[name]] for name in ways if row.get(name)}
        told = (_with_range(median(times[name]), times[name], ".0f") if name in times else "" for name in ways)
        ratios = (f"{median(times[n]) / median(times[ways[2]]):.2f}" if n in times else "" for n in ways[:2])
        lines.append(f"| {row['query']} | {' | '.join([*told, *ratios])} |")
    return "\n".join([*lines, ""])


def _with_range(median: float, times: list[float], form: str) -> str:
    return f"{median:{form}} ({min(times):{form}} to {max(times):{form}})"


def files_markdown(results: dict[str, Any]) -> str:
    """One file of ``benchmarks/files.py`` as a table."""
    bounds = {"codec": "decode, encode", "start": "start"}  # measured with --bounds
    bounds = {name: told for name, told in bounds.items() if any(name in row for row in results["results"])}
    names = ("linkwise", "duckdb", "polars", *bounds)

    def told(result: dict[str, Any] | None) -> str:
        if result is None:
            return ""
        peak = f", {result['peak_bytes'] >> 20} MiB" if "peak_bytes" in result else ""
        return _with_range(result["median"], result["seconds"], ".2f") + peak

    gpus = results.get("gpus", [])
    machine = ", ".join([results["machine"], *([f"{len(gpus)} × {gpus[0]}"] if gpus else [])])
    scale = f", at {results['scale']:g} of its size" if results.get("scale", 1) != 1 else ""
    programs = " | ".join(["linkwise", "DuckDB", "Polars", *bounds.values()])
    heading = f"file to file, seconds and most memory | rows | {programs} | × the better | × its size"
    lines = [
        f"{machine}, {results['date'][:10]}, commit {results['commit']}{scale}, whole processes in turn.", "",
        f"| {heading} |", f"|---|---:|{'---|' * len(names)}---:|---:|",
    ]  # fmt: skip
    for row in results["results"]:
        seconds = " | ".join(told(row.get(name)) for name in names)
        ratios = f"{row['ratio']:.2f} | {row['size_ratio']:.2f}"
        lines.append(f"| {row['case']} | {row['rows']:,} | {seconds} | {ratios} |")
    return "\n".join([*lines, ""])


def local_markdown(results: dict[str, Any]) -> str:
    """One file of ``benchmarks/local_sorts.py`` as a table."""
    names = ("linkwise", "linkwise, unverified", "cupy", "torch")

    def told(row: dict[str, Any], name: str) -> str:
        if name not in row["medians"]:
            return ""
        return _with_range(1e3 * row["medians"][name], [1e3 * seconds for seconds in row["seconds"][name]], ".1f")

    gpus = results["results"][0].get("gpus", 1)
    used = results["gpus"][0] if gpus == 1 else f"{gpus} × {results['gpus'][0]}"
    columns = "keys | linkwise, verified | unverified | CuPy | torch | verified × CuPy | unverified"
    lines = [
        f"{used}, {results['date'][:10]}, commit {results['commit']}, CuPy arrays, in turn;",
        "CuPy and torch check nothing, torch also returns positions and keeps the order of equal keys.", "",
        f"| {'one GPU' if gpus == 1 else f'{gpus} GPUs'}, ms | {columns} |",
        "|---|---:|---|---|---|---|---:|---:|",
    ]  # fmt: skip
    for row in results["results"]:
        ratio_to_cupy = row.get("ratio_to_cupy")  # CuPy sorts on one GPU only
        ratios = " | ".join(f"{ratio_to_cupy[name]:.2f}" if ratio_to_cupy else "" for name in names[:2])
        lines.append(
            f"| {row['case']} | {row['rows']:,} | {' | '.join(told(row, name) for name in names)} | {ratios} |"
        )
    return "\n".join([*lines, ""])


def numpy_markdown(results: dict[str, Any]) -> str:
    """One file of ``benchmarks/numpy_arrays.py`` as a table."""

    def told(row: dict[str, Any], name: str) -> str:
        return _with_range(1e3 * row["medians"][name], [1e3 * seconds for seconds in row["seconds"][name]], ".0f")

    what = f"{results['machine']}, {results['date'][:10]}, commit {results['commit']}, NumPy {results['numpy']}"
    lines = [
        f"{what}, in turn.", "",
        "| NumPy arrays, ms | keys | linkwise, verified | np.sort | × np.sort |", "|---|---:|---|---|---:|",
    ]  # fmt: skip
    for row in results["results"]:
        times = f"{told(row, 'linkwise')} | {told(row, 'numpy')}"
        lines.append(f"| {row['case']} | {row['rows']:,} | {times} | {row['ratio']:.2f} |")
    return "\n".join([*lines, ""])


def arrow_joins_markdown(results: dict[str, Any]) -> str:
    """One file of benchmarks/arrow_joins.py as a table."""
    names = ("linkwise", "duckdb", "polars")

    def told(row: dict[str, Any], name: str) -> str:
        return _with_range(1e3 * row["medians"][name], [1e3 * seconds for seconds in row["seconds"][name]], ".0f")

    versions = "DuckDB {duckdb}, Polars {polars}".format(**results["versions"])
    lines = [
        f"{results['machine']}, {results['date'][:10]}, commit {results['commit']}, {versions}, in turn.", "",
        "| Arrow tables, ms | rows, and a tenth | linkwise | DuckDB | Polars | × the better |",
        "|---|---:|---|---|---|---:|",
    ]  # fmt: skip
    for row in results["results"]:
        times = " | ".join(told(row, name) for name in names)
        lines.append(f"| {row['case']} | {row['rows']:,} | {times} | {row['ratio']:.2f} |")
    return "\n".join([*lines, ""])


def cluster_markdown(results: dict[str, Any]) -> str:
    """One file of ``benchmarks/cluster.py`` as a table."""
    lines = [
        f"{results['rows']:,} rows of 100 bytes, {results['commit']}, {results['cores']}; two nodes of this machine, "
        f"each with {results['cores_of_a_node']} cores, {results['memory_of_a_worker']} and a store of "
        f"{results['store_of_a_node'] >> 20} MiB. Every result checked.",
        "",
        "| | s | workers killed | a worker's memory, MiB | spilled, GiB | largest / mean partition |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in results["results"]:
        peak, spilled = row.get("peak_bytes_of_a_worker"), row.get("spilled_bytes")
        told = [
            _CLUSTER_CASES[row["case"]], f"{row['seconds']:.1f}", str(row.get("kills", "")),
            "" if peak is None else f"{peak >> 20:,}", "" if spilled is None else f"{spilled / 2**30:.1f}",
            f"{row['report']['largest']:.2f}" if "largest" in row.get("report", {}) else "",
        ]  # fmt: skip
        if "predicted_seconds" in row:
            told[0] += f", which a plan after a probe expected to take {row['predicted_seconds']:.1f} s"
        lines.append(f"| {' | '.join(told)} |")
    return "\n".join([*lines, ""])


_CLUSTER_CASES = {
    "one": "`linkwise sort`, one process that spills", "ray": "`ray.data`, sort and `write_parquet`",
    "linkwise": "`linkwise.cluster.sort`", "gpus": "the same with a GPU for each node",
    "radix": "the same, sorted on the GPUs whatever that takes",
    "kills": "the same while workers are killed",
}  # fmt: skip


def measurements_page() -> str:
    """docs/measurements.md, made from the raw results."""
    page = [
        "# All measurements",
        "",
        "Every run that was kept, whatever its commit, the newest of each kind first;",
        "[Performance](performance.md) has the newest figures, question by question. Rendered from",
        "`benchmarks/results/` by `python benchmarks/sort.py --render`.",
        "",
        "Host to host: pinned memory in and out unless another kind is named; order and checksum are verified on",
        "the GPUs. On the GPUs: from the call until the result is there, input donated, verified only where the",
        "row says so. The wire is the best plain copies of the same run; the rate of host memory drifts, so that a",
        "sort may beat its own wire. Joins are set beside the time that their bytes take on the links at the rates",
        "of plain copies; presorted ones, from c3ce508 on, at the rates of copies of the sorted arrays. Results from",
        "before plans were public values were timed below the Python call.",
        "",
    ]
    kinds = (
        ("*sort.json", markdown), ("*join-*.json", join_markdown), ("*tpch-*.json", tpch_markdown),
        ("*proactive-*.json", proactive_markdown), ("*tune-*.json", tune_markdown),
        ("*files.json", files_markdown), ("*local.json", local_markdown),
        ("*numpy.json", numpy_markdown), ("*arrow-joins.json", arrow_joins_markdown),
        ("*cluster*.json", cluster_markdown),
    )  # fmt: skip
    for pattern, written in kinds:
        for path in sorted(RESULTS.glob(pattern), reverse=True):
            page += [f"## {path.stem}", "", written(json.loads(path.read_text(encoding="utf-8")))]
    return "\n".join(page)
