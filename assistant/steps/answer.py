"""Writing the answer without a language model: sentences chosen for the question, each cited as it stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from assistant.steps.select import Embed as Embed
from assistant.steps.select import picked, rated, trust
from assistant.steps.select_steps import said_apart, steps_of
from assistant.steps.understand import is_greeting
from assistant.steps.units import Unit, units_of
from assistant.types import Draft, Step, Understanding
from corpora.text import sentences, words
from retrieval.types import Hit

UNKNOWN_TEXT = "I don't know: I found nothing about that in the documents."
LENGTH = 102
"""Words of an answer; references of MTRAG have 99."""
FACT_LENGTH, FACT_SENTENCES = 60, 2
"""Of an answer to a question that wants one fact."""
LEAD_LENGTH, LEAD_SENTENCES = 40, 1
"""Of what stands above a procedure."""
MOST_SENTENCES = 12

_FACT = re.compile(
    r"^\W*(?:(?:and|but|so|ok(?:ay)?|then)\b\W*)?(?:who|when|where|whose|which|"
    r"what (?:colou?r|year|date|time|day|age|size|number|percentage|is the (?:name|capital|population|price|number))|"
    r"how (?:many|much|old|long|far|tall|big|often|high|large|deep|wide|heavy|hot|fast))\b",
    re.IGNORECASE,
)
SHORTEST_PART = 40
_NAMELESS = re.compile(r"^\W*(?:it|its|they|their|he|his|she|her)\b", re.IGNORECASE)
LONGEST_TITLE = 5
"""Words of a title that can stand before a sentence: it is a name, then."""
_PLAIN = frozenset("a an and are can do does for how i in is it of on the to what which with you your".split())
# Opens with a word that only what stands before it explains.
_LEANS = re.compile(
    r"^\W*(?:(?:but|and|so|then|however|also)\b\W*)?(?:it|its|they|their|them|he|his|him|she|her|this|these|those|that|"
    r"such|the (?:latter|former|same))\b",
    re.IGNORECASE,
)


def converse(message: str) -> Draft:
    """The reply to a courtesy."""
    if is_greeting(message) or not words(message):
        return Draft(text="Hello! Ask me anything about your documents.")
    return Draft(text="You're welcome. Ask on whenever you like.")


def extract(
    understanding: Understanding, message: str, hits: Sequence[Hit], embed: Embed | None, parts: int = 1
) -> Draft | None:
    """The extractive answer, and the procedure when one is wanted and a document gives one; None when nothing fits.

    Sentences are chosen for the message as it was said and for its rewrite: with the rewrite alone every sentence that
    names the topic would look like an answer.

    Args:
        embed: embeds sentences (unit vectors); without it, shared words decide.
        parts: of the reply, of which this is one: each is the shorter for it.
    """
    steps = steps_of(hits) if understanding.wants_procedure else []
    procedure = tuple(Step(step=unit.text, citations=(unit.citation,)) for unit in steps)
    taken = {(unit.document, unit.at) for unit in steps}
    pool = [unit for unit in units_of(hits) if (unit.document, unit.at) not in taken]
    if procedure:
        documents = {unit.document for unit in steps}
        pool = [unit for unit in pool if unit.document in documents and not unit.item]
        length, most = LEAD_LENGTH, LEAD_SENTENCES
    elif wants_fact(message):
        length, most = FACT_LENGTH, FACT_SENTENCES
    else:
        length, most = LENGTH, MOST_SENTENCES
    length = max(SHORTEST_PART, round(length / parts**0.5)) if parts > 1 else length
    chosen = _chosen((message, understanding.rewrite), pool, embed, length, most, trust(hits))
    text = " ".join(_cited(unit) for unit in _explained(chosen, hits))
    if procedure:
        text = " ".join(filter(None, (text, said_apart(steps, hits)))) or f"These are the steps. [{steps[0].citation}]"
    return Draft(text=text, procedure=procedure) if text else None


def wants_fact(message: str) -> bool:
    """Whether a question asks for one fact: who, when, where, how many … A second question in it wants more."""
    return bool(_FACT.search(message)) and len(re.findall(r"[?？]", message)) < 2


def choose(questions: Sequence[str], pool: Sequence[Unit], embed: Embed | None, most: int) -> list[Unit]:
    """Up to `most` units that fit the questions best, on average, and differ; in the order of their passages."""
    return _chosen(questions, pool, embed, LENGTH, most)


def _chosen(
    questions: Sequence[str],
    pool: Sequence[Unit],
    embed: Embed | None,
    length: int,
    most: int,
    trusted: Sequence[float] = (),
) -> list[Unit]:
    usable = [unit for unit in pool if unit.whole and _reads(unit, questions)] or list(pool)
    if not usable:
        return []
    found = rated(questions, usable, embed)
    scores = found.scores()
    if trusted:
        scores = scores + [trusted[unit.citation - 1] for unit in found.units]
    places = picked(found, scores, length, most, leans)
    return [found.units[place] for place in places]


def _reads(unit: Unit, questions: Sequence[str]) -> bool:
    """Whether a unit can stand in an answer. "30 g of salt" can where its list is asked for: what do I need?"""
    if not (unit.item and unit.text[:1].islower()):
        return True
    asked = {word for question in questions for word in words(question)} - _PLAIN
    return unit.heading == "" or bool(asked & set(words(unit.heading)))


def leans(text: str) -> bool:
    """Whether a sentence opens with a word ("It", "This") that only what stands before it explains."""
    return bool(_LEANS.search(text))


def _explained(chosen: Sequence[Unit], hits: Sequence[Hit]) -> list[Unit]:
    """The units, the title put before those that lean on what is not there: only words of their own passage."""
    made: list[Unit] = []
    for unit in chosen:
        passage = hits[unit.citation - 1].passage
        alone = not made or made[-1].citation != unit.citation
        name = words(passage.title)
        fits = 0 < len(name) <= LONGEST_TITLE and set(name) <= set(words(passage.text))
        titled = alone and fits and _NAMELESS.search(unit.text)
        made.append(replace(unit, text=f"{passage.title}: {unit.text}") if titled else unit)
    return made


def _cited(unit: Unit) -> str:
    """The unit with its citation after each of its sentences: every sentence cites."""
    parts = [unit.text[start:end] for start, end in sentences(unit.text)]
    return " ".join(f"{ended(part)} [{unit.citation}]" for part in parts)


def ended(text: str) -> str:
    """The text with a full stop where it ends without any mark."""
    return text if text[-1:] in ".!?…。！？" else text.rstrip(" ,;:") + "."
