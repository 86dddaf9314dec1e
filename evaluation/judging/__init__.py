"""Judges: language models that say how good a reply is; asked, read and summed up in one way for all benchmarks."""
