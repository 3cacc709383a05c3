"""Plans as values: what a sort or a join is to do. They can be printed, changed, saved, and handed in.

Fields that are ``None`` are left to the planner, and the others are kept: see ``plan_fields``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        ``radix`` in steps: ``"fused"``, the partition kernel stores into the peers, or ``"copies"``.
    splitting, samples
        ``radix``: splitters from ``"samples"``, so many in all, or from histograms, ``"msb"`` (join25 §3.1.2).
    slack
        ``radix``: room beyond an equal share, as a fraction of it.
    piece_bytes, buckets
        ``radix``, streamed: what arrives at a GPU at once, and parts of its share of which one is sorted while another
        leaves; both at most.
    het_buffers, eager_merge
        ``het``: 2 or 3 buffers a GPU, and whether runs are merged while others are still sorted (sort22 §5.3).
    cpu_algorithm
        ``cpu``: ``"radix"`` or ``"comparison"``.
    paths, relay_bytes
        Ways over other GPUs, as ``PlanPath``, and what is relayed at once.
    device_buckets
        ``radix`` of data on the GPUs: parts of each GPU's share; the more, the less spare memory. 0: as few as fit.

    Raises
    ------
    UsageError
        That names the field which has no such value, or which the strategy does not have.

    """

    KIND = "sort"

    strategy: Strategy | None = plan_field(one_of("radix", "p2p_merge", "het", "cpu"))
    gpus: tuple[int, ...] | None = plan_field(gpu_list())
    chunkset_records: int | None = plan_field(whole_number(0), *ON_GPUS, data=("host",), short="records")
    merge_on_gpus: bool | None = plan_field(flag(), "radix", "p2p_merge", data=("host",))
    streamed: bool | None = plan_field(flag(), "radix", data=("host",))
    exchange: Literal["fused", "copies"] | None = plan_field(one_of("fused", "copies"), "radix", data=("host",))
    splitting: Literal["samples", "msb"] | None = plan_field(one_of("samples", "msb"), "radix", data=("host",))
    samples: int | None = plan_field(whole_number(1, most=1 << 30), "radix")
    slack: float | None = plan_field(share(), "radix")
    piece_bytes: int | None = plan_field(whole_number(1 << 12), "radix", data=("host",))
    buckets: int | None = plan_field(whole_number(1, most=256), "radix", data=("host",))
    het_buffers: int | None = plan_field(whole_number(2, most=3), "het", data=("host",), short="buffers")
    eager_merge: bool | None = plan_field(flag(), "het", data=("host",), short="eager")
    cpu_algorithm: Literal["radix", "comparison"] | None = plan_field(
        one_of("radix", "comparison"), "cpu", data=("host",)
    )
    paths: tuple[PlanPath, ...] | None = plan_field(path_list(), *ON_GPUS)
    relay_bytes: int | None = plan_field(whole_number(1 << 12), *ON_GPUS)
    device_buckets: int | None = plan_field(whole_number(0, most=256), "radix", data=("gpus",))

    def __post_init__(self) -> None:
        self.check_values()
        owners = {name: self.field_infos()[name].of for name in self.pinned if self.field_infos()[name].of}
        if self.strategy is None:  # then the one that alone has some field
            object.__setattr__(self, "strategy", next((of[0] for of in owners.values() if len(of) == 1), None))
        for name, of in owners.items():
            if self.strategy is not None and self.strategy not in of:
                raise UsageError(
                    f"{name} is of {' and '.join(of)}, and the plan's strategy is {self.strategy}; leave {name} out, "
                    "or change the strategy"
                )
        if self.strategy == "cpu" and self.gpus:
            raise UsageError(f"gpus is {list(self.gpus)}, and the strategy cpu uses none; leave gpus out")
        for name in _ONLY_STREAMED + _ONLY_IN_STEPS:
            self._check_streamed(name, streamed=name in _ONLY_STREAMED)

    def _check_streamed(self, name: str, *, streamed: bool) -> None:
        """A field that only sorts which stream have, or only those in steps, says which the plan is."""
        if getattr(self, name) is None:
            return
        if self.streamed is (not streamed):
            kinds = ("streamed sorts", "streamed is False") if streamed else ("sorts in steps", "streamed is True")
            raise UsageError(f"{name} is of {kinds[0]}, and in this plan {kinds[1]}; leave {name} out")
        object.__setattr__(self, "streamed", streamed)

    def replace(self, **changes: Any) -> SortPlan:
        """The plan with other values; ``None`` leaves a field to the planner.

        Another strategy, or another way of streaming, leaves the fields out that only the old one has.
        """
        kept = self.pinned
        strategy = changes.get("strategy") or self.strategy
        if strategy != self.strategy:
            infos = self.field_infos()
            kept = {name: value for name, value in kept.items() if not infos[name].of or strategy in infos[name].of}
            if "cpu" in (strategy, self.strategy):
                kept.pop("gpus", None)
        if changes.get("streamed") is False or changes.get("exchange") is not None:
            kept = {name: value for name, value in kept.items() if name not in ("streamed", *_ONLY_STREAMED)}
        if changes.get("streamed") is True or any(changes.get(name) is not None for name in _ONLY_STREAMED):
            kept = {name: value for name, value in kept.items() if name not in ("streamed", *_ONLY_IN_STEPS)}
        return SortPlan.from_dict({**kept, **changes})

    def to_core(self) -> _core.SortPlan:
        """As the core has it; what is left to the planner has its default."""
        plan = _core.SortPlan()
        if self.strategy == "cpu":
            plan.gpus = []
        set_fields(plan, self.pinned)
        return plan

    @classmethod
    def of_core(cls, plan: _core.SortPlan, on: On = "host", **more: Any) -> Self:
        """A plan of the core for data that lies there: every field that its strategy has."""
        left_out = _ONLY_IN_STEPS if plan.streamed else _ONLY_STREAMED
        names = [
            name
            for name, info in cls.field_infos().items()
            if on in info.data and plan.strategy.name in (info.of or (plan.strategy.name,)) and name not in left_out
        ]
        return cls(**values_of(plan, names), **more)

    def check_for(self, on: On) -> None:
        """Raise ``UsageError`` if a pinned field is not of sorts of data that lies there."""
        where = {"host": "data on the GPUs", "gpus": "data in host memory"}[on]
        for name in self.pinned:
            if on not in self.field_infos()[name].data:
                raise UsageError(f"{name} is for {where}; leave it out of the plan")
        if on == "gpus" and self.strategy in ("het", "cpu"):
            raise UsageError(f"strategy is {self.strategy}, which is for {where}; make it radix or p2p_merge")

    def __str__(self) -> str:
        if self.strategy is None or (self.gpus is None and self.strategy != "cpu"):
            return super().__str__()
        if self.strategy == "radix" and self.streamed is None:  # of data that lies on the GPUs
            return f"radix on GPUs ({','.join(map(str, self.gpus or ()))})"
        return str(self.to_core())


_ONLY_STREAMED = ("piece_bytes", "buckets")
_ONLY_IN_STEPS = ("exchange",)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JoinPlan(Plan):
    """What a join on the GPUs is to do; ``None`` leaves a field to the planner.

    Parameters
    ----------
    path
        ``"in_core"``: both sides on the GPUs at once; ``"sorted"``: sorted in host memory and joined there pair by pair
        (join25 §3.2, §3.3).
    sort
        Of how both sides are sorted: its GPUs, pieces, samples, slack, paths, and records at once. Where keys are too
        wide for the GPUs to join, this is the plan by which they are sorted.
    batches
        ``in_core``, where rows are only counted: parts in which the probing side passes.
    merges_runs
        ``sorted``: each side becomes one run first.
    searches_each_key
        ``sorted``: ranges are found by a search for each key, and not by merging.
    pair_bytes
        ``sorted``: keys and values that a GPU joins at once, at most.
    window_rows
        Rows of the result that a GPU makes at once.

    Raises
    ------
    UsageError
        That names the field which has no such value, or which the path does not have.

    """

    KIND = "join"

    path: Literal["in_core", "sorted"] | None = plan_field(one_of("in_core", "sorted"))
    sort: SortPlan | None = None
    batches: int | None = plan_field(whole_number(1, most=512), "in_core")
    merges_runs: bool | None = plan_field(flag(), "sorted")
    searches_each_key: bool | None = plan_field(flag(), "sorted")
    pair_bytes: int | None = plan_field(whole_number(1 << 12), "sorted")
    window_rows: int | None = plan_field(whole_number(1))

    def __post_init__(self) -> None:
        self.check_values()
        if isinstance(self.sort, Mapping):
            object.__setattr__(self, "sort", SortPlan.from_dict(self.sort))
        if not isinstance(self.sort, SortPlan | None):
            raise UsageError(f"sort is {self.sort!r}; it is a SortPlan")
        for name in self.pinned:
            of = self.field_infos()[name].of
            if self.path is None and of:
                object.__setattr__(self, "path", of[0])
            if of and self.path not in of:
                raise UsageError(f"{name} is of the path {of[0]}, and the plan's is {self.path}; leave {name} out")

    @property
    def gpus(self) -> tuple[int, ...] | None:
        """Of the sort."""
        return None if self.sort is None else self.sort.gpus

    @property
    def strategy(self) -> Strategy | None:
        """Of the sort."""
        return None if self.sort is None else self.sort.strategy

    def as_dict(self) -> dict[str, Any]:
        """The pinned fields as plain values, as JSON has them; those of the sort in an object of their own."""
        return super().as_dict() | ({} if self.sort is None else {"sort": self.sort.as_dict()})

    def __repr__(self) -> str:
        of_sort = "" if self.sort is None else f"{', ' if self.pinned else ''}sort={self.sort!r}"
        return f"{super().__repr__()[:-1]}{of_sort})"

    def __hash__(self) -> int:
        return hash((super().__hash__(), self.sort))

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """The plan whose ``as_dict`` this is. Raises ``UsageError`` for what is no field."""
        own = super().from_dict({name: value for name, value in told.items() if name != "sort"})
        return cls(**own.pinned, sort=told.get("sort"))

    @classmethod
    def from_words(cls, words: Iterable[str]) -> Self:
        """See ``parse``. What no join has but a sort, as ``gpus=0+1``, is of the sort."""
        own, of_sort = {}, []
        for word in words:
            found = cls.parsed_word(word.strip())
            if found is None:
                of_sort.append(word)
            else:
                own[found[0]] = found[1]
        return cls(**own, sort=SortPlan.from_words(of_sort) if of_sort else None)

    def replace(self, **changes: Any) -> JoinPlan:
        """The plan with other values; ``None`` leaves a field to the planner.

        Another path leaves the fields out that only the old one has.
        """
        path = changes.get("path") or self.path
        infos = self.field_infos()
        kept = {name: value for name, value in self.pinned.items() if not infos[name].of or path in infos[name].of}
        return JoinPlan.from_dict({**kept, "sort": self.sort, **changes})

    def to_core(self) -> _core.JoinPlan:
        """As the core has it; what is left to the planner has its default."""
        plan = _core.JoinPlan()
        set_fields(plan, self.pinned)
        if self.sort is not None:
            plan.sort = self.sort.to_core()
        return plan

    @classmethod
    def of_core(cls, plan: _core.JoinPlan, **more: Any) -> Self:
        """A plan of the core: every field that its path has."""
        path = plan.path.name
        names = [name for name, info in cls.field_infos().items() if path in (info.of or (path,))]
        return cls(**values_of(plan, names), sort=SortPlan.of_core(plan.sort), **more)

    def __str__(self) -> str:
        return super().__str__() if self.path is None or self.gpus is None else str(self.to_core())
