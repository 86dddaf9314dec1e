"""Conversations over documents that nobody here wrote, by which the assistant and its baselines are judged."""
