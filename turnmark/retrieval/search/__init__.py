"""Opens a stored index and searches it: kinds of retrievers, the factory that opens them, retrievers, rerankers, and
what is calibrated on a finished index. It imports `storage`, `tables`, `ranking` and `embedding`, and never
`services`."""
