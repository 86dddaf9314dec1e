"""`turnmark synth inscoqa`: conversations over several instructional documents, by InsCoQA's pipeline (section 3).

A model proposes queries from a document, and the criteria of appendix A filter them. A search finds several documents
for a query. The model writes the history and the last question (appendix B), then the answer, then the procedure with
the suitability filter (appendix C). The paper's annotators also looked for reversal, hallucination, marketing and
safety; this module checks what code can check of these, and the rest is left to people who review the items.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel

from turnmark.assistant.llm.calls.reply_schemas import limit_items
from turnmark.core.errors import RequestError
from turnmark.corpora.benchmarks.inscoqa import DOMAINS
from turnmark.corpora.text.segmentation import comparable_words, count_words, strip_citations, words
from turnmark.corpora.types import Message, exchange
from turnmark.evaluation.metrics.overlap import is_unspaced, token_recall
from turnmark.evaluation.synth.synthesis_attempt import Attempt, RejectedItem, ReviewedItem, Seed, check
from turnmark.evaluation.synth.synthesis_folder import IndexSource, SynthItem, write_rows

MAX_QUERIES = 3
"""Maximum number of queries per document."""
MIN_DOCUMENTS, MAX_DOCUMENTS = 2, 6
"""Minimum and default maximum number of documents per query; the paper's mean is 4.09 (Table 2)."""
RETRIEVED_PASSAGES = 24
"""Number of passages retrieved per query; the item contains their documents, best first."""
ROUND_COUNTS = (1, 2, 2, 2, 3)
"""Rounds before the last question, drawn from these; the paper's mean is 3.11 with the last question (Table 2)."""
MIN_STEPS, MAX_STEPS = 2, 36
"""Minimum and maximum number of steps; the paper's longest procedure has 36 (Table 1)."""
LEAKED_WORD_SHARE = 0.8
"""The history leaks a step if it has at least this share of the step's words."""
MAX_LEAKED_SHARE = 0.5
"""Maximum share of leaked steps."""
DUPLICATE_STEP_COSINE = 0.95
"""Two steps are duplicates if their cosine is at least this."""
_BROKEN_STEP = re.compile(
    r"\n|^\s*(?:[-*•]|\(?[0-9]{1,2}[.)])\s|^\s*(?:[(（]?\d{1,2}[、．）]|[①-⑳]|第[一二三四五六七八九十\d]{1,3}步|步[骤驟]\s*\d)"
    r"|(?:^|[:;])\s*(?:[a-z]\)|\(?i{1,3}\)).*[;:]\s*[a-z]\)"
)


class ProposedQuery(BaseModel):
    """A proposed query with its domain."""

    query: str
    domain: str


class QueriesReply(BaseModel):
    """The reply that the prompt `inscoqa-queries` asks for."""

    queries: Annotated[list[ProposedQuery], limit_items(MAX_QUERIES)]


class QueryVerdict(BaseModel):
    """The criteria of appendix A for one query."""

    query: int
    complete: bool
    objective: bool
    lasting: bool
    instructional: bool


class QueryVerdictsReply(BaseModel):
    """The reply that the prompt `inscoqa-filter` asks for."""

    verdicts: Annotated[list[QueryVerdict], limit_items(MAX_QUERIES)]


class Round(BaseModel):
    """A question of the history and its reply."""

    question: str
    reply: str


class HistoryReply(BaseModel):
    """The reply that the prompt `inscoqa-history` asks for."""

    history: Annotated[list[Round], limit_items(max(ROUND_COUNTS))]
    question: str


class MultiAnswerReply(BaseModel):
    """The reply that the prompt `inscoqa-answer` asks for."""

    answer: str
    documents: list[int]


class ProcedureReply(BaseModel):
    """The reply that the prompt `inscoqa-procedure` asks for."""

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
        documents: largest number of documents in a sample.
    """

    name: ClassVar[str] = "inscoqa"
    benchmark: ClassVar[str] = "inscoqa"
    filters: ClassVar[bool] = False
    prompts: ClassVar[tuple[str, ...]] = (
        "inscoqa-queries", "inscoqa-filter", "inscoqa-history", "inscoqa-answer", "inscoqa-procedure",
    )  # fmt: skip
    each: ClassVar[int] = MAX_QUERIES

    def __init__(self, documents: int = MAX_DOCUMENTS) -> None:
        if documents < MIN_DOCUMENTS:
            raise RequestError(f"--documents {documents}: a number from {MIN_DOCUMENTS} was expected")
        self.options = {"documents": documents}
        self.tokens = (2_900 * documents, 2_400)

    def seeds(self, source: IndexSource, seed: int) -> Sequence[Seed]:
        """Return a seed for each document."""
        return [Seed(f"{number:06d}", name) for number, name in enumerate(source.draw_documents(seed))]

    def make(self, attempt: Attempt) -> None:
        """See `Synthesis.make`."""
        for number, query in enumerate(self._queries(attempt), 1):
            about: dict[str, Any] = {"document": attempt.seed.start, "query": query.query}
            with attempt.rejecting(about):
                content = self._sample(number, query, attempt, about)
                attempt.keep(content["id"], query.query, content, content["domain"])

    def review(self, item: SynthItem) -> ReviewedItem:
        """See `Synthesis.review`. The numbered steps of the procedure follow the answer."""
        content = item.content
        said = [turn for question, reply in content["history"] for turn in (("user", question), ("assistant", reply))]
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(content["procedure"], 1))
        answer = f"{content['answer']}\n\n{steps}"
        return ReviewedItem(content["question"], answer, tuple(said), tuple(content["documents"]))

    def export(self, folder: Path, items: Sequence[SynthItem], source: IndexSource) -> Sequence[str]:  # noqa: ARG002
        """Write the samples as the test split, which `eval` reads."""
        if not items:
            return ()
        write_rows(folder / "test.jsonl", (item.content for item in items))
        return ("test.jsonl",)

    def _queries(self, attempt: Attempt) -> list[ProposedQuery]:
        """Propose queries and return those that meet the criteria of appendix A; the others become rejects."""
        replied_queries = attempt.ask(
            "query", "inscoqa-queries", QueriesReply, {"document": attempt.tools.source.text(attempt.seed.start)},
            plain={"domains": ", ".join(DOMAINS)}, temperature=0.7,
        ).queries[:MAX_QUERIES]  # fmt: skip
        proposed = [query for query in replied_queries if words(query.query)]
        if not proposed:
            raise RejectedItem("query", "the document guides nobody through anything")
        numbered = "\n".join(f"{n}. {' '.join(query.query.split())}" for n, query in enumerate(proposed, 1))
        reply = attempt.ask("query filter", "inscoqa-filter", QueryVerdictsReply, {"queries": numbered})
        verdicts = {verdict.query: verdict for verdict in reply.verdicts}
        passing = []
        for number, query in enumerate(proposed, 1):
            with attempt.rejecting({"document": attempt.seed.start, "query": query.query}):
                check(number in verdicts, "query filter", "the judge gave no verdict", query.query)
                for name in ("complete", "objective", "lasting", "instructional"):
                    check(getattr(verdicts[number], name), "query filter", f"not {name}", query.query)
                passing.append(query)
        return passing

    def _sample(self, number: int, query: ProposedQuery, attempt: Attempt, about: dict[str, Any]) -> dict[str, Any]:
        """Make a sample from a query.

        Args:
            about: receives the texts made so far, which a reject records.
        """
        documents = self._documents(query.query, attempt)
        texts = [f"{document['title']}\n{document['text']}" for document in documents]
        rounds = str(random.Random(f"{attempt.tools.seed * 10 + number} {attempt.seed.id}").choice(ROUND_COUNTS))
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
        turns = [turn for asked, replied in history for turn in exchange(asked, replied)]
        answer = self._answer(question, turns, texts, attempt)
        about["answer"] = answer
        steps = self._steps(question, turns, answer, attempt)
        self._check_leaks(steps, answer, history, question)
        # All documents, not only the sources of the answer: finding the right ones is part of the task.
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
        """Return the documents for a query: the one that it was proposed from, and those of the best passages."""
        first: str = attempt.seed.start
        hits = attempt.tools.source.search(query, k=RETRIEVED_PASSAGES)
        titles = {hit.passage.document: hit.passage.title for hit in hits}
        names = list(dict.fromkeys([first, *titles]))[: self.options["documents"]]
        check(len(names) >= MIN_DOCUMENTS, "documents", f"fewer than {MIN_DOCUMENTS} were found", query)
        first_passages = attempt.tools.source.passages_of(first)
        titles.setdefault(first, first_passages[0].title if first_passages else "")
        return [{"id": name, "title": titles[name], "text": attempt.tools.source.text(name)} for name in names]

    def _answer(self, question: str, turns: Sequence[Message], texts: Sequence[str], attempt: Attempt) -> str:
        reply = attempt.ask(
            "answer", "inscoqa-answer", MultiAnswerReply, {"question": question}, passages=texts, history=turns
        )
        answer = strip_citations(reply.answer).strip()
        numbers = set(reply.documents)
        raw = reply.model_dump_json()
        check(bool(words(answer)), "answer", "empty", raw)
        check(bool(numbers), "answer", "the documents do not answer it", raw)
        check(all(1 <= n <= len(texts) for n in numbers), "answer", "names a document not shown", raw)
        check(len(numbers) >= MIN_DOCUMENTS, "answer", f"rests on fewer than {MIN_DOCUMENTS}", raw)
        return answer

    def _steps(self, question: str, turns: Sequence[Message], answer: str, attempt: Attempt) -> list[str]:
        """Write the procedure of an answer; reject an answer that does not meet the criteria of appendix C."""
        texts = {"question": question, "answer": answer}
        reply = attempt.ask("suitability", "inscoqa-procedure", ProcedureReply, texts, history=turns)
        raw = reply.model_dump_json()
        for name, reason in _CRITERIA.items():
            check(getattr(reply, name), "suitability", reason, raw)
        steps = [step.strip() for step in reply.procedure]
        check(MIN_STEPS <= len(steps) <= MAX_STEPS, "procedure", "too few or too many steps", raw)
        check(all(words(step) for step in steps), "procedure", "an empty step", raw)
        check(not any(_BROKEN_STEP.search(step) for step in steps), "procedure", "a step is numbered or a list", raw)
        vectors = attempt.tools.embed(steps)
        cosines = vectors @ vectors.T
        has_duplicates = any((cosines[number, :number] >= DUPLICATE_STEP_COSINE).any() for number in range(len(steps)))
        check(not has_duplicates, "procedure", "a step repeats another one", raw)
        return steps

    def _check_leaks(self, steps: Sequence[str], answer: str, history: Sequence[Sequence[str]], question: str) -> None:
        """Reject a sample whose history leaks the steps or repeats the question, or whose question has the answer."""
        replies = "\n".join(reply for _, reply in history)
        leaked = [step for step in steps if _recall(replies, step) >= LEAKED_WORD_SHARE]
        check(
            len(leaked) <= MAX_LEAKED_SHARE * len(steps),
            "leakage",
            "the history gives the steps away",
            "\n".join(leaked),
        )
        for earlier, _ in history:
            is_repeated = _recall(earlier, question) >= 1.0 and count_words(earlier) <= count_words(question)
            check(not is_repeated, "leakage", "the last question was asked before", question)
        check(_recall(question, answer) < LEAKED_WORD_SHARE, "leakage", "question and answer are reversed", answer)


def _recall(text: str, reference: str) -> float:
    """Return the share of the reference's words in a text.

    In a script without spaces, pairs of neighboring characters stand for words: single ones are in most texts.
    """
    if not is_unspaced(reference):
        return token_recall(text, reference) or 0.0
    expected, found = (list(pairwise(comparable_words(string))) for string in (reference, text))
    return (Counter(expected) & Counter(found)).total() / max(1, len(expected))
