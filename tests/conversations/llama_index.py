"""The peer: LlamaIndex's chat engine over the same documents, with the same embedding model and the same generator.

Everything else is LlamaIndex with its defaults: reading and splitting of files, the in-memory vector store, prompts
and conversation memory. Its core sends no telemetry.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_index.core import SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.schema import Document

from tests.conversations.scoring import Answer
from tests.conversations.systems import PASSAGES, Ask, CountedGenerator
from turnmark.assistant.llm.calls.protocols import PromptMessage
from turnmark.core.errors import TurnmarkError
from turnmark.core.untrusted import describe_error
from turnmark.corpora.readers.folder import Globs, SourceFile, walk
from turnmark.retrieval.embedding.embedders import open_embedder
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.storage.manifest import Manifest

CHAT_MODE = "condense_plus_context"
_REFUSAL = re.compile(r"\W*don['’]t know\W*", re.IGNORECASE)
"""A complete reply in the words that LlamaIndex's prompt requests for a refusal."""


class MiniLM(BaseEmbedding):  # type: ignore[misc]
    """The bundled model as a LlamaIndex embedding, with the same vectors as our own index."""

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = open_embedder("minilm").encode(texts, "passage").tolist()
        return vectors

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        vector: list[float] = open_embedder("minilm").encode([query], "query")[0].tolist()
        return vector

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


class GeneratorLLM(CustomLLM):  # type: ignore[misc]
    """One of our generators as a LlamaIndex LLM. It gets the engine's messages unchanged and keeps its own settings."""

    generator: Any

    @property
    def metadata(self) -> LLMMetadata:
        """Return the context size, which decides how many passages the engine puts into one call."""
        return LLMMetadata(
            context_window=self.generator.context_tokens,
            num_output=self.generator.reply_tokens,
            is_chat_model=True,
            model_name=self.generator.name,
        )

    @llm_chat_callback()  # type: ignore[untyped-decorator]
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Reply to a list of messages."""
        prompt = [PromptMessage(role=message.role.value, content=message.content or "") for message in messages]
        text = self.generator.complete(prompt).text
        return ChatResponse(message=ChatMessage(role="assistant", content=text))

    @llm_completion_callback()  # type: ignore[untyped-decorator]
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Reply to a text, which is sent as a user message."""
        reply = self.chat([ChatMessage(role="user", content=prompt)])
        return CompletionResponse(text=reply.message.content)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Raise, since turns are not streamed."""
        raise NotImplementedError


class LlamaIndexChat:
    """`CondensePlusContextChatEngine` over the files of one of our indexes, with five passages per turn."""

    def __init__(self, index: Index, generator: CountedGenerator) -> None:
        self._generator, self._llm = generator, GeneratorLLM(generator=generator)
        self._index = VectorStoreIndex.from_documents(read(index.manifest), embed_model=MiniLM())

    def converse(self) -> Ask:
        engine = self._index.as_chat_engine(chat_mode=CHAT_MODE, llm=self._llm, similarity_top_k=PASSAGES)

        def ask(message: str) -> Answer:
            began = time.perf_counter()
            tokens_before, calls_before = self._generator.prompt_tokens, self._generator.calls
            try:
                response = engine.chat(message)
            except TurnmarkError:
                raise
            except Exception as error:  # whatever LlamaIndex raises: the turn failed, the conversation goes on
                raise TurnmarkError(f"LlamaIndex failed: {describe_error(error)}") from error
            return Answer(
                text=response.response,
                decision="unknown" if _REFUSAL.fullmatch(response.response) else None,
                seconds=time.perf_counter() - began,
                rewrite=response.sources[0].raw_input["message"],
                prompt_tokens=self._generator.prompt_tokens - tokens_before,
                calls=self._generator.calls - calls_before,
            )

        return ask


def read(manifest: Manifest) -> list[Document]:
    """Read the files that an index was built from with LlamaIndex."""
    found = walk(Path(manifest.source), Globs(manifest.include, manifest.exclude))
    files = [each.path for each in found if isinstance(each, SourceFile)]
    # One of its readers sets up logging for the program when it is imported: that is undone.
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    documents: list[Document] = SimpleDirectoryReader(input_files=files).load_data()
    root.setLevel(level)
    root.handlers[:] = handlers
    return documents
