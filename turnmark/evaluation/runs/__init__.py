"""Evaluation runs: requests, plans, answering, judging and scoring."""
