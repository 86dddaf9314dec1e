"""A check of the user's own questions: the file, the facts that replies must state, the run, its screen and JUnit XML.
It may import the modules of `check` that it shares with other checks; only the command imports it."""
