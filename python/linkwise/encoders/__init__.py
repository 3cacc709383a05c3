"""Tables into the bytes of files, on all cores: parts are encoded side by side, and written in their order."""
