"""Systems under evaluation: our assistant with any generator, a simple baseline, and LlamaIndex."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, Unpack

from tests.conversations.scoring import Answer
from tests.opened import assistant_over
from turnmark.assistant.llm.calls.protocols import CallOptions, Completion, GeneratorWrapper, PromptMessage
from turnmark.assistant.sessions.conversation import Conversation, TurnAnswered
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Message
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.types import Hit, Query

Ask = Callable[[str], Answer]
"""Takes the next message of a conversation and returns the reply."""


class System(Protocol):
    """A system that converses over one collection."""

    def converse(self) -> Ask:
        """Start a conversation."""
        ...


class Product:
    """Our assistant, used as in the terminal chat."""

    def __init__(self, index: Index, generator: str, steps: Sequence[str]) -> None:
        self.assistant = assistant_over(index, generator, steps=steps)

    def converse(self) -> Ask:
        conversation = Conversation()

        def ask(message: str) -> Answer:
            began = time.perf_counter()
            reply = self.assistant.reply(conversation.history(), message)
            seconds = time.perf_counter() - began
            understanding = reply.trace.understanding
            revised = understanding is not None and understanding.kind == "revision"
            turned = TurnAnswered(
                turn=conversation.turns + 1, kind="revise" if revised else "ask", question=message, reply=reply
            )
            conversation.apply(turned)
            return Answer(
                text=strip_citations(reply.answer),
                decision=reply.decision,
                seconds=seconds,
                rewrite=reply.rewrite,
                prompt_tokens=sum(usage.prompt_tokens for usage in reply.usage.values()),
                calls=sum(usage.calls for usage in reply.usage.values()),
            )

        return ask


class CountedGenerator(GeneratorWrapper):
    """A generator that sums up its calls and their prompt tokens."""

    prompt_tokens = calls = 0

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """See `Generator.complete`."""
        completion = self.generator.complete(messages, **options)
        self.prompt_tokens += completion.usage.prompt_tokens
        self.calls += completion.usage.calls
        return completion


PASSAGES = 5
CONDENSE = """Rewrite the last message as a question that can be understood without the conversation. \
If it can be already, repeat it.

Conversation:
User: Do you sell gift cards?
Assistant: Yes, from 10 to 200 euros, at the till and online.
Last message: how long are they valid
Question: How long are gift cards valid?

Conversation:
User: How do I reset the router?
Assistant: Hold the button on its back for ten seconds.
Last message: What are the opening hours of the shop?
Question: What are the opening hours of the shop?

Conversation:
{conversation}
Last message: {message}
Question:"""
ANSWER = """Answer the question from the excerpts, briefly. If they do not hold the answer, say "I don't know."

{excerpts}

Question: {question}"""


class Simple:
    """The baseline: condense the question, retrieve five passages, answer from them. No other step."""

    def __init__(self, index: Index, generator: CountedGenerator) -> None:
        self._retriever, self._generator = open_retriever(default_retriever(index), index), generator

    def converse(self) -> Ask:
        history: list[Message] = []

        def ask(message: str) -> Answer:
            began = time.perf_counter()
            tokens_before, calls_before = self._generator.prompt_tokens, self._generator.calls
            question = self._condensed(history, message) if history else message
            query = Query(text=message, history=tuple(history), variants=(question,) if question != message else ())
            text = self._answer(self._retriever.search([query], PASSAGES)[0], question)
            history.extend((Message(role="user", content=message), Message(role="assistant", content=text)))
            decision = "unknown" if is_refusal(text) else None
            return Answer(
                text=text,
                decision=decision,
                seconds=time.perf_counter() - began,
                rewrite=question,
                prompt_tokens=self._generator.prompt_tokens - tokens_before,
                calls=self._generator.calls - calls_before,
            )

        return ask

    def _condensed(self, history: Sequence[Message], message: str) -> str:
        shown = [f"{turn.role.title()}: {' '.join(turn.content.split())[:300]}" for turn in history[-4:]]
        conversation = "\n".join(shown)
        return self._complete(CONDENSE.format(conversation=conversation, message=message), 60).split("\n")[0] or message

    def _answer(self, hits: Sequence[Hit], question: str) -> str:
        excerpts = "\n\n".join(f"[{n}] {hit.passage.title}\n{hit.passage.text}" for n, hit in enumerate(hits, 1))
        return self._complete(ANSWER.format(excerpts=excerpts, question=question), 300)

    def _complete(self, prompt: str, max_tokens: int) -> str:
        prompts = [PromptMessage(role="user", content=prompt)]
        return self._generator.complete(prompts, max_tokens=max_tokens, deadline=600.0).text.strip()
