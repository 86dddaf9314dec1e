"""`turnmark check`: a measurement of the user's own index, with sentences and synthesized questions of its documents,
or with the user's own questions. It may import `benchmarks`, `synth` and `runs`; nothing imports it except the command
line."""
