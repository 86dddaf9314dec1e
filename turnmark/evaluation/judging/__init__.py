"""The judges: opening them from specs, asking them, reading their verdicts, and turning a panel's judgments into
scores. It may import `calls` and `tasks`."""
