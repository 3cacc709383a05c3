"""What workers do: splits are sorted, cut into shards, and made into files."""
