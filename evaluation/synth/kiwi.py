"""`turnmark synth kiwi`: research questions from related-work paragraphs, by the pipeline of KIWI's appendix A.6.

The paper's authors tried it and then wrote their questions by hand: of 50 that passed its filters they found 60% good.

Input: a JSONL file, a paragraph a line, or a text file with an empty line between paragraphs. A row:

    {"paragraph": "…", "paper_title": "…", "cited_papers": ["…", …], "missing": 1}

`paragraph` may also be called `related_work_paragraph`, `paper_title` `title`. `cited_papers` are titles, or objects
with a `title` and `paragraphs`; `missing` counts cited papers whose text could not be had. A row without `cited_papers`
is not filtered by them, since nothing is known. Output: the companion file of the data, `longform_sciqa.jsonl`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from turnmark.assistant.generators.schema import at_most
from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import file_sha256, write_atomic
from turnmark.corpora.rows import Row, filled, json_lines
from turnmark.corpora.statistics import Line, Sheet, length, lengths, mean
from turnmark.corpora.text import words
from turnmark.corpora.types import Problem, Record
from turnmark.evaluation.synth.desk import Declined, Desk, Tools
from turnmark.evaluation.synth.kinds import Exported, Haul, Seed
from turnmark.evaluation.synth.mtrag_files import lines
from turnmark.evaluation.synth.records import Corpus, Made
from turnmark.evaluation.synth.rehearsal import Reply
from turnmark.evaluation.synth.source import Source

OUTPUT = "longform_sciqa.jsonl"
QUESTIONS = 5
FEWEST_CITED = 4
MOST_MISSING = 0.3
"""Share of the cited papers (A.6, step 1)."""
TEMPERATURE = 1.0
"""Of the questions (A.6, step 2)."""
SHOWN_PROBLEMS = 5
_ANCHORED = re.compile(
    r"\b(?:this|these|the (?:given|above|present|proposed)) "
    r"(?:papers?|works?|stud(?:y|ies)|paragraphs?|passages?|articles?)\b"
    r"|\bmention(?:ed|s)?\b|\bauthors?\b|\bet al\b|\baforementioned\b|\bthe (?:paper|paragraph|passage)\b",
    re.IGNORECASE,
)
"""What ties a question to a paper. The paper names three of its keywords: "this paper", "mentioned", "author"."""


def _label(value: object) -> object:
    return value.strip().strip(".").lower() if isinstance(value, str) else value


class QuestionsReply(Reply):
    """What the prompt `kiwi-questions` asks for."""

    example: ClassVar[dict[str, Any]] = {"questions": ["How are such things done in general?"] * QUESTIONS}
    tokens: ClassVar[int] = 130
    questions: Annotated[list[str], at_most(QUESTIONS)]


class FilterReply(Reply):
    """What the prompt `kiwi-filter` asks for."""

    example: ClassVar[dict[str, Any]] = {"answers": "yes"}
    tokens: ClassVar[int] = 10
    answers: Annotated[Literal["yes", "no", "partially"], BeforeValidator(_label)]


class Paragraph(Record):
    """A paragraph of a paper's related work."""

    place: str
    title: str
    text: str
    cited: tuple[str, ...] | None
    paragraphs: tuple[tuple[Any, ...], ...] = ()
    missing: int = 0


def read_paragraphs(path: Path) -> tuple[list[Paragraph], tuple[Problem, ...]]:
    """The paragraphs of a file, and what in it cannot be read.

    Raises:
        RequestError: it cannot be opened, or there is no paragraph in it.
    """
    found: list[Paragraph] = []
    problems: list[Problem] = []
    if path.suffix in (".jsonl", ".json"):
        for number, row in json_lines(path, path.name):
            try:
                if isinstance(row, Problem):
                    problems.append(row)
                else:
                    found.append(_paragraph(row, f"{path.name}:{number}"))
            except ValueError as error:
                problems.append(Problem(file=path.name, line=number, what=str(error)))
    else:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(f"{str(path)!r} cannot be read ({error})") from error
        blocks = [block.strip() for block in re.split(r"\n[ \t]*\n", text) if block.strip()]
        found = [
            Paragraph(place=f"{path.name}, paragraph {number}", title="", text=" ".join(block.split()), cited=None)
            for number, block in enumerate(blocks, 1)
        ]
    if not found:
        first = f"; the first mistake: {problems[0]}" if problems else ""
        raise RequestError(f"{str(path)!r}: there is no paragraph in it{first}")
    return found, tuple(problems)


def _paragraph(row: Row, place: str) -> Paragraph:
    text = filled(row, "paragraph" if "paragraph" in row else "related_work_paragraph")
    title = row.get("paper_title") or row.get("title") or ""
    if not isinstance(title, str):
        raise ValueError("'paper_title' is no text")
    cited = row.get("cited_papers")
    if cited is None:
        return Paragraph(place=place, title=title, text=text, cited=None)
    if not isinstance(cited, list):
        raise ValueError("'cited_papers' is not a list")
    names: list[str] = []
    bodies: list[tuple[Any, ...]] = []
    for one in cited:
        name = one.get("title") if isinstance(one, dict) else one
        if not isinstance(name, str) or not name.strip():
            raise ValueError("'cited_papers' has an item without a title")
        names.append(name)
        inner = one.get("paragraphs") if isinstance(one, dict) else None
        bodies.append(tuple(inner) if isinstance(inner, list) else ())
    missing = row.get("missing", 0)
    if isinstance(missing, bool) or not isinstance(missing, int) or missing < 0:
        raise ValueError("'missing' is not a number from 0")
    return Paragraph(
        place=place, title=title, text=text, cited=tuple(names), paragraphs=tuple(bodies), missing=missing
    )  # fmt: skip


class Questions:
    """Makes questions; see the module.

    Args:
        file: the paragraphs.
    """

    name = "kiwi"
    prompts = ("kiwi-questions", "kiwi-filter")
    measures: tuple[str, ...] = ()
    searches = False
    each = QUESTIONS
    about = (
        "Research questions from paragraphs of related work, in the layout of KIWI's companion file, made by the "
        "pipeline of its appendix A.6: paragraphs with enough cited papers, five questions each, a filter of keywords, "
        "and a judge that keeps those which the paragraph answers in full."
    )
    limits = (
        "KIWI's authors found 60% of such questions good (28% made no sense to a researcher, 6% were too narrow, 6% "
        "did not stand alone), and wrote theirs by hand instead.",
        "Only three of the paper's keywords are printed; the list here is longer.",
        "There are no sessions: `turnmark eval kiwi` needs interactions with these questions, which people make.",
    )

    def __init__(self, file: str) -> None:
        self.file = Path(file)
        self._read: tuple[list[Paragraph], tuple[Problem, ...]] | None = None

    def _paragraphs(self) -> tuple[list[Paragraph], tuple[Problem, ...]]:
        if self._read is None:
            self._read = read_paragraphs(self.file)
        return self._read

    def options(self) -> Mapping[str, Any]:
        """See `Kind.options`."""
        return {"file": str(self.file)}

    def corpus(self, tools: Tools) -> Corpus:  # noqa: ARG002
        """See `Kind.corpus`."""
        found, _ = self._paragraphs()
        return Corpus(name=self.file.name, fingerprint=file_sha256(self.file), documents=len(found))

    def seeds(self, tools: Tools) -> Sequence[Seed]:  # noqa: ARG002
        """A paragraph each, in the order of the file."""
        found, _ = self._paragraphs()
        return [Seed(f"{number:06d}", paragraph) for number, paragraph in enumerate(found)]

    def make(self, seed: Seed, desk: Desk) -> Haul:
        """See `Kind.make`."""
        haul, paragraph = Haul(seed), seed.about
        about: dict[str, Any] = {"paragraph": paragraph.place}
        try:
            self._enough_cited(paragraph, desk)
            texts = {"title": paragraph.title, "paragraph": paragraph.text}
            asked = desk.ask("question", "kiwi-questions", QuestionsReply, texts, temperature=TEMPERATURE)
        except Declined as why:
            haul.reject(why, **about)
            return haul
        for number, text in enumerate(asked.questions[:QUESTIONS], 1):
            question = " ".join(text.split())
            try:
                self._filter(question, paragraph, desk)
            except Declined as why:
                haul.reject(why, question=question, **about)
                continue
            content = {
                "question": question,
                "related_work_paragraph": paragraph.text,
                "cited_papers": list(paragraph.cited or ()),
                "cited_paragraphs": [list(one) for one in paragraph.paragraphs],
                "paper_title": paragraph.title,
            }
            haul.made.append(Made(id=f"kiwi-{seed.id}-{number}", seed=seed.id, key=question, content=content))
        return haul

    def _enough_cited(self, paragraph: Paragraph, desk: Desk) -> None:
        """Step 1: four cited papers at hand, and no more than 30% of them missing."""
        if paragraph.cited is None:
            return
        there = len(paragraph.cited)
        desk.check(there >= FEWEST_CITED, "paragraph", f"fewer than {FEWEST_CITED} cited papers", paragraph.text)
        share = paragraph.missing / (there + paragraph.missing)
        desk.check(share <= MOST_MISSING, "paragraph", f"more than {MOST_MISSING:.0%} of its papers are missing")

    def _filter(self, question: str, paragraph: Paragraph, desk: Desk) -> None:
        """Step 3: keywords, then whether the paragraph answers it."""
        desk.check(bool(words(question)), "question", "empty", question)
        desk.check(question.count("?") <= 1, "question", "several questions in one", question)
        desk.check(not _ANCHORED.search(question), "keywords", "tied to a paper", question)
        texts = {"question": question, "paragraph": paragraph.text}
        said = desk.ask("judge", "kiwi-filter", FilterReply, texts, judge=True)
        desk.check(said.answers == "yes", "judge", f"the paragraph answers it: {said.answers}", question)

    def export(self, folder: Path, items: Sequence[Made], source: Source | None) -> Exported:  # noqa: ARG002
        """See `Kind.export`."""
        write_atomic(folder / OUTPUT, lines(item.content for item in items))
        notes = []
        if self.file.is_file():
            _, problems = self._paragraphs()
            notes = [f"skipped: {problem}" for problem in problems[:SHOWN_PROBLEMS]]
            notes += [f"skipped: {len(problems)} rows in all"] if len(problems) > SHOWN_PROBLEMS else []
        return Exported((OUTPUT,), tuple(notes))

    def statistics(self, folder: Path) -> Sequence[Sheet]:
        """The figures of section 3.1."""
        from turnmark.corpora.kiwi import load_papers

        loaded = load_papers(folder)
        found = list(loaded.data.values()) if loaded else []
        if not found:
            return []
        cited = [len(one.cited_papers) for one in found if one.cited_papers]
        return [
            Sheet(
                title="Questions",
                source="KIWI, section 3.1 (questions that people wrote)",
                lines=(
                    Line(what="questions", here=len(found), paper=78),
                    Line(what="words a question", here=mean(length(one.question) for one in found), paper=12),
                    *_openings((one.question for one in found), len(found)),
                    # A paragraph that does not say which papers it cites is not one that cites none.
                    Line(what="cited papers, where known", here=mean(cited), paper=6),
                    *lengths("paragraph", (one.related_work for one in found)),
                ),
            )
        ]


def _openings(questions: Iterable[str], count: int) -> list[Line]:
    """Share of questions by their first word, in percent."""
    found = Counter((words(question) or [""])[0] for question in questions)
    return [
        Line(what=f'begin with "{name}", %', here=100 * found[name] / count, paper=paper)
        for name, paper in (("how", 47), ("what", 46))
    ]
