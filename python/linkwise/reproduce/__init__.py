"""The papers' experiments by figure and table."""
