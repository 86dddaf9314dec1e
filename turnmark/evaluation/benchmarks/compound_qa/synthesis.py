"""`turnmark synth compound-qa`: compound questions by CQ-Syn (Compound-QA section 3.2, appendices B and C).

A model writes a question of a given type from a passage. Keywords (C.1) and a judge (C.2) check the type; then the
model answers every part. People review the items (C.3) on a page of `turnmark report OUT --rate`. The keywords and
criteria in `question_types.json` are the paper's; instructions and examples are ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from pydantic import BaseModel, Field

from turnmark.assistant.llm.calls.reply_schemas import limit_characters
from turnmark.assistant.steps.understand.compound_questions import split_questions
from turnmark.core.errors import RequestError
from turnmark.core.record import Record
from turnmark.corpora.benchmarks.compound_qa import Capability, QuestionType
from turnmark.corpora.text.segmentation import count_words, strip_citations, words
from turnmark.evaluation.synth.synthesis_attempt import Attempt, ReviewedItem, Seed, check
from turnmark.evaluation.synth.synthesis_folder import IndexSource, SynthItem, write_rows

MIN_CONTEXT_WORDS, MAX_CONTEXT_WORDS = 60, 600
"""Minimum and maximum number of words in a context."""
MIN_PARTS = 2
MAX_QUESTION_WORDS, MAX_ANSWER_WORDS = 80, 350
"""Maximum number of words in a question and in an answer."""
TYPES: tuple[QuestionType, ...] = get_args(QuestionType)
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)
REASONING = "Reasoning"


class WritingRules(Record):
    """The rules and examples in the prompt for questions of a type."""

    rules: str = Field(description="the function of the compound question (Tables 6 to 11)")
    examples: tuple[str, ...] = Field(description="ours")


class TypeRules(WritingRules):
    """The rules in the prompts that write and judge questions of a type, and the keywords of the type."""

    keywords: tuple[tuple[str, ...], ...] = Field(description="a question contains a word from each list (C.1)")
    criteria: tuple[str, ...] = Field(description="what must hold (Tables 12 to 16)")
    reasoning: WritingRules | None = Field(default=None, description="for the capability Reasoning (Table 11)")


@cache
def load_type_rules() -> dict[str, TypeRules]:
    """Return type -> its rules."""
    rules = json.loads(Path(__file__).with_name("question_types.json").read_text("utf-8"))
    return {name: TypeRules.model_validate(fields) for name, fields in rules.items()}


def missing_keywords(question: str, kind: QuestionType) -> int | None:
    """Return the number, from 1, of the first keyword list without a word in the question, or None if it passes (C.1).

    Two lists need two different words, so that one "what" does not count as cause and effect.
    """
    lower_case = " ".join(question.lower().split())
    offsets = [_offsets(lower_case, keywords) for keywords in load_type_rules()[kind].keywords]
    if [] in offsets:
        return offsets.index([]) + 1
    if len(offsets) == 2 and len(set(offsets[0]) | set(offsets[1])) < 2:
        return 2
    return None


def _offsets(text: str, keywords: tuple[str, ...]) -> list[int]:
    """Return the offsets of keywords in a text; inflected forms count ("advantages", "differs")."""
    patterns = [rf"\b{re.escape(word)}(?:s|es|ed|ent)?\b" for word in keywords]
    return [match.start() for pattern in patterns for match in re.finditer(pattern, text)]


# --- the synthesis ---------------------------------------------------------------------------------------------------


class CompoundQuestionReply(BaseModel):
    """The reply that the prompt `compound-question` asks for."""

    original: str
    question: str


class TypeVerdictReply(BaseModel):
    """The reply that the prompt `compound-filter` asks for."""

    reason: Annotated[str, limit_characters()]
    fits: bool


class ReferenceReply(BaseModel):
    """The reply that the prompt `compound-reference` asks for."""

    answer: str


class CompoundQuestions:
    """A synthesis of compound questions; see the module.

    Args:
        types: question types to make, in turn.
        capability: the capability that the questions test; the files are named after it. Hypothetical-Analysis has
            other rules for Reasoning (appendix B, Table 11).

    Raises:
        RequestError: a type or the capability does not exist.
    """

    name: ClassVar[str] = "compound-qa"
    benchmark: ClassVar[str] = "compound-qa"
    filters: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("compound-question", "compound-filter", "compound-reference")
    each: ClassVar[int] = 1

    def __init__(self, types: Sequence[str] = TYPES, capability: str = "Understanding") -> None:
        problems = []
        unknown = [name for name in types if name not in TYPES]
        if unknown:
            problems.append(f"--types: no type {', '.join(map(repr, unknown))}; there are: {', '.join(TYPES)}")
        if capability not in CAPABILITIES:
            problems.append(f"--capability: no capability {capability!r}; there are: {', '.join(CAPABILITIES)}")
        if problems:
            raise RequestError(problems)
        self.types = tuple(name for name in TYPES if name in types)
        self.capability = capability
        self.options = {"types": list(self.types), "capability": capability}
        self.tokens = (1_200, 370)

    def seeds(self, source: IndexSource, seed: int) -> Sequence[Seed]:
        """Return a seed for each passage and type. The types alternate, so any number of items is nearly balanced."""
        starts = product(source.draw_passages(seed, MIN_CONTEXT_WORDS, MAX_CONTEXT_WORDS), self.types)
        return [Seed(f"{number:06d}", start, start[1]) for number, start in enumerate(starts)]

    def make(self, attempt: Attempt) -> None:
        """See `Synthesis.make`."""
        passage, name = attempt.seed.start
        about: dict[str, Any] = {"type": name, "passage": passage}
        with attempt.rejecting(about):
            content = self._content(name, attempt.tools.source.passage(passage).text, attempt, about)
            attempt.keep(f"{self.capability}/{name}/{content['ID']}", content["com_question"], content, name)

    def _content(self, name: QuestionType, context: str, attempt: Attempt, about: dict[str, Any]) -> dict[str, Any]:
        """Make a question of a type with its reference.

        Args:
            about: receives the texts made so far, which a reject records.
        """
        rules = load_type_rules()[name]
        writing: WritingRules = rules
        if rules.reasoning and self.capability == REASONING:
            writing = rules.reasoning
        plain = {"rules": writing.rules, "examples": "\n".join(f"  - {text}" for text in writing.examples)}
        reply = attempt.ask(
            "question", "compound-question", CompoundQuestionReply, {"context": context}, plain=plain, temperature=0.7
        )
        question = " ".join(reply.question.split())
        about |= {"original": reply.original, "question": question}
        raw = reply.model_dump_json()
        check(bool(words(question)), "question", "empty", raw)
        check(count_words(question) <= MAX_QUESTION_WORDS, "question", f"longer than {MAX_QUESTION_WORDS} words", raw)
        check(len(split_questions(question)) >= MIN_PARTS, "question", "fewer than two questions", raw)
        missing = missing_keywords(question, name)
        check(missing is None, "keywords", f"{name}: no word of list {missing}", question)
        criteria = "\n".join(f"- {text}" for text in rules.criteria)
        verdict = attempt.ask(
            "judge", "compound-filter", TypeVerdictReply, {"question": question},
            plain={"type": name, "criteria": criteria}, judge=True,
        )  # fmt: skip
        check(verdict.fits, "judge", f"not {name}", verdict.model_dump_json())
        texts = {"context": context, "question": question}
        answer = strip_citations(attempt.ask("reference", "compound-reference", ReferenceReply, texts).answer).strip()
        check(bool(words(answer)), "reference", "empty", answer)
        check(count_words(answer) <= MAX_ANSWER_WORDS, "reference", f"longer than {MAX_ANSWER_WORDS} words", answer)
        return {
            "ID": f"synth_{attempt.seed.id}",
            "context": context,
            "org_question": reply.original,
            "com_question": question,
            "com_reference": answer,
            "type": name,
        }

    def review(self, item: SynthItem) -> ReviewedItem:
        """See `Synthesis.review`. The question type comes before the question."""
        content = item.content
        question = f"{content['type']}: {content['com_question']}"
        passages = ({"title": "", "text": content["context"]},)
        return ReviewedItem(question, content["com_reference"], passages=passages)

    def export(self, folder: Path, items: Sequence[SynthItem], source: IndexSource) -> Sequence[str]:  # noqa: ARG002
        """Write a file for each type, in the layout of the official repository."""
        files = []
        for name in self.types:
            file = f"data/{self.capability}/{self.capability}_{name.replace('-', '_')}.jsonl"
            rows = [item.content for item in items if item.content["type"] == name]
            if rows:
                rows_without_type = ({key: row[key] for key in row if key != "type"} for row in rows)
                write_rows(folder / file, rows_without_type)
                files.append(file)
            else:
                (folder / file).unlink(missing_ok=True)
        return files
