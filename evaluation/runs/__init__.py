"""Evaluation runs: the request, the plan, the engine that makes samples, the scheduler and the run folder."""
