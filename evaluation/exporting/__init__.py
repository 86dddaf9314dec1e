"""Finished runs in the formats of others: official predictions, TREC runs, InspectorRAGet."""
