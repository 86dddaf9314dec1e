"""Conversations over documents by other authors, on which the assistant and its baselines are judged."""
