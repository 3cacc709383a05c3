"""Writing Parquet on all cores: row groups are encoded apart and joined into one file."""
