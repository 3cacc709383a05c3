"""The relations that joins are measured with: workloads A and B of join25 (§4.1.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linkwise import _core
from linkwise._core import CorruptDataError, UsageError
from linkwise._typing import Array
from linkwise.columns.key_types import key_type_of
from linkwise.joining.api import JoinRanges
from linkwise.runtime.host_memory import empty
from linkwise.runtime.parallel import BLOCK, in_blocks
from linkwise.runtime.sort_plan import SortPlan

_WRONG = "a join that was measured is wrong: do not trust this machine"


class Relations:
    """The workload in pinned memory, room for a join's rows, and checks of results."""

    def __init__(self, workload: Workload, *, wants_rows: bool) -> None:
        self.workload = workload
        r, s = workload.rows
        self.r_keys, self.r_values, self.s_keys, self.s_values = (empty(n, workload.dtype) for n in (r, r, s, s))
        self.expected = workload.fill(self.r_keys, self.r_values, self.s_keys, self.s_values)
        if workload.heavy_hitter and wants_rows:
            raise UsageError("the rows of a heavy hitter are more than memory holds; ask for 'counted' with --only")
        self.out = [empty(max(self.expected.matches, 1), workload.dtype) for _ in range(3)] if wants_rows else []
        for array in self.out:
            array.fill(0)
        self._sorted: tuple[Array, ...] | None = None

    def columns(self, runtime: _core.Runtime, *, presorted: bool) -> tuple[Array, ...]:
        """Keys and values of R, and of S; sorted on demand."""
        if not presorted:
            return self.r_keys, self.r_values, self.s_keys, self.s_values
        if self._sorted is None:
            plan = SortPlan(strategy="radix", gpus=tuple(range(runtime.machine.num_gpus))).to_core()
            kind = key_type_of(self.workload.dtype)
            made: list[Array] = []
            for keys, values in ((self.r_keys, self.r_values), (self.s_keys, self.s_values)):
                in_order, followed = empty(len(keys), keys.dtype), empty(len(keys), keys.dtype)
                _core.sort_host(runtime, plan, kind, keys, values, in_order, followed)
                made += [in_order, followed]
            self._sorted = tuple(made)
        return self._sorted

    def check_rows(self) -> None:
        """Raise unless the rows are ordered by key, and join rows with equal keys."""
        keys, r_rows, s_rows = self.out
        sums = [int(side.sum(dtype=np.uint64)) for side in (r_rows, s_rows)]
        some = slice(None, None, max(len(keys) // 1_000_000, 1))
        if (
            not (keys[:-1] <= keys[1:]).all()
            or sums != [self.expected.r_sum, self.expected.s_sum]
            or not (self.r_keys[r_rows[some]] == keys[some]).all()
            or not (self.s_keys[s_rows[some]] == keys[some]).all()
        ):
            raise CorruptDataError(_WRONG)

    def check_totals(self, totals: _core.JoinTotals, *, sums: bool) -> None:
        """Raise unless the number of matches and the sums are right."""
        found = (totals.rows, totals.left_sum, totals.right_sum)
        wanted = (self.expected.matches, self.expected.r_sum, self.expected.s_sum)
        if found[: 3 if sums else 1] != wanted[: 3 if sums else 1]:
            raise CorruptDataError(_WRONG)

    def check_ranges(self, ranges: JoinRanges) -> None:
        """Raise unless the number of matches is right, and keys ascend and are equal on both sides."""
        some = slice(None, None, max(len(ranges) // 100_000, 1))
        of_r, of_s = ranges.left_rows[ranges.left_first[:-1][some]], ranges.right_rows[ranges.right_first[:-1][some]]
        keys = self.r_keys[of_r]
        if (
            ranges.matches != self.expected.matches
            or not (keys == self.s_keys[of_s]).all()
            or not (keys[:-1] < keys[1:]).all()
        ):
            raise CorruptDataError(_WRONG)


_ROWS = {"A": (10**8, 10**9), "B": (10**9, 10**9)}  # join25, table 2, for f = 1
HEAVY_ROWS = 1_000  # rows of R with the heavy hitter's key
_HEAVY_SHARE = 0.1  # of S's rows have that key
_TYPES = {"A": np.uint32, "B": np.uint64}


@dataclass(frozen=True)
class Workload:
    """R ⋈ S: every key of R is unique, over the whole range of its type.

    Every key of S occurs in R with probability ``selectivity``; 1 makes it join25's foreign key. Which key of R it is
    follows a Zipf distribution with exponent ``skew``; 0 is uniform. With ``heavy_hitter``, one key is a tenth of S
    and occurs 1,000 times in R.
    """

    name: str = "A"
    scale: float = 1.0
    selectivity: float = 1.0
    skew: float = 0.0
    heavy_hitter: bool = False

    def __post_init__(self) -> None:
        if self.name not in _ROWS:
            raise UsageError(f"there is no workload {self.name!r}; there are A and B")
        if not 0 < self.scale <= 100:
            raise UsageError(f"the scale is {self.scale:g}; it is more than 0, and 100 at most")
        for what, value in (("selectivity", self.selectivity), ("skew", self.skew)):
            if not 0 <= value <= 1:
                raise UsageError(f"the {what} is {value:g}; it is from 0 to 1")
        if self.heavy_hitter and (self.skew > 0 or self.rows[0] <= HEAVY_ROWS):
            raise UsageError(f"a heavy hitter takes a skew of 0, and more than {HEAVY_ROWS} rows in R")
        distinct = self.rows[0] if self.selectivity == 1 else sum(self.rows)
        if distinct >= 1 << 8 * self.dtype.itemsize:
            raise UsageError(f"at scale {self.scale:g} there are not enough different keys; take workload B")

    @property
    def rows(self) -> tuple[int, int]:
        """The numbers of rows of R and of S."""
        r, s = _ROWS[self.name]
        return max(int(r * self.scale), 1), max(int(s * self.scale), 1)

    @property
    def expected_matches(self) -> int:
        """The expected number of matches."""
        once = self.rows[1] * self.selectivity
        return int(once * (1 + _HEAVY_SHARE * (HEAVY_ROWS - 1)) if self.heavy_hitter else once)

    @property
    def expected_keys(self) -> int:
        """The expected number of keys on both sides: those of R that S draws at least once."""
        r, s = self.rows
        drawn = s * self.selectivity
        if self.heavy_hitter:
            r, drawn = r - HEAVY_ROWS, drawn * (1 - _HEAVY_SHARE)
        edges = np.geomspace(1, r + 1, 4096)  # intervals of ranks that are treated as equally likely
        power = 1 - self.skew
        below = np.log(edges) / np.log(r + 1) if power == 0 else (edges**power - 1) / ((r + 1.0) ** power - 1)
        ranks = np.diff(edges)
        return int((ranks * -np.expm1(-drawn * np.diff(below) / ranks)).sum()) + int(self.heavy_hitter)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of keys and of values."""
        return np.dtype(_TYPES[self.name])

    @property
    def tuple_bytes(self) -> int:
        """Of a key and its value."""
        return 2 * self.dtype.itemsize

    def fill(self, r_keys: Array, r_values: Array, s_keys: Array, s_values: Array) -> Expected:
        """Write the relations, the same every time; values are row numbers. Returns what their join must find."""
        in_r, in_s = self.rows

        def fill_r(first: int) -> None:
            numbers = np.arange(first, min(first + BLOCK, in_r), dtype=self.dtype)
            r_values[first : first + BLOCK] = numbers
            if self.heavy_hitter:
                numbers[numbers < HEAVY_ROWS] = 0
            r_keys[first : first + BLOCK] = _scattered(numbers)

        def fill_s(first: int) -> tuple[int, int, int]:
            random = np.random.default_rng(first + 1)
            count = min(BLOCK, in_s - first)
            if self.heavy_hitter:
                rows = random.integers(HEAVY_ROWS, in_r, count).astype(self.dtype)
                rows[random.random(count, np.float32) < _HEAVY_SHARE] = 0
            else:
                rows = _zipf(random, self.skew, in_r, count).astype(self.dtype)
            numbers = np.arange(first, first + count, dtype=np.uint64).astype(self.dtype)  # S may exceed 2^32 rows
            matched = (
                random.random(count, np.float32) < self.selectivity if self.selectivity < 1 else np.ones(count, "?")
            )
            s_values[first : first + count] = numbers
            # Keys that R does not have: numbers from R's size on, each once.
            s_keys[first : first + count] = _scattered(np.where(matched, rows, numbers + self.dtype.type(in_r)))
            if not self.heavy_hitter:
                sums = [int(side[matched].sum(dtype=np.uint64)) for side in (rows, numbers)]
                return int(matched.sum()), *sums  # type: ignore[return-value]
            heavy = matched & (rows == 0)
            once = matched & ~heavy
            r_sum = int(rows[once].sum(dtype=np.uint64)) + int(heavy.sum()) * sum(range(HEAVY_ROWS))
            s_sum = sum(int(numbers[which].sum(dtype=np.uint64)) * n for which, n in ((once, 1), (heavy, HEAVY_ROWS)))
            return int(once.sum()) + HEAVY_ROWS * int(heavy.sum()), r_sum, s_sum

        in_blocks(fill_r, in_r)
        matches, r_sums, s_sums = zip(*in_blocks(fill_s, in_s), strict=True)
        return Expected(sum(matches), sum(r_sums) % 2**64, sum(s_sums) % 2**64)


@dataclass(frozen=True)
class Expected:
    """What a join must find: the matches, and the sums of the values of both sides over them, modulo 2^64."""

    matches: int
    r_sum: int
    s_sum: int


def _scattered(numbers: Array) -> Array:
    """A bijective hash over the whole range of the type."""
    mixed = numbers.copy()
    half = mixed.dtype.type(4 * mixed.itemsize)
    for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F):  # odd, so that multiplication is invertible
        mixed *= mixed.dtype.type(factor & ((1 << 8 * mixed.itemsize) - 1))
        mixed ^= mixed >> half
    return mixed


def _zipf(random: np.random.Generator, skew: float, numbers: int, count: int) -> Array:
    """Numbers below ``numbers``, small ones most often, by inverting the distribution (Gray et al., join25 [29])."""
    if skew == 0:
        return random.integers(0, numbers, count)
    uniform = random.random(count)
    if skew == 1:
        ranks = np.exp(uniform * np.log(numbers + 1))
    else:
        power = 1 - skew
        ranks = (1 + uniform * ((numbers + 1.0) ** power - 1)) ** (1 / power)
    rows: Array = np.minimum(ranks.astype(np.int64) - 1, numbers - 1)
    return rows
