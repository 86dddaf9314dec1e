"""Documents and benchmark data come in: the ground floor, which imports nothing of the other packages."""
