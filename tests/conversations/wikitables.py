"""Ask the questions of WikiTableQuestions over its tables, each in a conversation of its own, and print how many are
answered right: `python -m tests.conversations.wikitables --generator SPEC` (`--help` lists the options).

The tables and questions are in `tables` of the project's data. The tables are indexed as CSV files. A run that was
stopped continues with the same command; a change of the product asks again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tests.conversations.collections import data_folder
from tests.conversations.command import exit_code_of
from tests.conversations.runner import Journal
from tests.conversations.scoring import Answer
from tests.conversations.table_answers import SEPARATOR, answers_match, stated_answers
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.turn.assistant import Assistant
from turnmark.core.console import Progress, shown_progress
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.record import Record
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.types import RetrieverWrapper

INDEX = "wikitables"
FORM = (
    f'End with a last line "Answer: a {SEPARATOR} b" that has only the values asked for, one or several, as the table '
    "shows them; a count or another computed number in digits."
)


class TableQuestion(Record):
    """A question about one table, and the values that answer it."""

    id: str
    question: str
    answers: tuple[str, ...]
    table: str

    @property
    def message(self) -> str:
        """The question as it is asked."""
        return f"In the table {self.table}: {self.question}\n\n{FORM}"


class AskedQuestion(Record):
    """A question with the reply to it."""

    item: TableQuestion
    reply: Answer

    @property
    def stated(self) -> tuple[str, ...]:
        """The values that the reply states."""
        return stated_answers(self.reply.text)

    @property
    def right(self) -> bool:
        """Whether the values are those of the data."""
        return answers_match(self.item.answers, self.stated)


class WithoutTables(RetrieverWrapper):
    """A retriever over tables that can be read and not computed."""

    def tables(self) -> None:
        """Return None: nothing can be computed."""


def table_folder() -> Path:
    """Return the folder with `questions.jsonl` and `tables`."""
    folder = data_folder() / "tables"
    if not (folder / "questions.jsonl").is_file():
        raise RequestError(f"no questions.jsonl in {folder}; set TURNMARK_DATA to the folder that holds tables")
    return folder


def read_questions(folder: Path) -> list[TableQuestion]:
    """Return the questions in the order of the file."""
    lines = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [TableQuestion.model_validate_json(line) for line in lines if line.strip()]


def open_index(folder: Path, progress: Progress) -> Index:
    """Return the index over the tables; it is built if they, or what reads them, changed."""
    build_index(folder / "tables", INDEX, include=("*.csv",), progress=progress)
    return Index.open(INDEX)


def open_assistant(index: Index, generator: str, computes: bool) -> Assistant:
    """Return the assistant over the tables.

    Args:
        computes: whether it is offered the tools that compute.
    """
    retriever = None if computes else WithoutTables(open_retriever(default_retriever(index), index))
    config = AssistantConfig(index=index.name, generator=generator)
    return Assistant.from_config(config, index=index, retriever=retriever)


def ask(assistant: Assistant, question: TableQuestion) -> Answer:
    """Ask a question in a new conversation."""
    began = time.perf_counter()
    try:
        reply = assistant.reply([], question.message)
    except TurnmarkError as error:
        return Answer(text="", decision=None, seconds=time.perf_counter() - began, error=str(error))
    return Answer(
        text=reply.answer,
        decision=reply.decision,
        seconds=time.perf_counter() - began,
        rewrite=reply.rewrite,
        prompt_tokens=sum(usage.prompt_tokens for usage in reply.usage.values()),
        calls=sum(usage.calls for usage in reply.usage.values()),
    )


def ask_all(
    assistant: Assistant, questions: Sequence[TableQuestion], journal: Journal, concurrency: int, progress: Progress
) -> list[AskedQuestion]:
    """Ask the questions that the journal does not have, several at a time, and return all in their order."""
    fingerprint = assistant.index.manifest.fingerprint() if assistant.index else ""
    keys = {each.id: _key(each, fingerprint) for each in questions}
    waiting = [each for each in questions if keys[each.id] not in journal.answers]
    progress.start("questions", len(questions))
    progress.advance(len(questions) - len(waiting))
    replies = {each.id: journal.answers[keys[each.id]][0] for each in questions if keys[each.id] in journal.answers}
    pool = ThreadPoolExecutor(concurrency)
    try:
        asked: dict[Future[Answer], TableQuestion] = {pool.submit(ask, assistant, each): each for each in waiting}
        for future in as_completed(asked):
            question = asked[future]
            replies[question.id] = future.result()
            journal.add(keys[question.id], (replies[question.id],))
            progress.advance()
    finally:
        pool.shutdown(cancel_futures=True)
    return [AskedQuestion(item=each, reply=replies[each.id]) for each in questions]


def _key(question: TableQuestion, fingerprint: str) -> str:
    return hashlib.sha256(json.dumps([fingerprint, question.message]).encode()).hexdigest()[:24]


def summary(asked: Sequence[AskedQuestion]) -> dict[str, Any]:
    """Return the figures of a run. Calls and tokens are means over the questions without an error."""
    done = [each.reply for each in asked if not each.reply.error]
    count = max(1, len(done))
    return {
        "questions": len(asked),
        "right": sum(each.right for each in asked),
        "failed": len(asked) - len(done),
        "without_answer_line": sum(not each.stated for each in asked),
        "calls": round(sum(reply.calls for reply in done) / count, 2),
        "prompt_tokens": round(sum(reply.prompt_tokens for reply in done) / count),
    }


def wrong_lines(asked: Sequence[AskedQuestion]) -> Iterator[str]:
    """Yield a line for each question that was not answered right."""
    for each in asked:
        if not each.right:
            stated = f" {SEPARATOR} ".join(each.stated) or each.reply.error or "no line with an answer"
            wanted = f" {SEPARATOR} ".join(each.item.answers)
            yield f"{each.item.id} {each.item.table}: {each.item.question}\n    wanted {wanted}; stated {stated}"


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conversations.wikitables", description=__doc__)
    parser.add_argument("--generator", metavar="SPEC", required=True, help="a model that calls tools")
    parser.add_argument("--no-sql", action="store_true", help="do not offer the tools that compute")
    parser.add_argument("--limit", metavar="N", type=int, help="only the first questions")
    parser.add_argument("--concurrency", metavar="N", type=int, default=4, help="questions at a time (default: 4)")
    parser.add_argument("--show", choices=("wrong",), help="print each question that was not answered right")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write figures and replies there")
    return parser.parse_args(words)


def run(options: argparse.Namespace) -> None:
    """Ask the questions and print the figures."""
    folder = table_folder()
    questions = read_questions(folder)[: options.limit]
    name = f"wikitables {options.generator}{' --no-sql' if options.no_sql else ''}"
    with shown_progress() as progress:
        assistant = open_assistant(open_index(folder, progress), options.generator, computes=not options.no_sql)
        asked = ask_all(assistant, questions, Journal(name), options.concurrency, progress)
    figures = summary(asked)
    if options.show:
        print("\n".join(wrong_lines(asked)))
    print(
        f"right {figures['right']}/{figures['questions']}   calls {figures['calls']:.2f}   prompt tokens "
        f"{figures['prompt_tokens']:,}   failed {figures['failed']}   without a line {figures['without_answer_line']}"
    )
    if options.json:
        rows = [{**each.model_dump(mode="json"), "stated": each.stated, "right": each.right} for each in asked]
        content = {"system": name, **figures, "replies": rows}
        options.json.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    """Return the exit code: 0, 2 for an invalid request, 1 for a failure, 130 after Ctrl-C."""
    options = arguments(words)
    return exit_code_of(lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
