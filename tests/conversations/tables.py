"""Tables of right answers by kind with intervals, one column per system, and all wrong turns on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from tests.conversations.labels import KINDS, Kind, LabelledTurn
from tests.conversations.runner import HeldConversation
from tests.conversations.scoring import FLAGS, Answer, Score, score
from turnmark.core.untrusted import one_line
from turnmark.evaluation.scores.cluster_statistics import intervals, mean_statistic

QUESTIONS: tuple[Kind, ...] = ("answer", "compound", "steps", "unknown")
ANSWERABLE: tuple[Kind, ...] = ("answer", "compound", "steps")
ALL = "all questions"
SEED = 0


class ScoredTurn:
    """A turn with its score, and its conversation, which is the unit of resampling."""

    def __init__(self, held: HeldConversation, at: int) -> None:
        self.collection, self.conversation, self.at = held.collection, held.conversation.id, at
        self.label: LabelledTurn = held.conversation.turn[at]
        self.answer: Answer = held.answers[at]
        self.score: Score = score(self.label, self.answer, held.answers[at - 1] if at else None)


def scored(held: Sequence[HeldConversation]) -> list[ScoredTurn]:
    """Return all turns of all conversations."""
    return [ScoredTurn(each, at) for each in held for at in range(len(each.answers))]


def summary(turns: Sequence[ScoredTurn]) -> dict[str, Any]:
    """Return the figures of one system: `right` by kind (share, n, interval), by collection, flags, seconds, tokens."""
    groups: dict[str, list[ScoredTurn]] = {ALL: [turn for turn in turns if turn.label.kind in QUESTIONS]}
    groups |= {kind: [turn for turn in turns if turn.label.kind == kind] for kind in KINDS}
    collections: dict[str, list[ScoredTurn]] = {}
    for turn in groups[ALL]:
        collections.setdefault(turn.collection, []).append(turn)
    flags = Counter(flag for turn in turns for flag in turn.score.flags)
    return {
        "right": {name: _share(group) for name, group in groups.items() if group},
        "collections": {name: _share(group) for name, group in collections.items()},
        "answerable": _not_answered([turn for turn in turns if turn.label.kind in ANSWERABLE]),
        "unanswerable": _not_answered([turn for turn in turns if turn.label.kind == "unknown"]),
        "flags": {flag: flags[flag] for flag in FLAGS},
        "median_seconds": median(turn.answer.seconds for turn in turns),
        "calls": sum(turn.answer.calls for turn in turns) / len(turns),
        "prompt_tokens": sum(turn.answer.prompt_tokens for turn in turns) / len(turns),
    }


def _not_answered(turns: Sequence[ScoredTurn]) -> dict[str, int]:
    return {"n": len(turns)} | {flag: sum(flag in turn.score.flags for turn in turns) for flag in ("refused", "hedged")}


def _share(turns: Sequence[ScoredTurn]) -> dict[str, Any]:
    right = [float(turn.score.right) for turn in turns]
    numbers: dict[tuple[str, str], int] = {}
    conversations = [numbers.setdefault((turn.collection, turn.conversation), len(numbers)) for turn in turns]
    mean = mean_statistic(np.array(right), np.array(conversations), np.ones(len(right)), share=True)
    (interval,) = intervals([mean], SEED)
    return {"right": int(sum(right)), "n": len(turns), "mean": mean.value, "ci95": interval and list(interval)}


def table(summaries: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the figures of all systems side by side."""
    made = Table(title="right replies (95% interval over conversations)", title_justify="left")
    made.add_column("")
    for system in summaries:
        made.add_column(Text(one_line(system)), justify="right")
    every = list(summaries.values())
    for name in (ALL, *KINDS):
        if any(name in each["right"] for each in every):
            made.add_row(name, *(_cell(each["right"].get(name)) for each in every), end_section=name == ALL)
    made.add_section()
    for name in dict.fromkeys(name for each in every for name in each["collections"]):
        made.add_row(f"questions of {name}", *(_cell(each["collections"].get(name)) for each in every))
    made.add_section()
    for group in ("answerable", "unanswerable"):
        for flag in ("refused", "hedged"):
            made.add_row(f"{group}, {flag}", *(f"{each[group][flag]}/{each[group]['n']}" for each in every))
    for flag in FLAGS[2:]:
        made.add_row(f"turns {flag}", *(str(each["flags"][flag]) for each in every))
    made.add_row("median seconds a turn", *(f"{each['median_seconds']:.2f}" for each in every))
    made.add_row("mean calls a turn", *(f"{each['calls']:.1f}" for each in every))
    made.add_row("mean prompt tokens a turn", *(f"{each['prompt_tokens']:,.0f}" for each in every))
    return made


def _cell(share: Mapping[str, Any] | None) -> str:
    if share is None:
        return "-"
    figure = f"{share['right']}/{share['n']}  {share['mean']:.2f}"
    if share["ci95"] is None:
        return f"{figure} (no interval)"
    low, high = share["ci95"]
    return f"{figure} ({low:.2f} to {high:.2f})"


def wrong_turns(system: str, turns: Sequence[ScoredTurn]) -> Iterator[str]:
    """Return each wrong turn as a paragraph: question, expected answer, reply, decision."""
    for turn in turns:
        if turn.score.right:
            continue
        flags = f" [{', '.join(turn.score.flags)}]" if turn.score.flags else ""
        yield "\n".join(
            (
                f"{one_line(system)}  {turn.collection} {turn.conversation} turn {turn.at + 1} "
                f"({turn.label.kind}){flags}",
                f"  question  {one_line(turn.label.say)}",
                f"  rewrite   {one_line(turn.answer.rewrite)}",
                f"  wrong     {one_line(turn.score.why)}",
                f"  facts     {one_line('  '.join(turn.label.facts))}",
                f"  source    {one_line(turn.label.source)}",
                f"  decision  {turn.answer.decision or 'none given'}",
                f"  reply     {one_line(turn.answer.text)}",
                "",
            )
        )
