"""`turnmark tune`: finds the configuration of retrieval that reads answers earliest in the user's own documents.

It may import `check`, `synth` and `runs`; nothing imports it except the command line.
"""
