"""What a benchmark is: tasks, items, cases and metrics."""
