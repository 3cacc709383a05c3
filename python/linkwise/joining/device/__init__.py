"""Joins of what lies on the GPUs, and stays there from one to the next."""
