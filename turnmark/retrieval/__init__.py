"""Passages are indexed and found. Imports `corpora` only."""
