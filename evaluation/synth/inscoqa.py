"""`turnmark synth inscoqa`: conversations over several instructional documents, by InsCoQA's pipeline (section 3).

Queries are proposed from a document and filtered by appendix A; a search finds several documents for a query; history
and last question are written (B), then the answer, then the procedure with the suitability filter (C). What the paper's
annotators looked for (reversal, hallucination, marketing, safety) is for `turnmark synth review`; what code can see of
it is checked here. Train, validation and test share no document where the corpus allows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel

from turnmark.assistant.generators.schema import at_most
from turnmark.corpora.errors import RequestError
from turnmark.corpora.inscoqa import DOMAINS
from turnmark.corpora.statistics import Sheet, length
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Message
from turnmark.evaluation.metrics.overlap import token_recall
from turnmark.evaluation.synth import inscoqa_files
from turnmark.evaluation.synth.desk import Declined, Desk, Tools
from turnmark.evaluation.synth.kinds import Exported, Haul, Seed
from turnmark.evaluation.synth.records import Corpus, Made
from turnmark.evaluation.synth.rehearsal import Reply
from turnmark.evaluation.synth.source import Source

QUERIES = 3
"""Of a document."""
FEWEST_DOCUMENTS, MOST_DOCUMENTS = 2, 6
"""Of a query: 4.09 in the paper's mean (Table 2)."""
FOUND = 24
"""Passages that are searched for a query; their documents, best first, are the sample's."""
ROUNDS = (1, 2, 2, 2, 3)
"""Rounds before the last question, drawn from these: 3.11 with it in the paper's mean (Table 2)."""
FEWEST_STEPS, MOST_STEPS = 2, 36
"""The paper's longest procedure has 36 (Table 1)."""
LEAKED = 0.8
"""Share of a step's words in the history from which on the history gives it away."""
LEAKS = 0.5
"""Share of the steps that may be given away."""
SAME_STEP = 0.95
"""Cosine of two steps that say the same."""
_BROKEN_STEP = re.compile(r"\n|^\s*(?:[-*•]|\(?[0-9]{1,2}[.)])\s|(?:^|[:;])\s*(?:[a-z]\)|\(?i{1,3}\)).*[;:]\s*[a-z]\)")


class Query(BaseModel):
    """A proposed query."""

    query: str
    domain: str


class QueriesReply(Reply):
    """What the prompt `inscoqa-queries` asks for."""

    example: ClassVar[dict[str, Any]] = {"queries": [{"query": "How is it done?", "domain": "Others"}] * QUERIES}
    queries: Annotated[list[Query], at_most(QUERIES)]


class QueryVerdict(BaseModel):
    """What appendix A asks of a query."""

    query: int
    complete: bool
    objective: bool
    lasting: bool
    instructional: bool


class FilterReply(Reply):
    """What the prompt `inscoqa-filter` asks for."""

    example: ClassVar[dict[str, Any]] = {"verdicts": [
        {"query": n, "complete": True, "objective": True, "lasting": True, "instructional": True}
        for n in range(1, QUERIES + 1)
    ]}  # fmt: skip
    verdicts: Annotated[list[QueryVerdict], at_most(QUERIES)]


class Round(BaseModel):
    """A question and its reply."""

    question: str
    reply: str


class HistoryReply(Reply):
    """What the prompt `inscoqa-history` asks for."""

    example: ClassVar[dict[str, Any]] = {"history": [{"question": "What?", "reply": "That."}], "question": "And how?"}
    tokens: ClassVar[int] = 250
    history: Annotated[list[Round], at_most(max(ROUNDS))]
    question: str


class AnswerReply(Reply):
    """What the prompt `inscoqa-answer` asks for."""

    example: ClassVar[dict[str, Any]] = {"answer": "First do this, then that.", "documents": [1, 2]}
    tokens: ClassVar[int] = 300
    answer: str
    documents: list[int]


class ProcedureReply(Reply):
    """What the prompt `inscoqa-procedure` asks for."""

    example: ClassVar[dict[str, Any]] = {
        "informative": True, "inquiry": True, "instructional": True, "objective": True, "steps": True,
        "procedure": ["Do this.", "Do that."],
    }  # fmt: skip
    tokens: ClassVar[int] = 200
    informative: bool
    inquiry: bool
    instructional: bool
    objective: bool
    steps: bool
    procedure: list[str]


_CRITERIA = {
    "informative": "the turns before have no content",
    "inquiry": "the last question asks nothing",
    "instructional": "it instructs nobody",
    "objective": "the answer holds opinions",
    "steps": "the answer cannot be put into steps",
}


class Instructions:
    """Makes samples of InsCoQA; see the module.

    Args:
        documents: the most documents of a sample.
    """

    name = "inscoqa"
    prompts = ("inscoqa-queries", "inscoqa-filter", "inscoqa-history", "inscoqa-answer", "inscoqa-procedure")
    measures: tuple[str, ...] = ()
    searches = True
    each = QUERIES
    about = (
        "Conversations over several instructional documents in the schema of docs/data.md, made by the pipeline of "
        "InsCoQA's section 3 and appendices A to C: queries filtered, documents gathered, history and last question, "
        "answer, suitability filter and procedure."
    )
    limits = (
        "The paper's queries are frequent ones of real users; these are proposed from the documents, so that what "
        "people ask and no document answers is not among them.",
        "The paper's samples were read by three people; these were not.",
    )

    def __init__(self, documents: int = MOST_DOCUMENTS) -> None:
        if documents < FEWEST_DOCUMENTS:
            raise RequestError(f"--documents {documents}: a number from {FEWEST_DOCUMENTS} was expected")
        self.documents = documents

    def options(self) -> Mapping[str, Any]:
        """See `Kind.options`."""
        return {"documents": self.documents}

    def corpus(self, tools: Tools) -> Corpus:
        """See `Kind.corpus`."""
        assert tools.source is not None, "it searches"
        return tools.source.corpus()

    def seeds(self, tools: Tools) -> Sequence[Seed]:
        """A document each."""
        assert tools.source is not None, "it searches"
        return [Seed(f"{number:06d}", name) for number, name in enumerate(tools.source.drawn(tools.seed))]

    def make(self, seed: Seed, desk: Desk) -> Haul:
        """See `Kind.make`."""
        haul = Haul(seed)
        for number, query in enumerate(self._queries(seed, desk, haul), 1):
            about: dict[str, Any] = {"document": seed.about, "query": query.query}
            try:
                content = self._sample(seed, number, query, desk, about)
            except Declined as why:
                haul.reject(why, **about)
                continue
            haul.made.append(Made(
                id=content["id"], seed=seed.id, domain=content["domain"], key=query.query, content=content,
                notes=desk.notes,
            ))  # fmt: skip
        return haul

    def _queries(self, seed: Seed, desk: Desk, haul: Haul) -> list[Query]:
        """Those that meet appendix A's criteria."""
        found = desk.ask(
            "query", "inscoqa-queries", QueriesReply, {"document": desk.source.text(seed.about)},
            plain={"domains": ", ".join(DOMAINS)}, temperature=0.7,
        ).queries[:QUERIES]  # fmt: skip
        proposed = [query for query in found if words(query.query)]
        if not proposed:
            raise Declined("query", "the document guides nobody through anything")
        listed = "\n".join(f"{n}. {' '.join(query.query.split())}" for n, query in enumerate(proposed, 1))
        said = {
            one.query: one
            for one in desk.ask("query filter", "inscoqa-filter", FilterReply, {"queries": listed}, judge=True).verdicts
        }
        kept = []
        for number, query in enumerate(proposed, 1):
            try:
                desk.check(number in said, "query filter", "the judge gave no verdict", query.query)
                for name in ("complete", "objective", "lasting", "instructional"):
                    good = number not in said or getattr(said[number], name)
                    desk.check(good, "query filter", f"not {name}", query.query)
            except Declined as why:
                haul.reject(why, document=seed.about, query=query.query)
            else:
                kept.append(query)
        return kept

    def _sample(self, seed: Seed, number: int, query: Query, desk: Desk, about: dict[str, Any]) -> dict[str, Any]:
        """One sample from a query; `about` is told what there is of it."""
        documents = self._documents(seed.about, query.query, desk)
        texts = [f"{document['title']}\n{document['text']}" for document in documents]
        chance = seed.random(desk.tools.seed * 10 + number)
        rounds = str(chance.choice(ROUNDS))
        said = desk.ask(
            "history", "inscoqa-history", HistoryReply, {"query": query.query}, passages=texts,
            plain={"rounds": rounds}, temperature=0.7,
        )  # fmt: skip
        history = [[one.question.strip(), one.reply.strip()] for one in said.history]
        question = " ".join(said.question.split())
        raw = said.model_dump_json()
        desk.check(bool(words(question)), "history", "no last question", raw)
        desk.check(all(words(text) for pair in history for text in pair), "history", "an empty round", raw)
        desk.check(bool(history), "history", "no history", raw)
        about |= {"history": history, "question": question}
        turns = [
            Message(role=role, content=text)
            for pair in history
            for role, text in zip(("user", "assistant"), pair, strict=True)
        ]
        answer, used = self._answer(question, turns, documents, texts, desk)
        about["answer"] = answer
        steps = self._steps(question, turns, answer, desk)
        self._check_leaks(steps, answer, history, question, desk)
        domain = query.domain if query.domain in DOMAINS else "Others"
        return {
            "id": f"synth-{seed.id}-{number}",
            "domain": domain,
            "documents": used,
            "history": history,
            "question": question,
            "answer": answer,
            "procedure": steps,
        }

    def _documents(self, first: str, query: str, desk: Desk) -> list[dict[str, str]]:
        """Whole documents for a query: the one it was proposed from, and those of the best passages."""
        hits = desk.source.search(query, k=FOUND)
        titles = {hit.passage.document: hit.passage.title for hit in hits}
        names = list(dict.fromkeys([first, *titles]))[: self.documents]
        desk.check(len(names) >= FEWEST_DOCUMENTS, "documents", f"fewer than {FEWEST_DOCUMENTS} were found", query)
        own = desk.source.of_document(first)
        titles.setdefault(first, own[0].title if own else "")
        return [{"id": name, "title": titles[name], "text": desk.source.text(name)} for name in names]

    def _answer(
        self, question: str, turns: Sequence[Message], documents: list[dict[str, str]], texts: Sequence[str], desk: Desk
    ) -> tuple[str, list[dict[str, str]]]:
        """The answer, and the documents: all that were shown, since to find the right ones is part of the task."""
        reply = desk.ask("answer", "inscoqa-answer", AnswerReply, {"question": question}, passages=texts, history=turns)
        answer, raw = strip_citations(reply.answer).strip(), reply.model_dump_json()
        desk.check(bool(words(answer)), "answer", "empty", raw)
        desk.check(bool(reply.documents), "answer", "the documents do not answer it", raw)
        desk.check(all(1 <= n <= len(documents) for n in reply.documents), "answer", "names a document not shown", raw)
        desk.check(
            len(set(reply.documents)) >= FEWEST_DOCUMENTS, "answer", f"rests on fewer than {FEWEST_DOCUMENTS}", raw
        )
        return answer, documents

    def _steps(self, question: str, turns: Sequence[Message], answer: str, desk: Desk) -> list[str]:
        """The procedure of an answer that meets appendix C's criteria."""
        texts = {"question": question, "answer": answer}
        said = desk.ask("suitability", "inscoqa-procedure", ProcedureReply, texts, history=turns, judge=True)
        raw = said.model_dump_json()
        for name, reason in _CRITERIA.items():
            desk.check(getattr(said, name), "suitability", reason, raw)
        steps = [step.strip() for step in said.procedure]
        check = desk.check
        check(FEWEST_STEPS <= len(steps) <= MOST_STEPS, "procedure", "too few steps or too many", raw)
        check(all(words(step) for step in steps), "procedure", "an empty step", raw)
        check(not any(_BROKEN_STEP.search(step) for step in steps), "procedure", "a step is numbered or a list", raw)
        if not desk.tools.rehearsing:
            vectors = desk.tools.embed(steps)
            near = vectors @ vectors.T
            twice = any(near[a, b] >= SAME_STEP for a in range(len(steps)) for b in range(a))
            check(not twice, "procedure", "a step says what another says", raw)
        return steps

    def _check_leaks(
        self, steps: Sequence[str], answer: str, history: Sequence[Sequence[str]], question: str, desk: Desk
    ) -> None:
        """Nothing that was said before gives the answer away, and the question is none that was answered before."""
        before = "\n".join(reply for _, reply in history)
        known = [step for step in steps if (token_recall(before, step) or 0.0) >= LEAKED]
        desk.check(len(known) <= LEAKS * len(steps), "leakage", "the history gives the steps away", "\n".join(known))
        asked = [one for one, _ in history]
        again = any((token_recall(one, question) or 0.0) >= 1.0 and length(one) <= length(question) for one in asked)
        desk.check(not again, "leakage", "the last question was asked before", question)
        desk.check(
            (token_recall(question, answer) or 0.0) < LEAKED, "leakage", "question and answer are reversed", answer
        )

    def export(self, folder: Path, items: Sequence[Made], source: Source | None) -> Exported:  # noqa: ARG002
        """See `Kind.export`."""
        return inscoqa_files.export(folder, items)

    def statistics(self, folder: Path) -> Sequence[Sheet]:
        """Tables 1 and 2."""
        return inscoqa_files.statistics(folder)
