"""Tune an application's agent, granularity and number of threads once, and store the result beside the profile.

As proact21 (§III-A): a sweep on the application's own kernels; the result depends on the kernel and the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linkwise import _core
from linkwise._core import AgentPlan
from linkwise.apps.base import Application

DEFAULT_PLAN = AgentPlan()
"""Used without a tuned plan: polling, 64 KiB, 4096 threads; the best or nearly so for most kernels on H200s."""

AGENTS = ("bulk", "inline", "polling", "dynamic", "copy_engine")
"""The agents that a real machine has."""


@dataclass(frozen=True)
class Tuned:
    """Everything that was tried, the best first."""

    tried: list[tuple[AgentPlan, float]]

    @property
    def best(self) -> AgentPlan:
        """The plan to use."""
        return self.tried[0][0]

    def rows(self) -> list[dict[str, Any]]:
        """As ``--json`` prints it."""
        return [
            {
                "plan": str(plan), "agent": plan.agent.name, "chunk_bytes": plan.chunk_bytes,
                "threads": plan.threads, "seconds": seconds,
            }
            for plan, seconds in self.tried
        ]  # fmt: skip


def tune(seconds: Callable[[AgentPlan], float], agents: Sequence[str], *, exhaustive: bool = False) -> Tuned:
    """Try plans; ``seconds`` times the application under one.

    ``exhaustive``: the full sweep. Otherwise plans that can no longer win are skipped, at a loss of at most 2 %.
    """
    return Tuned(_core.tune_agents(list(agents), exhaustive, seconds))


def _key(app: Application, gpus: Sequence[int]) -> str:
    """What a tuned plan depends on: the kernel, its output size rounded to a power of two, and the GPUs."""
    return f"{app.name} of 2^{round(math.log2(app.elements))} on {','.join(map(str, gpus))}"


def keep(app: Application, gpus: Sequence[int], plan: AgentPlan) -> Path:
    """Store a plan for this machine; returns the file."""
    plans = _core.TunedPlans()
    plans.keep(_key(app, gpus), plan)
    return plans.file


def kept_plan(app: Application, gpus: Sequence[int]) -> AgentPlan:
    """The plan stored for an application on this machine, or the default."""
    return _core.TunedPlans().find(_key(app, gpus)) or DEFAULT_PLAN
