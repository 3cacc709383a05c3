"""Joining tables, arrays and data on GPUs."""
