"""Measuring the links and processors of a machine, and saying what the figures mean."""
