"""Out-of-core sorts and joins: sorted runs and partitions on disk."""
