"""Readers of every file format, and of in-memory sources."""
