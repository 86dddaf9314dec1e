"""Recognize courtesies (greetings, thanks, acknowledgments, goodbyes) and reply to them."""

from __future__ import annotations

from turnmark.assistant.steps.step_results import Assessment, CheckedDraft, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.types import Judgment, SubQuestion
from turnmark.assistant.wording.phrases import Phrases, fold, possible_phrases
from turnmark.assistant.wording.reply_texts import HELLO_TEXT, WELCOME_TEXT, in_language
from turnmark.corpora.text.segmentation import ends_with_question_mark, words

MAX_COURTESY_WORDS = 16
"""Maximum words of a courtesy; a longer message contains something else, too."""


def is_conversational(message: str) -> bool:
    """Return whether a message is only a courtesy: all of its phrases are courtesies, and it asks nothing.

    "Thanks, and the oven?" is a question, not a courtesy. A bare "yes" or "no" may answer a question of the assistant.
    """
    length = len(words(message))
    if not length:
        return True
    if length > MAX_COURTESY_WORDS:
        return False
    folded = fold(message)
    if ends_with_question_mark(message):  # "How are you?" is a greeting.
        return any(phrases.request("greetings").fullmatch(folded) for phrases in possible_phrases(message))
    return any(
        phrases.courtesy.fullmatch(folded) and (_greets_in(phrases, folded) or phrases.find("thanks").search(folded))
        for phrases in possible_phrases(message)
    )


def _greets_in(phrases: Phrases, folded: str) -> bool:
    return phrases.find("greetings").search(folded) is not None


class Courtesy:
    """Answer step that replies to a courtesy, without a search or a check."""

    name = "answer"

    def __call__(self, turn: Turn, understood: UnderstoodMessage, /) -> CheckedDraft:
        hits = tuple(turn.evidence or ())
        turn.report_hits(hits)
        assessment = Assessment(Judgment(decision="converse", confidence=1.0, reason="a courtesy, not a question"))
        assessment.report(turn)
        folded = fold(turn.message)
        greets = not folded or any(_greets_in(phrases, folded) for phrases in possible_phrases(turn.message))
        text = in_language(HELLO_TEXT if greets else WELCOME_TEXT, turn.language)
        turn.stream(text)
        questions = understood.understanding.sub_questions
        parts = tuple(SubQuestion(text=question, answered=True) for question in questions)
        return CheckedDraft(text, assessment, hits, sub_questions=parts)
