"""Evaluating Multi-GPU Sorting with Modern Interconnects, SIGMOD 2022."""
