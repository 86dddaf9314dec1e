"""`turnmark synth compound-qa`: compound questions by CQ-Syn (Compound-QA section 3.2, appendices B and C).

From a passage a question of a type is written; keywords (C.1) and a judge (C.2) say whether it is of that type; then
every part of it is answered. Review by three people with 0, 1 or 2 (C.3) is left to people. Keywords and criteria are
the paper's facts; instructions and examples are in our own words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from turnmark.assistant.generators.schema import short_text
from turnmark.assistant.steps.split import split_questions
from turnmark.corpora.compound_qa import Capability, QuestionType
from turnmark.corpora.errors import RequestError
from turnmark.corpora.text import count_words, strip_citations, words
from turnmark.evaluation.synth.attempt import Attempt, Exported, Rejected, Reply, Seed
from turnmark.evaluation.synth.folder import SynthItem, write_rows
from turnmark.evaluation.synth.source import Source

LEAST_CONTEXT, MOST_CONTEXT = 60, 600
"""Words of a context."""
FEWEST_PARTS = 2
LONGEST_QUESTION, LONGEST_ANSWER = 80, 350
"""Words."""
TYPES: tuple[QuestionType, ...] = get_args(QuestionType)

# --- how questions of each type are written (appendix B), and what they must have (appendix C) ------------------------

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


# --- the synthesis ---------------------------------------------------------------------------------------------------


class QuestionReply(Reply):
    """What the prompt `compound-question` asks for."""

    example: ClassVar[dict[str, Any]] = {"original": "What is it?", "question": "What is it? Why is it so?"}
    original: str
    question: str


class FilterReply(Reply):
    """What the prompt `compound-filter` asks for."""

    example: ClassVar[dict[str, Any]] = {"reason": "it holds", "fits": True}
    reason: Annotated[str, short_text()]
    fits: bool


class ReferenceReply(Reply):
    """What the prompt `compound-reference` asks for."""

    example: ClassVar[dict[str, Any]] = {"answer": "It is this, since that."}
    tokens: ClassVar[int] = 250
    answer: str


class CompoundQuestions:
    """Makes compound questions; see the module.

    Args:
        types: those to make; in turn, a context each.
        capability: the dimension that the files are of. `Reasoning` takes the paper's own prompt for
            Hypothetical-Analysis (Table 11).
    """

    name: ClassVar[str] = "compound-qa"
    prompts: ClassVar[tuple[str, ...]] = ("compound-question", "compound-filter", "compound-reference")
    measures: ClassVar[tuple[str, ...]] = ()
    each: ClassVar[int] = 1

    def __init__(self, types: Sequence[str] = TYPES, capability: str = "Understanding") -> None:
        problems = [f"--types: no type {name!r}; there are: {', '.join(TYPES)}" for name in types if name not in TYPES]
        if not types:
            problems.append(f"--types is empty; there are: {', '.join(TYPES)}")
        if capability not in get_args(Capability):
            problems.append(f"--capability {capability!r}; there are: {', '.join(get_args(Capability))}")
        if problems:
            raise RequestError(problems)
        self.types = tuple(name for name in TYPES if name in types)
        self.capability = capability
        self.options = {"types": list(self.types), "capability": capability}

    def seeds(self, source: Source, seed: int) -> Sequence[Seed]:
        """A passage and a type each; the types take turns, so that any number of items has about as many of each."""
        passages = source.drawn_passages(seed, LEAST_CONTEXT, MOST_CONTEXT)
        return [
            Seed(f"{place * len(self.types) + turn:06d}", (passage, name), name)
            for place, passage in enumerate(passages)
            for turn, name in enumerate(self.types)
        ]

    def make(self, attempt: Attempt) -> None:
        """See `Synthesis.make`."""
        passage, name = attempt.seed.start
        about: dict[str, Any] = {"type": name, "passage": passage}
        try:
            content = self._content(name, attempt.tools.source.passage(passage).text, attempt, about)
        except Rejected as error:
            attempt.reject(error, **about)
        else:
            item = f"{self.capability}/{name}/{content['ID']}"
            attempt.keep(item, content["com_question"], content, name)

    def _content(self, name: QuestionType, context: str, attempt: Attempt, about: dict[str, Any]) -> dict[str, Any]:
        """A question of a type with its reference; what there is of it so far stands in `about`."""
        reasoning = self.capability == "Reasoning" and name == "Hypothetical-Analysis"
        rules = REASONING if reasoning else RULES[name]
        plain = {"rules": rules.rules, "examples": "\n".join(f"  - {text}" for text in rules.examples)}
        reply = attempt.ask(
            "question", "compound-question", QuestionReply, {"context": context}, plain=plain, temperature=0.7
        )
        question = " ".join(reply.question.split())
        about |= {"original": reply.original, "question": question}
        check, raw = attempt.check, reply.model_dump_json()
        check(bool(words(question)), "question", "empty", raw)
        check(count_words(question) <= LONGEST_QUESTION, "question", f"longer than {LONGEST_QUESTION} words", raw)
        check(len(split_questions(question)) >= FEWEST_PARTS, "question", "fewer than two questions", raw)
        missing = lacking(question, name)
        check(missing is None, "keywords", f"{name}: no word of list {missing}", question)
        criteria = "\n".join(f"- {text}" for text in rules.criteria)
        verdict = attempt.ask(
            "judge", "compound-filter", FilterReply, {"question": question},
            plain={"type": name, "criteria": criteria}, judge=True,
        )  # fmt: skip
        check(verdict.fits, "judge", f"not {name}", verdict.model_dump_json())
        texts = {"context": context, "question": question}
        answer = strip_citations(attempt.ask("reference", "compound-reference", ReferenceReply, texts).answer).strip()
        check(bool(words(answer)), "reference", "empty", answer)
        check(count_words(answer) <= LONGEST_ANSWER, "reference", f"longer than {LONGEST_ANSWER} words", answer)
        return {
            "ID": f"synth_{attempt.seed.id}",
            "context": context,
            "org_question": reply.original,
            "com_question": question,
            "com_reference": answer,
            "type": name,
        }

    def export(self, folder: Path, items: Sequence[SynthItem], source: Source) -> Exported:  # noqa: ARG002
        """Write a file for each type, in the layout of the official repository."""
        files = []
        for name in self.types:
            file = f"data/{self.capability}/{self.capability}_{name.replace('-', '_')}.jsonl"
            rows = [item.content for item in items if item.content["type"] == name]
            if rows:
                write_rows(folder / file, ({key: row[key] for key in row if key != "type"} for row in rows))
                files.append(file)
            else:
                (folder / file).unlink(missing_ok=True)
        return Exported(tuple(files), (f"try it: turnmark eval compound-qa --data {folder}",) if files else ())
