"""Models that turn texts into vectors: embedders, how a BERT runs in OpenVINO or PyTorch, centering, and the choice
of an embedder by language. Imports `core` and `corpora` only."""
