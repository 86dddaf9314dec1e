"""Reports: the views of a run for people."""
