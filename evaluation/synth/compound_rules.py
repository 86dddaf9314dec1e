"""The types of compound questions: how each is written (Compound-QA appendix B), and what it must have (appendix C).

Keywords and criteria are the paper's facts; instructions and examples are in our own words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from turnmark.corpora.compound_qa import QuestionType

QUESTIONS = ("what", "how", "why", "when", "which", "how much", "where", "who")
"""Question words (C.1)."""
KEYWORDS: Mapping[QuestionType, tuple[tuple[str, ...], ...]] = {
    "Factual-Statement": (QUESTIONS,),
    "Cause-and-Effect": (
        ("why", "what causes", "what are the reasons", "how does"),
        (
            "what", "how", "what are the effects", "what are the consequences", "how does it affect", "what results",
            "what impacts",
        ),
    ),
    "Hypothetical-Analysis": (
        ("if", "suppose", "imagine", "what if", "in case", "assuming", "provided that", "on the condition that"),
        QUESTIONS,
    ),
    "Comparison-and-Selection": (
        (
            "compare", "compared", "comparing", "comparison", "contrast", "advantage", "disadvantage", "better",
            "worse", "differ", "difference", "similarities", "distinctions",
        ),
        QUESTIONS,
    ),
    "Evaluation-and-Suggestion": (QUESTIONS,),
}  # fmt: skip
"""Type -> lists of words, of each of which a question must have one (C.1)."""


@dataclass(frozen=True)
class Rules:
    """How questions of a type are written and judged.

    Attributes:
        rules: what the compound question does (Tables 6 to 11).
        examples: of ours.
        criteria: what must hold (Tables 12 to 16).
    """

    rules: str
    examples: tuple[str, ...]
    criteria: tuple[str, ...]


RULES: Mapping[QuestionType, Rules] = {
    "Factual-Statement": Rules(
        "it goes on from the original with questions for plain facts, such as a name, a number, a habit or a date; "
        "none of them needs reasoning, and they could be asked in any order.",
        (
            "When was the bridge opened? Who designed it, and how long did the work take?",
            "What do the sheep eat in winter? Where are they kept? How many are there?",
        ),
        (
            "it has two or three questions that belong together",
            "they ask for basic facts",
            "each can be answered directly, without difficult reasoning or analysis",
        ),
    ),
    "Cause-and-Effect": Rules(
        "it asks first why something is so or came about, and then what followed from it or what effects it has.",
        (
            "Why did the harbour silt up? What did that mean for the fishing families?",
            "What are the reasons that fewer people take the bus? What impacts does it have on the villages?",
        ),
        (
            "it has two or three questions that belong together, of cause and effect",
            "its first part asks for the causes of something",
            "what follows asks for the consequences of these causes",
        ),
    ),
    "Hypothetical-Analysis": Rules(
        "it sets two conditions with a word such as 'if' or 'suppose', for instance that something succeeds and that "
        "it fails, and asks what would come of each, for whom, and what could be done.",
        (
            "If the mill burnt down, how would the village bake? If it were rebuilt, what should be done otherwise?",
            "Suppose the ferry ran twice a day: who would gain by it? If it stopped, how would people get by?",
        ),
        (
            "it has two or three conditions that belong together, marked by words such as 'if' or 'suppose'",
            "it asks for outcomes or implications under these conditions",
            "it looks at how several factors, roles or people bear on each other",
        ),
    ),
    "Comparison-and-Selection": Rules(
        "it asks first to compare two or more things, with words such as 'compared with' or 'in contrast to', and then "
        "which of them serves some purpose best.",
        (
            "Compared with the stone oven, how does the iron stove heat? Which one is better for bread?",
            "How do the two paths differ in length and in steepness? Which should a family with children take?",
        ),
        (
            "it has two or more questions that belong together",
            "it compares two or more things, events or situations",
            "it asks to choose the most suitable of them by some criterion",
        ),
    ),
    "Evaluation-and-Suggestion": Rules(
        "it asks first for an assessment of how something stands (how it works, what it achieves, what is wrong with "
        "it), then for the reasons or for advantages and disadvantages, and last for suggestions to improve it.",
        (
            "How well does the night watch work? What are its strengths and weaknesses? What would you change?",
            "What is the state of the footpaths? Which problems come of that, and what should the parish do?",
        ),
        (
            "it begins by asking for a thorough assessment of how something stands",
            "it goes on to the reasons behind it, its advantages and disadvantages",
            "it ends by asking for improvements or further steps that rest on this",
        ),
    ),
}
REASONING = Rules(
    "it sets two conditions with a word such as 'if' or 'assuming', and each question can only be answered by "
    "inference in several steps from what is given: first what must be so, then what follows, then "
    "what follows from that.",
    (
        "If the first three places are taken, who can still be chosen? If Ada is among them, how many ways are left?",
        "Assuming that the budget falls by a fifth, which works must wait? If it falls by half, which are "
        "left, and which of these are needed for the others?",
    ),
    RULES["Hypothetical-Analysis"].criteria,
)
"""The variant for the dimension of reasoning (Table 11), of the type Hypothetical-Analysis."""


def lacking(question: str, kind: QuestionType) -> int | None:
    """Which list of keywords a question has no word of, from 1; None: it passes the filter (C.1).

    Of two lists each must be met by a place of its own: the one "what" of a question is not cause and effect at once.
    """
    low = " ".join(question.lower().split())
    places = [_places(low, listed) for listed in KEYWORDS[kind]]
    for number, matches in enumerate(places, 1):
        if not matches:
            return number
    if len(places) == 2 and len(set(places[0]) | set(places[1])) < 2:
        return 2
    return None


def _places(text: str, keywords: tuple[str, ...]) -> list[int]:
    """Where keywords stand as words; a plural or an ending counts as the word ("advantages", "differs")."""
    return [
        match.start()
        for word in keywords
        for match in re.finditer(rf"\b{re.escape(word)}(?:s|es|ed|ent)?\b", text)
    ]  # fmt: skip
