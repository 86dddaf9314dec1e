"""Replies become scores, reports and comparisons. Imports all three other packages."""
