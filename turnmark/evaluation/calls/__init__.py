"""Calls of models: budgets, deadlines and threads."""
