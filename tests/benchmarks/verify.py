"""What the embedded verify step tells apart: `python -m tests.benchmarks.verify [--limit N]`.

Reference answers were written from their passages, so a check that works calls them grounded in these, and not in those
of another question. Over MTRAG's answerable tasks and Compound-QA where they are ($TURNMARK_DATA, or shared/data beside
the checkout), else over the demo splits, whose figures prove the plumbing only. 95% intervals resample conversations.
Drawn (seed 0) are the tasks of `--limit`, the other questions, the wrong citations, numbers and names.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from assistant.steps.answer import Embed
from assistant.steps.claims import Sources, claims_of
from assistant.steps.figures import numbers_of, strange_names
from assistant.steps.marks import cited
from assistant.steps.parts import about
from assistant.steps.split import split_questions
from assistant.steps.verify import verify
from assistant.types import Draft, Understanding
from corpora import compound_qa, mtrag
from corpora.mtrag import Task
from corpora.text import sentences
from corpora.types import Passage
from evaluation.stats import mean_interval
from retrieval.cache import by_list
from retrieval.embed import open_embedder
from retrieval.given import hits_of
from retrieval.types import Hit
from tests.conftest import DATA, DEMO

SEED = 0
Pair = tuple[str, float, float]
"""A conversation, and grounded with the right citations and with the wrong ones."""


@dataclass(frozen=True)
class Answered:
    """A task's reference answer as a draft whose sentences cite all passages of the task."""

    task: Task
    claims: tuple[str, ...]
    asked: str = ""

    @property
    def texts(self) -> list[str]:
        """The task's passages as they are indexed."""
        return [_passage(self.task, at).indexed_text for at in range(len(self.task.contexts))]


def _passage(task: Task, at: int) -> Passage:
    one = task.contexts[at]
    return Passage(
        id=one.document_id, document=one.document_id, title=one.title, text=one.text, start=0, end=len(one.text)
    )


def load(root: Path, limit: int | None, queries: Mapping[str, str]) -> list[Answered]:
    """The answerable tasks with passages.

    Args:
        queries: the recorded rewrites of their questions.
    """
    tasks = [task for task in mtrag.load_tasks(root, "mtrag").data.values() if task.contexts and task.reference]
    tasks = [task for task in tasks if task.answerability == "ANSWERABLE"]
    if limit is not None and limit < len(tasks):
        tasks = random.Random(SEED).sample(tasks, limit)
    made = (
        Answered(
            task,
            tuple(claim.text for claim in claims_of(Draft(text=task.reference))),
            f"{queries.get(task.id, '')} {task.question}",
        )
        for task in tasks
    )
    return [one for one in made if one.claims]


def grounded(row: Answered, texts: Sequence[str], embed: Embed | None) -> float:
    """Share of claims that the passages support, each claim citing all of them."""
    sources = Sources(list(texts), embed, row.asked)
    return fmean(sources.support(claim, range(1, len(texts) + 1)) for claim in row.claims)


def told(name: str, pairs: Sequence[Pair]) -> None:
    """Print what a paired check found."""
    clusters = [pair[0] for pair in pairs]
    columns = ([p[1] for p in pairs], [p[2] for p in pairs], [p[1] - p[2] for p in pairs])
    figures = [mean_interval(column, clusters, SEED) for column in columns]
    shown = ["{:.3f} [{:.3f}, {:.3f}]".format(*figure) for figure in figures]
    above, level = (fmean(test(p[1], p[2]) for p in pairs) for test in (float.__gt__, float.__eq__))
    print(f"{name:<34} n {len(pairs):>4}  right {shown[0]}  wrong {shown[1]}  difference {shown[2]}  "
          f"higher {above:.3f}, level {level:.3f}")  # fmt: skip


def against_others(rows: Sequence[Answered], embed: Embed | None, near: bool) -> list[Pair]:
    """Each reference held against its passages, and against those of another task.

    Args:
        near: the other task is of the same conversation, and shares no passage; else of another in the same domain.
    """
    dice = random.Random(SEED)
    pairs: list[Pair] = []
    for row in rows:
        own = {one.document_id for one in row.task.contexts}
        others = [
            other for other in rows
            if (other.task.conversation == row.task.conversation) is near and other.task.domain == row.task.domain
            and not own & {one.document_id for one in other.task.contexts}
        ]  # fmt: skip
        if others:
            wrong = dice.choice(others)
            pairs.append((row.task.conversation, grounded(row, row.texts, embed), grounded(row, wrong.texts, embed)))
    return pairs


def shuffled(rows: Sequence[Answered], embed: Embed | None) -> tuple[list[Pair], list[bool]]:
    """Drafts that cite, sentence by sentence, the passage that supports it, and the same with these numbers dealt anew.

    Returns:
        The pairs; and of each number that was dealt wrong, whether `verify` puts one there that supports the sentence.
    """
    dice = random.Random(SEED)
    pairs: list[Pair] = []
    mended: list[bool] = []
    for row in rows:
        sources = Sources(row.texts, embed, row.asked)
        right = [(claim, n) for claim in row.claims if (n := sources.supporter(claim, []))]
        if len(row.texts) < 2 or not right:
            continue
        wrong = [(claim, dice.choice([m for m in range(1, len(row.texts) + 1) if m != n])) for claim, n in right]
        share = [fmean(sources.support(claim, [n]) for claim, n in drafted) for drafted in (right, wrong)]
        pairs.append((row.task.conversation, share[0], share[1]))
        lost = [(claim, n) for claim, n in wrong if not sources.support(claim, [n])]
        hits = _hits(row.task)
        for claim, n in lost:
            asked = Understanding(rewrite=row.asked, sub_questions=(row.asked,))
            draft, _, _ = verify(Draft(text=f"{claim} [{n}]"), "answer", asked, hits, embed=embed)
            mended.append(sources.support(claim, cited(draft.text)))
    return pairs, mended


def _hits(task: Task) -> list[Hit]:
    return hits_of([_passage(task, at) for at in range(len(task.contexts))])


def wrong_numbers(rows: Sequence[Answered], embed: Embed | None) -> list[bool]:
    """Supported sentences with one number of theirs changed to another: whether that is seen."""
    dice = random.Random(SEED)
    seen: list[bool] = []
    for row in rows:
        sources = Sources(row.texts, embed, row.asked)
        every = range(1, len(row.texts) + 1)
        for claim in row.claims:
            found = list(re.finditer(r"(?<![\w.,])\d+(?![\w.,]*\w)", claim))
            if not found or not numbers_of(claim) or not sources.support(claim, every):
                continue
            one = dice.choice(found)
            other = str(int(one.group()) + dice.choice([-2, -1, 1, 2, 10]))
            seen.append(not sources.support(claim[: one.start()] + other + claim[one.end() :], every))
    return seen


def wrong_names(rows: Sequence[Answered], embed: Embed | None) -> list[bool]:
    """Supported sentences with one name of theirs put in for by one of another task: whether that is seen."""
    dice = random.Random(SEED)
    every = sorted({name for row in rows for claim in row.claims for name in strange_names(claim, [])})
    seen: list[bool] = []
    for row in rows:
        sources = Sources(row.texts, embed, row.asked)
        there = " ".join([*row.texts, row.asked]).lower()
        for claim in row.claims:
            own = [name for name in strange_names(claim, []) if name in claim]
            if not own or not sources.support(claim, range(1, len(row.texts) + 1)):
                continue
            others = (dice.choice(every) for _ in range(20))
            other = next((name for name in others if not any(w.lower() in there for w in name.split())), "")
            if other:
                said = claim.replace(dice.choice(own), other)
                seen.append(not sources.support(said, range(1, len(row.texts) + 1)))
    return seen


def part_rows(root: Path, limit: int) -> list[tuple[tuple[str, ...], list[str]]]:
    """Compound questions whose reference has a sentence for each part, in their order."""
    tasks = list(compound_qa.load_tasks(root).data.values())
    random.Random(SEED).shuffle(tasks)
    found = []
    for task in tasks:
        parts = tuple(split_questions(task.question))
        lines = [task.reference[start:end] for start, end in sentences(task.reference)]
        if len(parts) > 1 and len(lines) == len(parts):
            found.append((parts, lines))
        if len(found) == limit:
            break
    return found


def parts(rows: Sequence[tuple[tuple[str, ...], list[str]]], embed: Embed | None) -> dict[str, float]:
    """Shares of parts that count as answered by the whole reference, by another's, and with their sentence cut out."""
    whole: list[bool] = []
    cut: list[bool] = []
    strange: list[bool] = []
    for at, (asked, lines) in enumerate(rows):
        whole += map(bool, about(asked, lines, embed))
        strange += map(bool, about(asked, rows[(at + 1) % len(rows)][1], embed))
        for k in range(len(asked)):
            cut.append(bool(about(asked, lines[:k] + lines[k + 1 :], embed)[k]))
    return {"whole": fmean(whole), "its sentence cut out": fmean(cut), "of another question": fmean(strange)}


def alone(rows: Sequence[Answered], rewrites: Callable[[Task], str | None], embed: Embed | None) -> dict[str, float]:
    """Shares of single questions that count as answered by their reference, and by that of another conversation."""
    dice = random.Random(SEED)
    own: list[bool] = []
    strange: list[bool] = []
    for row in rows:
        asked = rewrites(row.task)
        others = [one for one in rows if one.task.conversation != row.task.conversation]
        if asked and others:
            own.append(_about(asked, row, embed))
            strange.append(_about(asked, dice.choice(others), embed))
    return {"n": len(own), "own": fmean(own), "of another conversation": fmean(strange)} if own else {}


def _about(asked: str, row: Answered, embed: Embed | None) -> bool:
    """Whether a sentence of a reference is about a question, each read with the title of the passage that it fits."""
    sources = Sources(row.texts, asked=row.asked)
    fitting = (sources.supporter(claim, []) for claim in row.claims)
    titles = [row.task.contexts[n - 1].title if n else "" for n in fitting]
    return bool(about([asked], row.claims, embed, titles)[0])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=None, help="so many tasks of MTRAG; default: all")
    parser.add_argument("--demo", action="store_true", help="the demo splits, whatever data there are")
    given = parser.parse_args()
    real = DATA.is_dir() and not given.demo
    root = DATA / "mt-rag-benchmark" if real else mtrag.DEMO_ROOT
    queries: dict[str, str] = {}
    for domain in mtrag.domains(root, "mtrag"):
        queries |= mtrag.load_queries(root, domain, "rewrite").data
    rows = load(root, given.limit, queries)
    print(f"{len(rows)} answerable tasks, {sum(len(row.claims) for row in rows)} sentences of {root.name}"
          f"{'' if real else ' (demo: no measure of quality)'}")  # fmt: skip
    encode = open_embedder("minilm").encode
    minilm = by_list(lambda texts: encode(list(texts), "passage"))
    compound = part_rows(DATA / "compound-qa" if real else DEMO / "compound-qa", 200)
    for name, embed in (("words alone", None), ("words and MiniLM", minilm)):
        print(f"\n{name}")
        told("another conversation's passages", against_others(rows, embed, near=False))
        told("another turn's passages", against_others(rows, embed, near=True))
        pairs, mended = shuffled(rows, embed)
        told("numbers dealt anew", pairs)
        if mended:
            print(f"wrong citations put right: {fmean(mended):.3f} of {len(mended)}")
        for what, wrong in (("numbers", wrong_numbers), ("names", wrong_names)):
            if seen := wrong(rows, embed):
                print(f"wrong {what} seen: {fmean(seen):.3f} of {len(seen)}")
        print(f"parts of {len(compound)} compound questions answered by the reference:", _shown(parts(compound, embed)))
        print("single questions answered:", _shown(alone(rows, lambda task: queries.get(task.id), embed)))
    return 0


def _shown(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" if value < 1.5 else f"{name} {value:.0f}" for name, value in figures.items())


if __name__ == "__main__":
    sys.exit(main())
