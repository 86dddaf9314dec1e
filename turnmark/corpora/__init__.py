"""Documents and benchmark data come in. This is the lowest package: it imports only `core`. Beside the rooms stand
the records that all packages share (`types`), the reading of JSON Lines (`jsonl_rows`), the cutting of documents
into passages (`chunking`) and the commands."""
