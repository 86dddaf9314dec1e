"""What kind of answer a question asks for (a number, a time, a person …), and whether a sentence holds one.

The types are those of the question-answering tracks (TREC QA; Li and Roth 2002), as far as rules tell them in English.
A type says which sentences can answer directly, and for quantities and dates that no sentence does: "how many bugs are
open?" is not answered by a passage on bugs without a number in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from turnmark.assistant.steps.support import numbers_of, stems
from turnmark.corpora.text import sentences

Kind = Literal[
    "count", "duration", "frequency", "money", "temperature", "measure", "person", "date", "time", "place",
    "definition", "yes_no", "reason", "command", "other",
]  # fmt: skip
QUANTITIES: frozenset[Kind] = frozenset(("count", "duration", "frequency", "money", "temperature", "measure"))

_OPENING = (
    r"^\W*(?:(?:and|but|so|ok(?:ay)?|then|also|well|about|for|from|in|at|on|by|to|since|until|within|after)\b[\s,]*)*"
)
_THINGS = (
    "percentage|version|port|range|size|age|limit|length|weight|number|mode|permissions?|id|uid|gid|amount|share|rate"
    "|strength"
)
_RULES: tuple[tuple[Kind, str], ...] = (
    (
        "money",
        r"\bhow much (?:\w+ ){0,6}?(?:costs?|pay|paid|charged?|earn)\b"
        r"|\bwhat (?:is|are|does|do|was) .{0,40}?\b(?:prices?|costs?|fees?|salary|salaries)\b",
    ),
    ("frequency", r"\bhow (?:often|frequently)\b"),
    (
        "duration",
        r"\bhow (?:long|soon|quickly)\b"
        r"|\bhow (?:many|much) (?:\w+ )?(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|time)\b",
    ),
    ("temperature", r"\bhow (?:hot|warm|cold|cool)\b|\b(?:what|which) (?:\w+ )?temperature\b"),
    ("count", r"\bhow many\b|\bwhat number of\b"),
    (
        "measure",
        r"\bhow (?:much|big|large|high|tall|wide|heavy|far|deep|fast|strong|old|thick|small|short|great)\b"
        rf"|\b(?:what|which) (?!(?:is|are|does|do) (?:an? )?\w+\W*$|(?:is|are) an? )(?:\w+ ){{0,2}}?(?:{_THINGS})\b",
    ),
    ("person", r"\b(?:who|whom|whose)\b"),
    ("date", r"\bwhen (?:will|did|was|were)\b|\b(?:what|which) (?:year|date|day|month)\b"),
    ("time", r"\bwhen\b|\b(?:what|which) time\b"),
    (
        "place",
        r"\bwhere\b|\b(?:what|which) (?:folder|directory|path|file|place|page|url|address|section)\b",
    ),
    (
        "command",
        r"\b(?:what|which) (?:\w+ )?"
        r"(?:command|commands|program|tool|option|flag|script|package|field|key|variable|setting)\b",
    ),
    (
        "definition",
        r"\bwhat (?:does|do) .{1,60}? (?:mean|stand for)\b"
        r"|\bwhat(?:'s| is| are)(?: an?| the)? [\w\"'“-]+(?: [\w\"'”-]+){0,3}\W*$"
        r"|\bwhat (?:is|are) meant by\b|\bdefine\b",
    ),
    ("reason", r"\bwhy\b|\bwhat (?:is|are) the reasons?\b|\bhow come\b|\bwhat\b.{1,60}\bfor\W*$"),
)
_TYPES = tuple((kind, re.compile(rule, re.IGNORECASE)) for kind, rule in _RULES)
_YES_NO = re.compile(
    rf"{_OPENING}(?:is|are|was|were|do|does|did|can|could|should|must|may|might|will|would|has|have|am|isn't|aren't"
    rf"|don't"
    r"|doesn't|can't|shouldn't|won't)\b|,\s*(?:is|are|do|does|did|can|should|must|may|will|would|has|have) (?:i|you"
    r"|we|it"
    r"|they|he|she|there|that|this|the)\b",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"\bhow many ((?:[\w'’-]+ ?){1,4})|\bwhat number of ((?:[\w'’-]+ ?){1,4})", re.IGNORECASE)

_SPELT = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|fifteen|twenty|thirty|forty|fifty|sixty"
    r"|hundred|thousand|half|single|both|couple|several)"
)
_NUMBER = rf"(?:\d[\d.,]*|{_SPELT})"
_CALENDAR = (
    r"(?:january|february|march|april|june|july|august|september|october|november|december"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
)
_TIME_UNIT = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|nights?|weeks?|months?|years?|decades?)"
_PATTERNS: dict[Kind, re.Pattern[str]] = {
    "duration": re.compile(
        rf"{_NUMBER}[\s-]*(?:to|-|–|or|and)?\s*(?:{_NUMBER})?[\s-]*{_TIME_UNIT}\b|\b(?:overnight|until|immediately"
        rf"|at once"
        r"|an? (?:hour|day|week|month|year|minute))\b"
        rf"|{_NUMBER} (?:characters|words|lines|bits|pages)",
        re.IGNORECASE,
    ),
    "frequency": re.compile(
        r"\b(?:hourly|daily|nightly|weekly|monthly|yearly|annually|quarterly|regularly|once|twice|every|each"
        rf"|per {_TIME_UNIT}|{_NUMBER} times)\b",
        re.IGNORECASE,
    ),
    "money": re.compile(
        r"[$€£¥]\s?\d|\b\d[\d.,]*\s?(?:dollars?|euros?|pounds?|cents?|usd|eur|gbp|%|percent)\b|\bfree\b"
        r"|\bno (?:cost|charge|fee)\b",
        re.IGNORECASE,
    ),
    "temperature": re.compile(
        r"\d\s?°|\bdegrees?\b|\b(?:low|medium|high|moderate|gentle)(?:[\s-]\w+)?[\s-](?:heat|flame|hot)\b"
        r"|\broom temperature\b"
        r"|\blukewarm\b|\bice[\s-]cold\b|\bgas mark\b",
        re.IGNORECASE,
    ),
    "count": re.compile(rf"\b{_NUMBER}\b|\bno\b|\bnone\b", re.IGNORECASE),
    "measure": re.compile(rf"\d|\b{_SPELT}\b|\bunlimited\b", re.IGNORECASE),
    "person": re.compile(
        r"(?<=[\w,;] )[A-Z][\w’'-]+|\b(?:committee|team|maintainers?|developers?|administrators?|leader|manager"
        r"|director|staff"
        r"|employees?|users?|group|people|person|anyone|everyone|anybody|nobody|supervisor|members?|author)\b"
    ),
    "date": re.compile(
        rf"\b(?:1\d|20)\d\d\b|\b\d\d?(?:st|nd|rd|th)\b|\b{_CALENDAR}\b|\bmay \d|\d may\b|\bcentur"
        rf"|{_NUMBER}[\s-]{_TIME_UNIT}\b"
        r"|\b(?:today|tomorrow|yesterday|tonight)\b|\d:\d\d|\d\s?(?:am|pm|bc|ad)\b"
        r"|\b(?:next|last|this) (?:week|month|year|spring|summer|fall|autumn|winter)\b",
        re.IGNORECASE,
    ),
    "time": re.compile(
        rf"\b(?:1[5-9]|20)\d\d\b|\b{_CALENDAR}\b|\b(?:when|after|before|once|until|as soon as|during"
        rf"|within|by the end)\b|{_NUMBER}[\s-]{_TIME_UNIT}\b|\d\s?(?:am|pm)\b|\d:\d\d",
        re.IGNORECASE,
    ),
    "place": re.compile(
        r"(?<![\w<])~?(?:/[\w.+-]+)+/?|\bhttps?://\S+|\b[\w.-]+@[\w.-]+\b|\b(?:in|at|on|under|into|to|from) (?:the "
        r"|a |an |its |your )?"
        r"(?:[\w-]+ )?(?:folder|directory|file|fridge|refrigerator|freezer|oven|section|page|site|server|room|place"
        r"|channel|list"
        r"|database|office|form|system|spot|jar|pot|menu)\b",
        re.IGNORECASE,
    ),
    "command": re.compile(
        r"`[^`]+`|\b[a-z][a-z0-9]*(?:[-_.][a-z0-9]+)+\b|(?<=\s)--?[a-z][\w-]+|\bcommands?\b|\btools?\b|\b[A-Z]\w+-\w+\b"
    ),
    "reason": re.compile(
        r"\b(?:because|since|so that|so as to|in order to|due to|owing to|reasons?|therefore|otherwise|to (?:avoid"
        r"|prevent|ensure"
        r"|allow|make sure|keep|help|give)|as (?:it|this|they|the)|this (?:alters|allows|makes|ensures|prevents"
        r"|means|gives|helps))\b",
        re.IGNORECASE,
    ),
    "yes_no": re.compile(
        r"\b(?:not|never|no|must|should|may|can|cannot|only|always|need(?:s|ed)?|required|allowed|possible"
        r"|forbidden|optional"
        r"|recommended|don't|doesn't|won't|can't|without|instead|longer)\b",
        re.IGNORECASE,
    ),
}  # fmt: skip
COUNTS_SOMETHING_ELSE = 0.3
"""`holds` of a sentence with a number, but not of what is counted."""
SUBJECT_NAMED = 0.2
"""`holds` of a sentence that has the subject of a definition, and does not define it."""
_NEAR = 4
"""Words between a number and what it counts."""


@dataclass(frozen=True)
class AnswerType:
    """What a question asks for.

    Attributes:
        kind: the type.
        counted_stems: stems of what "how many" counts; empty otherwise.
        numbers: of the question: they are no answer to it.
        subject: the term that a definition is asked of; "" otherwise.
    """

    kind: Kind
    counted_stems: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    subject: str = ""

    @property
    def quantity(self) -> bool:
        """Whether a number is asked for."""
        return self.kind in QUANTITIES

    @property
    def stated(self) -> bool:
        """Whether a passage answers only if it holds the type: no number or date, no answer."""
        return self.quantity or self.kind == "date"


@lru_cache(maxsize=256)
def answer_type(question: str) -> AnswerType:
    """The type of a question; `other` where no rule knows it."""
    text = " ".join(question.split()).replace("’", "'")
    kind: Kind = next((kind for kind, rule in _TYPES if rule.search(text)), "other")
    if (kind in ("person", "time", "place", "other") and _YES_NO.match(text)) or (
        kind == "other" and _YES_NO.search(text)
    ):
        kind = "yes_no"
    counted_stems: frozenset[str] = frozenset()
    if kind == "count" and (match := _COUNTED.search(text)):
        phrase = (match[1] or match[2]).split()
        nouns = [word for word in phrase if not _VERBS.fullmatch(word)]
        first_verb = next((at for at, word in enumerate(phrase) if _VERBS.fullmatch(word)), len(phrase))
        counted_stems = stems(" ".join(phrase[:first_verb] or nouns))
    return AnswerType(kind, counted_stems, numbers_of(text, spelt=True), _subject(text) if kind == "definition" else "")


_VERBS = re.compile(
    r"(?:is|are|was|were|do|does|did|can|could|should|must|may|will|would|has|have|had|go|goes|get|gets|of|in|on|at"
    r"|to|for|i|you"
    r"|we|they|it|there|the|a|an|per|make|makes|need|needs|come|comes|from|with|got|fit|has|be|count|counts|allowed)",
    re.IGNORECASE,
)
_MEANS = re.compile(r"\bwhat (?:does|do) (?:an? |the )?(.{1,60}?) (?:mean|stand for)\b", re.IGNORECASE)
_IS = re.compile(r"\b(?:what(?:'s| is| are)(?: meant by)?|define)(?: an?| the)? (.{1,60}?)\W*$", re.IGNORECASE)


def _subject(text: str) -> str:
    match = _MEANS.search(text) or _IS.search(text)
    return match[1].strip(" \"'“”?") if match else ""


def holds(expected: AnswerType, sentence: str) -> float:
    """How well a sentence holds an answer of this type: 0 not at all, 1 plainly; 0 for the type `other`."""
    if expected.kind == "definition":
        return _defines(expected.subject, sentence)
    pattern = _PATTERNS.get(expected.kind)
    if pattern is None or not pattern.search(sentence):
        return 0.0
    if not expected.quantity:
        return 1.0
    if expected.kind in ("count", "measure") and not (numbers_of(sentence, spelt=True) - expected.numbers):
        return 0.0
    if expected.counted_stems:
        return 1.0 if _counts(sentence, expected) else COUNTS_SOMETHING_ELSE
    return 1.0


def defines(expected: AnswerType, text: str) -> bool:
    """Whether a text says what the subject of a definition is; False where none is asked for."""
    return expected.kind == "definition" and any(
        _defines(expected.subject, text[start:end]) > SUBJECT_NAMED for start, end in sentences(text)
    )


def _counts(sentence: str, expected: AnswerType) -> bool:
    """Whether a number stands shortly before what the question counts."""
    tokens = re.findall(r"[\w.,'’-]*\w", sentence)
    for at, token in enumerate(tokens):
        number = re.fullmatch(_NUMBER, token, re.IGNORECASE)
        if number and not (numbers_of(token, spelt=True) <= expected.numbers and numbers_of(token, spelt=True)):
            following = stems(" ".join(tokens[at + 1 : at + 1 + _NEAR]))
            if expected.counted_stems & following:
                return True
    return False


def _defines(subject: str, sentence: str) -> float:
    """Whether a sentence says what its subject is: "X is a …", "X stands for", "Long Name (X)"."""
    name = re.escape(subject)
    if not subject or not re.search(rf"\b{name}\b", sentence, re.IGNORECASE):
        return 0.0
    if re.search(rf"\w+ \(\W*{name}s?\W*\)|\b{name}s?\W? \((?!see\b)\w", sentence, re.IGNORECASE):
        return 1.0
    says = r"(?:is|are|was|means?|stands? for|refers? to|denotes?|consists? of|describes?|represents?)"
    article = r"(?:(?:an?|the|this|that|such|each|in \w+,) )?"
    opens = rf"^\W*{article}(?:[\w-]+ ){{0,2}}?{name}s?\W{{0,3}}(?: \([^)]*\))? ?{says}\b"
    if re.search(opens, sentence, re.IGNORECASE):
        return 1.0
    called = rf"\b(?:called|named|known as|termed|i\.e\.|defined as)\b[^.]{{0,30}}\b{name}"
    return 0.8 if re.search(called, sentence, re.IGNORECASE) else SUBJECT_NAMED
