"""Readers and writers of files, and sorts and joins of files, out of core where they exceed memory."""
