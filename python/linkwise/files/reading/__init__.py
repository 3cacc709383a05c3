"""Readers of every format, and of what a program holds."""
