"""Drills: what goes wrong in the world, brought about on purpose. `make drill` runs them and prints a table."""
