"""What is judged: our assistant with any generator, and the baselines. A system starts conversations."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from tests.conversations.scoring import Answer
from turnmark.assistant.generators import Generator, open_generator
from turnmark.assistant.open import open_assistant
from turnmark.assistant.session import Conversation, Turned
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.text import strip_citations
from turnmark.retrieval.index import Index

Ask = Callable[[str], Answer]
"""The next message of one conversation, and the reply to it."""

LOCAL_MODEL = "local:qwen2.5-coder-1.5b"
BASELINES = ("simple", "llama-index")


class System(Protocol):
    """Holds conversations over one collection."""

    def converse(self) -> Ask:
        """Begin a conversation."""
        ...


class Product:
    """Our assistant, as the chat of the terminal holds a conversation with it."""

    def __init__(self, index: Index, generator: str, steps: Sequence[str] = ()) -> None:
        self.assistant = open_assistant(index, generator, steps=steps)

    def converse(self) -> Ask:
        """See `System.converse`."""
        conversation = Conversation()

        def ask(message: str) -> Answer:
            began = time.perf_counter()
            reply = self.assistant.reply(conversation.history(), message)
            seconds = time.perf_counter() - began
            understanding = reply.trace.understanding
            revised = understanding is not None and understanding.kind == "revision"
            turned = Turned(
                turn=conversation.turns + 1, kind="revise" if revised else "ask", question=message, reply=reply
            )
            conversation.apply(turned)
            text = strip_citations(reply.answer)
            return Answer(text=text, decision=reply.decision, seconds=seconds, rewrite=reply.rewrite)

        return ask


def open_system(spec: str, index: Index, documents: Path, steps: Sequence[str] = ()) -> System:
    """The system that a spec names: `simple:GENERATOR`, `llama-index:GENERATOR`, or the generator of our assistant.

    Args:
        documents: the folder that the index was built from.
        steps: `STEP=FORM` of our turn.

    Raises:
        RequestError: the spec or the generator in it is wrong.
    """
    name, _, inner = spec.partition(":")
    if name not in BASELINES:
        return Product(index, spec, steps)
    generator = _generator(spec, inner)
    if name == "simple":
        from tests.conversations.simple import Simple

        return Simple(index, generator)
    from tests.conversations.llama_index_engine import LlamaIndexEngine

    return LlamaIndexEngine(index, documents, generator)


def default_systems() -> tuple[list[str], str]:
    """All systems that can run here, and why others cannot (empty: all can)."""
    try:
        open_generator(LOCAL_MODEL)
    except TurnmarkError as error:
        return ["extractive"], f"only the extractive form runs: {error}"
    return ["extractive", LOCAL_MODEL, *(f"{name}:{LOCAL_MODEL}" for name in BASELINES)], ""


def _generator(spec: str, inner: str) -> Generator:
    generator = open_generator(inner) if inner else None
    if generator is None:
        raise RequestError(f"system {spec!r} needs a language model: {spec.partition(':')[0]}:{LOCAL_MODEL}")
    return generator
