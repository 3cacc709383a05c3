"""Programs with proactive regions that are right, wrong or slow, by every agent; and dry runs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import linkwise
from conftest import cuda_runtime
from linkwise import UsageError, _core

AGENTS = ["bulk", "memcpy", "inline", "polling", "dynamic", "copy_engine", "hardware", "infinite"]


def virtual(seed: int = 0) -> _core.Runtime:
    return _core.VirtualRuntime(linkwise.load_machine("volta4"), _core.VirtualMode.execute, seed)


def run(what: str, agent: str, seed: int = 0) -> None:
    _core.run_wrong_producer(virtual(seed), what, getattr(_core.Agent, agent))


@pytest.mark.parametrize("agent", AGENTS)
def test_a_program_that_is_right(agent: str) -> None:
    for seed in range(20):
        run("none", agent, seed)


@pytest.mark.parametrize("agent", AGENTS)
def test_stores_that_the_mapping_does_not_name(agent: str) -> None:
    with pytest.raises(_core.ProgramError, match=r"block 3 stores element \d+, in the chunk of 4 KiB number 4, which"):
        run("mapping", agent)
    with pytest.raises(_core.ProgramError, match=r"block 3 stores element \d+ of a region that has 16384"):
        run("far", agent)


@pytest.mark.parametrize("what", ["flush", "consumed"])
@pytest.mark.parametrize("agent", AGENTS)
def test_what_nobody_waits_for_is_a_race(agent: str, what: str) -> None:
    for seed in range(20):
        with pytest.raises(_core.RaceError, match="reader"):
            run(what, agent, seed)


def test_a_dry_run_checks_a_mapping() -> None:
    with pytest.raises(_core.ProgramError, match="block 3 stores in the chunk of 4 KiB number 4, which its mapping"):
        run("checked", "polling")


@pytest.mark.gpu
def test_a_dry_run_checks_a_mapping_on_gpus() -> None:
    with pytest.raises(_core.ProgramError, match="block 3 stores in the chunk of 4 KiB number 4, which its mapping"):
        _core.run_wrong_producer(cuda_runtime(at_least=2), "checked", _core.Agent.polling)


@pytest.mark.gpu
@pytest.mark.parametrize("agent", ["polling", "dynamic", "copy_engine"])
def test_waits_end_and_say_how_far_it_is(agent: str) -> None:
    told = _core.run_slow_producer(cuda_runtime(at_least=2), getattr(_core.Agent, agent), 0.5, 0.05)
    if agent != "polling":  # whose agent waits for chunks itself
        so_far = r"epoch 1 on GPU 0: \d+ of \d+ chunks are ready, chunk \d+ lacks 1 of its \d blocks"
        assert re.fullmatch(f"a region is not done after 0.05 s; {so_far}", told)
    else:
        assert told.startswith("an agent on GPU 0 gave up waiting for chunk 3 of 16, and peers have old bytes")


@pytest.mark.gpu
@pytest.mark.parametrize("agent", ["polling", "dynamic"])
@pytest.mark.parametrize("threads", [32, 64, 96, 160, 256, 544, 2048, 8192])
def test_as_many_threads_send_as_were_asked_for(agent: str, threads: int) -> None:
    for chunk_bytes in (4096, 256 << 10):
        plan = _core.AgentPlan(agent, chunk_bytes, threads)
        assert _core.senders_of(cuda_runtime(at_least=2), plan) == threads


@pytest.mark.gpu
@pytest.mark.parametrize("agent", ["bulk", "inline", "copy_engine"])
def test_agents_without_threads_have_no_senders(agent: str) -> None:
    assert _core.senders_of(cuda_runtime(at_least=2), _core.AgentPlan(agent)) == 0


@pytest.mark.parametrize("threads", [31, 100, 65_568])
def test_threads_are_whole_warps(threads: int) -> None:
    with pytest.raises(UsageError, match=f"from 32 to 65536 threads, in warps of 32, not {threads}"):
        _core.senders_of(virtual(), _core.AgentPlan("dynamic", 4096, threads))


def test_how_long_agents_wait_is_a_time() -> None:
    with pytest.raises(UsageError, match="an agent is patient for more than 0"):
        _core.run_slow_producer(virtual(), _core.Agent.polling, 0.5, 0)


def test_a_dry_run_finds_the_mapping() -> None:
    for _ in range(2):
        assert _core.dry_run_of_scatter(virtual(), 7, 50_000, 50_000) == _core.pages_of_scatter(7, 50_000)


def test_a_dry_run_of_many_blocks() -> None:
    """So many that what they mark is found in several turns."""
    blocks, count = 40_000, 1 << 24
    assert _core.dry_run_of_scatter(virtual(), blocks, count, count) == _core.pages_of_scatter(blocks, count)


@pytest.mark.gpu
def test_a_dry_run_finds_the_mapping_on_gpus() -> None:
    assert _core.dry_run_of_scatter(cuda_runtime(), 700, 5_000_000, 5_000_000) == _core.pages_of_scatter(700, 5_000_000)


def check_scatter(runtime: _core.Runtime, agent: str, blocks: int, count: int) -> None:
    """Chunks that do not follow each other, more than a warp counts at once, and blocks that share them."""
    stores = np.arange(blocks * 64, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    expected = np.zeros(count)
    expected[(stores >> np.uint64(20)) % np.uint64(count)] = 1
    np.testing.assert_array_equal(_core.run_scatter(runtime, getattr(_core.Agent, agent), blocks, count), expected)


@pytest.mark.parametrize("agent", AGENTS)
def test_what_lies_all_over_arrives(agent: str) -> None:
    for seed in range(3):
        check_scatter(virtual(seed), agent, 7, 50_000)


@pytest.mark.gpu
@pytest.mark.parametrize("agent", ["bulk", "inline", "polling", "dynamic", "copy_engine"])
def test_what_lies_all_over_arrives_on_gpus(agent: str) -> None:
    check_scatter(cuda_runtime(at_least=2), agent, 300, 500_000)


def check_triples(runtime: _core.Runtime, agent: str) -> None:
    found = _core.run_triples(runtime, getattr(_core.Agent, agent), 5000)
    np.testing.assert_array_equal(found[1024:], np.arange(1024, 15_000))


@pytest.mark.parametrize("agent", AGENTS)
def test_what_lies_across_pages_arrives(agent: str) -> None:
    check_triples(virtual(), agent)


@pytest.mark.gpu
@pytest.mark.parametrize("agent", ["bulk", "inline", "polling", "dynamic", "copy_engine"])
def test_what_lies_across_pages_arrives_on_gpus(agent: str) -> None:
    check_triples(cuda_runtime(at_least=2), agent)


def test_a_dry_run_of_what_lies_outside() -> None:
    with pytest.raises(UsageError, match=r"block \d+ stores outside of bytes 0 to 8192"):
        _core.dry_run_of_scatter(virtual(), 7, 50_000, 2048)
