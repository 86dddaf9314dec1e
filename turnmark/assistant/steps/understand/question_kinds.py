"""Recognize the kind of a question by rules: what something is, how something is done, or how many, when, where, who.

The kind says where to look: a definition begins with its subject, and the answer to "how many" has a number. The words
of each language are fields of `phrases.toml`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from turnmark.assistant.citations.marks import TextLine
from turnmark.assistant.wording.phrases import fold, phrases_of
from turnmark.corpora.text.function_words import content_words

AskedFor = Literal["definition", "steps", "amount", "time", "person", "other"]
_MARKED_KINDS: tuple[AskedFor, ...] = get_args(AskedFor)[1:-1]


@dataclass(frozen=True)
class AskedKind:
    """The kind of a question.

    Attributes:
        subject: what a definition is asked of; "" for the other kinds.
    """

    kind: AskedFor = "other"
    subject: str = ""

    def is_answered_by(self, line: TextLine) -> bool:
        """Return whether a line has what a question of this kind asks for; False for kinds without such a mark."""
        if self.kind == "steps":
            return line.kind in ("item", "code")
        return self.kind in _ANSWERS and _ANSWERS[self.kind].search(line.text) is not None


_NUMBER_WORDS = (
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|hundred|thousand|million|half|once|twice"
    r"|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|deux|trois|quatre|cinq|sept|huit|neuf|dix"
)
_ANSWERS = {
    "amount": re.compile(rf"\d|\b(?:{_NUMBER_WORDS})\b|[一二三四五六七八九十百千两]", re.IGNORECASE),
    "time": re.compile(
        r"\d{4}|\d[:.]\d\d|\d ?(?:am|pm|uhr|h)\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day|[年月日时時]"
        r"|\b(?:january|february|march|april|may|june|july|august|september|october|november|december|noon|midnight"
        r"|morning|evening|daily|weekly|monthly|days?|weeks?|months?|years?|hours?|minutes?|tage?n?|wochen?|jours?)\b",
        re.IGNORECASE,
    ),
    "person": re.compile(r"(?<=\S )[A-Z]\w+ [A-Z]\w+|@"),
}
"""What the answer to a question of this kind contains."""


@lru_cache(maxsize=256)
def kind_of_question(message: str, languages: tuple[str, ...] = ()) -> AskedKind:
    """Return the kind of a question.

    Args:
        languages: languages that an undecided message may be in.
    """
    phrases = phrases_of(message, languages)
    # "What is the Net Loft?" names its subject; "what is the limit?" does not.
    folded = fold(re.sub(r"(?<= )the (?=[A-Z])", "", message))
    subject = phrases.defined_in(folded)
    if subject and content_words(subject.split()[0], phrases.language):
        return AskedKind("definition", subject)
    for kind in _MARKED_KINDS:
        if phrases.find(f"asks_{kind}").search(folded):
            return AskedKind(kind)
    return AskedKind()
