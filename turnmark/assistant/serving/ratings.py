"""Ratings of served answers, which are stored as the command `/rate` of a chat stores them."""

from __future__ import annotations

import threading
from collections import OrderedDict

from pydantic import Field, ValidationError

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.serving.request_bodies import RejectedRequest, rejection_of
from turnmark.assistant.sessions.conversation import Rating, SessionBegan, TurnAnswered, TurnRated
from turnmark.assistant.sessions.session_files import ChatSession, new_session, resume_session, session_names
from turnmark.assistant.types import Reply
from turnmark.core.record import Record

MAX_REMEMBERED_ANSWERS = 500
"""Number of answers that can still be rated; older ones are forgotten."""
_MAX_EARLIER_ANSWERS = 100


class RatingRequest(Record):
    """A rating of one answer."""

    conversation: str = Field(pattern=r"^[0-9a-f]{16}$", description="chosen by the client, 16 hexadecimal digits")
    answer: str = Field(max_length=80, description="id of the completion")
    before: tuple[str, ...] = Field(
        default=(), max_length=_MAX_EARLIER_ANSWERS, description="ids of the earlier completions of the conversation"
    )
    rating: Rating


def parse_rating(body: bytes) -> RatingRequest:
    """Parse the body of a rating; raise `RejectedRequest` with every mistake."""
    try:
        return RatingRequest.model_validate_json(body)
    except ValidationError as error:
        raise rejection_of(error) from error


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
