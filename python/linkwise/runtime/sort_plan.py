"""Sort plans as values, which can be printed, changed, saved, and passed to sorts.

Fields that are ``None`` are left to the planner, and the others are pinned: see ``plan_fields``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Self

from linkwise import _core
from linkwise._core import UsageError
from linkwise.runtime.plan_fields import (
    ON_GPUS,
    On,
    Plan,
    PlanPath,
    flag,
    gpu_list,
    one_of,
    path_list,
    plan_field,
    set_fields,
    share,
    values_of,
    whole_number,
)  # fmt: skip

Strategy = Literal["radix", "p2p_merge", "het", "cpu"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SortPlan(Plan):
    """What a sort is to do; ``None`` leaves a field to the planner.

    Parameters
    ----------
    strategy
        ``"radix"`` (join25 §3.1), ``"p2p_merge"`` and ``"het"`` (sort22 §5), or ``"cpu"``.
    gpus
        In the order in which they hold the result; none for ``"cpu"``.
    chunkset_records
        Records that are sorted at once over all GPUs; 0: all. The sorted runs are merged (join25 §3.1.3).
    merge_on_gpus
        Merge these runs on the GPUs and not on the host; ``het`` merges on the host.
    streamed
        ``radix``: exchange while pieces arrive, and copy out while others are sorted; otherwise in steps.
    exchange
        ``radix`` in steps: ``"fused"``, where the partition kernel stores into peer memory, or ``"copies"``.
    splitting, samples
        ``radix``: splitters from ``"samples"`` (``samples`` in all) or from histograms (``"msb"``); or ``"buckets"``,
        as in join25 §3.1.2: partitioned by the leading bits, exchanged in whole buckets, and not streamed.
    slack
        ``radix``: spare room beyond an equal share, as a fraction of it; at least the sampling error is reserved.
    piece_bytes, buckets
        ``radix``, streamed: bytes that arrive at a GPU at once, or a sixteenth of its share if that is more; and the
        most buckets of its share, of which one is sorted while another is copied out.
    het_buffers, eager_merge
        ``het``: 2 or 3 buffers a GPU, and whether runs are merged while others are still sorted (sort22 §5.3).
    cpu_algorithm
        ``cpu``: ``"radix"``, ``"comparison"``, or, for keys without row numbers, ``"paradis"``, in place (sort22 §6).
    paths, relay_bytes
        Routes over other GPUs, as ``PlanPath``, and the bytes relayed at once.
    device_buckets
        ``radix`` of device-resident data: buckets of each GPU's share; more need less spare memory. 0: as few as fit.

    Raises
    ------
    UsageError
        Names the field whose value is invalid, or that the strategy does not have.

    """

    KIND = "sort"

    strategy: Strategy | None = plan_field(one_of("radix", "p2p_merge", "het", "cpu"))
    gpus: tuple[int, ...] | None = plan_field(gpu_list())
    chunkset_records: int | None = plan_field(whole_number(0), *ON_GPUS, data=("host",), short="records")
    merge_on_gpus: bool | None = plan_field(flag(), "radix", "p2p_merge", data=("host",))
    streamed: bool | None = plan_field(flag(), "radix", data=("host",))
    exchange: Literal["fused", "copies"] | None = plan_field(one_of("fused", "copies"), "radix", data=("host",))
    splitting: Literal["samples", "msb", "buckets"] | None = plan_field(
        one_of("samples", "msb", "buckets"), "radix", data=("host",)
    )
    samples: int | None = plan_field(whole_number(1, most=1 << 30), "radix")
    slack: float | None = plan_field(share(), "radix")
    piece_bytes: int | None = plan_field(whole_number(1 << 12, is_size=True), "radix", data=("host",))
    buckets: int | None = plan_field(whole_number(1, most=256), "radix", data=("host",))
    het_buffers: int | None = plan_field(whole_number(2, most=3), "het", data=("host",), short="buffers")
    eager_merge: bool | None = plan_field(flag(), "het", data=("host",), short="eager")
    cpu_algorithm: Literal["radix", "comparison", "paradis"] | None = plan_field(
        one_of("radix", "comparison", "paradis"), "cpu", data=("host",)
    )
    paths: tuple[PlanPath, ...] | None = plan_field(path_list(), *ON_GPUS)
    relay_bytes: int | None = plan_field(whole_number(1 << 12, is_size=True), *ON_GPUS)
    device_buckets: int | None = plan_field(whole_number(0, most=256), "radix", data=("gpus",))

    def __post_init__(self) -> None:
        self.check_values()
        owners = {name: self.field_infos()[name].of for name in self.pinned if self.field_infos()[name].of}
        if self.strategy is None:  # then the only one that has some pinned field
            object.__setattr__(self, "strategy", next((of[0] for of in owners.values() if len(of) == 1), None))
        if self.strategy is not None:
            self.check_strategy(self.strategy, "the plan's strategy")
        if self.gpus == () and self.strategy != "cpu":
            raise UsageError("gpus is empty; name at least one GPU, or leave gpus out")
        for name in _ONLY_STREAMED + _ONLY_IN_STEPS:
            self._check_streamed(name, streamed=name in _ONLY_STREAMED)
        if any(_is_between_gpus(path) for path in self.paths or ()):
            self._check_ways_between_gpus()

    def can_be(self, strategy: str) -> bool:
        """Whether this strategy, or ``"auto"``, has all pinned fields."""
        try:
            self.check_strategy(strategy, "it")
        except UsageError:
            return False
        return True

    def check_strategy(self, strategy: str, whose: str) -> None:
        """Raise ``UsageError`` if a field is pinned that this strategy does not have."""
        for name in self.pinned:
            of = self.field_infos()[name].of
            if of and strategy not in (*of, "auto"):
                raise UsageError(
                    f"{name} is of {_named(of)}, and {whose} is {strategy}; leave {name} out, or change the strategy"
                )
        if strategy == "cpu" and self.gpus:
            raise UsageError(f"gpus is {list(self.gpus)}, and the strategy cpu uses none; leave gpus out")

    def _check_ways_between_gpus(self) -> None:
        """Check routes between GPUs: with radix they require copies in steps, and het moves nothing between GPUs."""
        if self.strategy == "het":
            raise UsageError("paths has one between GPUs, and het moves nothing between them; leave it out")
        if self.strategy != "radix":
            return
        for name, value in (("streamed", True), ("exchange", "fused")):
            if getattr(self, name) == value:
                raise UsageError(
                    f"paths has one between GPUs, and {name} is {value}, by which kernels store to the peers; "
                    f"leave {name} out"
                )
        object.__setattr__(self, "streamed", False)

    def _check_streamed(self, name: str, *, streamed: bool) -> None:
        """Set ``streamed`` by a pinned field that only streamed sorts, or only sorts in steps, have."""
        if getattr(self, name) is None:
            return
        if self.streamed is (not streamed):
            kinds = ("streamed sorts", "streamed is False") if streamed else ("sorts in steps", "streamed is True")
            raise UsageError(f"{name} is of {kinds[0]}, and in this plan {kinds[1]}; leave {name} out")
        object.__setattr__(self, "streamed", streamed)

    def replace(self, **changes: Any) -> SortPlan:
        """The plan with other values; ``None`` leaves a field to the planner.

        Changing the strategy or ``streamed`` drops the fields that only the old one has; changing the GPUs drops the
        paths.
        """
        kept = self.pinned
        strategy = changes.get("strategy", self.strategy)
        if strategy != self.strategy:
            kept.pop("strategy", None)
            infos = self.field_infos()
            kept = {name: value for name, value in kept.items() if _has(infos[name].of, strategy)}
            if "cpu" in (strategy, self.strategy):
                kept.pop("gpus", None)
        if "streamed" in changes and changes["streamed"] is None:
            kept = {name: value for name, value in kept.items() if name not in _ONLY_STREAMED + _ONLY_IN_STEPS}
        if changes.get("gpus", self.gpus) != self.gpus and "paths" not in changes:
            kept.pop("paths", None)
        if changes.get("streamed") is False or changes.get("exchange") is not None:
            kept = {name: value for name, value in kept.items() if name not in ("streamed", *_ONLY_STREAMED)}
        if changes.get("streamed") is True or any(changes.get(name) is not None for name in _ONLY_STREAMED):
            kept = {name: value for name, value in kept.items() if name not in ("streamed", *_ONLY_IN_STEPS)}
        return SortPlan.from_dict({**kept, **changes})

    def to_core(self) -> _core.SortPlan:
        """The plan as a core plan; fields that are left to the planner have their defaults."""
        plan = _core.SortPlan()
        if self.strategy == "cpu":
            plan.gpus = []
        set_fields(plan, self.pinned)
        return plan

    @classmethod
    def of_core(cls, plan: _core.SortPlan, /, on: On = "host", *, without: Iterable[str] = (), **more: Any) -> Self:
        """The plan from a core plan for data at ``on``: every field that its strategy has, except ``without``."""
        left_out = (*without, *(_ONLY_IN_STEPS if plan.streamed else _ONLY_STREAMED))
        names = [
            name
            for name, info in cls.field_infos().items()
            if on in info.data and plan.strategy.name in (info.of or (plan.strategy.name,)) and name not in left_out
        ]
        return cls(**values_of(plan, names), **more)

    def beyond_in_core(self) -> dict[str, Any]:
        """The pinned fields that in-core joins cannot keep, since they sort all rows at once, streamed by radix."""
        done = {"strategy": "radix", "streamed": True, "splitting": "samples", "chunkset_records": 0}
        names = ("strategy", "streamed", *_ONLY_IN_STEPS, *NOT_IN_CORE)
        return {name: value for name, value in self.pinned.items() if name in names and value != done.get(name)}

    def check_for(self, on: On) -> None:
        """Raise ``UsageError`` if a pinned field does not apply to sorts of data at this place."""
        where = {"host": "data on the GPUs", "gpus": "data in host memory"}[on]
        if on == "gpus" and self.paths and self.strategy != "p2p_merge":
            raise UsageError("paths of data on the GPUs are for p2p_merge; leave paths out, or name it")
        for name in self.pinned:
            if on not in self.field_infos()[name].data:
                raise UsageError(f"{name} is for {where}; leave it out of the plan")
        if on == "gpus" and self.strategy in ("het", "cpu"):
            raise UsageError(f"strategy is {self.strategy}, which is for {where}; make it radix or p2p_merge")

    def __str__(self) -> str:
        if self.strategy is None or (self.gpus is None and self.strategy != "cpu"):
            return super().__str__()
        if self.strategy == "radix" and self.streamed is None:  # of device-resident data
            return f"radix of data on GPUs ({','.join(map(str, self.gpus or ()))})"
        return str(self.to_core())


def _named(of: tuple[str, ...]) -> str:
    return f"{', '.join(of[:-1])} and {of[-1]}" if len(of) > 1 else of[0]


def _has(of: tuple[str, ...], strategy: str | None) -> bool:
    """Whether a strategy is in ``of``; if it is left to the planner, whether more than one is. Empty is all."""
    return not of or (len(of) > 1 if strategy is None else strategy in of)


def _is_between_gpus(path: PlanPath) -> bool:
    return path.source.startswith("gpu") and path.target.startswith("gpu")


_ONLY_STREAMED = ("piece_bytes", "buckets")
_ONLY_IN_STEPS = ("exchange",)
NOT_IN_CORE = ("chunkset_records", "merge_on_gpus", "splitting", "buckets")
"""Fields of sorts that do not apply to in-core joins."""
