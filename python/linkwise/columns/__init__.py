"""Columns of Arrow and NumPy: converting them to sort keys, and gathering their rows."""
