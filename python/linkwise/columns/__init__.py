"""Columns of Arrow and NumPy: which keys they make, and how their rows are taken and gathered."""
