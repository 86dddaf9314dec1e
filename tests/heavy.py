"""The libraries that are loaded only when they are needed."""

from __future__ import annotations

HEAVY = (
    "torch", "transformers", "sentence_transformers", "chromadb", "llama_index", "vllm", "ray", "matplotlib", "openai",
    "numpy", "scipy", "sklearn", "pandas", "bm25s", "pytrec_eval", "bs4", "lxml", "tokenizers", "rapidfuzz",
    "elasticsearch", "openvino", "openvino_genai", "fastapi", "uvicorn", "starlette", "opentelemetry",
    "mcp", "mcp_types",
)  # fmt: skip
