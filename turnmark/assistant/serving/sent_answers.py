"""The latest answers of a server by their text, which clients send back: a revision needs the sources behind it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from turnmark.assistant.types import AnswerMessage, Reply
from turnmark.corpora.text.segmentation import strip_citations, words
from turnmark.corpora.types import Message

MAX_SENT_ANSWERS = 500
"""Number of answers whose sources are kept; of older ones only the text is known."""


class SentAnswers:
    """The latest answers of one served model, in memory.

    An answer is found by its words, since clients change marks, escapes and spaces.
    """

    def __init__(self) -> None:
        self._replies: OrderedDict[str, Reply] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, reply: Reply) -> None:
        """Keep a reply by the text of its answer; the oldest ones are forgotten."""
        with self._lock:
            self._replies[_key(reply.answer)] = reply
            self._replies.move_to_end(_key(reply.answer))
            while len(self._replies) > MAX_SENT_ANSWERS:
                self._replies.popitem(last=False)

    def recall(self, history: Iterable[Message]) -> tuple[Message, ...]:
        """Return the messages of a client; answers that were sent from here get their replies."""
        messages = []
        for message in history:
            with self._lock:
                reply = self._replies.get(_key(message.content)) if message.role == "assistant" else None
            messages.append(AnswerMessage(content=message.content, reply=reply) if reply else message)
        return tuple(messages)


def _key(answer: str) -> str:
    return " ".join(words(strip_citations(answer)))
