"""The screen of `turnmark check`: shares with intervals, the worst questions, the cost, and next commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from turnmark.core.console import print_lines
from turnmark.core.untrusted import ellipsize, one_line, rich_line
from turnmark.evaluation.calls.cost_estimates import usage_words
from turnmark.evaluation.check.result import CheckResult, QuestionResult, Share
from turnmark.evaluation.check.sentence_searches import sentences_file
from turnmark.evaluation.judging.rubrics import EMBEDDED_JUDGE

SHARE_HEADS = ("of", "share", "95%")
"""Heads of the cells that `share_cells` returns."""
PASSAGE_CHARACTERS, ANSWER_CHARACTERS = 240, 240
"""Maximum characters shown of a passage and of an answer."""
EMBEDDED_RELIABILITY = (
    "Supported is judged by a formula, which also passes .06 to .33 of the answers that people find unfaithful, and "
    ".93 of the faithful ones (docs/measured.md). --judge SPEC has a model read them."
)


def show_check(result: CheckResult, console: Console) -> None:
    """Print a result."""
    size = f"{result.documents:,} documents, {result.passages:,} passages"
    console.print(rich_line(f"{result.index}: {size}", "bold"))
    parts = [f"retriever {result.retriever}"]
    if result.judge is not None:
        parts = [f"generator {result.generator}", *parts, f"judge {result.judge}"]
    print_lines([", ".join(parts)], console)
    console.print()
    console.print(_table(result))
    for line in _in_words(result):
        console.print(rich_line(line))
    if result.worst:
        console.print()
        console.print(rich_line("Worst questions:", "bold"))
    for number, one in enumerate(result.worst, 1):
        _show_question(number, one, console)
    console.print()
    print_lines(_ending(result), console)


def figure_table(*heads: str) -> Table:
    """Return a table with a column of names and columns of numbers."""
    table = Table("", box=box.SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _table(result: CheckResult) -> Table:
    table = figure_table(*SHARE_HEADS)
    noun = "section" if result.judge is not None else "passage"
    rows = [
        (f"right {noun} among the first three", result.found),
        ("known questions answered", result.answered),
        ("answers supported by passages found", result.supported),
        ("answers that agree with the reference", result.agreeing),
        ("unknown questions recognized", result.recognised),
    ]
    for name, part in rows:
        if part is not None:
            table.add_row(name, *share_cells(part))
    return table


def share_cells(one: Share) -> tuple[str, str, str]:
    """Return the cells of a share: count, share and interval."""
    if one.ci95 is None:
        return "0 of 0", "–", "–"
    low, high = one.ci95
    return f"{one.count} of {one.n}", f"{one.count / one.n:.2f}", f"{low:.2f} to {high:.2f}"


def _in_words(result: CheckResult) -> Iterator[str]:
    """Explain the shares in sentences."""
    if result.recognised is None:
        yield (
            f"{result.found.n} sentences, each hidden from its passage: its passage was among the first three for "
            f"{result.found.count}."
        )
        yield (
            "This is harder than finding the passage that answers a question. It compares retrievers, but does not "
            "measure how often questions are answered. With --generator SPEC, questions are written and answered."
        )
    else:
        hidden, recognised = result.recognised.n, result.recognised.count
        others = hidden - recognised - result.hedged - result.asked_back
        asked_back = f"{result.asked_back} asked back, " if result.asked_back else ""
        elsewhere = f", {result.elsewhere} of these rated as supported by other sections" if others else ""
        yield (
            f"{result.found.n} questions, each written from one section. Asked again with that section hidden, so that "
            f"the answer is not known: {hidden}, of which {recognised} recognized, {result.hedged} hedged, "
            f"{asked_back}{others} answered anyway{elsewhere}."
        )
        if result.copied:
            yield f"{result.copied} more have a near-copy of their section in the index, and are not counted."
    if result.judge == EMBEDDED_JUDGE:
        yield EMBEDDED_RELIABILITY
    if result.failed:
        yield f"{result.failed} failed and are not counted; the same command tries them again."


def _show_question(number: int, one: QuestionResult, console: Console) -> None:
    console.print()
    console.print(Text(f"{number}. {one_line(one.question)}", style="bold"))
    console.print(indent("; ".join(one.why)))
    label = "hidden" if one.kind == "hidden" else "from"
    passage = ellipsize(" ".join(one.text.split()), PASSAGE_CHARACTERS)
    console.print(indent(f"{label}: {one.place}: {passage}", "dim"))
    if one.first:
        console.print(indent(f"found first: {one.first}", "dim"))
    if one.reference:
        console.print(indent(f"reference: {ellipsize(' '.join(one.reference.split()), ANSWER_CHARACTERS)}", "dim"))
    if one.answer:
        console.print(indent(f"answer: {ellipsize(' '.join(one.answer.split()), ANSWER_CHARACTERS)}", "dim"))


def indent(text: str, style: str = "") -> Padding:
    """Return a line below a question."""
    return Padding(rich_line(text, style), (0, 0, 0, 3))


def note_lines(notes: Iterable[str], usage: Mapping[str, Mapping[str, float | None]]) -> Iterator[str]:
    """Yield the notes of a check, then what each role used."""
    yield from (f"- {note}" for note in notes)
    yield from (f"{role}: {usage_words(used)}" for role, used in usage.items())


def _ending(result: CheckResult) -> Iterator[str]:
    yield from note_lines(result.notes, result.usage)
    for other in result.compared:
        found = f"{other.retriever} found {other.found.count} of {other.found.n} of the same sentences"
        interval = "" if other.ci95 is None else f", 95% {other.ci95[0]:+.2f} to {other.ci95[1]:+.2f}"
        p = f"p {other.p:.3f}" if other.p >= 0.001 else "p below .001"
        yield f"{found}: difference {other.difference:+.2f}{interval}, {p}"
    every = f"{result.run}/report.html" if result.run else f"{result.out}/{sentences_file(result.retriever)}"
    yield f"{result.seconds:.0f} s; everything is in {result.out}, every question in {every}"
    if result.other_runs:
        yield f"compare: turnmark compare {' '.join((*result.other_runs, result.run))}"
    elif result.recognised is not None:
        yield "to compare, answer the same questions with the same --out and another --generator, --retriever or --step"
