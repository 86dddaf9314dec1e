"""Metrics: pure functions from what was found or written, and what was expected, to numbers."""
