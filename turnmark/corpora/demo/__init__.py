"""The demo corpus: an invented island's documents, with conversations over them in the layout of MTRAG."""
