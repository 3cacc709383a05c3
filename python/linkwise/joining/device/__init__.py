"""Joins of device-resident data, which stays on the GPUs from one join to the next."""
