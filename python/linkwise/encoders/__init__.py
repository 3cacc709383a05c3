"""Encoding tables into files on all cores: parts are encoded in parallel and written in order."""
