"""How much memory the work may take, and reading inputs at once if they fit into it, otherwise in batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from linkwise.files.reading.reader import Reader, Seen, not_looked_at, size_of_all
from linkwise.interop.containers import Contents
from linkwise.runtime.arguments import parse_bytes
from linkwise.runtime.host_memory import host_memory

BATCHES_IN_MEMORY = 8
"""Those read ahead, the one being sorted, its sorted copy, and memory for sorting and writing."""

_ROOM = 3  # times the size of the input: input, result and intermediate data


def memory_to_use(limit: int | str | None) -> int:
    """Bytes of host memory to use: the given limit, or all that is free. Raises ``UsageError``."""
    return host_memory("MemAvailable") if limit is None else parse_bytes(limit, host_memory("MemTotal"))


class ReadWithin(NamedTuple):
    """The contents of several files: everything, or the batches of each, which are still to be read."""

    everything: list[Contents] | None
    batches: list[Iterator[Contents]]


def is_too_large(readers: Sequence[Reader], memory: int) -> bool:
    """Whether the inputs are known not to fit into memory."""
    return _ROOM * (size_of_all(readers) or 0) > memory


def read_within(readers: Sequence[Reader], memory: int, seen: Seen = not_looked_at) -> ReadWithin:
    """Read everything, and pass it to ``seen``, if it can be processed in memory; otherwise return batches."""
    if size_of_all(readers) is not None and not is_too_large(readers, memory):
        return ReadWithin([reader.everything(seen) for reader in readers], [])
    most_bytes = max(memory // (BATCHES_IN_MEMORY * len(readers)), 1)
    batches = [reader.batches(most_bytes) for reader in readers]
    first = [list(itertools.islice(of_one, 2)) for of_one in batches]
    if all(len(some) < 2 for some in first):
        everything = [some[0] if some else of.everything() for some, of in zip(first, readers, strict=True)]
        return ReadWithin([seen(table) for table in everything], [])
    return ReadWithin(None, [itertools.chain(some, rest) for some, rest in zip(first, batches, strict=True)])
