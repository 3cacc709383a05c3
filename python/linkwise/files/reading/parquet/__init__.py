"""Reading Parquet files: row groups, their statistics, and single pages."""
