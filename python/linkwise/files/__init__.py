"""Files in, files out: readers, writers, and sorts and joins of what does not fit into memory."""
