"""Scenarios of the swarm, each drawn from a number and from nothing else.

A scenario is a dictionary of plain values: it can be printed, made smaller and run again.
"""

from __future__ import annotations

from random import Random
from typing import Any

from linkwise.machines.catalog import load_machine
from linkwise.runtime.join_plan import JoinPlan
from linkwise.runtime.sort_plan import SortPlan
from swarm_data import KEYS, OTHERS, Column

Scenario = dict[str, Any]

MACHINES = ["h200x8", "dgx-a100", "dgx1-v100", "dgx2", "delta-d22x", "ibm-ac922", "pascal4", "volta16", "kepler4"]
SIZES = [0, 1, 2, 3, 7, 8, 9, 31, 33, 63, 64, 65, 127, 255, 256, 257, 500, 511, 513, 1000, 1023, 1025, 2047, 4095, 4097]
LARGE = [8191, 10_000, 16_383, 16_385, 32_769, 65_535, 65_537, 131_073]
HOWS = ["inner", "left", "right", "full", "semi", "anti"]
SPREADS = ["few", "few", "many", "distinct", "skewed", "equal", "sorted", "reversed"]
NUMBERS = [kind for kind in KEYS if kind.rstrip("0123456789") in ("int", "uint", "float")]
OPERATIONS = {
    "array": 14,
    "table": 16,
    "indices": 8,
    "top_k": 8,
    "unique": 8,
    "is_sorted": 3,
    "lists": 8,
    "file": 14,
    "array file": 5,
    "join_indices": 14,
    "join": 8,
    "join_count": 5,
    "join_ranges": 4,
    "join lists": 3,
    "join files": 5,
}
SORT_FIELDS: list[dict[str, Any]] = [
    *({"strategy": name} for name in ("radix", "p2p_merge", "het")),
    *({"chunkset_records": n} for n in (0, 50, 700, 5000)),
    {"merge_on_gpus": True},
    {"merge_on_gpus": False},
    {"streamed": True},
    {"streamed": False},
    {"exchange": "fused"},
    {"exchange": "copies"},
    {"splitting": "msb"},
    {"splitting": "samples"},
    {"samples": 1},
    {"samples": 100},
    {"samples": 1 << 20},
    {"slack": 0.02},
    {"slack": 1.0},
    {"piece_bytes": 4096},
    {"piece_bytes": 1 << 16},
    {"buckets": 1},
    {"buckets": 7},
    {"het_buffers": 2},
    {"het_buffers": 3},
    {"eager_merge": True},
    {"eager_merge": False},
    {"cpu_algorithm": "radix"},
    {"cpu_algorithm": "comparison"},
    {"relay_bytes": 4096},
    {"device_buckets": 0},
    {"device_buckets": 5},
    {"paths": ()},
]
JOIN_FIELDS: list[dict[str, Any]] = [
    {"path": "in_core"},
    {"path": "sorted"},
    {"batches": 1},
    {"batches": 5},
    {"merges_runs": True},
    {"merges_runs": False},
    {"searches_each_key": True},
    {"searches_each_key": False},
    {"pair_bytes": 4096},
    {"pair_bytes": 1 << 16},
    {"window_rows": 1},
    {"window_rows": 1000},
]


def draw(seed: int) -> Scenario:
    """A scenario from its number, and from nothing else."""
    random = Random(seed)
    operation = random.choices([*OPERATIONS], [*OPERATIONS.values()])[0]
    is_join = operation.startswith("join")
    rows = random.choice(SIZES if random.random() < 0.85 else LARGE)
    on_arrays = operation in ("array", "lists", "array file", "join lists")
    kinds = NUMBERS if on_arrays else [*KEYS]
    columns = [_column(random, kinds, rows) for _ in range(1 if on_arrays else random.choice((1, 1, 2, 3)))]
    scenario: Scenario = {
        "seed": seed,
        "operation": operation,
        "rows": rows,
        "keys": columns,
        "others": [
            _column(random, [*KEYS, *OTHERS], rows) for _ in range(0 if on_arrays else random.choice((0, 1, 3)))
        ],
        "descending": [random.random() < 0.4 for _ in columns],
        "nulls": [random.choice(("first", "last")) for _ in columns],
        "limit": random.choice((0, 1, 5, rows // 2, rows, rows + 3)),
        "order": random.randrange(1 << 30),
        "execution": _execution(random, is_join=is_join),
        "fault": random.choice(
            [("failing_operation", random.randint(1, 60)), ("failing_allocation", random.randint(1, 30))]
        )
        if random.random() < 0.12
        else None,
    }
    plan = scenario["execution"].get("plan", {})
    if plan.get("chunkset_records"):  # merging k runs in as many pieces takes k² steps
        plan["chunkset_records"] = max(plan["chunkset_records"], rows // 400)
    if is_join:
        right = random.choice(SIZES if random.random() < 0.9 else LARGE[:3])
        scenario |= {
            "right rows": right,
            "how": random.choice(HOWS),
            "nulls_equal": random.random() < 0.3,
            "join order": random.choice((None, None, "key", "left")),
            "right keys": [told | {"rows": right, "seed": random.randrange(1 << 30)} for told in columns],
        }
    if operation in ("file", "array file", "join files"):
        kinds = ["npy", "bin"] if operation == "array file" else ["parquet", "parquet", "arrow", "feather"]
        scenario |= {
            "format": random.choice(kinds),
            "out": random.choice(kinds),
            "compression": random.choice(("none", "lz4", "zstd")),
            "host memory": random.choice((None, "64KiB" if rows < 20_000 else "512KiB", "256KiB", "1MiB")),
            "row group": random.choice((7, 100, 1 << 20)),
            "unique": random.random() < 0.15,
        }
    return scenario


def _column(random: Random, kinds: list[str], rows: int) -> Column:
    return {
        "type": random.choice(kinds),
        "rows": rows,
        "spread": random.choice(SPREADS),
        "seed": random.randrange(1 << 30),
        "nulls": random.choice((0, 0, 0, 0.1, 0.9, 1)),
        "chunks": random.choice((1, 1, 2, 5)),
    }


def _execution(random: Random, *, is_join: bool) -> dict[str, Any]:
    if random.random() < 0.12:
        return {"strategy": "cpu"}
    found: dict[str, Any] = {
        "machine": random.choice(MACHINES),
        "scaled": random.choice((0, 0, random.randrange(1, 1 << 30))),
    }
    if random.random() < 0.5:
        numbers = range(load_machine(found["machine"]).num_gpus)
        found["gpus"] = random.sample(numbers, random.randint(1, len(numbers)))
    found["plan"] = _plan(random, is_join=is_join)
    if random.random() < 0.3:
        found["memory_limit"] = random.choice(("96KiB", "1MiB", "4MiB", "16MiB"))
    found["verify"] = random.random() < 0.8
    return found


def _plan(random: Random, *, is_join: bool) -> dict[str, Any]:
    """Fields that mostly go together: a refused plan tests only that it is refused."""
    count = random.choice((0, 0, 1, 1, 2, 3))
    fields = JOIN_FIELDS if is_join else SORT_FIELDS
    drawn: list[dict[str, Any]] = []
    if count and random.random() < 0.75:
        by = "path" if is_join else "strategy"
        drawn = [random.choice([each for each in fields if by in each])]
        way = drawn[0][by]
        infos = (JoinPlan if is_join else SortPlan).field_infos()
        fields = [each for each in fields if all(way in (infos[name].of or (way,)) for name in each)]
    drawn += random.sample(fields, min(count, len(fields)))
    return {name: value for each in reversed(drawn) for name, value in each.items()}
