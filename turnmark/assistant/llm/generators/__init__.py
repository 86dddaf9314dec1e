"""The generators by spec (`openai:`, `ollama:`, `vllm:`, `local:`, `llama-index:`, `replay:`, `python:`), and the
cache of their replies. It may import `llm.calls` and `llm.prompts`; a third party's generator is opened through
`registry`."""
