"""The files of a run: its folder, the journal of its samples, prediction files of other systems, and the passages of
its corpora. It may import records of the evaluation, the assistant's types and retrieval."""
