"""Recognize messages about the collection of documents, a document in it or the program.

"How many documents are there?" must not be answered from a passage that has these words. A message is recognized only
as a whole, so that "How many documents do I need for a visa?" stays a question to the documents. The patterns and the
replies of each language are a row of `collection_questions.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from turnmark.assistant.steps.step_results import NamedDocument
from turnmark.assistant.wording.phrases import fold
from turnmark.corpora.text.languages import UNSPACED_LANGUAGES
from turnmark.retrieval.collection import Collection
from turnmark.retrieval.storage.passage_store import DocumentEntry

CollectionTopic = Literal["about", "count", "list", "help", "summarize"]
TOPICS: tuple[CollectionTopic, ...] = get_args(CollectionTopic)

MAX_QUESTION_CHARACTERS = 200
"""Maximum length of such a message; a longer one asks something else, too."""


@dataclass(frozen=True)
class CollectionQuestion:
    """What a message about the collection asks for.

    Attributes:
        words: what the listed documents are about, or "" for all documents.
        language: code of the row that recognized it, whose replies are used.
    """

    topic: CollectionTopic
    language: str
    words: str = ""

    def text(self, name: str) -> str:
        """Return a reply in the language of the message, such as `help` or `documents`."""
        return rows()[self.language][f"{name}_text"]


def collection_question(message: str) -> CollectionQuestion | None:
    """Return what a message asks about the collection or the program; None for any other message."""
    if len(message) > MAX_QUESTION_CHARACTERS:
        return None
    folded = fold(message)
    for language, topic in product(rows(), TOPICS):
        if asks := pattern_of(language, topic).fullmatch(folded):
            return CollectionQuestion(topic, language, asks[asks.lastindex] if asks.lastindex else "")
    return None


@cache
def rows() -> Mapping[str, Mapping[str, str]]:
    """Return the table: language -> field -> pattern or text."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@cache
def pattern_of(language: str, field: str) -> re.Pattern[str]:
    """Return the pattern of a field for a whole folded message, with polite words; the only group is `{name}`."""
    row = rows()[language]
    core = row[field].replace("{name}", "(.{1,80}?)")
    for name in ("there", "where", "docs"):
        core = core.replace(f"{{{name}}}", row[name])
    gap = " ?" if language in UNSPACED_LANGUAGES else " "
    return re.compile(rf"(?:(?:{row['polite']}){gap})*(?:{core})(?:{gap}(?:{row['polite']}))*")


_FILE_NAME = re.compile(r"\w\.[^\W_]{1,5}(?!\w)")


def named_document(message: str, collection: Collection) -> NamedDocument | None:
    """Return the document or chapter that a message names, or None if it names none."""
    if len(message) > MAX_QUESTION_CHARACTERS:
        return None
    folded = fold(message)
    asked = next(((code, found) for code in rows() if (found := pattern_of(code, "overview").fullmatch(folded))), None)
    language, name = (asked[0], asked[1][asked[1].lastindex or 0]) if asked else ("", "")
    chapter = _chapter_pattern().search(folded)
    if not (chapter or name or _FILE_NAME.search(message)):
        return None
    entries = collection.documents()
    named = [entry for entry in entries if _is_named(entry, folded, name)]
    if chapter:
        number = next(filter(None, chapter.groups()))
        if not language and any(re.match(rf"{number} \d", fold(entry.title)) for entry in entries):
            return None  # its sections are documents of their own
        titles = [(entry.document, f"# {entry.title}") for entry in named or entries]
        within = {document for document, _ in titles}
        texts = [(text.document, text.text) for text in collection.texts() if text.document in within]
        for heading, (document, text) in product(_heading_patterns(number), (*titles, *texts)):
            if found := heading.search(text):
                return NamedDocument(document, found[1], language)
    return NamedDocument(named[0].document, "", language) if named else None


def _is_named(entry: DocumentEntry, folded: str, name: str) -> bool:
    """Return whether a message has the file name of a document, or its own part `name` is the title."""
    path = PurePosixPath(entry.path)
    if path.suffix and f" {fold(path.name)} " in f" {folded} ":
        return True
    return name != "" and name in (fold(entry.title), fold(path.stem), fold(path.name))


def _chapter_words() -> str:
    return "|".join(row["chapter"] for row in rows().values() if row["chapter"])


@cache
def _chapter_pattern() -> re.Pattern[str]:
    """Return a pattern that finds "chapter 3" or "第3章" in a folded text; one of its groups is the number."""
    number = r"\d+(?: \d+)*|[ivx]{2,}"
    return re.compile(rf"\b(?:{_chapter_words()}) ({number})\b|第 ?(\d+|[一二三四五六七八九十]+) ?[章节節]")


def _heading_patterns(number: str) -> list[re.Pattern[str]]:
    """Return patterns that find "# Chapter 3. Seeds", or else "## 3.2. Seeds" for "3 2"; their group is the text."""
    dotted = number.replace(" ", r"\.") + r"(?!\.?\d)(?![^\W章节節])"
    starts = (rf"(?:第 ?|(?:{_chapter_words()}) ){dotted}", dotted)
    return [re.compile(rf"^#+ +({start}.*)$", re.IGNORECASE | re.MULTILINE) for start in starts]
