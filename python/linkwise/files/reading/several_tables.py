"""Several tables read as one, in sequence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from linkwise._typing import Rows
from linkwise.files.reading.reader import (
    Candidates,
    Found,
    Part,
    Reader,
    Seen,
    Stored,
    in_parts,
    not_looked_at,
    size_of_all,
)
from linkwise.interop.containers import Contents
from linkwise.runtime.parallel import in_order

_MANY_FOR_A_CORE = 2  # files, from which on each core reads one after the other; of fewer, all cores read each


class SeveralTables(Reader):
    """Several tables with the same columns, concatenated."""

    schema: pa.Schema

    def __init__(self, readers: Sequence[Any]) -> None:
        first = readers[0]
        super().__init__(
            first.format, schema=first.schema, columns=first.columns, size=size_of_all(readers),
            compression=first.compression,
        )  # fmt: skip
        self._readers = readers  # of tables

    def everything(self, seen: Seen = not_looked_at) -> Contents:
        """See ``Reader``."""
        reading = (partial(reader.everything, seen) for reader in self._readers)
        are_many = len(self._readers) >= _MANY_FOR_A_CORE * len(os.sched_getaffinity(0))
        return pa.concat_tables(in_order(reading) if are_many else (read() for read in reading))

    def batches(self, most_bytes: int) -> Iterator[Contents]:
        """See ``Reader``."""
        every = (batch for reader in self._readers for batch in reader.record_batches(most_bytes))
        yield from in_parts(every, self.schema, most_bytes)

    def parts(self, rows: int, most_bytes: int) -> Iterator[Part]:
        """See ``Reader``. Small parts are combined."""
        held: list[Part] = []
        for part in (part for reader in self._readers for part in reader.parts(rows, most_bytes)):
            if held and sum(each.rows for each in held) + part.rows > rows:
                yield _joined_part(held)
                held = []
            held.append(part)
        if held:
            yield _joined_part(held)

    def carry_rows(self, columns: Sequence[str]) -> None:
        """See ``Reader``. If headers differ, rows are not carried: the output has a single header."""
        headers = {reader.header_as_it_is for reader in self._readers}
        if len(headers) == 1 and None not in headers:
            for reader in self._readers:
                reader.carry_rows(columns)
            first = self._readers[0]
            self.schema, self.columns, self.carried = first.schema, first.columns, first.carried

    def leave_out(self, column: str, least: Any, greatest: Any) -> None:
        """See ``Reader``."""
        for reader in self._readers:
            reader.leave_out(column, least, greatest)

    @property
    def stored_bytes(self) -> int:
        """See ``Reader``."""
        return sum(reader.stored_bytes for reader in self._readers)

    def storable(self, least_rows: int) -> Stored:
        """See ``Reader``."""
        if (self.rows or 0) < least_rows * len(self._readers):
            return Stored([], [])
        of_each = [reader.storable(0) for reader in self._readers]
        return Stored(_in_all([each.strings for each in of_each]), _in_all([each.decimals for each in of_each]))

    def read_stored(self, columns: Stored) -> None:
        """See ``Reader``."""
        for reader in self._readers:
            reader.read_stored(columns)

    @property
    def rows(self) -> int | None:
        """See ``Reader``."""
        rows = [reader.rows for reader in self._readers]
        return None if None in rows else sum(filter(None, rows))

    def keep(self, columns: Sequence[str] | None, rows: Any | None) -> None:
        """See ``Reader``."""
        for reader in self._readers:
            reader.keep(columns, rows)
        self.schema, self.columns = self._readers[0].schema, self._readers[0].columns
        self.size = size_of_all(self._readers)

    def is_read_sooner_by_keys(self, wanted: int, first_key: str) -> bool:
        """See ``Reader``."""
        are_all = all(reader.is_read_sooner_by_keys(wanted, first_key) for reader in self._readers)
        return self.rows is not None and are_all

    def candidates(
        self, columns: Sequence[str], wanted: Candidates, most_bytes: int | None, first: int = 0
    ) -> Iterator[Found]:
        """See ``Reader``."""
        for reader in self._readers:
            yield from reader.candidates(columns, wanted, most_bytes, first)
            first += reader.rows or 0

    @property
    def filtered_by(self) -> list[str]:
        """See ``Reader``."""
        return list(self._readers[0].filtered_by)

    def fetch(self, rows: Rows, most_bytes: int | None, columns: Sequence[str] | None = None) -> pa.Table:
        """See ``Reader``."""
        parts: list[pa.Table] = []
        first = 0
        for reader in self._readers:
            end = first + (reader.rows or 0)
            of_this = rows[np.searchsorted(rows, first) : np.searchsorted(rows, end)]
            if len(of_this) or not parts:
                parts.append(reader.fetch(of_this - first, most_bytes, columns))
            first = end
        return pa.concat_tables(parts)

    def check_unchanged(self) -> None:
        """See ``Reader``."""
        for reader in self._readers:
            reader.check_unchanged()


def _in_all(lists: Sequence[list[str]]) -> list[str]:
    """What is in all of the lists, in the order of the first."""
    first, *others = lists
    return [name for name in first if all(name in other for other in others)]


def _joined_part(parts: Sequence[Part]) -> Part:
    """Several parts as one."""
    if len(parts) == 1:
        return parts[0]
    return Part(
        sum(part.rows for part in parts),
        lambda columns: pa.concat_tables([part.decode(columns) for part in parts]),
    )
