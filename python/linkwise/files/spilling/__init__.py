"""What does not fit into host memory: sorted runs and partitions on disk."""
