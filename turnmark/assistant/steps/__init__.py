"""The steps of a turn. Each file is one step; the extractive forms need no language model."""
