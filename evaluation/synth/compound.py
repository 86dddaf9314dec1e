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
from turnmark.corpora.compound_qa import Capability, QuestionType
from turnmark.corpora.errors import RequestError
from turnmark.corpora.statistics import Sheet, length
from turnmark.corpora.text import strip_citations, words
from turnmark.evaluation.synth import compound_files
from turnmark.evaluation.synth.compound_rules import REASONING, RULES, lacking
from turnmark.evaluation.synth.desk import Declined, Desk, Tools
from turnmark.evaluation.synth.kinds import Exported, Haul, Seed
from turnmark.evaluation.synth.records import Corpus, Made
from turnmark.evaluation.synth.rehearsal import Reply
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


class Compounds:
    """Makes compound questions; see the module.

    Args:
        types: those to make; in turn, a context each.
        capability: the dimension that the files are of. `Reasoning` takes the paper's own prompt for
            Hypothetical-Analysis (Table 11).
    """

    name = "compound-qa"
    prompts = ("compound-question", "compound-filter", "compound-reference")
    measures: tuple[str, ...] = ()
    searches = True
    each = 1
    about = (
        "Compound questions with references in the layout of Compound-QA, made by CQ-Syn (section 3.2): questions by "
        "type (appendix B), a filter of keywords (C.1) and of a judge (C.2), references. `turnmark synth sft` splits "
        "them by context into training data and evaluation data."
    )
    limits = (
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
        """See `Kind.options`."""
        return {"types": list(self.types), "capability": self.capability}

    def corpus(self, tools: Tools) -> Corpus:
        """See `Kind.corpus`."""
        assert tools.source is not None, "it starts from passages"
        return tools.source.corpus()

    def seeds(self, tools: Tools) -> Sequence[Seed]:
        """A passage and a type each; the types take turns, so that any number of items has about as many of each."""
        assert tools.source is not None, "it starts from passages"
        order = tools.source.drawn_passages(tools.seed, LEAST_CONTEXT, MOST_CONTEXT)
        return [
            Seed(f"{place * len(self.types) + turn:06d}", (passage, kind), kind)
            for place, passage in enumerate(order)
            for turn, kind in enumerate(self.types)
        ]

    def make(self, seed: Seed, desk: Desk) -> Haul:
        """See `Kind.make`."""
        haul = Haul(seed)
        name, kind = seed.about
        context = desk.source.passage(name).text
        about: dict[str, Any] = {"type": kind, "passage": name}
        try:
            content = self._item(seed, kind, context, desk, about)
        except Declined as why:
            haul.reject(why, **about)
            return haul
        haul.made.append(Made(
            id=f"{self.capability}/{kind}/{content['ID']}", seed=seed.id, domain=kind, key=content["com_question"],
            content=content, notes=desk.notes,
        ))  # fmt: skip
        return haul

    def _item(self, seed: Seed, kind: QuestionType, context: str, desk: Desk, about: dict[str, Any]) -> dict[str, Any]:
        reasoning = self.capability == "Reasoning" and kind == "Hypothetical-Analysis"
        rules = REASONING if reasoning else RULES[kind]
        plain = {"rules": rules.rules, "examples": "\n".join(f"  - {text}" for text in rules.examples)}
        asked = desk.ask(
            "question", "compound-question", QuestionReply, {"context": context}, plain=plain, temperature=0.7
        )
        question = " ".join(asked.question.split())
        about |= {"original": asked.original, "question": question}
        check, raw = desk.check, asked.model_dump_json()
        check(bool(words(question)), "question", "empty", raw)
        check(length(question) <= LONGEST_QUESTION, "question", f"longer than {LONGEST_QUESTION} words", raw)
        check(len(split_questions(question)) >= FEWEST_PARTS, "question", "fewer than two questions", raw)
        missing = lacking(question, kind)
        check(missing is None, "keywords", f"{kind}: no word of list {missing}", question)
        criteria = "\n".join(f"- {text}" for text in rules.criteria)
        said = desk.ask(
            "judge", "compound-filter", FilterReply, {"question": question},
            plain={"type": kind, "criteria": criteria}, judge=True,
        )  # fmt: skip
        check(said.fits, "judge", f"not {kind}", said.model_dump_json())
        texts = {"context": context, "question": question}
        answer = strip_citations(desk.ask("reference", "compound-reference", ReferenceReply, texts).answer).strip()
        check(bool(words(answer)), "reference", "empty", answer)
        check(length(answer) <= LONGEST_ANSWER, "reference", f"longer than {LONGEST_ANSWER} words", answer)
        return {
            "ID": f"synth_{seed.id}",
            "context": context,
            "org_question": asked.original,
            "com_question": question,
            "com_reference": answer,
            "type": kind,
        }

    def export(self, folder: Path, items: Sequence[Made], source: Source | None) -> Exported:  # noqa: ARG002
        """See `Kind.export`."""
        return compound_files.export(folder, items, self.capability, self.types)

    def statistics(self, folder: Path) -> Sequence[Sheet]:
        """Questions by type, and their lengths."""
        return compound_files.statistics(folder)
