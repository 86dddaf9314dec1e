"""Simulated users who talk to the assistant over the user's own index: their goals, what they say, and what they reach.
It may import the modules of `check` that it shares with other checks; only the command imports it."""
