"""Turns a request into a plan, which is priced and explained, and keeps what the caller pins."""
