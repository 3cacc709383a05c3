"""Plans as public values: what they pin is kept or refused by name, on virtual machines and on GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkwise
from linkwise import JoinPlan, OutOfMemoryError, SortPlan, UsageError
from linkwise.runtime.plan_fields import PlanPath

MACHINE = "dgx-a100"
KEYS = np.random.default_rng(1).integers(0, 1 << 32, 30_000, dtype=np.uint32)
RELAY = PlanPath("gpu0", "gpu1", (2,), 0.5)

# Every field of a plan with values that sorts can keep, and what goes with them.
FIELDS: list[dict[str, Any]] = [
    *({"strategy": name} for name in ("radix", "p2p_merge", "het", "cpu")),
    {"gpus": (3,)}, {"gpus": (5, 0, 2)},
    *({"strategy": name, "chunkset_records": n} for name in ("radix", "p2p_merge", "het") for n in (0, 7_000)),
    {"chunkset_records": 9_000, "merge_on_gpus": True}, {"chunkset_records": 9_000, "merge_on_gpus": False},
    {"streamed": True}, {"streamed": False},
    {"exchange": "fused", "gpus": (0, 1, 2)}, {"exchange": "copies", "gpus": (0, 1, 2)},
    {"splitting": "samples", "gpus": (0, 1, 2)}, {"splitting": "msb", "gpus": (0, 1, 2)},
    {"samples": 100, "gpus": (0, 1, 2)}, {"samples": 1 << 22}, {"slack": 0.3, "gpus": (0, 1)}, {"slack": 0.02},
    {"piece_bytes": 4096, "gpus": (0, 1)}, {"buckets": 1}, {"buckets": 7, "piece_bytes": 8192, "gpus": (2, 1)},
    {"het_buffers": 2, "gpus": (0, 1)}, {"het_buffers": 3, "chunkset_records": 5_000, "gpus": (0, 1)},
    {"eager_merge": True, "chunkset_records": 5_000, "gpus": (0, 1)}, {"eager_merge": False},
    {"cpu_algorithm": "radix"}, {"cpu_algorithm": "comparison"},
    {"gpus": (0, 1, 2), "paths": (RELAY,), "relay_bytes": 4096, "streamed": False}, {"paths": ()},
    {"relay_bytes": 1 << 20, "strategy": "radix"},
]  # fmt: skip
ON_GPUS = [
    {"strategy": "radix"},
    {"strategy": "p2p_merge"},
    {"device_buckets": 3},
    {"device_buckets": 0},
    {"samples": 50},
    {"slack": 0.5},
    {"gpus": (0, 1)},
]


def test_every_field_is_tried() -> None:
    tried = {name for fields in [*FIELDS, *ON_GPUS] for name in fields}
    assert tried == set(SortPlan.field_infos())


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_what_is_pinned_is_kept(fields: dict[str, Any]) -> None:
    plan = SortPlan(**fields)
    assert plan.pinned.items() >= fields.items()
    result, report = linkwise.sort_and_report(KEYS, plan=plan, machine=MACHINE)
    assert (result == np.sort(KEYS)).all()
    assert report.plan.pinned.items() >= plan.pinned.items()
    assert report.strategy == report.plan.strategy and report.gpus == list(report.plan.gpus or ())
    again, second = linkwise.sort_and_report(KEYS, plan=report.plan, machine=MACHINE)
    assert (again == result).all() and second.plan == report.plan


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_values_go_round(fields: dict[str, Any], tmp_path: Path) -> None:
    plan = SortPlan(**fields)
    plan.save(tmp_path / "plan.json")
    assert SortPlan.load(tmp_path / "plan.json") == plan == SortPlan.from_dict(plan.as_dict())
    assert hash(plan) == hash(plan.replace()) and eval(repr(plan)) == plan
    if "paths" not in fields:
        words = [f"{n}={'+'.join(map(str, v)) if n == 'gpus' else v}" for n, v in plan.pinned.items()]
        assert SortPlan.parse(",".join(words)) == plan


@pytest.mark.parametrize("fields", ON_GPUS, ids=str)
def test_data_on_gpus(fields: dict[str, Any]) -> None:
    parts = [KEYS[:17_000].copy(), KEYS[17_000:].copy()]
    for plan in (SortPlan(**fields), linkwise.plan_sort(len(KEYS), resident=True, machine=MACHINE, gpus=[0, 1]).best):
        result, report = linkwise.sort_and_report(parts, plan=plan, machine=MACHINE)
        assert (np.concatenate(result) == np.sort(KEYS)).all()
        assert report.plan.pinned.items() >= plan.pinned.items()
        assert report.plan.gpus == (0, 1)


@pytest.mark.gpu
@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_on_real_gpus(fields: dict[str, Any]) -> None:
    machine = linkwise.local_machine()
    assert machine is not None
    if max(fields.get("gpus", (0,))) >= machine.num_gpus:
        pytest.skip("takes more GPUs")
    result, report = linkwise.sort_and_report(KEYS, plan=SortPlan(**fields), machine="local")
    assert (result == np.sort(KEYS)).all() and not report.simulated
    assert report.plan.pinned.items() >= fields.items()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_pins(data: st.DataObject) -> None:
    """Whatever is pinned together is refused by the name of a field, or kept."""
    chosen = data.draw(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=4))
    fields = {name: value for each in chosen for name, value in each.items()}
    try:
        plan = SortPlan(**fields)
        result, report = linkwise.sort_and_report(KEYS[:5000], plan=plan, machine=MACHINE)
    except (UsageError, OutOfMemoryError) as error:
        assert any(name in str(error) for name in fields)
    else:
        assert (result == np.sort(KEYS[:5000])).all()
        assert report.plan.pinned.items() >= fields.items()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"strategy": "bogo"}, "strategy is 'bogo'; it is radix or p2p_merge or het or cpu"),
        ({"strategy": "cpu", "gpus": [0]}, "gpus is .0., and the strategy cpu uses none"),
        ({"gpus": "all"}, "gpus is 'all'; it is a list of GPU numbers"),
        ({"chunkset_records": -1}, "chunkset_records is -1; it is a whole number from 0"),
        ({"chunkset_records": 1.5}, "chunkset_records is 1.5"),
        ({"chunkset_records": True}, "chunkset_records is True"),
        ({"merge_on_gpus": 1}, "merge_on_gpus is 1; it is True or False"),
        ({"merge_on_gpus": True, "strategy": "het"}, "merge_on_gpus is of radix and p2p_merge"),
        ({"streamed": True, "strategy": "p2p_merge"}, "streamed is of radix"),
        ({"streamed": True, "exchange": "fused"}, "exchange is of sorts in steps"),
        ({"streamed": False, "buckets": 4}, "buckets is of streamed sorts"),
        ({"streamed": False, "piece_bytes": 1 << 20}, "piece_bytes is of streamed sorts"),
        ({"exchange": "post"}, "exchange is 'post'; it is fused or copies"),
        ({"splitting": "luck"}, "splitting is 'luck'"),
        ({"samples": 0}, "samples is 0; it is a whole number from 1"),
        ({"slack": 1.5}, "slack is 1.5; it is a number from 0 to 1"),
        ({"piece_bytes": 100}, "piece_bytes is 100; it is a whole number from 4096"),
        ({"buckets": 0}, "buckets is 0"),
        ({"het_buffers": 4}, "het_buffers is 4; it is a whole number from 2 to 3"),
        ({"het_buffers": 2, "strategy": "radix"}, "het_buffers is of het, and the plan's strategy is radix"),
        ({"eager_merge": "yes"}, "eager_merge is 'yes'; it is True or False"),
        ({"cpu_algorithm": "quick"}, "cpu_algorithm is 'quick'"),
        ({"cpu_algorithm": "radix", "strategy": "radix"}, "cpu_algorithm is of cpu"),
        ({"paths": [("gpu0", "moon", (1,), 0.5)]}, "paths is"),
        ({"relay_bytes": 1}, "relay_bytes is 1"),
        ({"device_buckets": -1}, "device_buckets is -1"),
    ],
    ids=str,
)
def test_values_that_no_plan_has(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        SortPlan(**fields)


def test_fields_that_there_are_not() -> None:
    with pytest.raises(UsageError, match="a sort plan has no field 'colour'; it has strategy, gpus"):
        SortPlan(strategy="het").replace(colour="red")
    with pytest.raises(UsageError, match="a join plan has no field 'eager_merge'"):
        JoinPlan().replace(eager_merge=True)


@pytest.mark.parametrize(
    ("fields", "more", "says"),
    [
        ({"gpus": (99,)}, {}, "no GPU 99"),
        ({"gpus": (1, 1)}, {}, "GPU 1 is named twice"),
        ({"strategy": "p2p_merge", "gpus": (0, 1, 2)}, {}, "strategy is p2p_merge, which runs on 2, 4, 8"),
        ({"chunkset_records": 0}, {"memory_limit": "1MiB"}, "chunkset_records is 0"),
        ({"chunkset_records": 3_000_000}, {"memory_limit": "1MiB"}, "chunkset_records is 3000000"),
        ({"exchange": "fused", "gpus": (4, 1)}, {"machine": "supermicro-4029gp"}, "exchange is fused"),
        ({"paths": (RELAY,), "gpus": (0, 1)}, {}, "goes over GPU 2, which the plan does not use"),
        ({"paths": (RELAY,)}, {}, "paths go over certain GPUs: name gpus as well"),
        ({"device_buckets": 2}, {}, "device_buckets is for data on the GPUs"),
        ({"strategy": "het"}, {"strategy": "radix"}, "strategy= is 'radix', and the plan's is 'het'"),
        ({"gpus": (0,)}, {"gpus": [1]}, "gpus= is .1., and the plan's are .0."),
    ],
    ids=str,
)
def test_what_a_machine_cannot_do(fields: dict[str, Any], more: dict[str, Any], says: str) -> None:
    keys = np.tile(KEYS, 100)  # more than a MiB of memory holds
    options = {"machine": MACHINE, **more}
    with pytest.raises((UsageError, OutOfMemoryError), match=says):
        linkwise.sort(keys, plan=SortPlan(**fields), **options)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"chunkset_records": 100}, "chunkset_records is for data in host memory"),
        ({"streamed": True}, "streamed is for data in host memory"),
        ({"strategy": "het"}, "strategy is het, which is for data in host memory"),
        ({"strategy": "cpu"}, "strategy is cpu, which is for data in host memory"),
        ({"gpus": (0, 1, 2)}, "2 arrays for 3 GPUs"),
    ],
    ids=str,
)
def test_what_data_on_gpus_cannot_do(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        linkwise.sort([KEYS.copy(), KEYS.copy()], plan=SortPlan(**fields), machine=MACHINE)


def test_the_best_plan_is_a_plan() -> None:
    best = linkwise.plan_sort(10**9, strategy="het", machine=MACHINE).best
    assert str(best) == best.plan and best.seconds == pytest.approx(sum(best.phases.values()))
    changed = best.replace(het_buffers=3, eager_merge=True)
    assert "3 buffers each, merged eagerly" in str(changed)
    assert type(changed) is SortPlan
    priced = linkwise.plan_sort(10**9, machine=MACHINE, plan=changed).best
    assert priced == changed and priced.seconds > 0
    assert linkwise.plan_sort(10**9, machine=MACHINE, plan=best).best.seconds == best.seconds


def test_replacing_lets_go_of_what_the_new_strategy_has_not() -> None:
    radix = SortPlan(strategy="radix", buckets=4, slack=0.1, gpus=(0, 1), chunkset_records=7)
    het = radix.replace(strategy="het")
    assert het.pinned == {"strategy": "het", "gpus": (0, 1), "chunkset_records": 7}
    assert het.replace(strategy="cpu").pinned == {"strategy": "cpu"}
    assert radix.replace(exchange="fused").pinned.keys() == {
        "strategy",
        "gpus",
        "chunkset_records",
        "slack",
        "exchange",
        "streamed",
    }
    assert radix.replace(exchange="fused").replace(buckets=2).exchange is None
    assert radix.replace(gpus=None).gpus is None


def test_tables_and_files_follow_plans(tmp_path: Path) -> None:
    plan = SortPlan(strategy="het", het_buffers=3, chunkset_records=4000, gpus=(1, 0))
    texts = pa.array([f"{'x' * 12}{key % 500}" for key in KEYS[:9000]])  # ties that many words decide
    table = pa.table({"key": texts, "row": np.arange(9000)})
    result, report = linkwise.sort_and_report(table, by="key", plan=plan, machine=MACHINE)
    assert result.equals(table.sort_by("key")) or result["key"].to_pylist() == sorted(texts.to_pylist())
    assert report.plan.pinned.items() >= plan.pinned.items()
    np.save(tmp_path / "in.npy", KEYS)
    plan.save(tmp_path / "plan.json")
    for text in (str(tmp_path / "plan.json"), "het,buffers=3,records=4000,gpus=1+0"):
        done = _run(
            "sort", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--machine", MACHINE, "--json", "--plan", text
        )
        assert done.returncode == 0, done.stderr
        assert SortPlan.from_dict(json.loads(done.stdout)["fields"]).pinned.items() >= plan.pinned.items()
        assert (np.load(tmp_path / "out.npy") == np.sort(KEYS)).all()


def _run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linkwise", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_plans_on_the_command_line(tmp_path: Path) -> None:
    done = _run("plan", "sort", "--rows", "1e8", "--machine", MACHINE, "--plan", "het,eager", "-o", tmp_path / "p.json")
    assert done.returncode == 0 and "merged eagerly" in done.stdout
    assert SortPlan.load(tmp_path / "p.json").eager_merge
    words, rows = "in_core,batches=2,gpus=0+2", ("--left", 1e6, "--right", 1e7)
    done = _run("plan", "join", *rows, "--machine", MACHINE, "--plan", words, "-o", tmp_path / "j.json")
    assert done.returncode == 0, done.stderr
    saved = JoinPlan.load(tmp_path / "j.json")
    assert (saved.path, saved.batches, saved.gpus) == ("in_core", 2, (0, 2))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("het,buffers=9", "het_buffers is 9"),
        ("het,quickly", "'quickly' is nothing that a sort plan has"),
        ("eager=perhaps", "eager_merge is 'perhaps'; it is True or False"),
        ("gpus=a", "gpus is 'a'"),
        ("nowhere.json", "cannot read the plan nowhere.json"),
        ("gpus=0,paths=1", "paths is '1'"),
    ],
)
def test_words_that_are_wrong(text: str, says: str, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", KEYS[:10])
    done = _run("sort", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--machine", MACHINE, "--plan", text)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "out.npy").exists()


def test_files_that_are_no_plans(tmp_path: Path) -> None:
    for text, says in (
        ("[]", "is no sort plan"),
        ('{"linkwise_plan": "join"}', "is no sort plan"),
        ('{"linkwise_plan": "sort", "colour": 1}', "no field 'colour'"),
        ('{"linkwise_plan": "sort", "buckets": "x"}', "buckets is 'x'"),
        ("{", "is not JSON"),
    ):
        (tmp_path / "p.json").write_text(text)
        with pytest.raises(UsageError, match=says):
            SortPlan.load(tmp_path / "p.json")


JOINS: list[dict[str, Any]] = [
    {"path": "in_core"},
    {"path": "sorted"},
    {"batches": 1},
    {"batches": 4, "sort": SortPlan(gpus=(0, 1))},
    {"merges_runs": True},
    {"merges_runs": True, "sort": SortPlan(chunkset_records=6000)},
    {"searches_each_key": True, "merges_runs": True},
    {"pair_bytes": 1 << 14},
    {"window_rows": 100, "path": "in_core"},
    {"sort": SortPlan(gpus=(2, 0, 1), samples=3000, slack=0.2, piece_bytes=8192)},
    {"path": "sorted", "sort": SortPlan(strategy="p2p_merge", gpus=(0, 1))},
    {"path": "sorted", "sort": SortPlan(strategy="het", gpus=(0, 1))},
]


@pytest.mark.parametrize("fields", JOINS, ids=str)
def test_joins_follow_plans(fields: dict[str, Any], tmp_path: Path) -> None:
    plan = JoinPlan(**fields)
    plan.save(tmp_path / "plan.json")
    assert JoinPlan.load(tmp_path / "plan.json") == plan and eval(repr(plan)) == plan
    left, right = KEYS[:8000] % 5000, KEYS[8000:20_000] % 5000
    expected = sum(np.bincount(left, minlength=5000) * np.bincount(right, minlength=5000))
    assert linkwise.join_count(left, right, plan=plan, machine=MACHINE) == expected
    rows = linkwise.join_indices(left, right, plan=plan, machine=MACHINE)
    assert len(rows[0]) == expected and (left[rows[0]] == right[rows[1]]).all()
    best = linkwise.plan_join(8000, 12_000, wants_rows=True, value_bytes=4, plan=plan, machine=MACHINE).best
    assert best.pinned.items() >= plan.pinned.items()
    if plan.sort is not None:
        assert best.sort.pinned.items() >= plan.sort.pinned.items()


def test_every_field_of_joins_is_tried() -> None:
    assert {name for fields in JOINS for name in fields} == {*JoinPlan.field_infos(), "sort"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"path": "by_air"}, "path is 'by_air'; it is in_core or sorted"),
        ({"sort": 3}, "sort is 3; it is a SortPlan"),
        ({"batches": 0}, "batches is 0"),
        ({"path": "sorted", "batches": 2}, "batches is of the path in_core"),
        ({"path": "in_core", "merges_runs": True}, "merges_runs is of the path sorted"),
        ({"searches_each_key": 1}, "searches_each_key is 1"),
        ({"pair_bytes": 10}, "pair_bytes is 10"),
        ({"window_rows": 0}, "window_rows is 0"),
    ],
    ids=str,
)
def test_values_that_no_join_has(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        JoinPlan(**fields)


def test_what_joins_cannot_do() -> None:
    left, right = KEYS[:5000], KEYS[5000:]
    texts = pa.array([f"key number {key}" for key in left])
    for call, says in (
        (lambda: linkwise.join_ranges(left, right, plan=JoinPlan(path="in_core"), machine=MACHINE), "path is in_core"),
        (
            lambda: linkwise.join_count(texts, texts, plan=JoinPlan(path="in_core"), machine=MACHINE),
            "path is of joins on the GPUs, and these keys are more than 64 bits wide",
        ),
        (
            lambda: linkwise.join_count([left], [right], plan=JoinPlan(batches=2), machine=MACHINE),
            "path is of joins on the GPUs, and these keys lie on GPUs already",
        ),
        (
            lambda: linkwise.join_count(
                left, right, plan=JoinPlan(path="in_core", sort=SortPlan(streamed=False)), machine=MACHINE,
            ),
            "streamed is False, and joins in core sort all rows at once",
        ),
        (
            lambda: linkwise.join_count(
                left, right, plan=JoinPlan(path="in_core", sort=SortPlan(chunkset_records=10)), memory_limit="1MiB",
                machine=MACHINE,
            ),
            "chunkset_records",
        ),
        (lambda: linkwise.join_count(left, right, plan=SortPlan(), machine=MACHINE), "plan= is a JoinPlan here"),
        (lambda: linkwise.sort(left, plan=JoinPlan(), machine=MACHINE), "plan= is a SortPlan here"),
    ):  # fmt: skip
        with pytest.raises((UsageError, OutOfMemoryError), match=says):
            call()


def test_wide_keys_are_sorted_by_the_plan_of_the_sort() -> None:
    texts = pa.array([f"key number {key % 300}" for key in KEYS[:2000]])
    counted = linkwise.join_count(
        texts, texts, plan=JoinPlan(sort=SortPlan(strategy="het", gpus=(1,))), machine=MACHINE
    )
    counts = np.unique(KEYS[:2000] % 300, return_counts=True)[1]
    assert counted == (counts**2).sum()
