"""Drills: failures of the real world, caused on purpose. `make drill` runs them and prints a table."""
