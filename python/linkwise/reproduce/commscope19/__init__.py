"""Comm|Scope: Evaluating Characteristics of CUDA Communication Primitives, ICPE 2019."""
