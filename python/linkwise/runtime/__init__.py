"""Where work runs and what it may use: sessions, execution options, host memory, threads, JSON files."""
