"""Scores of a run: metrics summed up with intervals, and published figures beside them."""
