"""Judges grade replies: rubrics, calls, verdicts, panels and agreement, the same for all benchmarks."""
