"""`turnmark check`: a quick measurement of the user's own index, with sentences and synthesized questions of its
documents. It may import `benchmarks`, `synth` and `runs`; nothing imports it except the command line."""
