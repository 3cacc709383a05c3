"""PROACT: Proactive Data Movement for Multi-GPU Strong Scaling, ISCA 2021."""
