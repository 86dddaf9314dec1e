"""`turnmark synth compound-qa`: compound questions by CQ-Syn (Compound-QA section 3.2, appendices B and C).

From a passage a question of a type is written; keywords (C.1) and a judge (C.2) say whether it is of that type; then
every part of it is answered. Review by three people with 0, 1 or 2 (C.3) is `turnmark synth review`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from turnmark.assistant.generators.schema import short_text
from turnmark.assistant.steps.split import split_questions
from turnmark.corpora import compound_qa
from turnmark.corpora.compound_qa import Capability, QuestionType
from turnmark.corpora.errors import RequestError
from turnmark.corpora.rows import Source as Data
from turnmark.corpora.statistics import Sheet, length
from turnmark.corpora.text import strip_citations, words
from turnmark.evaluation.synth.attempt import Attempt, Exported, Rejected, Seed
from turnmark.evaluation.synth.compound_rules import REASONING, RULES, lacking
from turnmark.evaluation.synth.estimate import Reply
from turnmark.evaluation.synth.records import SynthItem, write_rows
from turnmark.evaluation.synth.source import Source

LEAST_CONTEXT, MOST_CONTEXT = 60, 600
"""Words of a context."""
FEWEST_PARTS = 2
LONGEST_QUESTION, LONGEST_ANSWER = 80, 350
"""Words."""
TYPES: tuple[QuestionType, ...] = get_args(QuestionType)


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
    about: ClassVar[str] = (
        "Compound questions with references in the layout of Compound-QA, made by CQ-Syn (section 3.2): questions by "
        "type (appendix B), a filter of keywords (C.1) and of a judge (C.2), references. `turnmark synth sft` splits "
        "them by context into training data and evaluation data."
    )
    limits: ClassVar[tuple[str, ...]] = (
        "The paper starts from a dataset's context and question; here the question, too, is written by the model.",
        "The judge sees the question and its type only, as in the paper; whether the reference is right is for people "
        "to say: the paper keeps what three of them gave a 2 (appendix C.3).",
    )

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

    def options(self) -> Mapping[str, Any]:
        """See `Synthesis.options`."""
        return {"types": list(self.types), "capability": self.capability}

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
        check(length(question) <= LONGEST_QUESTION, "question", f"longer than {LONGEST_QUESTION} words", raw)
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
        check(length(answer) <= LONGEST_ANSWER, "reference", f"longer than {LONGEST_ANSWER} words", answer)
        return {
            "ID": f"synth_{attempt.seed.id}",
            "context": context,
            "org_question": reply.original,
            "com_question": question,
            "com_reference": answer,
            "type": name,
        }

    def export(self, folder: Path, items: Sequence[SynthItem], source: Source | None) -> Exported:  # noqa: ARG002
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
        notes = (f"try it: turnmark eval compound-qa --data {folder}", f"to train on it: turnmark synth sft {folder}")
        return Exported(tuple(files), notes if files else ())

    def statistics(self, folder: Path) -> Sequence[Sheet]:
        """Questions by capability and type beside the paper's 100 each, and lengths."""
        from turnmark.corpora.statistics import check_compound_qa

        return check_compound_qa(Data(root=folder, demo=False)).sheets if compound_qa.files(folder) else []
