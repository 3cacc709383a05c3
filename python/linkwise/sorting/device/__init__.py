"""Sorts of what lies on the GPUs, and of tables in host memory whose columns go there."""
