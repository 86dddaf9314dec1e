"""Conversations over documents by other authors, used to evaluate the assistant and its baselines."""
