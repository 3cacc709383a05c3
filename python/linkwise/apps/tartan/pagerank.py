"""PRB: PageRank; every GPU holds the ranks of all vertices, and gathers those that others have computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from linkwise._typing import Array
from linkwise.apps.generators import power_law_graph
from linkwise.apps.sparse_matrix import Matrix
from linkwise.apps.tartan.program import Answer, Fetched, Program, worst
from linkwise.messages.communicator import Communicator
from linkwise.messages.pricing import Prices, Work
from linkwise.messages.schedules import even_cuts

_DAMPING = 0.85


@dataclass(frozen=True)
class MessagePageRank(Program):
    """The algorithm of ``apps.graph.PageRank``, with messages between iterations."""

    vertices: int
    links: int
    iterations: int = 10

    name, abbreviation, title = "prbench", "PRB", "PageRank over messages"
    pattern, scales = "peer to peer, all-gather", "out"

    @classmethod
    def small(cls) -> Self:
        """See ``Program``."""
        return cls(vertices=3000, links=30_000)

    @classmethod
    def full(cls) -> Self:
        """See ``Program``."""
        return cls(vertices=3_566_907, links=45_030_389)

    def grown(self, times: float) -> Self:
        """See ``Program``."""
        return replace(self, vertices=max(round(self.vertices * times), 1), links=max(round(self.links * times), 1))

    @cached_property
    def graph(self) -> Matrix:
        """Rows are the vertices that links lead from."""
        return power_law_graph(self.vertices, self.links)

    @cached_property
    def _inverse_degrees(self) -> Array:
        degrees = self.graph.entries_of_rows.astype(np.float64)
        return np.where(degrees > 0, 1 / np.maximum(degrees, 1), 0)

    def prepare(self, comm: Communicator) -> Any:
        """For each rank's vertices: offsets and sources of incoming links, inverse degrees; all initial shares."""
        incoming, n = self.graph.transposed(), self.graph.rows
        cuts = even_cuts(n, comm.size)
        columns: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        for rank in comm.local:
            first = incoming.first[cuts[rank] : cuts[rank + 1] + 1].astype(np.int64)
            mine = incoming.column[first[0] : first[-1]].astype(np.int64)
            for column, part in zip(
                columns, (first - first[0], mine, self._inverse_degrees[cuts[rank] : cuts[rank + 1]]), strict=True
            ):
                column.append(comm.from_host(rank, part))
        shares = [comm.from_host(rank, self._inverse_degrees / n) for rank in comm.local]
        return (*columns, shares)

    def run(self, comm: Communicator, prepared: Any) -> Answer:
        """See ``Program``."""
        xp, n = comm.xp, self.graph.rows
        first, source, inverse, shares = prepared

        def gathered(_rank: int, begin: Any, who: Any, degree: Any, share: Any) -> Any:
            so_far = xp.concat([xp.zeros(1), xp.cumulative_sum(xp.take(share, who))])
            sums = xp.take(so_far, begin)
            return ((1 - _DAMPING) / n + _DAMPING * (sums[1:] - sums[:-1])) * degree

        for _ in range(self.iterations):
            mine = comm.each("gather", gathered, first, source, inverse, shares)
            shares = comm.all_gather("shares", mine)
        return {"shares": shares}

    def prices(self, ranks: int) -> Prices:
        """See ``Program``."""
        vertices, links = -(-self.vertices // ranks), self.links / ranks
        # Reading a link's share is a random access: a sector of 32 bytes.
        return {"gather": Work(links * (4 + 32) + 24 * vertices, 2 * links), "shares": 8 * self.vertices}

    def error(self, answer: Fetched) -> float:
        """Compare with sums link by link."""
        edges, n = self.graph, self.graph.rows
        share: Any = self._inverse_degrees / n
        for _ in range(self.iterations):
            total = np.bincount(edges.column, share[edges.rows_of_entries()], n)
            share = ((1 - _DAMPING) / n + _DAMPING * total) * self._inverse_degrees
        apart = max(float(np.abs(each - share).max()) for each in answer["shares"])
        return worst(apart / (1e-10 * float(share.max())))
