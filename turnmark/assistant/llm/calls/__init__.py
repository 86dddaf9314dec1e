"""What every call of a language model needs: the protocols, the client of endpoints, the normal form of replies,
cancellation, threads, tracing and cost. It may import `types` and `config_files`, and no other room of `llm`."""
