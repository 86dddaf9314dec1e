"""The screen of `turnmark tune`: what was tried, what holds on the test half, and one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from turnmark.core.untrusted import rich_line
from turnmark.evaluation.tune.contenders import PRESENT
from turnmark.evaluation.tune.forecast import TuneForecast
from turnmark.evaluation.tune.gains import BUDGET_CHARACTERS
from turnmark.evaluation.tune.rankings import has_splade
from turnmark.evaluation.tune.tune_run import TuneResult
from turnmark.evaluation.tune.verdict import TriedSearch

KIND_TEXTS = {
    "sentence": "sentences left out of their passages",
    "own": "questions of your file",
    "model": "questions written by a model",
}
"""Kind of question -> what it is."""


def show_forecast(expected: TuneForecast, console: Console) -> None:
    """Print what tuning would take."""
    minutes = max(1, round(expected.seconds / 60))
    contenders = ", ".join(map(str, expected.contenders))
    also = f", also with {contenders}" if contenders else ""
    console.print(
        rich_line(
            f"{expected.index}: {expected.configurations} configurations{also}, measured on about "
            f"{expected.questions} questions, take about {minutes} min. Nothing was changed."
        ),
        soft_wrap=True,
    )
    if expected.left_out:
        console.print(rich_line(expected.left_out), soft_wrap=True)


def show_result(result: TuneResult, console: Console) -> None:
    """Print a result."""
    kinds = ", ".join(f"{count} {KIND_TEXTS[kind]}" for kind, count in result.questions.items())
    console.print(rich_line(f"{result.index}: {result.configurations} configurations of {result.retriever}", "bold"))
    console.print(rich_line(f"Questions: {kinds}."), soft_wrap=True)
    console.print(
        rich_line(
            "Gain: how early the answer is read. 1 if it is in the first passage, .63 after 1,000 other characters, "
            f"0 after {BUDGET_CHARACTERS:,} or not at all."
        ),
        soft_wrap=True,
    )
    console.print(
        rich_line("A configuration is the weights of BM25, the reranker, the earlier answers and SPLADE."),
        soft_wrap=True,
    )
    weights = {"weight": "BM25", "late": "reranker", "answers": "answers"}
    weights |= {"splade": "SPLADE"} if has_splade(result.retriever) else {}
    _show_choices(f"The best on the search half ({result.search_questions} questions)", result.tried, weights, console)
    _show_choices(f"Compared on the test half ({result.test_questions} questions)", result.finalists, weights, console)
    _show_contenders("Other builds and rerankers on the search half", result.raced, console)
    _show_contenders("Compared on the test half", result.finalists, console)
    console.print()
    for sentence in _conclusion(result):
        console.print(rich_line(sentence, "bold"), soft_wrap=True)
    if not {"own", "model"} & result.questions.keys():
        console.print(rich_line(ONLY_WITHOUT_MODEL), soft_wrap=True)
    if result.left_out:
        console.print(rich_line(result.left_out), soft_wrap=True)
    console.print(rich_line(f"{result.seconds:.0f} s; everything is in {result.out}"), soft_wrap=True)


ONLY_WITHOUT_MODEL = (
    "Made sentences predict people only for the weights of BM25 and late interaction, so only these were tuned. "
    "--questions FILE tunes for your own questions, also the weights of earlier answers and SPLADE, and compares sizes "
    "of passages, embedders and rerankers."
)


def _show_choices(title: str, tried: Sequence[TriedSearch], weights: Mapping[str, str], console: Console) -> None:
    """Print the configurations of the present index.

    Args:
        weights: the weights to show -> the heads of their columns.
    """
    choices = [one for one in tried if one.contender == PRESENT]
    if not choices:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for head in (*weights.values(), *_COMPARED):
        table.add_column(head, justify="right", no_wrap=True)
    for one in choices:
        table.add_row(*(f"{getattr(one.choice, name):g}" for name in weights), *_compared(one))
    console.print(table)


def _show_contenders(title: str, tried: Sequence[TriedSearch], console: Console) -> None:
    """Print the other builds and rerankers."""
    raced = [one for one in tried if one.contender != PRESENT]
    if not raced:
        return
    table = Table("with", box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for head in ("questions", *_COMPARED):
        table.add_column(head, justify="right", no_wrap=True)
    for one in raced:
        name = f"{one.contender} (clearly worse)" if one.is_dropped else str(one.contender)
        table.add_row(rich_line(name), str(one.questions), *_compared(one))
    console.print(table)


_COMPARED = ("gain", "change", "95%", "p")
"""Heads of the columns that `_compared` returns."""


def _compared(one: TriedSearch) -> tuple[str, ...]:
    interval = f"{one.ci95[0]:+.3f} to {one.ci95[1]:+.3f}" if one.ci95 else "–"
    p = "" if one.p_holm is None else f"{one.p_holm:.3f}"
    return f"{one.gain:.3f}", f"{one.difference:+.3f}", interval, p


def _conclusion(result: TuneResult) -> list[str]:
    rises = "on questions that did not choose it, the gain rises from {:.3f} to {:.3f}"
    sentences = []
    if result.winner is not None:
        sentences.append(
            f"{result.index} is searched with {result.proposed} from now on: "
            f"{rises.format(result.default_gain, result.winner.gain)}. Undo: turnmark tune {result.index} --undo"
        )
    if result.rebuild is not None:
        better = "still better" if result.winner else "better"
        sentences.append(
            f"An index with {result.rebuild.contender} is {better}: "
            f"{rises.format(result.default_gain, result.rebuild.gain)}. Rebuild it: {result.command}"
        )
    return sentences or ["Keep the default: nothing was better beyond doubt."]
