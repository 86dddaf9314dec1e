"""Writing the answer without a language model: sentences chosen for the question, each cited as it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from assistant.steps.support import coverage
from assistant.steps.understand import is_greeting
from assistant.steps.units import Unit, steps_of, units_of
from assistant.types import Draft, Step, Understanding
from corpora.text import sentences
from retrieval.types import Hit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], "NDArray[np.float32]"]

UNKNOWN_TEXT = "I don't know: I found nothing about that in the documents."
MAX_SENTENCES = 4
MAX_WORDS = 110
# A sentence joins the answer only if it is nearly as good as the best one, and says something new.
NEAR_BEST = 0.8
SAME = 0.9
LEAD_SENTENCES = 2
RANK_PRIOR = 0.05
WORDS_WEIGHT = 0.3


def converse(message: str) -> Draft:
    """The reply to a courtesy."""
    if is_greeting(message):
        return Draft(text="Hello! Ask me anything about your documents.")
    return Draft(text="You're welcome. Ask on whenever you like.")


def extract(understanding: Understanding, message: str, hits: Sequence[Hit], embed: Embed | None) -> Draft | None:
    """The extractive answer, and the procedure when one is wanted and a document gives one; None when nothing fits.

    Sentences are chosen for the message as it was said and for its rewrite, half each: with the rewrite alone every
    sentence that names the topic would look like an answer.

    Args:
        embed: embeds sentences (unit vectors); without it, shared words decide.
    """
    steps = steps_of(hits) if understanding.wants_procedure else []
    procedure = tuple(Step(step=unit.text, citations=(unit.citation,)) for unit in steps)
    taken = {(unit.document, unit.at) for unit in steps}
    pool = [unit for unit in units_of(hits) if (unit.document, unit.at) not in taken]
    chosen = choose((message, understanding.rewrite), pool, embed, LEAD_SENTENCES if procedure else MAX_SENTENCES)
    text = " ".join(_cited(unit) for unit in chosen)
    if not text and procedure:
        text = f"These are the steps. [{steps[0].citation}]"
    return Draft(text=text, procedure=procedure) if text else None


def choose(questions: Sequence[str], pool: Sequence[Unit], embed: Embed | None, most: int) -> list[Unit]:
    """Up to `most` units that fit the questions best, on average, and differ; in the order of their passages."""
    if not pool:
        return []
    scores, alike = _relevance(list(dict.fromkeys(questions)), pool, embed)
    order = sorted(range(len(pool)), key=lambda i: (-scores[i], i))
    chosen: list[int] = []
    length = 0
    for i in order:
        size = len(pool[i].text.split())
        if len(chosen) == most or scores[i] < NEAR_BEST * scores[order[0]]:
            break
        if (chosen and length + size > MAX_WORDS) or any(alike(i, j) for j in chosen):
            continue
        chosen.append(i)
        length += size
    return [pool[i] for i in sorted(chosen, key=lambda i: (pool[i].citation, pool[i].at))]


def _relevance(
    questions: Sequence[str], pool: Sequence[Unit], embed: Embed | None
) -> tuple[list[float], Callable[[int, int], bool]]:
    """A score for each unit, and a test whether two say the same."""
    prior = [RANK_PRIOR / unit.citation for unit in pool]
    texts = [f"{unit.heading}: {unit.text}" if unit.heading and unit.item else unit.text for unit in pool]
    words = [fmean(coverage(question, [text]) for question in questions) for text in texts]
    if embed is None:
        return [w + bonus for w, bonus in zip(words, prior, strict=True)], lambda i, j: pool[i].text == pool[j].text
    vectors = embed([*questions, *texts])
    asked, said = vectors[: len(questions)], vectors[len(questions) :]
    cosines = (said @ asked.T).mean(axis=1)
    scores = [float(c) + WORDS_WEIGHT * w + bonus for c, w, bonus in zip(cosines, words, prior, strict=True)]
    return scores, lambda i, j: float(said[i] @ said[j]) > SAME


def _cited(unit: Unit) -> str:
    """The unit with its citation after each of its sentences: every sentence cites."""
    parts = [unit.text[start:end] for start, end in sentences(unit.text)]
    return " ".join(f"{ended(part)} [{unit.citation}]" for part in parts)


def ended(text: str) -> str:
    """The text with a full stop where it ends without any mark."""
    return text if text[-1:] in ".!?…。！？" else text.rstrip(" ,;:") + "."
