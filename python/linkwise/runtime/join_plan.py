"""Plans of joins on the GPUs as values; see ``sort_plan``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from linkwise import _core
from linkwise._core import UsageError
from linkwise.runtime.plan_fields import Plan, add_once, flag, one_of, plan_field, set_fields, values_of, whole_number
from linkwise.runtime.sort_plan import NOT_IN_CORE, SortPlan, Strategy


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JoinPlan(Plan):
    """What a join on the GPUs is to do; ``None`` leaves a field to the planner.

    Parameters
    ----------
    path
        ``"in_core"``: both sides on the GPUs at once; ``"sorted"``: both sides sorted in host memory and joined pair
        by pair (join25 §3.2, §3.3). As baselines, those of Rui et al. (join25 §4.1.4): ``"pairwise"``, sorted and
        merged two by two on the GPUs, and ``"hybrid_radix"``, partitioned by the host and joined bucket by bucket,
        which only counts rows.
    sort
        How both sides are sorted: its GPUs, pieces, samples (of which in-core joins take a sixteenth), slack, paths,
        and records at once, which select the path ``sorted``. For keys too wide for joins on the GPUs, this is the
        plan by which they are sorted.
    batches
        ``in_core``, if rows are only counted: the number of batches in which the probe side passes; 1 for full joins.
    merges_runs
        ``sorted``: whether each side is merged into one run first; always so if rows or ranges are wanted.
    searches_each_key
        ``sorted``, if rows or ranges are wanted: whether they are found by a search for each key instead of merging.
    pair_bytes
        All paths but ``in_core``: the most bytes of keys and values that a GPU joins at once.
    window_rows
        ``in_core``, if rows are wanted: how many rows of the result a GPU makes at once.

    Raises
    ------
    UsageError
        Names the field whose value is invalid, or that the path does not have.

    """

    KIND = "join"

    path: Literal["in_core", "sorted", "pairwise", "hybrid_radix"] | None = plan_field(
        one_of("in_core", "sorted", "pairwise", "hybrid_radix")
    )
    sort: SortPlan | None = None
    batches: int | None = plan_field(whole_number(1, most=512), "in_core")
    merges_runs: bool | None = plan_field(flag(), "sorted")
    searches_each_key: bool | None = plan_field(flag(), "sorted", "pairwise")
    pair_bytes: int | None = plan_field(whole_number(1 << 12, is_size=True), "sorted", "pairwise", "hybrid_radix")
    window_rows: int | None = plan_field(whole_number(1, most=1 << 32))

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
        """The GPUs of the sort."""
        return None if self.sort is None else self.sort.gpus

    @property
    def strategy(self) -> Strategy | None:
        """The strategy of the sort."""
        return None if self.sort is None else self.sort.strategy

    def as_dict(self) -> dict[str, Any]:
        """The pinned fields as plain values for JSON; those of the sort in an object of their own."""
        return super().as_dict() | ({} if self.sort is None else {"sort": self.sort.as_dict()})

    def __repr__(self) -> str:
        of_sort = "" if self.sort is None else f"{', ' if self.pinned else ''}sort={self.sort!r}"
        return f"{super().__repr__()[:-1]}{of_sort})"

    def __hash__(self) -> int:
        return hash((super().__hash__(), self.sort))

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """The plan from the result of ``as_dict``. Raises ``UsageError`` for unknown fields."""
        own = super().from_dict({name: value for name, value in told.items() if name != "sort"})
        return cls(**own.pinned, sort=told.get("sort"))

    @classmethod
    def from_words(cls, words: Iterable[str]) -> Self:
        """See ``parse``. Words that are no field of joins, such as ``gpus=0+1``, are taken for the sort."""
        own: dict[str, Any] = {}
        of_sort = []
        for word in words:
            found = cls.parsed_word(word.strip())
            if found is None:
                of_sort.append(word)
            else:
                add_once(own, *found)
        return cls(**own, sort=SortPlan.from_words(of_sort) if of_sort else None)

    def replace(self, **changes: Any) -> JoinPlan:
        """The plan with other values; ``None`` leaves a field to the planner.

        Changing the path drops the fields that only the old path has.
        """
        path = changes.get("path", self.path)
        infos = self.field_infos()
        kept = {name: value for name, value in self.pinned.items() if not infos[name].of or path in infos[name].of}
        return JoinPlan.from_dict({**kept, "sort": self.sort, **changes})

    def to_core(self) -> _core.JoinPlan:
        """The plan as a core plan; fields that are left to the planner have their defaults."""
        plan = _core.JoinPlan()
        set_fields(plan, self.pinned)
        if self.sort is not None:
            plan.sort = self.sort.to_core()
        return plan

    @classmethod
    def of_core(cls, plan: _core.JoinPlan, /, **more: Any) -> Self:
        """The plan from a core plan, with every field that its path has."""
        path = plan.path.name
        names = [name for name, info in cls.field_infos().items() if path in (info.of or (path,))]
        without = NOT_IN_CORE if path == "in_core" else ()
        return cls(**values_of(plan, names), sort=SortPlan.of_core(plan.sort, without=without), **more)

    def __str__(self) -> str:
        return super().__str__() if self.path is None or self.gpus is None else str(self.to_core())
