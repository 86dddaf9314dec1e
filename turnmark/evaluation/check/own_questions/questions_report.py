"""The screen of a check of one's own questions: shares in words, every failed question, and what changed."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnmark.core.untrusted import ellipsize, one_line, rich_line
from turnmark.evaluation.calls.cost_estimates import usage_words
from turnmark.evaluation.check.console_report import ANSWER_CHARACTERS, indent, share_cells, share_table
from turnmark.evaluation.check.own_questions.questions_check import (
    FIGURES,
    EarlierRun,
    QuestionOutcome,
    QuestionsResult,
)
from turnmark.evaluation.check.result import Share


def show_questions(result: QuestionsResult, console: Console) -> None:
    """Print a result."""
    console.print(rich_line(f"{result.index}: {len(result.outcomes)} questions of {result.questions}", "bold"))
    console.print(rich_line(f"generator {result.generator}, retriever {result.retriever}"), soft_wrap=True)
    console.print()
    console.print(_table(result))
    wrong = [one for one in result.outcomes if one.right is False]
    if wrong:
        console.print(rich_line(f"Not right ({len(wrong)}):", "bold"))
    for one in wrong:
        _show_question(one, console)
    console.print()
    for line in _ending(result):
        console.print(rich_line(line), soft_wrap=True)


def _table(result: QuestionsResult) -> Table:
    table = share_table(*(("before",) if result.earlier else ()))
    for figure, part in result.figures.items():
        before = [_share_before(result.earlier, figure)] if result.earlier else []
        table.add_row(f"{figure}: {FIGURES[figure]}", *share_cells(part), *before)
    return table


def _share_before(earlier: EarlierRun, figure: str) -> str:
    part: Share | None = earlier.figures.get(figure)
    return f"{part.count / part.n:.2f}" if part and part.n else "–"


def _show_question(one: QuestionOutcome, console: Console) -> None:
    console.print()
    console.print(Text(f"{one.place}: {one_line(one.question)}", style="bold"))
    console.print(indent("; ".join(one.why)))
    found = f"found ({one.decision or 'no decision'}): {ellipsize(' '.join(one.answer.split()), ANSWER_CHARACTERS)}"
    console.print(indent(found, "dim"))
    if one.documents:
        console.print(indent(f"first documents: {', '.join(one.documents)}", "dim"))


def _ending(result: QuestionsResult) -> Iterator[str]:
    if result.earlier:
        better, worse = result.earlier.better, result.earlier.worse
        before = f"the run of {result.earlier.started} ({result.earlier.generator})"
        yield f"since {before}, {len(better)} became right and {len(worse)} wrong"
        for mark, questions in (("+", better), ("-", worse)):
            yield from (f"  {mark} {one_line(question)}" for question in questions)
    if result.failed:
        yield f"{result.failed} have no reply and are not counted; the same command asks them again"
    for note in result.notes:
        yield f"- {note}"
    for role, used in result.usage.items():
        yield f"{role}: {usage_words(used)}"
    yield f"{result.seconds:.0f} s; every reply is in {result.run}/report.html"
