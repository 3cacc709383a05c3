"""Chrome/Perfetto traces: one track per stream, and one per direction of a link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from linkwise._core import Machine, Place, TimelineEntry, UsageError
from linkwise.runtime.atomic_file import write_json
from linkwise.sorting.report import SortReport

if TYPE_CHECKING:  # a sort does not load it
    from linkwise.joining.report import JoinReport

_STREAMS, _LINKS = 1, 2


class Timed(Protocol):
    """A report with a timeline of a machine."""

    @property
    def timeline(self) -> Sequence[TimelineEntry]:
        """The operations, ordered by start."""

    @property
    def machine_description(self) -> Machine | None:
        """The machine that it ran on."""


class Spanned(Protocol):
    """A piece of work on a thread, or on another track; seconds from the beginning."""

    @property
    def name(self) -> str:
        """What was done."""

    @property
    def thread(self) -> str:
        """The thread or track."""

    @property
    def begin(self) -> float:
        """Its start."""

    @property
    def end(self) -> float:
        """Its end."""


def _directed_links(report: Timed) -> Iterator[tuple[str, int, int]]:
    """(name, timeline index, bytes) for each link that bytes cross, in the direction in which they cross it."""
    machine = report.machine_description
    if machine is None:
        return
    for index, entry in enumerate(report.timeline):
        for passage in entry.passages:
            # Links are listed from source to target: each begins where the one before it ends.
            at = _node_of(machine, passage.source)
            for link_index in passage.links:
                link = machine.links[link_index]
                to = link.b if link.a == at else link.a
                yield f"{machine.nodes[at].name} → {machine.nodes[to].name}", index, passage.bytes
                at = to


def _node_of(machine: Machine, place: Place) -> int:
    kind = "gpu" if place.is_gpu else "memory"
    of_kind = [index for index, node in enumerate(machine.nodes) if node.kind.name == kind]
    return of_kind[place.index]


def trace_events(report: Timed) -> list[dict[str, Any]]:
    """The report's timeline as trace events; times in microseconds from its first operation."""
    origin = min((entry.start_ps for entry in report.timeline), default=0)
    events: list[dict[str, Any]] = []
    tracks: dict[tuple[int, str], int] = {}

    def track(process: int, name: str) -> int:
        if (process, name) not in tracks:
            tracks[process, name] = len(tracks) + 1
            events.append(
                {"ph": "M", "name": "thread_name", "pid": process, "tid": tracks[process, name], "args": {"name": name}}
            )
        return tracks[process, name]

    for process, name in ((_STREAMS, "streams"), (_LINKS, "links")):
        events.append({"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}})

    def slice_of(index: int, process: int, name: str, num_bytes: int) -> dict[str, Any]:
        entry = report.timeline[index]
        seconds = max(entry.end_ps - entry.start_ps, 1) * 1e-12
        return {
            "ph": "X",
            "name": entry.name,
            "cat": entry.phase,
            "pid": process,
            "tid": track(process, name),
            "ts": (entry.start_ps - origin) * 1e-6,
            "dur": (entry.end_ps - entry.start_ps) * 1e-6,
            "args": {"phase": entry.phase, "bytes": num_bytes, "GB/s": round(num_bytes / seconds * 1e-9, 3)},
        }

    for index, entry in enumerate(report.timeline):
        events.append(slice_of(index, _STREAMS, f"{entry.place!r}/{entry.stream}", entry.bytes))
    for name, index, num_bytes in _directed_links(report):
        events.append(slice_of(index, _LINKS, name, num_bytes))
    return events


def check_trace(path: Path) -> None:
    """Raise ``UsageError`` for a file that cannot be written, before the work is done."""
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no directory {path.parent}")
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a directory")


def write_trace(path: str | Path, report: SortReport) -> None:
    """Write the trace of a sort; open it in Perfetto or chrome://tracing."""
    document = {
        "traceEvents": trace_events(report),
        "displayTimeUnit": "ms",
        "otherData": {"machine": report.machine, "simulated": report.simulated, "plan": report.told_plan()},
    }
    write_json(Path(path), document)


def write_run_trace(path: Path, run: Timed, told: Mapping[str, Any]) -> None:
    """Write the trace of a run on a described machine: tracks of streams and links."""
    write_json(path, {"traceEvents": trace_events(run), "displayTimeUnit": "ms", "otherData": dict(told)})


def write_join_trace(path: Path, report: JoinReport) -> None:
    """Write the trace of a join of files: one track per thread."""
    write_spans(path, report.spans, {"strategy": report.strategy, "rows": report.rows})


def write_spans(path: Path, spans: Sequence[Spanned], told: Mapping[str, Any]) -> None:
    """Write a trace of pieces of work: one track per thread."""
    threads = {name: number for number, name in enumerate(dict.fromkeys(span.thread for span in spans), 1)}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": name}}
        for name, number in threads.items()
    ]
    events += [
        {
            "ph": "X", "name": span.name, "cat": "work", "pid": 1, "tid": threads[span.thread],
            "ts": 1e6 * span.begin, "dur": 1e6 * (span.end - span.begin),
        }
        for span in spans
    ]  # fmt: skip
    write_json(path, {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(told)})
