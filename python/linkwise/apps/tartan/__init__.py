"""Tartan's fourteen applications (tartan20 §4, table 3); their messages go through a communicator."""
