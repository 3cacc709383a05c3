"""Evaluating Modern GPU Interconnect (Tartan), TPDS 2020."""
