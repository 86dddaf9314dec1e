"""Documents that say nearly the same as a quoted sentence, with another number or date.

Of several versions of a rule, the search finds any one. Which of them holds takes a reader to decide, so the answer
names the others with their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnmark.assistant.citations.marks import TextLine, lines_of
from turnmark.assistant.steps.answer.answer_counts import group_digits
from turnmark.assistant.steps.step_results import SourceList
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.wording.reply_texts import DIFFERING_TEXT, MORE_TEXT, in_language
from turnmark.core.untrusted import escape_marks, one_line
from turnmark.corpora.text.function_words import content_words
from turnmark.corpora.text.segmentation import words
from turnmark.retrieval.types import Hit, Query

SEARCHED_PASSAGES = 30
"""Number of passages in which other versions of a sentence are looked for."""
MAX_NAMED_DOCUMENTS = 5
"""Maximum documents that are named with other values."""
MIN_SHARED_WORDS = 0.8
"""Minimum share of common words of two sentences that say nearly the same, numbers left out."""
MIN_COMPARED_WORDS = 4
"""Minimum words of such a sentence besides its numbers."""

_MONTHS = frozenset(
    """january february march april may june july august september october november december januar februar märz mai
    juni juli oktober dezember janvier février mars avril juin juillet août septembre octobre novembre décembre enero
    febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre""".split()
)


@dataclass(frozen=True)
class DifferingLine:
    """A sentence of another document with other values."""

    hit: Hit
    values: tuple[str, ...]


def differing_lines(turn: Turn, asked: str, quoted: Hit, line: TextLine) -> list[DifferingLine]:
    """Return the sentences of other documents that say nearly the same as a quoted one with other values.

    A document that the question tells apart, by a word or number of its title, is left out.
    """
    own_words, own_values = _split(line.text)
    if turn.retriever is None or turn.evidence is not None or not own_values or len(own_words) < MIN_COMPARED_WORDS:
        return []
    (hits,) = turn.retriever.search([Query(text=line.text)], SEARCHED_PASSAGES)
    found: dict[str, DifferingLine] = {}
    for hit in hits:
        document = hit.passage.document
        if document == quoted.passage.document or document in found or _told_apart(asked, quoted, hit):
            continue
        for other in lines_of(hit.passage):
            other_words, other_values = _split(other.text)
            if other.can_answer and _say_the_same(own_words, other_words) and other_values != own_values:
                found[document] = DifferingLine(hit, tuple(value for value in other_values if value not in own_values))
                break
    return list(found.values())


def differing_text(language: str, found: Sequence[DifferingLine], sources: SourceList) -> str:
    """Return a paragraph that names documents with other values, which become sources."""
    shown = found[:MAX_NAMED_DOCUMENTS]
    titles = [each.hit.passage.title for each in shown]
    rows = []
    for each, number in zip(shown, sources.number(each.hit for each in shown), strict=True):
        passage = each.hit.passage
        name = passage.title if passage.title and titles.count(passage.title) == 1 else passage.path or passage.document
        values = ", ".join(each.values)
        rows.append(f"- {escape_marks(one_line(name))}: {escape_marks(one_line(values))} [{number}]")
    if rest := len(found) - len(shown):
        rows.append(f"- … {in_language(MORE_TEXT, language).replace('{number}', group_digits(rest, language))}")
    return "\n".join([in_language(DIFFERING_TEXT, language), "", *rows])


def _split(text: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the words of a sentence without numbers and months, and its numbers and months."""
    named = words(text)
    plain = frozenset(word for word in named if not any(map(str.isdigit, word)) and word not in _MONTHS)
    return plain, tuple(word for word in named if word not in plain)


def _say_the_same(first: frozenset[str], second: frozenset[str]) -> bool:
    shared = len(first & second)
    return shared >= MIN_SHARED_WORDS * max(len(first), len(second), 1)


def _told_apart(question: str, quoted: Hit, other: Hit) -> bool:
    """Return whether the question has a word of the quoted document's title that the other title does not have."""
    asked = {*content_words(question), *words(question)}
    own = {*words(f"{quoted.passage.title} {quoted.passage.document} {quoted.passage.section}")}
    others = {*words(f"{other.passage.title} {other.passage.document} {other.passage.section}")}
    return bool(asked & (own - others))
