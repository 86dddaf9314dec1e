"""The answers in a conversation: which messages are answers, which of them is revised, and which are still current."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from turnmark.assistant.llm.prompts.history import ends_with_question
from turnmark.assistant.steps.understand.courtesy import is_conversational
from turnmark.assistant.steps.understand.edit_requests import is_instruction
from turnmark.assistant.types import AnswerMessage
from turnmark.assistant.wording.reply_texts import UNCHANGED_TEXT, text_at_start
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Message


def last_answer(history: Sequence[Message]) -> tuple[int | None, str]:
    """Return the position of the question of the last answer (None if it is not known), and that answer without marks.

    Courtesies and instructions are no questions.
    """
    answers = answers_in(history)
    if not answers:
        return None, ""

    def asks(position: int) -> bool:
        message = history[position]
        is_question = message.role == "user" and not is_conversational(message.content)
        return is_question and not is_instruction(history[:position], message.content)

    return next(filter(asks, reversed(range(answers[-1]))), None), strip_citations(history[answers[-1]].content)


def answers_in(history: Sequence[Message]) -> list[int]:
    """Return the positions of the answers in a conversation.

    Replies to courtesies, and replies that explain why an answer was left unchanged, do not count.
    """

    def replies_to_courtesy(position: int) -> bool:
        before = history[:position]
        if not before or before[-1].role != "user" or not is_conversational(before[-1].content):
            return False
        return not ends_with_question(before[:-1])

    said = ((position, message.content) for position, message in enumerate(history) if message.role == "assistant")
    answers = [position for position, text in said if text.strip() and not text_at_start(text, UNCHANGED_TEXT)]
    return [position for position in answers if not replies_to_courtesy(position)]


def current_versions(history: Sequence[Message]) -> list[Message]:
    """Return the messages without the answers that a revision replaced.

    The last version of an answer follows its question and the instructions that led to it.
    """
    replaced = {before for before, at in pairwise(answers_in(history)) if _is_revision(history, at)}
    return [message for position, message in enumerate(history) if position not in replaced]


def _is_revision(history: Sequence[Message], position: int) -> bool:
    """Return whether an answer is a new version of the answer before it."""
    answer, before = history[position], history[position - 1]
    if isinstance(answer, AnswerMessage):
        return answer.reply.revises
    return before.role == "user" and is_instruction(history[: position - 1], before.content)
