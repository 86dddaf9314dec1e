"""Programs for those who work on Turnmark; run by hand."""
