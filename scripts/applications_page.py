"""Write the table and the pictures of docs/applications.md from prices on described machines.

    python scripts/applications_page.py          # write
    python scripts/applications_page.py --check  # exit with 1 if the table is out of date

A picture of each application: its speed-up over one GPU, strong and weak scaling, by the ways of its messages.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from linkwise._core import UsageError
from linkwise.apps.tartan.program import Program
from linkwise.apps.tartan_registry import TARTAN
from linkwise.apps.tartan_run import can_grow, priced_run
from linkwise.machines.catalog import load_machine
from linkwise.machines.network import message_costs
from linkwise.machines.variants import node_of_gpus
from linkwise.messages.ways import BETWEEN_NODES, WAYS
from linkwise.reports.plots import curves_picture
from page_block import with_block

PAGE = Path("docs/applications.md")
COUNTS = (1, 2, 4, 8)
WITHIN, OVER = "dgx1-v100", "summit-node"
WAYS_WITHIN = ("host", "host-pinned", "peer", "nccl")


def ways_of(kind: type[Program]) -> tuple[str, ...]:
    return WAYS_WITHIN if kind.scales == "up" else (*BETWEEN_NODES, "nccl")


def seconds(kind: type[Program], way: str, gpus: int, scaling: str) -> float | None:
    """Seconds on GPUs of one machine, or on one GPU each of as many nodes; ``None`` if it cannot be run so."""
    full = kind.full().grown(gpus) if scaling == "weak" else kind.full()
    if kind.scales == "up":
        machine, numbers, costs = load_machine(WITHIN), list(range(gpus)), None
    else:
        machine, costs = load_machine(f"{OVER}:{gpus}"), message_costs(OVER)
        numbers = sorted(set(node_of_gpus(machine)))[:gpus]
    try:
        return priced_run(kind, full, machine, numbers, WAYS[way], costs).seconds
    except UsageError:
        return None


def speedups(kind: type[Program], way: str, scaling: str) -> dict[int, float]:
    """Over one GPU, which is priced by NCCL, so that it sends nothing needless."""
    single = seconds(kind, "nccl", 1, "strong")
    assert single is not None
    found = {gpus: seconds(kind, way, gpus, scaling) for gpus in COUNTS}
    return {
        gpus: (gpus if scaling == "weak" else 1) * single / each for gpus, each in found.items() if each is not None
    }


def table(scales: str) -> str:
    kinds = [kind for kind in TARTAN.values() if kind.scales == scales]
    ways = ways_of(kinds[0])
    lines = [f"| speed-up on 8 | {' | '.join(ways)} |", "|---" * (len(ways) + 1) + "|"]
    for kind in kinds:
        cells = [speedups(kind, way, "strong").get(8) for way in ways]
        shown = " | ".join("–" if cell is None else f"{cell:.2g}" for cell in cells)
        lines.append(f"| `{kind.name}` | {shown} |")
    return "\n".join(lines) + "\n"


def rendered() -> str:
    """The page with its tables rendered anew."""
    within = f"One `{WITHIN}`, eight GPUs, strong scaling:\n\n{table('up')}"
    over = f"Eight nodes of `{OVER}`, one GPU a node, strong scaling:\n\n{table('out')}"
    return with_block(PAGE.read_text(encoding="utf-8"), Path(__file__).name, f"{within}\n{over}")


def draw(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for kind in TARTAN.values():
        panels = {}
        for scaling in ("strong", "weak"):
            if scaling == "weak" and not can_grow(kind.full()):
                continue
            curves = {way: speedups(kind, way, scaling) for way in ways_of(kind)}
            panels[f"{scaling} scaling"] = {way: (list(each), list(each.values())) for way, each in curves.items()}
        where = f"GPUs of a {WITHIN}" if kind.scales == "up" else f"nodes of {OVER}"
        title = f"{kind.name} ({kind.abbreviation})"
        curves_picture(panels, folder / f"{kind.name}.svg", title=title, x=where, y="speed-up over one GPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        sys.exit(int(rendered() != PAGE.read_text(encoding="utf-8")))
    PAGE.write_text(rendered(), encoding="utf-8")
    draw(PAGE.parent / "applications")


if __name__ == "__main__":
    main()
