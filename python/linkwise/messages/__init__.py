"""Messages between ranks, one a GPU: collectives as rounds of hops, the ways that a hop takes, and what they cost."""
