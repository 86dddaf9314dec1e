"""Plug-ins for services of other people: Elasticsearch, LlamaIndex and a Ray cluster. They are opened by name.
Imports `search`, `storage`, `ranking` and `embedding`."""
