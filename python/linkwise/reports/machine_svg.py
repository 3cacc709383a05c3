"""A machine as a picture: sockets with memories, switches, GPUs, and links, drawn as wide as their bandwidth.

The SVG is written here, without a library; a report embeds it without any other file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from linkwise import _core
from linkwise._core import CapacityPoint, Machine, NodeKind

_TIERS = (
    (NodeKind.network,),
    (NodeKind.nic,),
    (NodeKind.memory,),
    (NodeKind.socket,),
    (NodeKind.pcie_switch,),
    (NodeKind.gpu,),
    (NodeKind.nvswitch,),
)

_COLOURS = {
    NodeKind.network: "#d9d9d9",
    NodeKind.nic: "#e8e8e8",
    NodeKind.memory: "#fde0c5",
    NodeKind.socket: "#f9c78b",
    NodeKind.pcie_switch: "#e5e0f4",
    NodeKind.gpu: "#c9e7c4",
    NodeKind.nvswitch: "#bfe0ef",
}

_CELL, _TIER, _BOX_WIDTH, _BOX_HEIGHT, _MARGIN = 96, 92, 78, 30, 20

_STYLE = (
    "<style>text{font:12px sans-serif;text-anchor:middle;fill:#222}.note{text-anchor:start}"
    ".rate{font-size:9px;fill:#444;paint-order:stroke;stroke:#fff;stroke-width:3px}</style>\n"
)

_GPU_LINKS = 100  # room below the GPUs for links among them

_NVLINK, _OTHER, _SHARED = "#3c9a5f", "#7a7a7a", "#d9730d"


def _width_of(gb_per_s: float) -> float:
    """Line width in pixels: 1 for 10 GB/s, 6 for 400."""
    return round(max(0.8, 0.3 * math.sqrt(gb_per_s)), 1)


def shared_links(machine: Machine) -> dict[int, list[int]]:
    """Links between GPUs and their host memory that are slower than these GPUs' own links together.

    Returns the link's place among the machine's links, and the GPUs' numbers.
    """
    memories = sum(node.kind == NodeKind.memory for node in machine.nodes)
    users: dict[int, list[int]] = {}
    own: list[float] = []
    for gpu in range(machine.num_gpus):
        way = min((_core.route_links(machine, gpu, -1 - memory) for memory in range(memories)), key=len, default=[])
        own.append(_rate(machine.links[way[0]]) if way else 0.0)
        for place in way:
            users.setdefault(place, []).append(gpu)
    return {
        place: numbers
        for place, numbers in sorted(users.items())
        if len(numbers) > 1 and _rate(machine.links[place]) < 0.99 * sum(own[number] for number in numbers)
    }


def _rate(link: _core.Link) -> float:
    return max(link.forward[0].gb_per_s, link.backward[0].gb_per_s)


class _Drawing:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.shared = shared_links(machine)
        self.neighbours: dict[int, list[int]] = {}
        for link in machine.links:
            self.neighbours.setdefault(link.a, []).append(link.b)
            self.neighbours.setdefault(link.b, []).append(link.a)
        self.place: dict[int, tuple[float, float]] = {}
        self.parts: list[str] = []
        self.width = self.height = 0.0

    def lay_out(self) -> None:
        """GPUs side by side, and everything else in the middle of what it is linked to, tier by tier."""
        kinds = [node.kind for node in self.machine.nodes]
        gpus = [index for index, kind in enumerate(kinds) if kind == NodeKind.gpu]
        self.width = len(gpus) * _CELL + 2 * _MARGIN
        present = [tier for tier in _TIERS if any(kind in tier for kind in kinds)]
        level = {kind: row for row, tier in enumerate(present) for kind in tier}
        for column, index in enumerate(gpus):
            self.place[index] = (_MARGIN + (column + 0.5) * _CELL, _MARGIN + (level[NodeKind.gpu] + 0.5) * _TIER)
        order = [NodeKind.pcie_switch, NodeKind.nvswitch, NodeKind.socket, NodeKind.memory, NodeKind.nic]
        for kind in [*order, NodeKind.network]:
            # Switches may be linked to switches only: place those with placed neighbours first.
            todo = [index for index, found in enumerate(kinds) if found == kind]
            while todo:
                near = [index for index in todo if any(n in self.place for n in self.neighbours.get(index, []))]
                for index in near or todo:
                    self._put(index, _MARGIN + (level[kind] + 0.5) * _TIER)
                todo = [index for index in todo if index not in (near or todo)]
        self.height = len(present) * _TIER + 2 * _MARGIN
        if self._joined_gpus():
            self.height += _GPU_LINKS

    def _put(self, index: int, y: float) -> None:
        kind = self.machine.nodes[index].kind
        near = [n for n in self.neighbours.get(index, []) if n in self.place]
        # A socket is centred above its own devices; its links to other sockets do not count.
        around = [self.place[n][0] for n in near if kind != NodeKind.socket or self.machine.nodes[n].kind != kind]
        x = sum(around) / len(around) if around else self.width / 2
        taken = sorted(px for other, (px, py) in self.place.items() if py == y and other != index)
        if kind == NodeKind.pcie_switch:  # a switch above switches
            below = [self.place[n][1] for n in near if self.machine.nodes[n].kind == kind]
            y = min(below) - _BOX_HEIGHT - 14 if below else y
        while any(abs(x - other) < _BOX_WIDTH + 8 for other in taken) and kind != NodeKind.pcie_switch:
            x += 12
        self.place[index] = (x, y)

    def _joined_gpus(self) -> list[_core.Link]:
        nodes = self.machine.nodes
        return [
            link
            for link in self.machine.links
            if nodes[link.a].kind == NodeKind.gpu and nodes[link.b].kind == NodeKind.gpu
        ]

    def draw_links(self) -> None:
        arcs = {link.name for link in self._joined_gpus()}
        for number, link in enumerate(self.machine.links):
            (ax, ay), (bx, by) = self.place[link.a], self.place[link.b]
            forward, backward = link.forward[0].gb_per_s, link.backward[0].gb_per_s
            told = list(dict.fromkeys((f"{forward:.3g}", f"{backward:.3g}")))
            rate = " / ".join(told)
            nominal = f", nominally {link.nominal_gb_per_s:g}" if link.nominal_gb_per_s else ""
            both = f", both ways {link.duplex[0].gb_per_s:.3g}" if link.duplex else ""
            title = f"{link.name}, {link.kind}: {rate} GB/s{both}{nominal}"
            if link.name in arcs:
                depth = min(30 + abs(bx - ax) * 0.17, 2 * _GPU_LINKS - 60)
                curve = f"C{ax:.0f} {ay + depth:.0f} {bx:.0f} {by + depth:.0f} {bx:.0f} {by + 15:.0f}"
                path = f"M{ax:.0f} {ay + 15:.0f} {curve}"
                x, y = (ax + bx) / 2, ay + 0.75 * depth + 6
            else:
                path = f"M{ax:.0f} {ay:.0f} L{bx:.0f} {by:.0f}"
                # Put the label nearer to the end where fewer lines meet.
                a_is_hub = len(self.neighbours[link.a]) > len(self.neighbours[link.b])
                t = 0.5 if ay == by else 0.62 if a_is_hub else 0.38
                x, y = ax + t * (bx - ax), ay + t * (by - ay) - 3
            colour = _NVLINK if link.kind.startswith("nv") else _OTHER
            if number in self.shared:
                colour = _SHARED
                title += f"; shared by GPUs {', '.join(map(str, self.shared[number]))}, whose own links carry more"
                rate += f" for {len(self.shared[number])} GPUs"
            self.parts.append(
                f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{_width_of(_rate(link))}">'
                f"<title>{escape(title)}</title></path>"
                f'<text x="{x:.0f}" y="{y:.0f}" class="rate">{escape(rate)}</text>'
            )

    def draw_nodes(self) -> None:
        for index, node in enumerate(self.machine.nodes):
            x, y = self.place[index]
            self.parts.append(
                f'<rect x="{x - _BOX_WIDTH / 2:.0f}" y="{y - _BOX_HEIGHT / 2:.0f}" width="{_BOX_WIDTH}" '
                f'height="{_BOX_HEIGHT}" rx="5" fill="{_COLOURS[node.kind]}" stroke="#555"/>'
                f'<text x="{x:.0f}" y="{y + 4:.0f}">{escape(node.name)}</text>'
            )

    def text(self) -> str:
        constraints: Sequence[str] = [
            f"{constraint.name}: {_capacity_told(constraint.capacity)}" for constraint in self.machine.constraints
        ]
        lines = [f"{self.machine.name}: {self.machine.description}", *constraints[:12]]
        if self.shared:
            lines.insert(
                1, "Orange: links to host memory that several GPUs share, and which carry less than these GPUs can."
            )
        if len(constraints) > 12:
            lines.append(f"and {len(constraints) - 12} constraints more")
        bottom = self.height
        for row, line in enumerate(lines):
            self.parts.append(f'<text x="{_MARGIN}" y="{bottom + 16 * row:.0f}" class="note">{escape(line)}</text>')
        height = bottom + 16 * len(lines) + _MARGIN
        width = max(self.width, max(len(line) for line in lines) * 6.3 + 2 * _MARGIN)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" role="img">\n<title>{escape(self.machine.name)}</title>\n'
            + _STYLE
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def _capacity_told(points: Sequence[CapacityPoint]) -> str:
    """The rate of one flow, and that of all."""
    first, last = points[0], points[-1]
    told = f"{first.gb_per_s:.3g} GB/s"
    return told if len(points) == 1 else f"{told} at {first.flows} flows … {last.gb_per_s:.3g} at {last.flows}"


def machine_svg(machine: Machine) -> str:
    """The machine as one SVG element; links have titles that say all that is known of them."""
    drawing = _Drawing(machine)
    drawing.lay_out()
    drawing.draw_links()
    drawing.draw_nodes()
    return drawing.text()
