"""`turnmark synth`: make benchmark data from a corpus."""
