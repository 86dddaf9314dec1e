"""The latest answers of a server, in memory: by their text, which clients send back, and by id, to be rated.

Ratings are stored as the command `/rate` of a chat stores them, and as questions for `turnmark check`.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from pydantic import Field

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.serving.request_bodies import RejectedRequest
from turnmark.assistant.sessions.conversation import Rating, SessionBegan, TurnAnswered, TurnRated
from turnmark.assistant.sessions.session_files import ChatSession, new_session, resume_session, session_names
from turnmark.assistant.types import AnswerMessage, Reply
from turnmark.core.home import home, write_atomic
from turnmark.core.record import Record
from turnmark.corpora.text.segmentation import strip_citations, words
from turnmark.corpora.types import Message

MAX_SENT_ANSWERS = 500
"""Number of answers whose sources are kept; of older ones only the text is known."""
MAX_REMEMBERED_ANSWERS = 500
"""Number of answers that can still be rated; older ones are forgotten."""
_MAX_EARLIER_ANSWERS = 100


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


class RatingRequest(Record):
    """A rating of one answer."""

    conversation: str = Field(pattern=r"^[0-9a-f]{16}$", description="chosen by the client, 16 hexadecimal digits")
    answer: str = Field(max_length=80, description="id of the completion")
    before: tuple[str, ...] = Field(
        default=(), max_length=_MAX_EARLIER_ANSWERS, description="ids of the earlier completions of the conversation"
    )
    rating: Rating


class RatedAnswers:
    """The latest answers, in memory, and the sessions of those that were rated.

    An answer is written only when it is rated, together with the earlier turns of its conversation: exports and
    `/rate` need the context. The client refers to answers by id, so it cannot store text of its own.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[AssistantConfig, str, Reply]] = OrderedDict()
        self._turns: dict[tuple[str, str], int] = {}
        """Number of the stored turn, by session and answer."""
        self._lock = threading.Lock()

    def remember(self, identity: str, config: AssistantConfig, question: str, reply: Reply) -> None:
        """Remember an answer by the id of its completion, with the configuration of its assistant."""
        with self._lock:
            self._answers[identity] = (config, question, reply)
            while len(self._answers) > MAX_REMEMBERED_ANSWERS:
                self._answers.popitem(last=False)

    def rate(self, request: RatingRequest) -> str:
        """Store a rating, and return the name of the session that contains it."""
        with self._lock:
            if request.answer not in self._answers:
                message = "this answer can no longer be rated; the server keeps only its latest answers"
                raise RejectedRequest(message, "answer", 404, "no_answer")
            config, _, _ = self._answers[request.answer]
            session = self._session(f"page-{request.conversation}", config)
            try:
                for identity in (*request.before, request.answer):
                    self._store(session, identity)
                turn = self._turns[session.name, request.answer]
                session.record(TurnRated(turn=turn, rating=request.rating))
            finally:
                session.close()
            self._keep_questions(session.name, request, config.index)
            return session.name

    def _session(self, name: str, config: AssistantConfig) -> ChatSession:
        if name in session_names():
            return resume_session(name)
        session = new_session(SessionBegan(**config.model_dump()))
        session.save(name)
        return session

    def _store(self, session: ChatSession, identity: str) -> None:
        """Write an answer to a session, unless it is there already or has been forgotten."""
        if (session.name, identity) in self._turns or identity not in self._answers:
            return
        _, question, reply = self._answers[identity]
        turn = session.conversation.turns + 1
        session.record(TurnAnswered(turn=turn, question=question, reply=reply))
        self._turns[session.name, identity] = turn

    def _keep_questions(self, session: str, request: RatingRequest, index: str) -> None:
        """Write the rated question and those before it to the file of the index that `check --questions` reads."""
        path = home() / "feedback" / f"{index.replace(',', '+')}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        rows = {(row["conversation"], row["order"]): row for row in map(json.loads, filter(None, lines))}
        for identity in (*request.before, request.answer):
            if (order := self._turns.get((session, identity))) and identity in self._answers:
                _, question, reply = self._answers[identity]
                row = {"question": question, "conversation": session, "order": order}
                if identity == request.answer:
                    rows[session, order] = row | (_right_reply(reply) if request.rating == "good" else {})
                else:
                    rows.setdefault((session, order), row)
        write_atomic(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows.values()))


def _right_reply(reply: Reply) -> dict[str, Any]:
    """Return what a reply must contain to be as good as this one, as columns of a file of questions."""
    if reply.decision == "unknown":
        return {"unanswerable": "yes"}
    document = reply.citations[0].document if reply.citations else ""
    return {"answer": strip_citations(reply.answer), "document": document}
