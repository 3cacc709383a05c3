"""From what a caller asks for to a plan: priced, explained, pinned."""
