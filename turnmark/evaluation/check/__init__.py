"""`turnmark check`: how well the assistant does on the documents of an index."""
