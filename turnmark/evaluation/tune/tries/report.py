"""The screen of `turnmark tune --try`: the share of right replies with each setting, and one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnmark.core.untrusted import one_line, rich_line
from turnmark.evaluation.tune.tries.run import TriedSettings, TriesForecast, TriesResult
from turnmark.retrieval.search.tuned_settings import words_of


def show_tries_forecast(expected: TriesForecast, console: Console) -> None:
    """Print how many replies the settings take."""
    console.print(
        rich_line(
            f"{expected.index}: {expected.settings} settings and {expected.questions} questions that say what is "
            f"right; at most {expected.replies} replies. Nothing was changed."
        ),
        soft_wrap=True,
    )


def show_tries(result: TriesResult, console: Console) -> None:
    """Print a result."""
    count = result.search_questions + result.test_questions
    console.print(rich_line(f"{result.index}: replies to {count} questions of {result.questions}", "bold"))
    _show_settings(f"On the search half ({result.search_questions} questions)", result.tried, console)
    _show_settings(f"Compared on the test half ({result.test_questions} questions)", result.finalists, console)
    if result.untried:
        console.print(rich_line(f"No time was left for {', '.join(result.untried)}."), soft_wrap=True)
    console.print()
    for sentence in _conclusion(result):
        console.print(rich_line(sentence, "bold"), soft_wrap=True)
    console.print(rich_line(f"{result.seconds:.0f} s; everything is in {result.out}"), soft_wrap=True)


def _show_settings(title: str, settings: Sequence[TriedSettings], console: Console) -> None:
    if not settings:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    table.add_column("settings", overflow="fold")
    is_tested = any(one.p_holm is not None for one in settings)
    for head in ("asked", "words", "right", "change", "95%", *(["p"] if is_tested else [])):
        table.add_column(head, justify="right", no_wrap=True)
    for one in settings:
        interval = f"{one.ci95[0]:+.2f} to {one.ci95[1]:+.2f}" if one.ci95 else "–"
        p = [] if one.p_holm is None else [f"{one.p_holm:.3f}"]
        figures = f"{one.questions}", f"{one.words:.0f}", f"{one.gain:.2f}", f"{one.difference:+.2f}", interval, *p
        table.add_row(Text(one_line(words_of(one.settings))), *figures)
    console.print(table)


def _conclusion(result: TriesResult) -> list[str]:
    winner = result.winner
    if winner is None or result.default_gain is None:
        return ["Keep the present settings: nothing was better beyond doubt."]
    gained = (
        f"on questions that did not choose it, the share of right replies rises from {result.default_gain:.2f} to "
        f"{winner.gain:.2f}"
    )
    settings = dict(winner.settings)
    model = settings.pop("generator", None)
    sentences = [f"{words_of(winner.settings)} is better: {gained}."]
    if settings:
        used = f"{words_of(settings)} is used for {result.index} from now on"
        sentences.append(f"{used}{f' with {model}' if model else ''}. Undo: turnmark tune {result.index} --undo")
    if model:
        sentences.append(f'To use the model, write generator = "{model}" under [defaults] of turnmark.toml.')
    return sentences
