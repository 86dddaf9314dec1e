"""Several wordings of one message to search with: the query modes that ask a language model.

`minimal` is the turn's own rewrite (MTRAG section 5.2 and appendix C.1). `multi` asks for four more beside it, at the
same time: in the documents' words, after reasoning step by step, as a passage that would answer (HyDE), and as the
words that such a passage must hold. A message that stands alone costs no more than the call that says so. The raw
message is always searched too, and a wording that does not come in time is left out.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps import llm
from turnmark.assistant.steps.courtesy import is_conversational
from turnmark.assistant.structured import Failure, ask
from turnmark.assistant.types import Usage
from turnmark.corpora.rows import RAW
from turnmark.corpora.text import words
from turnmark.corpora.types import Message, Record
from turnmark.retrieval.types import Query

SECONDS = 20.0
"""For all wordings of one message together."""
GRACE = 1.0
"""Seconds in which calls that end by themselves when their time is over may still say so."""
OPENINGS = 5
"""Passages whose headings the corpus-specific prompt shows."""
MOST_WORDS = 250
"""Of a wording. The longest that a prompt asks for has 80; a text far beyond has drifted, and is cut by embedders."""

T = TypeVar("T")
Openings = Callable[[str], Sequence[str]]
"""A wording -> headings or first words of the passages that it finds with the message, best first."""


class Rewrites(Record):
    """What came of asking for wordings."""

    variants: Mapping[str, str] = Field(default_factory=dict, description="name -> text, on one line, never empty")
    left_out: Mapping[str, str] = Field(
        default_factory=dict, description="name -> in a word why it did not come: `timeout`, `invalid`, `drifted` …"
    )
    usage: Usage = Usage()
    notes: tuple[str, ...] = Field(default=(), description="for the person: what went wrong, or was left out")


@dataclass(frozen=True)
class Asked:
    """A message to be reworded, and with what.

    Attributes:
        generator: its calls end by themselves when `seconds` are over.
        openings: asks the documents what they are about; called from a thread of its own.
        prompts: folder with prompts of one's own.
        seconds: for all wordings together, from now.
    """

    generator: Generator
    history: Sequence[Message]
    message: str
    openings: Openings
    prompts: Path | None = None
    seconds: float = SECONDS


@dataclass(frozen=True)
class Mode:
    """A query mode by name in `MODES`.

    Attributes:
        make: asks for the wordings.
        prompts: names of those it asks with.
        weights: of the message (`raw`) and of each wording, for a nested fusion; empty: flat, as the retriever weighs
            its lists.
    """

    make: Callable[[Asked], Rewrites]
    prompts: tuple[str, ...]
    weights: Mapping[str, float] = field(default_factory=dict)

    def describe(self) -> str:
        """How its lists are fused, for manifests: `flat`, or `nested rrf, raw 0.5, minimal 1 …`."""
        if not self.weights:
            return "flat"
        return ", ".join(["nested rrf", *(f"{name} {weight:g}" for name, weight in self.weights.items())])


class Reworded(BaseModel):
    """A wording."""

    query: str


class Reasoned(BaseModel):
    """A wording, and before it what leads to it."""

    reasoning: str
    query: str


MINIMAL = "minimal"
# Name -> prompt and form of the reply.
FOUR: Mapping[str, tuple[str, type[Reworded] | type[Reasoned]]] = {
    "corpus-specific": ("rewrite-corpus", Reworded),
    "step-by-step": ("rewrite-steps", Reasoned),
    "hypothetical-passage": ("rewrite-passage", Reworded),
    "keyword-anchor": ("rewrite-keywords", Reworded),
}
# The three that ask the user's question count whole. Half counts what only looks like it: the message as typed, which
# needs its conversation (where it does not, it is searched alone); a passage that is made up; words without a sentence.
# One half is what the winner of SemEval-2026 task 8 A gives the second of two lists. Nothing here was tuned. With
# MTRAG's recorded rewrite alone (hybrid, pools) a message of weight 0.5 and 1 gives nDCG@5 .424 and .422 on ClapNQ,
# .307 and .287 on FiQA; the other four wordings are recorded nowhere.
WEIGHTS: Mapping[str, float] = {
    RAW: 0.5, MINIMAL: 1.0, "corpus-specific": 1.0, "step-by-step": 1.0, "hypothetical-passage": 0.5,
    "keyword-anchor": 0.5,
}  # fmt: skip
# A failed first call of these kinds says that the next ones would fail as well.
_IN_VAIN = frozenset(("timeout", "unavailable", "rate_limited", "auth", "bad_request", "too_long"))


def minimal(request: Asked) -> Rewrites:
    """The turn's own rewrite. No call where there are no earlier turns, or where nothing is asked."""
    return _minimal(request)[0]


def _minimal(request: Asked) -> tuple[Rewrites, bool]:
    """The rewrite, and whether the message stands alone."""
    if not request.history or is_conversational(request.message):
        return Rewrites(), True
    rewritten = llm.rewrite(request.generator, request.history, request.message, request.prompts)
    note = rewritten.note or ("searched as typed: the model's rewrite was empty" if rewritten.failure else None)
    return Rewrites(
        variants={} if rewritten.rewrite == request.message else {MINIMAL: rewritten.rewrite},
        left_out={MINIMAL: rewritten.failure} if rewritten.failure else {},
        usage=rewritten.usage,
        notes=(f"{MINIMAL}: {note}",) if note else (),
    ), rewritten.standalone


def multi(request: Asked) -> Rewrites:
    """`minimal`, and unless the message stands alone the other four, side by side."""
    ends = time.monotonic() + request.seconds
    first, alone = _minimal(request)
    if alone:
        return first
    failure = first.left_out.get(MINIMAL)
    if failure in _IN_VAIN:
        return first.model_copy(update={"left_out": dict.fromkeys((MINIMAL, *FOUR), failure)})
    remaining = replace(request, seconds=ends - time.monotonic())
    best = first.variants.get(MINIMAL, request.message)
    results = side_by_side({name: partial(_one, name, remaining, best) for name in FOUR}, remaining.seconds + GRACE)
    parts = [first, *(results[name] or _late(name, request.seconds) for name in FOUR)]
    return Rewrites(
        variants={name: text for part in parts for name, text in part.variants.items()},
        left_out={name: reason for part in parts for name, reason in part.left_out.items()},
        usage=sum((part.usage for part in parts), Usage()),
        notes=tuple(note for part in parts for note in part.notes),
    )


def _late(name: str, seconds: float) -> Rewrites:
    return _without(name, "timeout", f"it did not come within the {seconds:g} s that all wordings have")


def _without(name: str, kind: str, reason: str, usage: Usage | None = None) -> Rewrites:
    note = f"{name}: left out ({kind.replace('_', ' ')}: {reason})"
    return Rewrites(left_out={name: kind}, usage=usage or Usage(), notes=(note,))


def _one(name: str, request: Asked, best: str) -> Rewrites:
    """One of the four. Never raises a `GeneratorError`."""
    prompt, schema = FOUR[name]
    passages = list(request.openings(best))[:OPENINGS] if name == "corpus-specific" else None
    prompted = llm.rewrite_prompt(
        prompt, request.generator, request.history, request.message, request.prompts, passages
    )
    if prompted is None:
        return _without(name, "too_long", "the message leaves no room for a reply")
    reply, usage = ask(request.generator, prompted[0], schema)
    if isinstance(reply, Failure):
        return _without(name, reply.kind, reply.reason, usage)
    text = " ".join(reply.query.split())
    if not words(text):
        return _without(name, "empty", "there is no word in it", usage)
    if len(words(text)) > MOST_WORDS:
        return _without(name, "drifted", f"it has {len(words(text))} words", usage)
    return Rewrites(variants={name: text}, usage=usage)


def side_by_side(calls: Mapping[str, Callable[[], T]], seconds: float) -> dict[str, T | None]:
    """What each call returns, all running at once; None for one that is not done when the time is over.

    Such a one goes on in a thread that nobody waits for, and what it brings later is not read.

    Raises:
        BaseException: what the first call that failed raised.
    """
    finished: queue.SimpleQueue[tuple[str, T | None, BaseException | None]] = queue.SimpleQueue()

    def run(name: str, call: Callable[[], T]) -> None:
        try:
            finished.put((name, call(), None))
        except BaseException as error:
            finished.put((name, None, error))

    ends = time.monotonic() + seconds
    for name, call in calls.items():
        # In the caller's context, so that whoever listens for 429s there hears of these too.
        threading.Thread(target=copy_context().run, args=(run, name, call), name=name, daemon=True).start()
    results: dict[str, T | None] = dict.fromkeys(calls)
    for _ in calls:
        try:
            name, result, error = finished.get(timeout=max(0.0, ends - time.monotonic()))
        except queue.Empty:
            break
        if error is not None:
            raise error
        results[name] = result
    return results


def query_with(
    history: Sequence[Message], message: str, variants: Mapping[str, str], weights: Mapping[str, float]
) -> Query:
    """What is searched for with these wordings; the message is always part of it.

    Args:
        weights: name -> weight, `raw` being the message, 1 where a name is not in it: a nested fusion; empty: flat.
    """
    if not weights or not variants:
        return Query(text=message, history=tuple(history), variants=tuple(variants.values()))
    return Query(
        text=message,
        history=tuple(history),
        variants=tuple(variants.values()),
        fusion="nested",
        variant_weights=tuple(weights.get(name, 1.0) for name in (RAW, *variants)),
    )


MODES: Mapping[str, Mode] = {
    "minimal": Mode(minimal, ("rewrite",)),
    "multi": Mode(multi, ("rewrite", *(prompt for prompt, _ in FOUR.values())), WEIGHTS),
}
"""The query modes that ask a language model, by name."""
