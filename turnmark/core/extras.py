"""The extras: what each adds, and the modules by which its packages are recognized.

`turnmark doctor`, the errors of commands that need an extra, and the table in docs/install.md are derived from this.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

from turnmark.core.errors import RequestError


class Extra(NamedTuple):
    """An extra: the modules that it must install, and what it adds."""

    modules: tuple[str, ...]
    adds: str


EXTRAS: dict[str, Extra] = {
    "local": Extra(("openvino_genai",), "a small language model in the same process (`local:`)"),
    "ocr": Extra(("rapidocr", "onnxruntime"), "reading scanned pages of PDFs"),
    "torch": Extra(
        ("torch", "transformers", "sentence_transformers"),
        "models of sentence-transformers: embedders that are no BERT, `rerank=cross:MODEL`, `splade:MODEL`; GPUs",
    ),
    "chroma": Extra(("chromadb",), "vectors on your own Chroma server"),
    "llama-index": Extra(("llama_index.core",), "retrievers, language models and readers of LlamaIndex"),
    "elasticsearch": Extra(("elasticsearch",), "searching your own Elasticsearch index"),
    "ray": Extra(("ray",), "embedding and answering on a Ray cluster"),
    "vllm": Extra(("vllm",), "starting a vLLM server; needs a GPU"),
    "otel": Extra(("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"), "tracing over OpenTelemetry"),
    "bertscore": Extra(("bert_score",), "BERTScore as a judge; its model is a separate download of about 3 GB"),
    "ragas": Extra(("ragas", "langchain_core"), "RAGAS's own faithfulness metric as a judge"),
}
"""Extra -> its modules and what it adds. `all` installs all of them except for `vllm`."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f'pip install "turnmark[{extra}]"'


def is_installed(extra: str) -> bool:
    """Return whether the modules of an extra are there. None of them is imported."""
    return all(map(_is_there, EXTRAS[extra].modules))


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # its parent is missing, or a test has blocked it
        return False


def require_extra(extra: str, part: str) -> None:
    """Raise RequestError if an extra is not installed.

    Args:
        part: what needs it, e.g. `reranker 'cross'`.
    """
    if not is_installed(extra):
        raise RequestError(f"{part} needs packages that are not installed: {install_command(extra)}")
