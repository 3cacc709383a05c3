"""Efficiently Joining Large Relations on Multi-GPU Systems, PVLDB 2025."""
