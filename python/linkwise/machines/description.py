"""Descriptions of machines: read from parsed JSON, every field checked, and written again."""

from __future__ import annotations

import copyreg
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from linkwise import _core
from linkwise._core import Machine, UsageError

_MOST_NODES = 4096  # GPUs, memories, copy engines: more is a mistake

_NODE_KINDS = {
    "sockets": _core.NodeKind.socket,
    "memories": _core.NodeKind.memory,
    "pcie_switches": _core.NodeKind.pcie_switch,
    "gpus": _core.NodeKind.gpu,
    "nvswitches": _core.NodeKind.nvswitch,
    "nics": _core.NodeKind.nic,
    "networks": _core.NodeKind.network,
}
_TRAFFIC = {
    "host_to_device": _core.Traffic.host_to_device,
    "device_to_host": _core.Traffic.device_to_host,
    "peer": _core.Traffic.peer,
}

_MOST = 1e12
_MOST_GIB = 1e7  # of memory: 10,000 times the largest machine

AGENT_COSTS = (
    "inline_stall", "memory_share", "tracking_ns", "polling_us", "polling_share", "polling_goodput", "dynamic_us",
    "dynamic_share", "copy_engine_us", "saturating_threads",
)  # fmt: skip
"""The cost parameters of agents; see described/README.md."""


def plain_number(value: Any, what: str) -> float:
    """A number from 0 to 10^12, more than any machine has of anything. Raises ``UsageError``."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise UsageError(f"{what} is a number, not {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 <= number <= _MOST:
        raise UsageError(f"{what} is {number:g}; it must be finite, not negative, and at most {_MOST:g}")
    return number


class _Fields:
    """A JSON object that knows its location, for messages, and which of its fields have not been read."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise UsageError(f"{where}: expected an object, found {type(value).__name__}")
        self._values: Mapping[str, Any] = value
        self._used: set[str] = set()
        self.where = where

    def get(self, name: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        self._used.add(name)
        if name not in self._values:
            if default is ...:
                raise UsageError(f"{self.where}: '{name}' is missing")
            return default
        value = self._values[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise UsageError(f"{self.where}: '{name}' has the wrong type, {type(value).__name__}")
        return value

    def number(self, name: str, default: Any = ...) -> float:
        return plain_number(self.get(name, (int, float), default), f"{self.where}: '{name}'")

    def end(self) -> None:
        unknown = set(self._values) - self._used
        if unknown:
            raise UsageError(f"{self.where}: unknown field '{min(unknown)}'")


_MOST_INT = (1 << 31) - 1


def _small(text: str) -> int:
    """A whole number from 1 to 2^31 - 1. Raises ``ValueError``."""
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(_MOST_INT)) or not 0 < int(text) <= _MOST_INT:
        raise ValueError
    return int(text)


def _capacity(value: Any, where: str) -> list[_core.CapacityPoint]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return [_core.CapacityPoint(1, plain_number(value, f"{where}: a capacity"))]
    if isinstance(value, dict) and value:
        try:
            points = sorted(
                (_small(flows), plain_number(gb_per_s, f"{where}: a capacity")) for flows, gb_per_s in value.items()
            )
        except ValueError:
            points = []
        if points:
            return [_core.CapacityPoint(flows, gb_per_s) for flows, gb_per_s in points]
    raise UsageError(f"{where}: a capacity is a number of GB/s, or GB/s by number of flows")


def _links(fields: _Fields, node_index: Mapping[str, int]) -> Iterable[_core.Link]:
    kind = fields.get("kind", str)
    both = fields.get("gb_per_s", (int, float, dict))
    directed = isinstance(both, dict) and set(both) == {"forward", "backward"}
    pairs = fields.get("between", list)
    duplex = fields.get("duplex_gb_per_s", (int, float, dict), None)
    latency_us = fields.number("latency_us", 0)
    nominal = fields.number("nominal_gb_per_s", 0)
    fields.end()
    for pair in pairs:
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or any(not isinstance(n, str) or n not in node_index for n in pair)
        ):
            raise UsageError(f"{fields.where}: 'between' holds pairs of nodes, not {pair}")
        link = _core.Link()
        link.name = f"{pair[0]}-{pair[1]}"
        link.kind = kind
        link.a, link.b = node_index[pair[0]], node_index[pair[1]]
        link.forward = _capacity(both["forward"] if directed else both, fields.where)
        link.backward = _capacity(both["backward"] if directed else both, fields.where)
        link.duplex = [] if duplex is None else _capacity(duplex, fields.where)
        link.latency_us = latency_us
        link.nominal_gb_per_s = nominal
        yield link


def _places(fields: _Fields, name: str) -> list[int]:
    places = fields.get(name, list, [])
    if any(not isinstance(place, int) or not 0 <= place < _MOST_NODES for place in places):
        raise UsageError(f"{fields.where}: '{name}' holds the numbers of GPUs or memories, not {places}")
    return list(places)


def _constraint(fields: _Fields) -> _core.Constraint:
    constraint = _core.Constraint()
    constraint.name = fields.get("name", str)
    constraint.capacity = _capacity(fields.get("gb_per_s", (int, float, dict)), fields.where)
    terms = []
    for index, raw in enumerate(fields.get("terms", list)):
        entry = _Fields(raw, f"{fields.where}, term {index}")
        term = _core.Term()
        traffic = entry.get("traffic", str)
        if traffic not in _TRAFFIC:
            raise UsageError(f"{entry.where}: traffic is one of {', '.join(_TRAFFIC)}")
        term.traffic = _TRAFFIC[traffic]
        term.source = _places(entry, "from")
        term.target = _places(entry, "to")
        term.weight = entry.number("weight", 1)
        entry.end()
        terms.append(term)
    constraint.terms = terms
    fields.end()
    return constraint


def _processor(fields: _Fields) -> _core.Processor:
    processor = _core.Processor()
    processor.name = fields.get("name", str)
    processor.memory_gib = fields.number("memory_gib")
    if processor.memory_gib > _MOST_GIB:
        raise UsageError(f"{fields.where}: 'memory_gib' is {processor.memory_gib:g}; no memory has so many")
    processor.local_copy_gb_per_s = fields.number("local_copy_gb_per_s")
    rates = {}
    for name, values in fields.get("rates", dict).items():
        if not isinstance(values, list) or len(values) != 3:
            raise UsageError(f"{fields.where}: rate '{name}' is [fixed_us, ps_per_record, ps_per_byte]")
        rates[name] = _core.Rate(*(plain_number(value, f"{fields.where}: rate '{name}'") for value in values))
    processor.rates = rates
    fields.end()
    return processor


def _small_accesses(machine: Machine, fields: _Fields) -> None:
    """Read what is no copy between linked places: zero-copy, agents, stores, and peers staged through host memory."""
    machine.staged_peers = fields.get("staged_peers", bool, False)
    machine.staged_peer_gb_per_s = fields.number("staged_peer_gb_per_s", 0)
    zero_copy = _Fields(fields.get("zero_copy_gb_per_s", dict, {}), f"{fields.where}, zero_copy_gb_per_s")
    machine.zero_copy_read_gb_per_s = zero_copy.number("read", 0)
    machine.zero_copy_write_gb_per_s = zero_copy.number("write", 0)
    zero_copy.end()
    agents = _Fields(fields.get("agents", dict, {}), f"{fields.where}, agents")
    for name in AGENT_COSTS:
        kind = type(getattr(machine.agents, name))
        number = agents.number(name, getattr(machine.agents, name))
        if kind is int and number > _MOST_INT:
            raise UsageError(f"{agents.where}: '{name}' is {number}; that is more than a GPU has")
        setattr(machine.agents, name, kind(number))
    agents.end()
    goodput = fields.get("store_goodput", dict, {})
    try:
        machine.store_goodput = {
            _small(size): plain_number(fraction, f"{fields.where}: store_goodput") for size, fraction in goodput.items()
        }
    except ValueError:
        raise UsageError(f"{fields.where}: store_goodput is a fraction, by the bytes of a store") from None


def _engines(fields: _Fields, name: str) -> int:
    engines = fields.get(name, int, 1)
    if not 1 <= engines <= _MOST_NODES:
        raise UsageError(f"{fields.where}: '{name}' is {engines}; there is at least one copy at once")
    return int(engines)


def machine_from_dict(description: Any, where: str = "machine") -> Machine:
    """Build a machine from a parsed description.

    Raises ``UsageError`` that names the field which is missing, unknown or wrong.
    """
    try:
        json.dumps(description, ensure_ascii=False, default=str).encode()
    except (UnicodeEncodeError, ValueError):
        raise UsageError(f"{where}: some of its text is no Unicode, or it contains itself") from None
    fields = _Fields(description, where)
    machine = Machine()
    machine.name = fields.get("name", str)
    machine.description = fields.get("description", str, "")
    machine.source = fields.get("source", str, "")
    nodes: list[_core.Node] = []
    node_index: dict[str, int] = {}
    node_fields = _Fields(fields.get("nodes", dict), f"{where}, nodes")
    for plural, kind in _NODE_KINDS.items():
        for name in node_fields.get(plural, list, []):
            if not isinstance(name, str):
                raise UsageError(f"{where}: the name of a node is text, not {name!r}")
            if name in node_index:
                raise UsageError(f"{where}: two nodes are named '{name}'")
            node = _core.Node()
            node.name, node.kind = name, kind
            node_index[node.name] = len(nodes)
            nodes.append(node)
    node_fields.end()
    machine.nodes = nodes
    machine.links = [
        link
        for index, raw in enumerate(fields.get("links", list))
        for link in _links(_Fields(raw, f"{where}, link {index}"), node_index)
    ]
    machine.constraints = [
        _constraint(_Fields(raw, f"{where}, constraint {index}"))
        for index, raw in enumerate(fields.get("constraints", list, []))
    ]
    machine.gpu = _processor(_Fields(fields.get("gpu", dict), f"{where}, gpu"))
    machine.host = _processor(_Fields(fields.get("host", dict), f"{where}, host"))
    engines = _Fields(fields.get("copy_engines", dict, {}), f"{where}, copy_engines")
    machine.copy_engines.host_to_device = _engines(engines, "host_to_device")
    machine.copy_engines.device_to_host = _engines(engines, "device_to_host")
    machine.copy_engines.peer = _engines(engines, "peer")
    engines.end()
    startup = _Fields(fields.get("copy_startup_us", dict, {}), f"{where}, copy_startup_us")
    machine.copy_startup.host_to_device_us = startup.number("host_to_device", 0)
    machine.copy_startup.device_to_host_us = startup.number("device_to_host", 0)
    machine.copy_startup.peer_us = startup.number("peer", 0)
    machine.copy_startup.local_us = startup.number("local", 0)
    startup.end()
    machine.pageable_gb_per_s = fields.number("pageable_gb_per_s", 0)
    _small_accesses(machine, fields)
    fields.get("cluster", dict, {})  # see cluster_rates.py
    fields.get("host_copies", dict, {})  # see host_copies.py
    fields.end()
    machine.validate()
    return machine


def parsed_json(path: Path, what: str) -> Any:
    """Parse a JSON file strictly: NaN and infinities, which Python accepts, are refused. Raises ``UsageError``."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no number")

    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    except OSError as error:
        raise UsageError(f"cannot read the {what} {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None


def _capacity_as_json(points: list[_core.CapacityPoint]) -> float | dict[str, float]:
    if len(points) == 1:
        return points[0].gb_per_s
    return {str(point.flows): point.gb_per_s for point in points}


def _processor_as_json(processor: _core.Processor) -> dict[str, Any]:
    return {
        "name": processor.name,
        "memory_gib": processor.memory_gib,
        "local_copy_gb_per_s": processor.local_copy_gb_per_s,
        "rates": {
            name: [rate.fixed_us, rate.ps_per_record, rate.ps_per_byte] for name, rate in processor.rates.items()
        },
    }


def machine_to_dict(machine: Machine) -> dict[str, Any]:
    """The description from which ``machine_from_dict`` builds the same machine again."""
    plurals = {kind: plural for plural, kind in _NODE_KINDS.items()}
    nodes: dict[str, list[str]] = {}
    for node in machine.nodes:
        nodes.setdefault(plurals[node.kind], []).append(node.name)
    links = [
        {
            "kind": link.kind,
            "between": [[machine.nodes[link.a].name, machine.nodes[link.b].name]],
            "gb_per_s": {"forward": _capacity_as_json(link.forward), "backward": _capacity_as_json(link.backward)},
            **({"duplex_gb_per_s": _capacity_as_json(link.duplex)} if link.duplex else {}),
            "latency_us": link.latency_us,
            "nominal_gb_per_s": link.nominal_gb_per_s,
        }
        for link in machine.links
    ]
    constraints = [
        {
            "name": constraint.name,
            "gb_per_s": _capacity_as_json(constraint.capacity),
            "terms": [
                {"traffic": term.traffic.name, "from": term.source, "to": term.target, "weight": term.weight}
                for term in constraint.terms
            ],
        }
        for constraint in machine.constraints
    ]
    engines, startup = machine.copy_engines, machine.copy_startup
    return {
        "name": machine.name,
        "description": machine.description,
        "source": machine.source,
        "nodes": nodes,
        "links": links,
        "constraints": constraints,
        "copy_engines": {
            "host_to_device": engines.host_to_device,
            "device_to_host": engines.device_to_host,
            "peer": engines.peer,
        },
        "copy_startup_us": {
            "host_to_device": startup.host_to_device_us,
            "device_to_host": startup.device_to_host_us,
            "peer": startup.peer_us,
            "local": startup.local_us,
        },
        "pageable_gb_per_s": machine.pageable_gb_per_s,
        "staged_peers": machine.staged_peers,
        "staged_peer_gb_per_s": machine.staged_peer_gb_per_s,
        "zero_copy_gb_per_s": {"read": machine.zero_copy_read_gb_per_s, "write": machine.zero_copy_write_gb_per_s},
        "agents": {name: getattr(machine.agents, name) for name in AGENT_COSTS},
        "store_goodput": {str(size): fraction for size, fraction in machine.store_goodput.items()},
        "gpu": _processor_as_json(machine.gpu),
        "host": _processor_as_json(machine.host),
    }


def _as_state(machine: Machine) -> tuple[Any, ...]:
    return (machine_from_dict, (machine_to_dict(machine),)) if machine.num_gpus else (_without_gpus, (machine.name,))


def _without_gpus(name: str) -> Machine:
    """A machine without GPUs, which stands for the CPU in a report."""
    machine = Machine()
    machine.name = name
    return machine


copyreg.pickle(Machine, _as_state)  # so that machines, profiles and reports can be copied and sent to other processes
