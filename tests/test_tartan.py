"""Tartan's fourteen applications: answers on any number of ranks, costs, and answers that are found wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import HAVE_GPU
from linkwise import DeviceError, UsageError
from linkwise.apps.counter_random import key_of, normal, uniform
from linkwise.apps.tartan.annealing import Annealing
from linkwise.apps.tartan.convnet import ConvNet
from linkwise.apps.tartan.diffusion import Diffusion
from linkwise.apps.tartan.hydrodynamics import Hydrodynamics
from linkwise.apps.tartan.ising import Ising, energies, exchanged, swept
from linkwise.apps.tartan.langford import KNOWN, Langford
from linkwise.apps.tartan.molecular import Molecular
from linkwise.apps.tartan.program import Program
from linkwise.apps.tartan.turbulence import Turbulence
from linkwise.apps.tartan.wave import Wave
from linkwise.apps.tartan_registry import TARTAN, tartan_program
from linkwise.apps.tartan_run import _steps_of, run_tartan, steps_of
from linkwise.cli.main import commands_for
from linkwise.machines.catalog import load_machine
from linkwise.messages.gpu_ranks import GpuRanks
from linkwise.messages.numpy_ranks import NumpyRanks
from linkwise.messages.pricing import Work
from linkwise.messages.ways import WAYS

RANKS = (1, 2, 3, 4, 8)
KINDS = tuple(TARTAN.values())


def ran(program: Program, ranks: int, way: str = "nccl", xp: Any = None) -> tuple[dict[str, list[Any]], NumpyRanks]:
    comm = NumpyRanks(ranks, WAYS[way], xp, master=program.has_master)
    prepared = program.prepare(comm)
    comm.steps.clear()
    answer = program.run(comm, prepared)
    return {name: comm.fetch(arrays) for name, arrays in answer.items()}, comm


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_answers_are_right_and_costs_are_what_is_sent(kind: type[Program], ranks: int) -> None:
    """Prices of the problem that was solved are the bytes that were sent; of parts that differ, of the largest."""
    steps, error = steps_of(kind, ranks, WAYS["nccl"])
    assert error <= 1
    prices = kind.small().prices(ranks)
    assert {step.label for step in steps} <= set(prices)
    for step in steps:
        price = prices[step.label]
        assert isinstance(price, Work) == (step.kind == "compute"), step.label
        if isinstance(price, Work):
            assert price.bytes > 0 and price.flops >= 0
        elif step.label == "migration":
            assert step.size % 56 == 0  # as many atoms as happen to leave
        elif ranks in (1, 2, 4):
            assert step.size == price, step.label
        else:
            assert price / 2 <= step.size <= price, step.label


@pytest.mark.slow
@pytest.mark.parametrize("way", ["host", "host-pinned", "peer"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_answers_are_right_whatever_carries_messages(kind: type[Program], way: str) -> None:
    small: Any = kind.small()
    if isinstance(small, Hydrodynamics):
        small = replace(small, planes=8, side=8)
    answer, _ = ran(small, 3, way)
    assert small.error(answer) <= 1
    for name, arrays in ran(small, 3)[0].items():  # the order of sums may differ
        told = 1 if name == "likelihood" else 3  # by the first rank alone
        for one, other in zip(answer[name][:told], arrays[:told], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_nothing_but_the_array_api_is_used(kind: type[Program]) -> None:
    """Of the standard's strict implementation, which has nothing else; CuPy and NumPy have all of it."""
    small = kind.small()
    if isinstance(small, Hydrodynamics):
        small = replace(small, planes=6, side=6, until=0.02)
    answer, _ = ran(small, 2, xp=array_api_strict)
    plain, _ = ran(small, 2)
    for name, arrays in plain.items():
        for one, other in zip(answer[name], arrays, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_wrong_answers_are_found(kind: type[Program]) -> None:
    """Each array of an answer that its check looks at, changed at one place on the last rank."""
    small = kind.small()
    if isinstance(small, Hydrodynamics):
        small = replace(small, planes=8, side=8)
    right, _ = ran(small, 2)
    assert small.error(right) <= 1
    # What is only handed on for the check, or is checked by a bound that one element does not reach.
    for name in set(right) - {"left", "right", "likelihood", "weight", "x"}:
        wrong = {key: [np.array(each, copy=True) for each in arrays] for key, arrays in right.items()}
        rank = 0 if name == "product" else 1
        largest = np.unravel_index(int(np.abs(wrong[name][rank]).argmax()), wrong[name][rank].shape)
        wrong[name][rank][largest] += 1 + 1e-3 * np.abs(wrong[name][rank]).max()
        assert small.error(wrong) > 1, name


@pytest.mark.parametrize("n", [3, 4, 7, 8, 11, 12])
def test_planar_langford_sequences_are_as_many_as_are_known(n: int) -> None:
    for ranks in (1, 3):
        answer, _ = ran(Langford(n), ranks)
        assert [int(each[0]) for each in answer["count"]] == [KNOWN[n]] * ranks


def test_planar_langford_sequences_by_hand() -> None:
    """By all permutations of 1, 1, 2, 2, … n, n, and both sides of each arc."""
    from itertools import combinations, product

    def places(n: int, left: list[int], begins: dict[int, int]) -> Any:
        if not left:
            yield dict(begins)
            return
        number, rest = left[0], left[1:]
        for at in range(2 * n - number - 1):
            used = {p for k, b in begins.items() for p in (b, b + k + 1)}
            if at not in used and at + number + 1 not in used:
                yield from places(n, rest, begins | {number: at})

    def cross(one: tuple[int, int], other: tuple[int, int]) -> bool:
        return one[0] < other[0] < one[1] < other[1] or other[0] < one[0] < other[1] < one[1]

    def is_planar(begins: dict[int, int]) -> bool:
        arcs = [(begin, begin + number + 1) for number, begin in begins.items()]
        pairs = [(i, j) for i, j in combinations(range(len(arcs)), 2) if cross(arcs[i], arcs[j])]
        return any(all(side[i] != side[j] for i, j in pairs) for side in product((0, 1), repeat=len(arcs)))

    for n in (3, 4, 7):
        found = sum(is_planar(begins) for begins in places(n, list(range(n, 0, -1)), {}))
        assert found == 2 * KNOWN[n]  # and each one's reversal


@pytest.mark.parametrize("problem", [Wave(16, 16, 4), Diffusion(16, 16, 4)], ids=lambda problem: problem.name)
def test_errors_fall_with_the_order_that_is_said(problem: Wave | Diffusion) -> None:
    errors: dict[str, list[float]] = {}
    for finer in (1, 2, 4) if isinstance(problem, Wave) else (2, 4):
        n = 16 * finer
        if isinstance(problem, Wave):  # a step as its square, so that the order in time is not seen
            wave = Wave(n, n, 4 * finer**2, courant=0.25 / finer)
            found = np.concatenate(ran(wave, 2)[0]["field"])
            exact = wave.exact(np.arange(n), wave.steps * wave.time_step)
            errors.setdefault("wave 4", []).append(float(np.abs(found - exact).max()))
            continue
        heat, burgers = Diffusion(n, n, finer**2), Diffusion(n, n, 2 * finer)
        exact = heat.heat_exact(np.arange(n), heat.steps * heat.heat_step)
        found = np.concatenate(ran(heat, 2)[0]["heat"])
        errors.setdefault("heat 2", []).append(float(np.abs(found - exact).max()))
        exact = burgers.burgers_exact(np.arange(n), burgers.steps * burgers.burgers_step)
        found = np.concatenate(ran(burgers, 2)[0]["speed"])
        errors.setdefault("burgers 4.5", []).append(float(np.abs(found - exact).max()))
    for what, values in errors.items():
        order = float(what.split()[1])
        assert all(np.log2(coarse / fine) > order - 0.1 for coarse, fine in zip(values, values[1:], strict=False)), what


def _all_states() -> Any:
    """Of two by two by two places."""
    return np.array(np.meshgrid(*[[-1.0, 1.0]] * 8, indexing="ij")).reshape(8, -1).T.reshape(-1, 2, 2, 2)


def test_the_lattice_is_in_detailed_balance() -> None:
    """Of two by two by two places, all 256 states occur as often as Boltzmann says."""
    ising = Ising(side=2, replicas=2, coldest=8.0, hottest=15.0)
    copies = 40_000  # independent of each other, all at one temperature
    for beta in ising.betas:
        weight = np.exp(-beta * energies(np, _all_states(), ising.field))
        spins = np.where(np.arange(copies) % 2, 1.0, -1.0)[:, None, None, None] * np.ones((1, 2, 2, 2))
        for sweep in range(60):
            keys = key_of(9, sweep, 0), key_of(9, sweep, 1)
            spins = swept(np, spins, ising.field, np.full(copies, beta), keys, 0)
        number = ((spins.reshape(copies, 8) > 0) @ (1 << np.arange(7, -1, -1))).astype(int)
        counts, expected = np.bincount(number, minlength=256), copies * weight / weight.sum()
        likely = expected > 8
        chi = ((counts - expected)[likely] ** 2 / expected[likely]).sum()
        degrees = likely.sum() - 1
        assert degrees > 100
        assert abs(chi - degrees) < 5 * np.sqrt(2 * degrees)


class _Watched(NumpyRanks):
    """Keeps the energies that are exchanged by, and the temperatures behind each exchange."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.energies: list[Any] = []
        self.betas: list[Any] = []

    def gather(self, label: str, arrays: list[Any], root: int = 0) -> list[Any]:
        self.energies.append(np.concatenate(arrays))
        return super().gather(label, arrays, root)

    def broadcast(self, label: str, arrays: list[Any], root: int = 0) -> list[Any]:
        found = super().broadcast(label, arrays, root)
        self.betas.append(found[0])
        return found


def test_exchanges_keep_the_joint_distribution() -> None:
    """At each temperature the mean energy is Boltzmann's, whichever replicas have been there."""
    ising = Ising(side=2, replicas=6, exchanges=1500, sweeps=1, coldest=3.0, hottest=5.0)
    comm = _Watched(2)
    ising.run(comm, ising.prepare(comm))
    before = [ising.betas, *comm.betas[:-1]]  # that the energies were found at
    changes = sum(not np.array_equal(a, b) for a, b in zip(before, comm.betas, strict=True))
    assert changes > 500
    every = energies(np, _all_states(), ising.field)
    for beta in ising.betas:
        mean = np.mean([each[at == beta][0] for each, at in zip(comm.energies, before, strict=True)])
        weight = np.exp(-beta * every) / np.exp(-beta * every).sum()
        right = (weight * every).sum()
        spread = np.sqrt((weight * (every - right) ** 2).sum())
        assert abs(mean - right) < 6 * spread / np.sqrt(ising.exchanges / 4)  # sweeps in a row are alike


def test_any_number_of_gpus_draws_the_same_numbers() -> None:
    numbers = uniform(np, 5, np.arange(100_000, dtype=np.int64))
    assert numbers.min() > 0 and numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 4 / np.sqrt(12 * 100_000)
    assert len(np.unique(numbers)) == 100_000
    np.testing.assert_array_equal(numbers[500:600], uniform(np, 5, np.arange(500, 600, dtype=np.int64)))
    drawn = normal(np, 5, np.arange(100_000, dtype=np.int64))
    assert abs(drawn.mean()) < 4 / np.sqrt(100_000) and abs(drawn.std() - 1) < 0.01
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.02
    for name in ("annealing", "monte_carlo"):
        found = [ran(TARTAN[name].small(), ranks)[0] for ranks in (1, 3)]
        for key, arrays in found[0].items():
            merged = [np.concatenate(each[key]) if name == "monte_carlo" else each[key][0] for each in found]
            np.testing.assert_array_equal(merged[0], merged[1], err_msg=f"{name} {key} {arrays[0].shape}")


def test_turbulence_from_random_beginnings() -> None:
    random = replace(Turbulence.small(), flow="random", steps=3)
    answers = [ran(random, ranks)[0] for ranks in (1, 3)]
    assert all(random.error(answer) <= 1 for answer in answers)
    one, three = (np.concatenate(answer["fields"], axis=1) for answer in answers)
    np.testing.assert_allclose(one, three, atol=1e-12)
    waves = np.meshgrid(*[np.fft.fftfreq(16, 1 / 16)] * 3, indexing="ij")
    spectra = np.fft.fftn(one, axes=(1, 2, 3))
    divergence = sum(wave * spectrum for wave, spectrum in zip(waves, spectra, strict=True))
    assert np.abs(divergence).max() < 1e-9 * np.abs(spectra).max()
    still = replace(random, steps=0)
    np.testing.assert_allclose(np.concatenate(ran(still, 2)[0]["fields"], axis=1), still.begin(), atol=1e-12)


def test_atoms_migrate_and_stay_on_the_way() -> None:
    answer, comm = ran(Molecular.small(), 4)
    leaving = sum(step.size for step in comm.steps if step.label == "migration")
    assert leaving > 0
    energy = answer["energies"][0].sum(1)
    assert np.ptp(energy) < 1e-3 * len(np.concatenate(answer["atoms"]))
    with pytest.raises(UsageError, match="too few"):
        ran(Molecular.small(), 9)
    with pytest.raises(UsageError, match="three cells"):
        ran(Molecular(3, 3, 1), 1)


def test_gradients_by_all_three_ways_are_alike() -> None:
    net = ConvNet.small()
    answer, _ = ran(net, 4)
    data = {name.split()[1]: arrays for name, arrays in answer.items() if name.startswith("data")}
    for of in ("first", "second"):
        model = np.concatenate(answer[f"model {of}"], axis=1)
        np.testing.assert_allclose(model, data[of][0], atol=1e-14)
        np.testing.assert_allclose(np.concatenate(answer[f"hybrid {of}"], axis=1), data[of][0], atol=1e-14)


def test_exchanges_have_the_chance_that_keeps_the_distribution() -> None:
    """min(1, exp(Δβ ΔE)) for each pair, over many draws; by turns the even and the odd pairs."""
    beta, energy = np.array([1.0, 0.5, 0.8, 0.3]), np.array([-3.0, -4.0, -2.5, -3.5])
    order = np.argsort(-beta)
    for first in (0, 1):
        swapped = {pair: 0 for pair in zip(order[first::2], order[first + 1 :: 2], strict=False)}
        draws = range(first, 8000, 2)
        for exchange in draws:
            after = exchanged(np, energy, beta, exchange)
            assert sorted(after) == sorted(beta)
            for a, b in swapped:
                assert {after[a], after[b]} == {beta[a], beta[b]}
                swapped[a, b] += int(after[a] == beta[b])
        for (a, b), count in swapped.items():
            chance = min(1.0, float(np.exp((beta[a] - beta[b]) * (energy[a] - energy[b]))))
            assert abs(count / len(draws) - chance) <= 4 * np.sqrt(chance * (1 - chance) / len(draws))


def test_annealing_goes_uphill_as_often_as_its_temperature_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """At one temperature chains settle where Boltzmann has them: here on a straight line, whose mean is known."""
    problem = Annealing(dims=1, chains=4000, steps=300, temperatures=1, first=200.0)
    ends: list[Any] = []

    def line(xp: Any, points: Any) -> Any:
        ends.append(np.array(points))
        return points[:, 0]

    monkeypatch.setattr(Annealing, "_value", staticmethod(line))
    ran(problem, 1)
    grid = np.linspace(-512, 512, 4097)
    weight = np.exp(-grid / 200.0) / np.exp(-grid / 200.0).sum()
    mean = (grid * weight).sum()
    spread = np.sqrt(((grid - mean) ** 2 * weight).sum())
    # What is seen are proposals: a half of the chain's distribution, moved; so the accepted ones are looked at.
    assert abs(np.mean(_accepted(ends)) - mean) < 6 * spread / np.sqrt(len(ends[0]))


def _accepted(proposals: list[Any]) -> Any:
    """Where chains are: replayed from what they were offered, by the rule written once more."""
    here = proposals[0][:, 0]
    for step, offered in enumerate(proposals[1:]):
        there = offered[:, 0]
        chance = uniform(np, key_of(0, 0, step, 3), np.arange(len(here), dtype=np.int64))
        here = np.where(chance < np.exp((here - there) / 200.0), there, here)
    return here


def test_other_seeds_find_the_same_minimum() -> None:
    found = []
    for seed in (1, 2):
        problem = replace(Annealing.small(), seed=seed)
        answer, _ = ran(problem, 2)
        assert problem.error(answer) <= 1
        found.append(answer["best"][0])
    assert not np.array_equal(found[0], found[1])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_priced_has_as_many_steps_as_the_full_problem(kind: type[Program]) -> None:
    recorded, full = kind.small().recorded(), kind.full()
    for name in ("iterations", "steps", "exchanges", "sweeps", "temperatures", "repetitions", "most_steps"):
        if kind is not Annealing or name != "steps":  # of which a kernel does all
            assert getattr(recorded, name, None) == getattr(full, name, None), name


def test_names_and_abbreviations() -> None:
    assert tartan_program("BRQ") is tartan_program("brq") is tartan_program("wave") is Wave
    with pytest.raises(UsageError, match="no application 'x' of Tartan's"):
        tartan_program("x")
    assert [kind.abbreviation for kind in KINDS] == [
        "CNN", "CSM", "GMM", "KMN", "MTC", "PLN", "TRK", "BRQ", "DFF", "LLH", "CMD", "PRB", "HIT", "MAM",
    ]  # fmt: skip


def test_what_cannot_be_run_is_told() -> None:
    with pytest.raises(UsageError, match="have no link to each other"):
        run_tartan("convnet", machine="dgx1-v100")
    assert run_tartan("convnet", machine="dgx1-v100", gpus=[0, 1, 2, 3]).correct
    with pytest.raises(UsageError, match="cannot be grown"):
        run_tartan("langford", machine="dgx2", scaling="weak")
    with pytest.raises(UsageError, match="leads from node to node"):
        run_tartan("wave", machine="dgx2", via="rdma")
    with pytest.raises(UsageError, match="no peer access"):
        run_tartan("wave", machine="summit-node:2", via="peer")
    for gpus, told in (([99], "there is no GPU 99"), ([-1], "there is no GPU -1"), ([], "one GPU at least")):
        with pytest.raises(UsageError, match=told):
            run_tartan("wave", machine="dgx2", gpus=gpus)
    with pytest.raises(UsageError, match="NCCL takes a GPU for each rank"):
        run_tartan("wave", machine="dgx2", gpus=[0, 0], via="nccl")
    assert run_tartan("wave", machine="dgx2", gpus=[0, 0]).via == "host-pinned"
    with pytest.raises(UsageError, match="for 1 GPUs at most, not 4"):
        run_tartan("wave", machine="dgx2", gpus=[0, 1, 2, 3], scale=1 / 256)
    with pytest.raises(UsageError, match="cannot be grown"):
        run_tartan("langford", machine="dgx2", scale=0.5)
    assert run_tartan("turbulence", machine="dgx2", gpus=[0, 1], scale=1e-6).correct
    with pytest.raises(UsageError, match="the scale is 0"):
        run_tartan("wave", machine="dgx2", scale=0)
    if not HAVE_GPU:
        with pytest.raises(DeviceError, match="there is no GPU to run an application on"):
            run_tartan("wave")


def test_reports_hold_together() -> None:
    strong = run_tartan("wave", machine="dgx1-v100", gpus=[0, 1, 2, 3])
    weak = run_tartan("wave", machine="dgx1-v100", gpus=[0, 1, 2, 3], scaling="weak")
    assert strong.seconds == pytest.approx(sum(strong.by_kind.values()))
    assert 2 < strong.speedup < weak.speedup < 4
    assert max(entry.end_ps for entry in strong.timeline) * 1e-12 == pytest.approx(strong.seconds)
    half = run_tartan("wave", machine="dgx1-v100", gpus=[0], scale=0.5)
    assert half.seconds == pytest.approx(strong.single_gpu_seconds / 2, rel=0.01)
    told: list[tuple[int, int]] = []
    run_tartan("kmeans", machine="dgx2", gpus=[0, 1], on_progress=lambda done, steps, _: told.append((done, steps)))
    assert told[-1] == (3, 3) and told == sorted(told)
    nodes = run_tartan("wave", machine="summit-node:4", via="rdma")
    assert nodes.gpus == [0, 6, 12, 18] and nodes.correct


def cli(*arguments: str) -> Any:
    return CliRunner().invoke(commands_for(["app"]), ["app", *arguments])


def test_command_line(tmp_path: Path) -> None:
    listed = cli("list").output
    assert all(kind.abbreviation in listed for kind in KINDS) and "jacobi" in listed
    trace, picture = tmp_path / "t.json", tmp_path / "p.svg"
    done = cli("kmeans", "--machine", "dgx2", "--gpus", "0,1", "--trace", str(trace), "--picture", str(picture))
    assert done.exit_code == 0 and "right" in done.output and "by way of nccl" in done.output
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["cat"] for event in events if event["ph"] == "X"} >= {"points", "sums", "compute"}
    assert picture.read_text().startswith("<?xml")
    told = json.loads(cli("MTC", "--machine", "dgx2", "--json").output)
    assert told["app"] == "monte_carlo" and told["correct"] and len(told["gpus"]) == 16
    for arguments, says in (
        (["wave", "--agent", "bulk"], "takes no --agent"),
        (["jacobi", "--via", "nccl"], "takes no --via"),
        (["waves"], "there is no app 'waves'"),
    ):
        assert says in str(cli(*arguments).exception)


def test_a_wrong_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _steps_of.cache_clear()
    monkeypatch.setattr(TARTAN["kmeans"], "error", lambda *_: 7.0)
    done = cli("kmeans", "--machine", "dgx2", "--gpus", "0,1")
    _steps_of.cache_clear()
    assert done.exit_code == 1 and "WRONG" in done.output


def _gpus_for(way: str) -> list[int]:
    cupy = pytest.importorskip("cupy")
    count = cupy.cuda.runtime.getDeviceCount()
    return list(range(count)) if count > 1 or way == "nccl" else [0, 0]


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["peer", "nccl", "host", "host-pinned"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_on_gpus(kind: type[Program], way: str) -> None:
    gpus = _gpus_for(way)
    small: Any = kind.small()
    if isinstance(small, Hydrodynamics):
        small = replace(small, planes=8, side=8)
    comm = GpuRanks(gpus, WAYS[way], master=kind.has_master)
    answer = small.run(comm, small.prepare(comm))
    assert small.error({name: comm.fetch(arrays) for name, arrays in answer.items()}) <= 1
    plain, _ = ran(small, len(gpus), way)
    for name, arrays in plain.items():
        told = 1 if name == "likelihood" else len(arrays)  # by the first rank alone
        for one, other in zip(comm.fetch(answer[name])[:told], arrays[:told], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.gpu
def test_a_run_on_gpus_is_timed() -> None:
    report = run_tartan("wave", machine="local", scale=0.05, repetitions=2)
    assert report.correct and not report.simulated and report.seconds > 0
    assert {"compute"} <= set(report.by_kind) and report.spans
    shared = run_tartan("kmeans", machine="local", gpus=[0, 0], scale=0.01, repetitions=1)
    assert shared.correct and shared.via == "host-pinned"


def test_described_machines_know_their_flops() -> None:
    for name in ("dgx1-p100", "dgx1-v100", "dgx2", "summit-node", "summitdev-node", "h200x8"):
        rates = load_machine(name).gpu.rates
        assert rates["double flops"].ps_per_record >= rates["single flops"].ps_per_record > 0
