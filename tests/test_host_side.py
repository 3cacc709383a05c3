"""What the host takes part in: the governors of its processors, and its side of copies on described machines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from linkwise import UsageError
from linkwise.machines.catalog import described
from linkwise.machines.host_copies import host_copies
from linkwise.probing.probe import governor_warning, governors

WITH_COPIES = "ibm-s822lc"


def system(root: Path, *names: str) -> Path:
    """Processors as Linux lists them, one by each governor."""
    for processor, name in enumerate(names):
        at = root / f"cpu{processor}" / "cpufreq"
        at.mkdir(parents=True)
        (at / "scaling_governor").write_text(name + "\n")
    (root / "cpufreq").mkdir(exist_ok=True)  # beside them, and no processor
    return root


def test_governors_are_counted(tmp_path: Path) -> None:
    assert governors(tmp_path) == {}
    assert governors(system(tmp_path, "performance", "powersave", "powersave")) == {"performance": 1, "powersave": 2}


def test_a_governor_other_than_performance_is_warned_about() -> None:
    assert governor_warning({}) is None
    assert governor_warning({"performance": 64}) is None
    warning = governor_warning({"performance": 1, "powersave": 2, "schedutil": 1})
    assert warning is not None
    assert "2 by 'powersave', 1 by 'schedutil' of 4" in warning
    assert "cpupower frequency-set --governor performance" in warning


def test_copies_by_the_caches() -> None:
    """Half of the caches hold a source and the pinned buffers beside it (commscope19 §4.5)."""
    copies = host_copies(WITH_COPIES)
    assert copies is not None
    copies = replace(copies, cache_mib=8, cached_gb_per_s=20)
    assert copies.pageable_seconds(4 << 20, 10, flushed=False) == pytest.approx((4 << 20) / 20e9)
    assert copies.pageable_seconds(4 << 20, 10, flushed=True) == pytest.approx((4 << 20) / 10e9)
    assert copies.pageable_seconds(5 << 20, 10, flushed=False) == pytest.approx((5 << 20) / 10e9)


def test_pages_by_demand() -> None:
    """The start, and then the slowest of the link, the driver and the threads (commscope19 §4.6)."""
    copies = host_copies(WITH_COPIES)
    assert copies is not None
    copies = replace(copies, demand_us=10, demand_in_gb_per_s=4, demand_out_gb_per_s=6, thread_gb_per_s=2)
    assert copies.demand_seconds(4e9, 30) == pytest.approx(1.00001)
    assert copies.demand_seconds(4e9, 1) == pytest.approx(4.00001)
    assert copies.demand_seconds(4e9, 30, threads=1) == pytest.approx(2.00001)
    assert copies.demand_seconds(6e9, 30, threads=8) == pytest.approx(1.00001)


@pytest.mark.parametrize(
    ("copies", "says"),
    [
        ([], "an object with"),
        ({"page_bytes": 4096}, "an object with cache_mib, cached_gb_per_s"),
        (0, "above 0"),
        ("fast", "a number"),
    ],
)
def test_a_wrong_description_is_refused(copies: Any, says: str, tmp_path: Path) -> None:
    description = dict(described(WITH_COPIES))  # type: ignore[arg-type]
    if not isinstance(copies, (dict, list)):
        copies = {**description["host_copies"], "demand_us": copies}
    path = tmp_path / "m.json"
    path.write_text(json.dumps(description | {"host_copies": copies}))
    with pytest.raises(UsageError, match=says):
        host_copies(path)


def test_most_machines_have_none() -> None:
    assert host_copies("dgx-a100") is None
