"""Find the sentences of the documents that say what something is.

A definition has few words of its question, so the ranking seldom finds it: "What is Hatch?" is in every passage. It has
a form instead: its subject comes first, followed by "is a", a dash or a colon, or it is the first sentence below the
subject or "What is Hatch?" as a heading or title.
"""

from __future__ import annotations

import re
from functools import lru_cache

from turnmark.assistant.citations.marks import TextLine, lines_of, without_item_mark
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.wording.phrases import all_words, defined_subject
from turnmark.corpora.text.segmentation import ends_with_question_mark
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import Hit

MAX_DEFINITIONS = 3
"""Maximum passages that are added to the evidence of a question."""
MAX_READ_PASSAGES = 60
"""Maximum passages with the subject that are read for a definition."""
_ENTRANCE = re.compile(r"(?:^|/)(?:index|readme|home|introduction|intro|about|overview|welcome)\b[^/]*$", re.IGNORECASE)
"""The path of a page on which a collection says what it is about."""


def definition_hits(turn: Turn, subject: str) -> list[Hit]:
    """Return passages with a definition of a subject, best first; none without an index."""
    collection = turn.retriever.collection() if turn.retriever else None
    if turn.retriever is None or collection is None:
        return []
    pattern = _pattern_of(subject)
    places: dict[str, tuple[str, int]] = {}
    for line in collection.grep(f"/{_spelled(subject)}/").lines:
        if pattern.search(line.text) or _ENTRANCE.search(line.document) or subject in line.section.lower():
            places.setdefault(line.passage, (line.document, line.start))
    for entry in collection.documents():
        if _is_named(entry.title, subject):
            places.setdefault(entry.document, (entry.document, 0))
    found: list[tuple[float, Hit]] = []
    for document, start in list(places.values())[:MAX_READ_PASSAGES]:
        nearby = turn.retriever.neighbors(Passage(id="", document=document, title="", text="", start=start, end=start))
        passage = next((each for each in nearby if each.start >= start), None)
        if passage is None:
            continue
        best = max((definition_share(subject, line, passage) for line in lines_of(passage)), default=0.0)
        if best:
            found.append((best, Hit(passage=passage, score=0.0)))
    found.sort(key=lambda pair: -pair[0])
    return [hit for _, hit in found[:MAX_DEFINITIONS]]


@lru_cache(maxsize=2048)  # both the retrieve step and the answer step rate the lines
def definition_share(subject: str, line: TextLine, passage: Passage) -> float:
    """Return how much a line looks like the definition of a subject, 0..1."""
    if not _may_define(line):
        return 0.0
    stated = _pattern_of(subject).search(line.text)
    share = 0.0
    if stated:
        share = 0.5 if not stated["is"] else 0.6 if stated["more"] else 0.7
    heading = _without_number(line.heading(passage.title))
    is_asked = defined_subject(heading) == subject
    names_it = (
        line.kind in ("sentence", "item") if is_asked else line.kind == "sentence" and _is_named(heading, subject)
    )
    if names_it and _is_first(line, passage):
        share += 0.3 if stated else 0.7 if is_asked else 0.5
    if share and _ENTRANCE.search(passage.as_stored().document):
        share += 0.2
    if share and passage.start == 0:
        share += 0.1
    return min(share, 1.0)


def _is_first(line: TextLine, passage: Passage) -> bool:
    """Return whether a line is the first one below its heading that can answer."""
    return line is next(each for each in lines_of(passage) if each.section == line.section and _may_define(each))


def _may_define(line: TextLine) -> bool:
    return line.can_answer and line.size > 2 and not ends_with_question_mark(line.text)


def is_entry(line: TextLine, passage: Passage) -> bool:
    """Return whether a line is an item that only asks or only links, as in a table of contents or a menu."""
    text = without_item_mark(passage.text[line.start : line.end].strip())
    return line.kind == "item" and (ends_with_question_mark(line.text) or _LINK.fullmatch(text) is not None)


_LINK = re.compile(r"\[[^\]\n]*\]\([^)\s]*\)")


def _is_named(title: str, subject: str) -> bool:
    """Return whether a title or heading is a subject, with or without a number or an article before it."""
    name = re.sub(r"^(?:the|an?)\s+", "", _without_number(title).lower())
    return name.rstrip("s") == subject.rstrip("s")


def _without_number(title: str) -> str:
    return title.lstrip("0123456789. \t")


@lru_cache(maxsize=64)
def _pattern_of(subject: str) -> re.Pattern[str]:
    """Return a pattern for a sentence that says what a subject is; its group `is` matches "is a"."""
    name, copula, article = _spelled(subject), all_words("copulas"), all_words("definers")
    return re.compile(
        rf"^\W*(?:(?:{article})\s+)?{name}\w?(?:\s*\([^)]{{1,60}}\))?"
        rf"(?:(?P<is>(?P<more>(?:\s+\w+){{0,2}}?),?\s+(?:{copula})\W+(?:{article})(?!\w))"
        rf"|,?\s+(?:{copula})(?!\w)|\s*[—:–]|\s+-\s+\S|{all_words('copulas_attached')})"
        rf"|=\s*{name}\s+[-–—]\s",
        re.IGNORECASE,
    )


def _spelled(subject: str) -> str:
    """Return a pattern for a subject in any spelling: "pivot table" is "Pivot-Table", too."""
    return r"[\W_]+".join(map(re.escape, subject.split()))
