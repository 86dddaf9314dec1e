"""Model calls of an evaluation: wrapped generators with deadlines, stored judgments, and estimates of their cost. It
may import `tasks` and `storage`."""
