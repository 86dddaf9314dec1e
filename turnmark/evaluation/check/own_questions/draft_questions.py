"""Writes a first file of questions over an index, for a person to correct.

A model writes them from sections of the documents, as for `turnmark check --generator`. Without a model they come from
headings that are questions, from sentences that say what something is, and from other headings, one document after the
other. The column `facts` is left for the person: only people know which words a right reply must have.
"""

from __future__ import annotations

import csv
import io
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.home import write_atomic
from turnmark.corpora.text.segmentation import ends_with_question_mark, sentences, strip_inline_markdown, words
from turnmark.corpora.types import Passage
from turnmark.evaluation.benchmarks import index_questions
from turnmark.evaluation.check.index_runs import synth_request
from turnmark.evaluation.check.own_questions.question_file import COLUMNS
from turnmark.evaluation.check.request import CheckRequest
from turnmark.evaluation.storage.corpus_passages import span_of
from turnmark.evaluation.synth.synthesis_run import plan_synthesis, synthesize
from turnmark.retrieval.search.opened_index import StoredIndex, open_index

MIN_HEADING_WORDS, MAX_HEADING_WORDS, MAX_ANSWER_WORDS = 2, 12, 60
_DEFINITION = re.compile(r"(?:The |An? )?([A-Z][\w'’-]*(?: [\w'’-]+){0,4}) (?:is|are|was|were) (?:an?|the) ")
"""Matches the beginning of an English sentence that says what its subject is."""


_HEADING_LINES = re.compile(r"^#{1,6} .*$|^.+\n(?:={3,}|-{3,})$", re.MULTILINE)


@dataclass(frozen=True)
class QuestionDraft:
    """A checked request for a file of questions."""

    request: CheckRequest
    index: StoredIndex
    path: Path
    count: int


def plan_draft(request: CheckRequest, errors: ErrorCollector) -> QuestionDraft:
    """Check a request.

    Raises:
        RequestError: all mistakes, including those already in `errors`.
    """
    index = errors.collect(open_index, request.index) if request.index else None
    path = request.questions or Path(f"{request.index}-questions.csv")
    if path.exists():
        errors.add(f"{path} exists and may have your corrections: name another file with --questions FILE")
    elif path.suffix.lower() != ".csv":
        errors.add(f"--questions {path}: questions are drafted as a table that ends in .csv")
    errors.raise_all()
    assert index is not None
    assert request.draft_questions is not None
    return QuestionDraft(request, index, path, request.draft_questions)


def draft_questions(draft: QuestionDraft) -> int:
    """Write the file, and return the number of questions.

    Raises:
        TurnmarkError: no question could be made.
    """
    rows = list(_from_model(draft) if draft.request.asks_model else _from_documents(draft))
    if not rows:
        raise TurnmarkError("no question could be made from the documents; write the file by hand")
    table = io.StringIO()
    writer = csv.DictWriter(table, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(draft.path, table.getvalue())
    return len(rows)


def _from_model(draft: QuestionDraft) -> Iterator[Mapping[str, str]]:
    request, folder = draft.request, Path("checks") / f"{draft.index.manifest.name}-draft"
    synth = synth_request(request, draft.count, folder)
    synthesize(plan_synthesis(synth, index_questions.QuestionSynthesis(), ErrorCollector()))
    for task in index_questions.read_questions(folder) if index_questions.has_questions(folder) else ():
        span = span_of(task.contexts[0].document_id)
        yield {"question": task.question, "answer": task.reference, "document": span.document if span else ""}


def _from_documents(draft: QuestionDraft) -> Iterator[Mapping[str, str]]:
    """Yield questions, taking one from each document in turn, in an order that the seed decides."""
    store, chance = draft.index.store, random.Random(draft.request.seed)
    documents = [entry.document for entry in store.documents()]
    chance.shuffle(documents)
    waiting = [_of_document(store.of_document(document)) for document in documents]
    seen: set[str] = set()
    while waiting and len(seen) < draft.count:
        still: list[Iterator[Mapping[str, str]]] = []
        for rows in waiting:
            row = next((row for row in rows if row["question"].lower() not in seen), None)
            if row is not None and len(seen) < draft.count:
                seen.add(row["question"].lower())
                still.append(rows)
                yield row
        waiting = still


def _of_document(passages: list[Passage]) -> Iterator[Mapping[str, str]]:
    """Yield the questions of a document, those that need least correction first."""
    for passage in passages:
        heading = _heading(passage)
        if ends_with_question_mark(heading):
            yield {"question": heading, "answer": _beginning(passage.text), "document": passage.document}
    for passage in passages:
        for start, end in sentences(passage.text):
            sentence = " ".join(strip_inline_markdown(passage.text[start:end]).split())
            match = _DEFINITION.match(sentence)
            if match and match[1].lower() in f"{passage.title} {passage.section}".lower():
                yield {"question": f"What is {match[1]}?", "answer": sentence, "document": passage.document}
                break
    for passage in passages:
        heading = _heading(passage)
        if MIN_HEADING_WORDS <= len(words(heading)) <= MAX_HEADING_WORDS and not ends_with_question_mark(heading):
            yield {"question": heading, "answer": _beginning(passage.text), "document": passage.document}


def _heading(passage: Passage) -> str:
    """Return the innermost heading above a passage, or the title of its document."""
    return " ".join(strip_inline_markdown(passage.section.split(" › ")[-1] or passage.title).split())


def _beginning(text: str) -> str:
    """Return the first sentences of a text, with at most `MAX_ANSWER_WORDS` words in all but at least one sentence."""
    text = _HEADING_LINES.sub("", text)
    taken: list[str] = []
    for start, end in sentences(text):
        sentence = " ".join(strip_inline_markdown(text[start:end]).split())
        if taken and len(words(" ".join([*taken, sentence]))) > MAX_ANSWER_WORDS:
            break
        taken.append(sentence)
    return " ".join(taken)
