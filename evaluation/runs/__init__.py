"""A run: what was asked for, planned, answered and kept in its folder."""
