"""Described machines, from data files.

A description is a JSON file (see ``described/README.md``). Reading checks every field, because people write these files
by hand, and builds the plain ``Machine`` that the core works with.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from linkwise._core import Machine, UsageError
from linkwise.machines.description import machine_from_dict, parsed_json
from linkwise.machines.profile import check_profile
from linkwise.machines.variants import in_nodes, without_nvlink

_DESCRIBED = Path(__file__).with_name("described")


def described_machines() -> dict[str, str]:
    """Names of the machines that come with Linkwise, each with its one-line description."""
    found = {}
    for entry in _DESCRIBED.iterdir():
        if entry.name.endswith(".json"):
            description = json.loads(entry.read_text(encoding="utf-8"))
            found[description["name"]] = description["description"]
    return dict(sorted(found.items()))


def _read(name: str) -> Any:
    """The description of a machine that comes with Linkwise; with ``like``, it inherits another one's fields."""
    entry = _DESCRIBED / f"{name}.json"
    if len(name) > 99 or not entry.is_file():  # a name too long for a file
        known = ", ".join(described_machines())
        raise UsageError(f"there is no machine '{name}'; there are {known}, or give a .json file")
    description = json.loads(entry.read_text(encoding="utf-8"))
    return _read(description.pop("like")) | description if "like" in description else description


def load_machine(name_or_path: str | Path, *, without: str | None = None) -> Machine:
    """Load a machine that comes with Linkwise by its name, or a description from a ``.json`` file.

    Parameters
    ----------
    name_or_path
        ``"dgx-a100"``; ``"summit-node:8"`` for eight nodes of a machine with a network; or a path.
    without
        ``"nvlink"``: the GPUs reach each other over PCIe and the host's memory.

    Raises
    ------
    UsageError
        If there is no such machine or its description is wrong.

    """
    description = described(name_or_path)
    if isinstance(description, dict):  # `machine_from_dict` reports anything else
        nodes = 1 if str(name_or_path).endswith(".json") else _nodes_named(str(name_or_path))[1]
        description = in_nodes(description, nodes)
    machine = machine_from_dict(description, str(name_or_path))
    if without is not None:
        if without != "nvlink":
            raise UsageError(f"a machine can be priced without nvlink, not without '{without}'")
        machine = without_nvlink(machine)
    return machine


def described(name_or_path: str | Path) -> Any:
    """The description of one node of a machine, as it stands in its file. Raises ``UsageError``."""
    if not isinstance(name_or_path, (str, Path)):
        kind = type(name_or_path).__name__
        raise UsageError(f"a machine is its name, a file or a Machine, as a profile's .machine, not a {kind}")
    if str(name_or_path).endswith(".json"):
        return _described(parsed_json(Path(name_or_path), "machine"), str(name_or_path))
    return _read(_nodes_named(str(name_or_path))[0])


def _nodes_named(name: str) -> tuple[str, int]:
    """The name before the colon, and the number of nodes after it."""
    machine, _, nodes = name.partition(":")
    if ":" in name and re.fullmatch("[0-9]{1,3}", nodes) is None:
        raise UsageError(f"'{name}': after the colon comes the number of nodes, as {machine}:4")
    return machine, int(nodes or 1)


def _described(description: Any, where: str) -> Any:
    """The machine of a profile, if this is one; otherwise the description itself."""
    if not isinstance(description, dict) or "linkwise_profile" not in description:
        return description
    check_profile(description, where)
    return description["machine"]
