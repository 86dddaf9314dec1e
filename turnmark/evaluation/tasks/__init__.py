"""The parts of a benchmark: tasks, items, cases and metrics."""
