"""Opens a stored index and searches it: kinds of retrievers, the factory that opens them, retrievers, rerankers, and
what is calibrated on a finished index. Imports the rooms of content (`storage`, `tables`), `ranking` and
`embedding`, and never a service."""
