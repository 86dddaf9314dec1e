"""Loads the benchmark data of MTRAG, InsCoQA, Compound-QA and KIWI and human ratings of answers, and checks the data
against the papers. The room imports `readers`, `text`, `jsonl_rows`, `types` and `core`."""
