"""Ranks, one per GPU, that compute in parallel and send each other arrays.

A program is written once, as sequential code: data of this process's ranks are lists with one entry per rank, so that
it runs in one process with all GPUs, in one process per GPU (MPI), and on described machines, where NumPy computes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

import numpy as np

from linkwise._core import UsageError
from linkwise._typing import Array
from linkwise.messages import schedules
from linkwise.messages.schedules import Rounds, even_cuts, even_rows
from linkwise.messages.ways import Way

Arrays = list[Any]
"""One array for each rank of this process, each on its rank's GPU."""

OPERATIONS = ("sum", "min", "max")


class Communicator(ABC):
    """The ranks of a run. Every call has a ``label``, under which it is priced and traced."""

    def __init__(self, size: int, local: Sequence[int], xp: Any, way: Way, *, master: bool = False) -> None:
        self.size = size
        """Ranks in all."""
        self.local = tuple(local)
        """Those of this process."""
        self.xp = xp
        """The array API (2024.12) that their arrays belong to."""
        self.way = way
        self.has_master = master and way.uses_host
        """Whether one process does collectives in host memory (tartan20 §4.1), instead of the ranks themselves."""

    # ---- what backends implement

    def _on(self, rank: int) -> AbstractContextManager[Any]:
        """The context in which a rank's arrays are made."""
        del rank
        return nullcontext()

    def _step(self, kind: str, label: str) -> AbstractContextManager[Any]:
        """The context of a step that all ranks take together."""
        del kind, label
        return nullcontext()

    def _master(self, kind: str, label: str, arrays: Arrays) -> None:
        """The master takes the arrays from the ranks (``"collect"``), or gives them to the ranks (``"hand_out"``)."""
        del kind, label, arrays

    @abstractmethod
    def _run(self, kind: str, label: str, rounds: Rounds, sources: Arrays, targets: Arrays, operation: str) -> None:
        """Execute the rounds on flat arrays of this process's ranks."""

    def _collected(self, kind: str, label: str, arrays: Arrays, cuts: list[int], root: int, operation: str) -> None:
        """``collective`` by rounds of hops; backends with a better way override this."""
        if self.has_master:
            rounds = schedules.through_master(kind, self.size, cuts, root)
        else:
            rounds = schedules.along_ring(kind, range(self.size), cuts, root, item_size(arrays[0]))
        self._run(kind, label, rounds, arrays, arrays, operation)

    def _of_all(self, mine: list[Any]) -> list[Any]:
        """All-gather small values: every rank's by rank, from those of this process's ranks."""
        return mine

    def from_host(self, rank: int, array: Any) -> Any:
        """Copy a NumPy array to a rank's GPU; not a step of its own, so neither priced nor traced."""
        with self._on(rank):
            return self.xp.asarray(array)

    @abstractmethod
    def to_host(self, array: Any) -> Array:
        """Copy a rank's array to NumPy; not a step of its own, so neither priced nor traced."""

    def fetch(self, arrays: Arrays) -> list[Array]:
        """The arrays of all ranks on the host, for checks; not a step of its own, so neither priced nor traced."""
        return self._of_all([self.to_host(array) for array in arrays])

    # ---- what programs call

    def each(self, label: str, work: Callable[..., Any], *columns: Sequence[Any]) -> Arrays:
        """``work(rank, *entries)`` on each rank's GPU, with the rank's entries of the columns."""
        found = []
        with self._step("compute", label):
            for at, rank in enumerate(self.local):
                with self._on(rank):
                    found.append(work(rank, *(column[at] for column in columns)))
        return found

    def collective(
        self, kind: str, label: str, arrays: Arrays, cuts: list[int], root: int, operation: str = "sum"
    ) -> None:
        """A collective in place, on flat arrays of equal lengths; ``cuts`` say which piece is whose."""
        with self._step(kind, label):
            self._collected(kind, label, arrays, cuts, root, operation)

    def move(self, label: str, rounds: Rounds, sources: Arrays, targets: Arrays) -> None:
        """Execute given rounds of hops between flat arrays of the ranks."""
        with self._step("exchange", label):
            self._run("exchange", label, rounds, sources, targets, "sum")

    def joined(self, parts: Iterable[Sequence[Any]], axis: int = 0) -> Arrays:
        """Concatenate each rank's parts on its GPU."""
        found = []
        for rank, mine in zip(self.local, parts, strict=True):
            with self._on(rank):
                found.append(self.xp.concat(tuple(mine), axis=axis))
        return found

    def broadcast(self, label: str, arrays: Arrays, root: int = 0) -> Arrays:
        """All ranks get the root's array; the others' arrays only give its shape."""
        flat = self._flat(arrays)
        self.collective("broadcast", label, flat, even_cuts(_length(flat), self.size), root)
        return self._shaped(flat, arrays)

    def reduce(self, label: str, arrays: Arrays, root: int = 0, operation: str = "sum") -> Arrays:
        """The root gets the sum, minimum or maximum; the other ranks' results are undefined."""
        return self._reduced("reduce", label, arrays, root, operation)

    def all_reduce(self, label: str, arrays: Arrays, operation: str = "sum") -> Arrays:
        """All ranks get the sum, minimum or maximum, bit-identical."""
        return self._reduced("all_reduce", label, arrays, 0, operation)

    def _reduced(self, kind: str, label: str, arrays: Arrays, root: int, operation: str) -> Arrays:
        if operation not in OPERATIONS:
            raise UsageError(f"ranks reduce by {', '.join(OPERATIONS)}, not by '{operation}'")
        flat = self._flat(arrays)
        self.collective(kind, label, flat, even_cuts(_length(flat), self.size), root, operation)
        return self._shaped(flat, arrays)

    def reduce_scatter(self, label: str, arrays: Arrays) -> Arrays:
        """Each rank gets its part of the sum along the first axis; lengths differ by at most one (``even_cuts``)."""
        rows = int(arrays[0].shape[0])
        row = _length(self._flat(arrays[:1])) // max(rows, 1)
        cuts = [row * cut for cut in even_cuts(rows, self.size)]
        flat = self._flat(arrays)
        self.collective("reduce_scatter", label, flat, cuts, 0)
        parts = []
        for at, rank in enumerate(self.local):
            with self._on(rank):
                parts.append(flat[at][cuts[rank] : cuts[rank + 1]])
        return self._shaped(parts, arrays, even_rows(rows, self.size))

    def all_gather(self, label: str, arrays: Arrays) -> Arrays:
        """All ranks get all arrays, concatenated along the first axis; lengths may differ."""
        flat = self._flat(arrays)
        cuts, rows = self._parts(flat, arrays)
        whole = []
        for at, rank in enumerate(self.local):
            with self._on(rank):
                everything = self.xp.empty(cuts[-1], dtype=arrays[at].dtype)
                everything[cuts[rank] : cuts[rank + 1]] = flat[at]
                whole.append(everything)
        self.collective("all_gather", label, whole, cuts, 0)
        return self._shaped(whole, arrays, [sum(rows)] * self.size)

    def scatter(self, label: str, arrays: Arrays, root: int = 0) -> Arrays:
        """Each rank gets its part of the root's array along the first axis; the others' only give its shape."""
        rows = int(arrays[0].shape[0])
        flat = self._flat(arrays)
        row = _length(flat) // max(rows, 1)
        cuts = [row * cut for cut in even_cuts(rows, self.size)]
        parts = []
        for at, rank in enumerate(self.local):
            with self._on(rank):
                part = self.xp.empty(cuts[rank + 1] - cuts[rank], dtype=arrays[at].dtype)
                if rank == root:
                    part[:] = flat[at][cuts[rank] : cuts[rank + 1]]
                parts.append(part)
        with self._step("scatter", label):
            self._run("scatter", label, schedules.scatter(cuts, root), flat, parts, "sum")
        return self._shaped(parts, arrays, even_rows(rows, self.size))

    def gather(self, label: str, arrays: Arrays, root: int = 0) -> Arrays:
        """The root gets all arrays, concatenated along the first axis; the others get arrays of length 0."""
        flat = self._flat(arrays)
        cuts, rows = self._parts(flat, arrays)
        whole = []
        for at, rank in enumerate(self.local):
            with self._on(rank):
                everything = self.xp.empty(cuts[-1] if rank == root else 0, dtype=arrays[at].dtype)
                if rank == root:
                    everything[cuts[rank] : cuts[rank + 1]] = flat[at]
                whole.append(everything)
        with self._step("gather", label):
            self._run("gather", label, schedules.gather(cuts, root), flat, whole, "sum")
        return self._shaped(whole, arrays, [sum(rows) if rank == root else 0 for rank in range(self.size)])

    def all_to_all(self, label: str, parts: list[list[Any]]) -> list[list[Any]]:
        """Rank `a`'s ``parts[b]`` goes to rank `b`, which gets them in order of ranks; shapes may differ."""
        return self._sent("all_to_all", label, [dict(enumerate(mine)) for mine in parts])[0]

    def exchange(self, label: str, messages: list[dict[int, Any]]) -> list[dict[int, Any]]:
        """Copy arrays between ranks: each rank gives arrays by target rank, and gets arrays by source rank.

        All arrays of a call have one data type.
        """
        for mine in messages:
            for to in mine:
                if not 0 <= to < self.size:
                    raise UsageError(f"there is no rank {to} of {self.size} to send to")
        received, sent = self._sent("exchange", label, messages)
        return [
            {source: got[source] for source in range(self.size) if rank in sent[source]}
            for rank, got in zip(self.local, received, strict=True)
        ]

    def _sent(
        self, kind: str, label: str, messages: list[dict[int, Any]]
    ) -> tuple[list[list[Any]], list[dict[int, Any]]]:
        """What each local rank got from each rank (empty if nothing was sent), and the shapes of all messages."""
        told = self._of_all(
            [{to: (tuple(array.shape), type_name(array)) for to, array in mine.items()} for mine in messages]
        )
        types = {name for mine in told for _, name in mine.values()}
        if len(types) > 1:
            raise UsageError(f"messages of one call have one data type, not {' and '.join(sorted(types))}")
        dtype = getattr(self.xp, types.pop()) if types else self.xp.float64
        shapes = [{to: shape for to, (shape, _) in mine.items()} for mine in told]
        ranks = range(self.size)
        lengths = [[prod(shapes[a][b]) if b in shapes[a] else 0 for b in ranks] for a in ranks]
        outgoing, incoming = [], []
        for at, rank in enumerate(self.local):
            with self._on(rank):
                flat = [self.xp.reshape(messages[at][to], (-1,)) for to in sorted(messages[at])]
                outgoing.append(self.xp.concat(flat) if flat else self.xp.empty(0, dtype=dtype))
                incoming.append(self.xp.empty(sum(lengths[a][rank] for a in ranks), dtype=dtype))
        with self._step(kind, label):
            self._run(kind, label, schedules.all_to_all(lengths), outgoing, incoming, "sum")
        received = []
        for at, rank in enumerate(self.local):
            cuts = schedules.cuts_of([lengths[a][rank] for a in ranks])
            with self._on(rank):
                got = [self.xp.reshape(incoming[at][cuts[a] : cuts[a + 1]], shapes[a].get(rank, (0,))) for a in ranks]
            if rank in messages[at] and not self.way.uses_host:
                got[rank] = messages[at][rank]
            received.append(got)
        return received, shapes

    def collect(self, label: str, arrays: Arrays) -> list[Array]:
        """The host gets all ranks' arrays, by rank; with several processes, each process's host does."""
        self._master("collect", label, arrays)
        with self._step("collect", label):
            return self.fetch(arrays)

    def hand_out(self, label: str, parts: Sequence[Any]) -> Arrays:
        """Copy the host's part for each rank to its GPU; with several processes, each copies from its own host."""
        with self._step("hand_out", label):
            arrays = [self.from_host(rank, parts[rank]) for rank in self.local]
        self._master("hand_out", label, arrays)
        return arrays

    # ---- shapes

    def _flat(self, arrays: Arrays) -> Arrays:
        """Flattened copies."""
        flat = []
        for at, rank in enumerate(self.local[: len(arrays)]):
            with self._on(rank):
                flat.append(self.xp.asarray(self.xp.reshape(arrays[at], (-1,)), copy=True))
        return flat

    def _parts(self, flat: Arrays, arrays: Arrays) -> tuple[list[int], list[int]]:
        """For the concatenation of all ranks' arrays: the cut points between ranks, and each one's rows."""
        told = self._of_all([(_length([each]), int(array.shape[0])) for each, array in zip(flat, arrays, strict=True)])
        return schedules.cuts_of([length for length, _ in told]), [rows for _, rows in told]

    def _shaped(self, flat: Arrays, like: Arrays, rows: Sequence[int] | None = None) -> Arrays:
        """Flat arrays in the shape of others, with the given numbers of rows, by rank, if any."""
        shaped = []
        for at, rank in enumerate(self.local):
            shape = like[at].shape if rows is None else (rows[rank], *like[at].shape[1:])
            with self._on(rank):
                shaped.append(self.xp.reshape(flat[at], shape))
        return shaped


def type_name(array: Any) -> str:
    """The data type of an array, as the array API calls it: ``"float64"``."""
    return str(array.dtype).rpartition(".")[2]


def item_size(array: Any) -> int:
    """Bytes of an element."""
    return int(np.dtype(type_name(array)).itemsize)


def _length(flat: Arrays) -> int:
    return int(flat[0].shape[0])
