"""A conversation becomes a grounded reply. Imports `corpora` and `retrieval`."""
