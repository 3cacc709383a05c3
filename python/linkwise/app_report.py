"""Applications, tuning and proactive benchmarks, in words."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from linkwise.app_runs import AppReport
from linkwise.report import format_seconds

_SHOWN = 12


def print_app(console: Console, report: AppReport) -> None:
    """Print what an application took, on how many GPUs, and whether its result is right."""
    how = f"median of five, ± {report.spread / 2:.0%}"
    if report.simulated:
        how = "simulated" if report.timed == "data" else "simulated, for data of the paper's size"
    console.print(f"[bold]{report.app}[/bold] on {escape(report.machine)}, GPUs {', '.join(map(str, report.gpus))}")
    console.print(f"agent      {report.agent}")
    console.print(f"time       {format_seconds(report.seconds)} for {report.iterations} iterations, {how}")
    console.print(f"speed-up   {report.speedup:.2f} × over one GPU ({format_seconds(report.single_gpu_seconds)})")
    verdict = "[green]right[/green]" if report.correct else "[red]WRONG[/red]"
    console.print(f"result     {verdict} (at {report.error:.1%} of the difference that rounding may make)")


def print_tuning(console: Console, report: dict[str, Any]) -> None:
    """Print the plans that were tried, the best first."""
    console.print(f"[bold]{report['app']}[/bold] on {escape(report['machine'])}: {len(report['tried'])} plans tried")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("plan")
    table.add_column("an iteration", justify="right")
    for row in report["tried"][:_SHOWN]:
        table.add_row(row["plan"], format_seconds(row["seconds"]))
    console.print(table)
    if report["kept"]:
        console.print(f"kept in {escape(report['kept'])}")


def print_proactive(console: Console, results: dict[str, Any]) -> None:
    """Print the microbenchmark by agent and granularity, and what each application gains."""
    how = "simulated" if results["simulated"] else "measured"
    console.print(f"[bold]Proactive transfers[/bold] on {escape(results['machine'])}, {results['gpus']} GPUs: {how}")
    if results["store_goodput"]:
        shares = ", ".join(f"{size} bytes {share:.0%}" for size, share in results["store_goodput"].items())
        console.print(f"goodput of stores to peers: {shares}")
    if results["microbenchmark"]["rows"]:
        console.print(_microbenchmark_table(results["microbenchmark"]))
    rows = [row for row in results["apps"] if row["gpus"] == results["gpus"]]
    if rows:
        console.print(_applications_table(rows))
    for gpus, means in results["means"].items():
        told = ", ".join(f"{name} {value:.2f}" for name, value in means.items())
        share = means["proactive"] / means["infinite"]
        console.print(f"geometric means on {gpus} GPUs: {told}, {share:.0%} of what there is to gain")


def _microbenchmark_table(micro: dict[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), title="256 MiB to all others, × copying after the kernel")
    table.add_column("plan")
    table.add_column("speed-up", justify="right")
    by_speed = sorted(micro["rows"], key=lambda row: -row["speedup"])
    for row in [*by_speed[:_SHOWN], *(row for row in by_speed[_SHOWN:] if row["agent"] == "unified")]:
        table.add_row(row["plan"], f"{row['speedup']:.2f}")
    if micro["stores_seconds"] is not None:
        table.add_row("as long as the stores alone take", f"{micro['bulk_seconds'] / micro['stores_seconds']:.2f}")
    table.add_row("links without limits", f"{micro['ideal']:.2f}")
    return table


def _applications_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), title="applications, × one GPU")
    headings = ("", "bulk", "inline", "decoupled", "the most", "share of it", "copying", "tracking", "overlap", "plan")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("", "plan") else "right")
    for row in rows:
        speedups = row["speedups"]
        table.add_row(
            row["app"], *(f"{speedups[kind]:.2f}" for kind in ("bulk", "inline", "decoupled", "infinite")),
            *(f"{row[kind]:.0%}" for kind in ("share_of_opportunity", "bulk_share")),
            f"{row['tracking']:.1%}", f"{row['overlap']:.0%}", row["plan"],
        )  # fmt: skip
    return table
