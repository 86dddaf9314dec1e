"""Data structures and rules that score all rows for a query: BM25, vectors, respelling, the vectors of a
conversation, and the fusion of ranked lists. Imports `embedding`."""
