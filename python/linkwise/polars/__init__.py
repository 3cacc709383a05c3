"""Linkwise inside of Polars' lazy plans: sorted and joined sources, and an engine for whole queries."""

from typing import TYPE_CHECKING, Any

from linkwise.polars.sources import join, scan_sorted

if TYPE_CHECKING:
    from linkwise.polars.engine import PolarsEngine

__all__ = ["PolarsEngine", "join", "scan_sorted"]


def __getattr__(name: str) -> Any:
    if name != "PolarsEngine":
        raise AttributeError(f"module 'linkwise.polars' has no attribute '{name}'")
    try:
        from linkwise.polars.engine import PolarsEngine  # noqa: PLC0415 - older Polars has no engines to plug in
    except ImportError as error:
        raise ImportError(f"PolarsEngine needs Polars 1.44 or newer: pip install -U polars ({error})") from None
    return PolarsEngine
