"""Programs for developers of Turnmark, run by hand."""
