"""Metrics: pure functions that compare retrieved passages or answers with what was expected."""
