"""Benchmark data made from a corpus: `turnwise synth`."""
