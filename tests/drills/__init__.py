"""Drills provoke real-world failures on purpose. `make drill` runs them and prints a table."""
