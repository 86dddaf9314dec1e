"""Asking back: a message that speaks of "this burger" or "the actor" when nothing before it says which.

By rules, for English: in other languages nothing is asked back. docs/measured.md has how often that is right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.assistant.steps.support import coverage, stems
from turnmark.assistant.steps.understand import PRONOUN
from turnmark.assistant.steps.units import units_of
from turnmark.assistant.types import Draft, Judgement
from turnmark.corpora.text import plain, printable, strip_citations
from turnmark.corpora.types import Message, Record
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

LOOKED_AT = 5
SENSES = 3
"""Titles among the first hits that are needed: where they agree, it is known what is meant."""
STRANGE = 0.25
"""The cosine with every turn before below which a message has left the conversation; .2 to .35 do about the same."""
TURNS = 6
ANSWERED, LISTED = 3, 8
"""So many readings are answered each, so many are listed; with more, or none, it is only asked."""
MOST_WORDS = 40
LEAST_COVERAGE = 0.3

_TOKEN = re.compile(r"[\w’'.-]*\w|[?,.;:!]")
_POINTS = frozenset("this that these those".split())
_ENDS = frozenset(
    """of in on at for to from by with is are was were be been being do does did has have had and or that which who as
    than apply applied play plays played receive received establish established affect derive air start started work
    cost costs take takes need needs mean means ? , . ; : !""".split()
)
_PHRASE_WORDS = 4
_SAYS = re.compile(r"(ly|ed)$|^(born|spoken|made|built|held|known)$", re.IGNORECASE)


class Unclear(Record):
    """What a message leaves open: the phrase, and what it may stand for, as the titles of hits have it."""

    phrase: str
    readings: tuple[str, ...] = ()


def unclear(message: str, history: Sequence[Message], hits: Sequence[Hit], embed: Embed | None) -> Unclear | None:
    """What a message leaves open, if anything.

    It speaks of a thing by a common noun that no turn before has; nothing before is about what it asks (for "this" and
    its like a first turn will do); and the hits are about three things at least.

    Args:
        embed: without it, a message has left the conversation where it shares no word with it.
    """
    titles = readings_of(hits)
    loose = phrases(message, history)
    if not loose or len({hit.passage.title or hit.passage.document for hit in hits[:LOOKED_AT]}) < SENSES:
        return None
    pointing = [phrase for phrase in loose if phrase.split()[0].lower() in _POINTS]
    if not history:
        return Unclear(phrase=_noun(pointing[0]), readings=titles) if pointing else None
    if PRONOUN.search(message):  # it speaks of what was said before
        return None
    if not _strange(message, history, embed):
        return None
    return Unclear(phrase=_noun([*pointing, *loose][0]), readings=titles)


def phrases(message: str, history: Sequence[Message]) -> list[str]:
    """The phrases of a message that point at something ("this burger", "the actor") no turn before has a word of."""
    known_stems = frozenset[str]().union(*(stems(turn.content) for turn in history))
    tokens = _TOKEN.findall(message)
    pointing = []
    for at, token in enumerate(tokens):
        if token.lower() not in _POINTS | {"the"}:
            continue
        following: list[str] = []
        for word in tokens[at + 1 : at + 1 + _PHRASE_WORDS]:
            if word.lower() in _ENDS:
                break
            following.append(word)
        # A name says itself which one is meant.
        if following and not any(word[0].isupper() or word[0].isdigit() for word in following):
            phrase_stems = stems(" ".join(following))
            if phrase_stems and not phrase_stems & known_stems:
                pointing.append(" ".join([token, *following]))
    return pointing


def _strange(message: str, history: Sequence[Message], embed: Embed | None) -> bool:
    earlier = [turn.content for turn in history if turn.content.strip()][-TURNS:]
    if not earlier:
        return True
    if embed is None:
        message_stems = stems(message)
        return not any(message_stems & stems(text) for text in earlier)
    vectors = embed([message, *earlier])
    return float((vectors[1:] @ vectors[0]).max()) < STRANGE


def readings_of(hits: Sequence[Hit]) -> tuple[str, ...]:
    """What the first hits are about: their titles, as one line each, in order; those without one left out."""
    titles = (_line(hit.passage.title) for hit in hits[:LOOKED_AT])
    return tuple(dict.fromkeys(title for title in titles if title))


def clarification(judgement: Judgement, message: str, rewrite: str, hits: Sequence[Hit]) -> Draft:
    """The question back: two or three readings are answered by a sentence each, up to eight are listed.

    It asks in the words of the message alone: what a rewrite carries over is nothing that the person said. Marks are
    numbers into `hits`, from 1.
    """
    loose = phrases(message, ())
    question_back = f"Which {_noun(loose[0])} do you mean?" if loose else "What exactly do you mean?"
    readings = judgement.readings
    if not 2 <= len(readings) <= LISTED:
        return Draft(text=question_back)
    answered = len(readings) <= ANSWERED
    lines = [f"- {_reading(text, rewrite, hits, answered)}" for text in readings]
    return Draft(text="\n".join([question_back, "", *lines]))


def _reading(reading: str, question: str, hits: Sequence[Hit], answered: bool) -> str:
    """A reading as a line of the list; with the sentence that says most of what is asked, where there is one."""
    name = _line(reading).rstrip(".")
    numbers = [n for n, hit in enumerate(hits, 1) if _line(hit.passage.title) == reading]
    if not answered:
        return f"{name} [{numbers[0]}]" if numbers else name
    best, source, value = "", 0, 0.0
    for n in numbers or range(1, len(hits) + 1):
        for unit in units_of([hits[n - 1]]):
            text = unit.text if numbers else f"{unit.heading} {unit.text}"
            fits = coverage(question if numbers else reading, [text])
            if fits > value and len(unit.text.split()) <= MOST_WORDS:
                best, source, value = unit.text, n, fits
    if value < LEAST_COVERAGE and not (numbers and best):
        return f"{name} [{numbers[0]}]" if numbers else name
    return f"{name}: {best} [{source}]"


def _noun(phrase: str) -> str:
    """What a phrase points at: its words up to an adverb or a participle ("this language officially spoken")."""
    tokens = phrase.split()[1:]
    end = next((at for at, word in enumerate(tokens) if at and _SAYS.search(word)), len(tokens))
    return " ".join(tokens[:end])


def _line(title: str) -> str:
    """A title as one line of plain text without marks, whatever a document calls itself."""
    return " ".join(strip_citations(printable(plain(title))).split())
