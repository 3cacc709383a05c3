"""Benchmarks with raw results, and what they are measured against."""
