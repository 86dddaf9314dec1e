"""The screen of a check of one's own questions: shares in words, every failed question, and what changed."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnmark.core.console import print_lines
from turnmark.core.untrusted import ellipsize, one_line, rich_line
from turnmark.evaluation.check.console_report import (
    ANSWER_CHARACTERS,
    SHARE_HEADS,
    figure_table,
    indent,
    note_lines,
    share_cells,
)
from turnmark.evaluation.check.own_questions.questions_check import FIGURES, QuestionOutcome, QuestionsResult


def show_questions(result: QuestionsResult, console: Console) -> None:
    """Print a result."""
    console.print(rich_line(f"{result.index}: {len(result.outcomes)} questions of {result.questions}", "bold"))
    print_lines([f"generator {result.generator}, retriever {result.retriever}"], console)
    console.print()
    console.print(_table(result))
    wrong = [one for one in result.outcomes if one.right is False]
    if wrong:
        console.print(rich_line(f"Not right ({len(wrong)}):", "bold"))
    for one in wrong:
        _show_question(one, console)
    console.print()
    print_lines(_ending(result), console)


def _table(result: QuestionsResult) -> Table:
    table = figure_table(*SHARE_HEADS, *(["before"] if result.earlier else []))
    for figure, part in result.figures.items():
        cells = [f"{figure}: {FIGURES[figure]}", *share_cells(part)]
        if result.earlier:
            before = result.earlier.figures.get(figure)
            cells.append(f"{before.count / before.n:.2f}" if before and before.n else "–")
        table.add_row(*cells)
    return table


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
    yield from note_lines(result.notes, result.usage)
    yield f"{result.seconds:.0f} s; every reply is in {result.run}/report.html"
