"""Linkwise inside of Polars' lazy plans: sorted and joined sources, and an engine for whole queries."""

from linkwise.polars.engine import PolarsEngine
from linkwise.polars.sources import join, scan_sorted

__all__ = ["PolarsEngine", "join", "scan_sorted"]
