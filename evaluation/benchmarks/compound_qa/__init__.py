"""Compound-QA."""
