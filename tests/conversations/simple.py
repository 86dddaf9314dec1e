"""The simple baseline: condense the question, retrieve five passages, answer from them. No other step."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.conversations.scoring import Answer
from tests.conversations.systems import Ask
from turnmark.assistant.generators import Generator, PromptMessage
from turnmark.assistant.steps.marks import says_unknown
from turnmark.corpora.types import Message
from turnmark.retrieval.index import Index
from turnmark.retrieval.registry import default_retriever, open_retriever
from turnmark.retrieval.types import Hit, Query

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
    """See `tests.conversations.systems.System`."""

    def __init__(self, index: Index, generator: Generator) -> None:
        self._retriever, self._generator = open_retriever(default_retriever(index), index), generator

    def converse(self) -> Ask:
        """See `System.converse`."""
        history: list[Message] = []

        def ask(message: str) -> Answer:
            began = time.perf_counter()
            question = self._condensed(history, message) if history else message
            query = Query(text=message, history=tuple(history), variants=(question,) if question != message else ())
            text = self._answer(self._retriever.search([query], PASSAGES)[0], question)
            history.extend((Message(role="user", content=message), Message(role="assistant", content=text)))
            decision = "unknown" if says_unknown(text) else None
            return Answer(text=text, decision=decision, seconds=time.perf_counter() - began, rewrite=question)

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
