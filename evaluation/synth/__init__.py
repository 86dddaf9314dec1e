"""Benchmark data made from a corpus: `turnmark synth`."""
