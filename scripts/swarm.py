"""Sorts and joins drawn at random, each checked against NumPy, DuckDB and Polars: whatever the machine, plan, limit and
order, no byte may differ.

    python scripts/swarm.py --minutes 60                        # new ones, on all cores; also make swarm MINUTES=60
    python scripts/swarm.py --count 2000 --seed 0               # those numbers, as CI does
    python scripts/swarm.py --replay '{"operation": …}'         # one again

A scenario depends on nothing but its number. One that fails, crashes or hangs is made smaller for as long as it still
does, and the command that shows it is printed. ``--output`` writes what was run and how it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

PATIENCE = 300  # CPU seconds that a scenario may take,
WAITING = 1800  # and wall-clock seconds: a deadlock takes no CPU time
SHRINKING = 90  # seconds for shrinking a failure


def work(numbers: Iterator[int]) -> None:
    """Run scenarios, and tell on standard output how each ended."""
    from swarm_draw import draw  # noqa: PLC0415
    from swarm_scenarios import run  # noqa: PLC0415

    for number in numbers:
        scenario = draw(number)
        print(json.dumps({"begin": number}), flush=True)
        try:
            ended = run(scenario)
        except BaseException as error:
            ended = f"wrong: {type(error).__name__}: {' '.join(str(error).split())[:500]}"
            if isinstance(error, KeyboardInterrupt):
                raise
        told = resource.getrusage(resource.RUSAGE_SELF)
        cpu, peak = told.ru_utime + told.ru_stime, told.ru_maxrss << 10
        end = {"end": number, "operation": scenario["operation"], "ended": ended, "cpu": cpu, "peak": peak}
        print(json.dumps(end), flush=True)


def fails(scenario: dict[str, Any]) -> bool:
    """Whether a scenario still goes wrong, in a process of its own."""
    command = [sys.executable, __file__, "--replay", json.dumps(scenario)]
    try:
        return subprocess.run(command, capture_output=True, timeout=WAITING, check=False).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def smaller(scenario: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The scenario with something left out, the most important first."""
    execution = scenario["execution"]
    yield scenario | {"fault": None}
    yield scenario | {"others": []}
    for name in ("memory_limit", "gpus", "scaled", "verify"):
        yield scenario | {"execution": {key: value for key, value in execution.items() if key != name}}
    for name in execution.get("plan", {}):
        plan = {key: value for key, value in execution["plan"].items() if key != name}
        yield scenario | {"execution": execution | {"plan": plan}}
    if "machine" in execution and not execution.get("plan"):
        yield scenario | {"execution": {"strategy": "cpu"}}
    if "host memory" in scenario:
        yield scenario | {"host memory": None}
    for size in ("rows", "right rows"):
        for less in (scenario.get(size, 0) // 2, scenario.get(size, 0) - 1):
            if 0 <= less < scenario.get(size, 0):
                yield scenario | {size: less}
    for at in range(len(scenario["keys"]) if len(scenario["keys"]) > 1 else 0):
        lists = ("keys", "right keys", "descending", "nulls")
        yield scenario | {name: [*scenario[name][:at], *scenario[name][at + 1 :]] for name in lists if name in scenario}


def shrunk(scenario: dict[str, Any]) -> dict[str, Any]:
    """The smallest failing scenario that was found in the time allowed."""
    until = time.monotonic() + SHRINKING
    while True:
        found = next(
            (less for less in smaller(scenario) if less != scenario and time.monotonic() < until and fails(less)), None
        )
        if found is None:
            return scenario
        scenario = found


class Worker:
    """A process that runs every n-th scenario, and is restarted after one that it did not survive."""

    def __init__(self, first: int, step: int, count: int | None, told: Queue[dict[str, Any]]) -> None:
        self._next, self._step, self._left, self._told = first, step, count, told
        self._begun, self._begun_cpu = time.monotonic(), 0.0
        self._start()

    def _start(self) -> None:
        count = "" if self._left is None else str(self._left)
        command = [sys.executable, __file__, "--work", str(self._next), str(self._step), count]
        threads = os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, env=threads, text=True)
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: Any) -> None:
        running: int | None = None
        cpu = 0.0
        for line in process.stdout:
            told = json.loads(line)
            if "begin" in told:
                running, self._begun, self._begun_cpu = told["begin"], time.monotonic(), cpu
            else:
                running = None
                self._next = told["end"] + self._step
                self._left = None if self._left is None else self._left - 1
                self._told.put(told | {"cpu": told["cpu"] - cpu})
                cpu = told["cpu"]
        code = process.wait()
        if running is not None and code != -15:
            self._next = running + self._step
            self._left = None if self._left is None else self._left - 1
            why = "hangs" if code == -9 else f"ends the process with {code}"
            self._told.put({"end": running, "operation": "?", "ended": f"wrong: {why}", "cpu": 0, "peak": 0})
            if self._left != 0:
                self._start()
                return
        self._told.put({"done": True})

    def _cpu_seconds(self) -> float:
        """CPU seconds of the process so far."""
        with suppress(OSError):
            of_process = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            return sum(map(int, of_process[11:13])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def look(self) -> None:
        """Kill it if it hangs."""
        is_late = time.monotonic() - self._begun > WAITING or self._cpu_seconds() - self._begun_cpu > PATIENCE
        if is_late and self._process.poll() is None:
            self._process.kill()

    def stop(self) -> None:
        """Stop the process."""
        self._process.terminate()


def swarm(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run scenarios on all cores until the time is over, or until ``count`` are done."""
    told: Queue[dict[str, Any]] = Queue()
    jobs = min(arguments.jobs or os.cpu_count() or 1, arguments.count or 1 << 30)
    share = [None if arguments.count is None else len(range(job, arguments.count, jobs)) for job in range(jobs)]
    workers = [Worker(arguments.seed + job, jobs, share[job], told) for job in range(jobs)]
    began, until = time.monotonic(), time.monotonic() + 60 * arguments.minutes
    ended: Counter[str] = Counter()
    wrong: list[dict[str, Any]] = []
    cpu, peak, greedy, done = 0.0, 0, None, 0
    while done < jobs and (arguments.count is not None or time.monotonic() < until):
        try:
            one = told.get(timeout=1)
        except Empty:
            for worker in workers:
                worker.look()
            continue
        if "done" in one:
            done += 1
            continue
        cpu += one["cpu"]
        if one["peak"] > peak:  # processes report their peak so far: this scenario raised it
            peak, greedy = one["peak"], one["end"]
        is_wrong = one["ended"].startswith("wrong")
        ended[f"{one['operation']}: {'wrong' if is_wrong else one['ended']}"] += 1
        if is_wrong:
            wrong.append(one)
            print(f"scenario {one['end']} ({one['operation']}): {one['ended']}", file=sys.stderr, flush=True)
    for worker in workers:
        worker.stop()
    return {
        "seed": arguments.seed, "scenarios": sum(ended.values()), "wrong": wrong, "core_hours": cpu / 3600,
        "wall_seconds": time.monotonic() - began, "jobs": jobs,
        "peak_bytes_of_a_process": peak, "peak_scenario": greedy,
        "ended": dict(sorted(ended.items())),
    }  # fmt: skip


def write(output: Path | None, results: dict[str, Any]) -> None:
    """Write the results so far."""
    if output is not None:
        output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Return how many scenarios went wrong, as an exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--count", type=int, help="so many scenarios, however long it takes")
    parser.add_argument(
        "--seed", type=int, default=None, help="the first scenario's number; from the clock unless given"
    )
    parser.add_argument("--jobs", type=int, default=0, help="processes; as many as there are cores unless given")
    parser.add_argument("--shrink", type=int, default=5, metavar="N", help="make so many failures smaller")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--replay", metavar="JSON", help="run one scenario, as it was printed, or by its number")
    parser.add_argument("--work", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        first, step, *count = arguments.work
        work(iter(range(int(first), 1 << 62 if not count[0] else int(first) + int(step) * int(count[0]), int(step))))
        return 0
    if arguments.replay:
        from swarm_draw import draw  # noqa: PLC0415
        from swarm_scenarios import run  # noqa: PLC0415

        asked = json.loads(arguments.replay)
        try:
            print(run(draw(asked) if isinstance(asked, int) else asked))
        except Exception:
            traceback.print_exc()
            return 1
        return 0
    if arguments.seed is None:
        arguments.seed = time.time_ns() // 1000 % (1 << 40)
    results = swarm(arguments)
    write(arguments.output, results)
    for one in results["wrong"][: arguments.shrink]:
        from swarm_draw import draw  # noqa: PLC0415

        one["smallest"] = shrunk(draw(one["end"]))
        print(f"python scripts/swarm.py --replay '{json.dumps(one['smallest'])}'", file=sys.stderr)
    write(arguments.output, results)
    told = f"{results['scenarios']} scenarios, {len(results['wrong'])} wrong, {results['core_hours']:.3f} core-hours"
    print(f"{told}; seed {results['seed']}, {results['wall_seconds']:.0f} s")
    return 1 if results["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
