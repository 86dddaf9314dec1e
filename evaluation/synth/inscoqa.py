"""`turnmark synth inscoqa`: conversations over several instructional documents, by InsCoQA's pipeline (section 3).

The model proposes queries from a document, which appendix A's criteria filter; a search finds several documents for a
query; the model writes history and last question (B), then the answer, then the procedure with the suitability filter
(C). What the paper's annotators looked for (reversal, hallucination, marketing, safety) is left to the reader of the
items; what code can see of it is checked here.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel

from turnmark.assistant.generators.client import at_most
from turnmark.core.errors import RequestError
from turnmark.corpora.inscoqa import DOMAINS
from turnmark.corpora.text import count_words, strip_citations, words
from turnmark.corpora.types import Message
from turnmark.evaluation.metrics.overlap import token_recall
from turnmark.evaluation.synth.attempt import Attempt, Rejected, Seed, check
from turnmark.evaluation.synth.folder import IndexSource, SynthItem, write_rows

QUERIES = 3
"""Of a document."""
FEWEST_DOCUMENTS, MOST_DOCUMENTS = 2, 6
"""Of a query: 4.09 in the paper's mean (Table 2)."""
PASSAGES_SEARCHED = 24
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


class ProposedQuery(BaseModel):
    """A proposed query."""

    query: str
    domain: str


class QueriesReply(BaseModel):
    """What the prompt `inscoqa-queries` asks for."""

    queries: Annotated[list[ProposedQuery], at_most(QUERIES)]


class QueryVerdict(BaseModel):
    """What appendix A asks of a query."""

    query: int
    complete: bool
    objective: bool
    lasting: bool
    instructional: bool


class QueryVerdictsReply(BaseModel):
    """What the prompt `inscoqa-filter` asks for."""

    verdicts: Annotated[list[QueryVerdict], at_most(QUERIES)]


class Round(BaseModel):
    """A question and its reply."""

    question: str
    reply: str


class HistoryReply(BaseModel):
    """What the prompt `inscoqa-history` asks for."""

    history: Annotated[list[Round], at_most(max(ROUNDS))]
    question: str


class MultiAnswerReply(BaseModel):
    """What the prompt `inscoqa-answer` asks for."""

    answer: str
    documents: list[int]


class ProcedureReply(BaseModel):
    """What the prompt `inscoqa-procedure` asks for."""

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

    name: ClassVar[str] = "inscoqa"
    prompts: ClassVar[tuple[str, ...]] = (
        "inscoqa-queries", "inscoqa-filter", "inscoqa-history", "inscoqa-answer", "inscoqa-procedure",
    )  # fmt: skip
    each: ClassVar[int] = QUERIES

    def __init__(self, documents: int = MOST_DOCUMENTS) -> None:
        if documents < FEWEST_DOCUMENTS:
            raise RequestError(f"--documents {documents}: a number from {FEWEST_DOCUMENTS} was expected")
        self.options = {"documents": documents}
        self.tokens = (2_900 * documents, 2_400)

    def seeds(self, source: IndexSource, seed: int) -> Sequence[Seed]:
        """A document each."""
        return [Seed(f"{number:06d}", name) for number, name in enumerate(source.drawn(seed))]

    def make(self, attempt: Attempt) -> None:
        """See `Synthesis.make`."""
        for number, query in enumerate(self._queries(attempt), 1):
            about: dict[str, Any] = {"document": attempt.seed.start, "query": query.query}
            try:
                content = self._sample(number, query, attempt, about)
            except Rejected as error:
                attempt.reject(error, **about)
            else:
                attempt.keep(content["id"], query.query, content, content["domain"])

    def export(self, folder: Path, items: Sequence[SynthItem], source: IndexSource) -> Sequence[str]:  # noqa: ARG002
        """Write the samples as the test split, which is the one that `eval` reads."""
        if not items:
            return ()
        write_rows(folder / "test.jsonl", (item.content for item in items))
        return ("test.jsonl",)

    def _queries(self, attempt: Attempt) -> list[ProposedQuery]:
        """Those that meet appendix A's criteria."""
        replied = attempt.ask(
            "query", "inscoqa-queries", QueriesReply, {"document": attempt.tools.source.text(attempt.seed.start)},
            plain={"domains": ", ".join(DOMAINS)}, temperature=0.7,
        ).queries[:QUERIES]  # fmt: skip
        proposed = [query for query in replied if words(query.query)]
        if not proposed:
            raise Rejected("query", "the document guides nobody through anything")
        listed = "\n".join(f"{n}. {' '.join(query.query.split())}" for n, query in enumerate(proposed, 1))
        reply = attempt.ask("query filter", "inscoqa-filter", QueryVerdictsReply, {"queries": listed})
        verdicts = {verdict.query: verdict for verdict in reply.verdicts}
        passing = []
        for number, query in enumerate(proposed, 1):
            try:
                check(number in verdicts, "query filter", "the judge gave no verdict", query.query)
                for name in ("complete", "objective", "lasting", "instructional"):
                    check(getattr(verdicts[number], name), "query filter", f"not {name}", query.query)
            except Rejected as error:
                attempt.reject(error, document=attempt.seed.start, query=query.query)
            else:
                passing.append(query)
        return passing

    def _sample(self, number: int, query: ProposedQuery, attempt: Attempt, about: dict[str, Any]) -> dict[str, Any]:
        """One sample from a query; `about` gathers what there is of it so far."""
        documents = self._documents(query.query, attempt)
        texts = [f"{document['title']}\n{document['text']}" for document in documents]
        rounds = str(random.Random(f"{attempt.tools.seed * 10 + number} {attempt.seed.id}").choice(ROUNDS))
        reply = attempt.ask(
            "history", "inscoqa-history", HistoryReply, {"query": query.query}, passages=texts,
            plain={"rounds": rounds}, temperature=0.7,
        )  # fmt: skip
        history = [[earlier.question.strip(), earlier.reply.strip()] for earlier in reply.history]
        question = " ".join(reply.question.split())
        raw = reply.model_dump_json()
        check(bool(words(question)), "history", "no last question", raw)
        check(all(words(text) for pair in history for text in pair), "history", "an empty round", raw)
        check(bool(history), "history", "no history", raw)
        about |= {"history": history, "question": question}
        turns = [
            Message(role=role, content=text)
            for pair in history
            for role, text in zip(("user", "assistant"), pair, strict=True)
        ]
        about["answer"] = answer = self._answer(question, turns, texts, attempt)
        steps = self._steps(question, turns, answer, attempt)
        self._check_leaks(steps, answer, history, question)
        # All documents that were shown: to find the right ones is part of the task.
        return {
            "id": f"synth-{attempt.seed.id}-{number}",
            "domain": query.domain if query.domain in DOMAINS else "Others",
            "documents": documents,
            "history": history,
            "question": question,
            "answer": answer,
            "procedure": steps,
        }

    def _documents(self, query: str, attempt: Attempt) -> list[dict[str, str]]:
        """The documents for a query: the one it was proposed from, and those of the best passages."""
        first = attempt.seed.start
        hits = attempt.tools.source.search(query, k=PASSAGES_SEARCHED)
        titles = {hit.passage.document: hit.passage.title for hit in hits}
        names = list(dict.fromkeys([first, *titles]))[: self.options["documents"]]
        check(len(names) >= FEWEST_DOCUMENTS, "documents", f"fewer than {FEWEST_DOCUMENTS} were found", query)
        first_passages = attempt.tools.source.of_document(first)
        titles.setdefault(first, first_passages[0].title if first_passages else "")
        return [{"id": name, "title": titles[name], "text": attempt.tools.source.text(name)} for name in names]

    def _answer(self, question: str, turns: Sequence[Message], texts: Sequence[str], attempt: Attempt) -> str:
        """The answer, which rests on several documents."""
        reply = attempt.ask(
            "answer", "inscoqa-answer", MultiAnswerReply, {"question": question}, passages=texts, history=turns
        )
        answer, numbers = strip_citations(reply.answer).strip(), set(reply.documents)
        raw = reply.model_dump_json()
        check(bool(words(answer)), "answer", "empty", raw)
        check(bool(numbers), "answer", "the documents do not answer it", raw)
        check(all(1 <= n <= len(texts) for n in numbers), "answer", "names a document not shown", raw)
        check(len(numbers) >= FEWEST_DOCUMENTS, "answer", f"rests on fewer than {FEWEST_DOCUMENTS}", raw)
        return answer

    def _steps(self, question: str, turns: Sequence[Message], answer: str, attempt: Attempt) -> list[str]:
        """The procedure of an answer that meets appendix C's criteria."""
        texts = {"question": question, "answer": answer}
        reply = attempt.ask("suitability", "inscoqa-procedure", ProcedureReply, texts, history=turns)
        raw = reply.model_dump_json()
        for name, reason in _CRITERIA.items():
            check(getattr(reply, name), "suitability", reason, raw)
        steps = [step.strip() for step in reply.procedure]
        check(FEWEST_STEPS <= len(steps) <= MOST_STEPS, "procedure", "too few steps or too many", raw)
        check(all(words(step) for step in steps), "procedure", "an empty step", raw)
        check(not any(_BROKEN_STEP.search(step) for step in steps), "procedure", "a step is numbered or a list", raw)
        vectors = attempt.tools.embed(steps)
        near = vectors @ vectors.T
        twice = any(near[a, b] >= SAME_STEP for a in range(len(steps)) for b in range(a))
        check(not twice, "procedure", "a step says what another says", raw)
        return steps

    def _check_leaks(self, steps: Sequence[str], answer: str, history: Sequence[Sequence[str]], question: str) -> None:
        """Reject a sample whose history gives the answer away or answers the question."""

        def shared(text: str, reference: str) -> float:
            return token_recall(text, reference) or 0.0

        replies = "\n".join(reply for _, reply in history)
        leaked = [step for step in steps if shared(replies, step) >= LEAKED]
        check(len(leaked) <= LEAKS * len(steps), "leakage", "the history gives the steps away", "\n".join(leaked))
        repeated = any(
            shared(earlier, question) >= 1.0 and count_words(earlier) <= count_words(question) for earlier, _ in history
        )
        check(not repeated, "leakage", "the last question was asked before", question)
        check(shared(question, answer) < LEAKED, "leakage", "question and answer are reversed", answer)
