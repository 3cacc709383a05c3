"""Messages between ranks, one rank per GPU: collectives as rounds of hops, the ways of a hop, and their costs."""
