"""Sorts and joins over many nodes, on Ray: ``pip install 'linkwise[ray]'``; see ``docs/many-nodes.md``."""

from linkwise.cluster.api import clean, join, probe, sort, top_k, unique

__all__ = ["clean", "join", "probe", "sort", "top_k", "unique"]
