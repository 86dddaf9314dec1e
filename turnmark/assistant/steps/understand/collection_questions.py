"""Recognize messages about the collection of documents or the program.

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
from pathlib import Path
from typing import Literal, get_args

from turnmark.assistant.wording.phrases import fold
from turnmark.corpora.text.languages import UNSPACED_LANGUAGES

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
