"""Language models: calls, prompts, the generators behind specs, and `picture_describer`, which describes pictures for
an index with all of these. It knows nothing of turns and steps; it may import `types`, `config_files`, `corpora`,
`retrieval` and `core`."""
