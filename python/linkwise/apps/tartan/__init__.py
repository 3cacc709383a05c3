"""Tartan's fourteen applications (tartan20 §4, table 3): what computes is theirs, messages go by a communicator."""
