"""The steps of a turn. Each file is one step; the embedded forms need no language model."""
