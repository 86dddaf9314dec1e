"""Finished runs in the formats of others: official predictions, submissions, TREC runs, InspectorRAGet."""
