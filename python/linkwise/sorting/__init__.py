"""Sorting arrays, tables and data on GPUs."""
