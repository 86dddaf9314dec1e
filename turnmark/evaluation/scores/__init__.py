"""Scores of a run: metrics aggregated with intervals, and published figures next to them."""
