"""The screen of `turnmark tune`: what was tried, what holds on the test half, and one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from turnmark.core.untrusted import rich_line
from turnmark.evaluation.tune.gains import BUDGET_CHARACTERS
from turnmark.evaluation.tune.tune_run import TuneForecast, TuneResult
from turnmark.evaluation.tune.verdict import TriedChoice

KIND_TEXTS = {
    "sentence": "sentences left out of their passages",
    "own": "questions of your file",
    "model": "questions written by a model",
}
"""Kind of question -> what it is."""


def show_forecast(expected: TuneForecast, console: Console) -> None:
    """Print what tuning would take."""
    minutes = max(1, round(expected.seconds / 60))
    console.print(
        rich_line(
            f"{expected.index}: {expected.configurations} configurations, measured on about {expected.questions} "
            f"questions, take about {minutes} min. Nothing was changed."
        ),
        soft_wrap=True,
    )


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
        rich_line("A configuration is the weights of BM25, late interaction and the earlier answers."), soft_wrap=True
    )
    _show_choices(f"The best on the search half ({result.search_questions} questions)", result.tried, console)
    _show_choices(f"Compared on the test half ({result.test_questions} questions)", result.finalists, console)
    console.print()
    console.print(rich_line(_conclusion(result), "bold"), soft_wrap=True)
    if not {"own", "model"} & result.questions.keys():
        console.print(rich_line(ONLY_WITHOUT_MODEL), soft_wrap=True)
    console.print(rich_line(f"{result.seconds:.0f} s; everything is in {result.out}"), soft_wrap=True)


ONLY_WITHOUT_MODEL = (
    "Made sentences predict people only for the weights of BM25 and late interaction, so only these were tuned. "
    "--questions FILE tunes for your own questions, and also the weight of earlier answers."
)


def _show_choices(title: str, choices: Sequence[TriedChoice], console: Console) -> None:
    if not choices:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for head in ("BM25", "late", "answers", "gain", "change", "95%", "p"):
        table.add_column(head, justify="right", no_wrap=True)
    for one in choices:
        settings = (f"{value:g}" for value in one.choice.model_dump().values())
        interval = f"{one.ci95[0]:+.3f} to {one.ci95[1]:+.3f}" if one.ci95 else "–"
        p = "" if one.p_holm is None else f"{one.p_holm:.3f}"
        table.add_row(*settings, f"{one.gain:.3f}", f"{one.difference:+.3f}", interval, p)
    console.print(table)


def _conclusion(result: TuneResult) -> str:
    if result.winner is None:
        return "Keep the default: nothing was better beyond doubt."
    return (
        f"{result.index} is searched with {result.proposed} from now on: on questions that did not choose it, the gain "
        f"rises from {result.default_gain:.3f} to {result.winner.gain:.3f}. Undo: turnmark tune {result.index} --undo"
    )
