"""What people decided of made items: `reviews.jsonl`, appended a line a decision, and what follows for an item.

The last line of a reviewer and an item holds; a score keeps what the reviewer edited before it, and `undo` takes back
all that the reviewer said of the item. An item that somebody rejected is left out of the benchmark's files, and edits
are put in. Where items are scored 0, 1 or 2 (Compound-QA, appendix C.3), only those stay that three people, all of
those who scored them, gave a 2.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from turnmark.corpora.types import Record
from turnmark.evaluation.journal import Journal, read_records
from turnmark.evaluation.synth.folder import SynthItem

FILE = "reviews.jsonl"
REVIEWERS = 3
"""People who score an item (Compound-QA, appendix C.3)."""
BEST = 2
Decision = Literal["accept", "edit", "reject", "score", "undo"]
Reason = Literal["reversal", "hallucination", "marketing", "safety", "other"]
REASONS: Mapping[Reason, str] = {
    "reversal": "question and answer have changed places, or the answer answers another question",
    "hallucination": "the answer says what the documents do not",
    "marketing": "advertises something or somebody",
    "safety": "politics, ethics, or not safe for work",
    "other": "anything else",
}
"""What InsCoQA's annotators filtered (section 3.2), and the rest."""


class Review(Record):
    """One decision."""

    id: str = Field(description="of the item")
    reviewer: str
    decision: Decision
    reason: Reason | None = Field(default=None, description="of a rejection")
    note: str = ""
    score: int | None = Field(default=None, ge=0, le=BEST)
    edits: dict[str, str] = Field(default_factory=dict, description="where in the item -> its new text")
    sample: bool = Field(default=False, description="of a sample drawn to measure accuracy")
    at: str

    @model_validator(mode="after")
    def _fits(self) -> Review:
        if (self.decision == "score") != (self.score is not None):
            raise ValueError("a score is a number from 0 to 2, and nothing else has one")
        if self.decision == "reject" and self.reason is None:
            raise ValueError(f"a rejection has a reason: {', '.join(REASONS)}")
        if self.decision == "edit" and not self.edits:
            raise ValueError("an edit says what it changes")
        if self.edits and self.decision not in ("edit", "score"):
            raise ValueError("only an edit changes something, and the score after it")
        return self


Reviews = dict[str, dict[str, Review]]
"""Item -> reviewer -> the last decision."""


def open_reviews(folder: Path) -> Journal[tuple[str, str], Review]:
    """The file of decisions, to be appended to."""
    return Journal(folder / FILE, Review, lambda review: (review.id, review.reviewer))


def read_reviews(folder: Path) -> Reviews:
    """The decisions about each item; none where it was taken back."""
    reviews: Reviews = {}
    for review in read_records(folder / FILE, Review):
        take_in(reviews, review)
    return reviews


def take_in(reviews: Reviews, review: Review) -> None:
    """Add a decision to those of an item, or take those of its reviewer away."""
    own = reviews.setdefault(review.id, {})
    if review.decision == "undo":
        own.pop(review.reviewer, None)
    else:
        own[review.reviewer] = review
    if not own:
        del reviews[review.id]


def texts_of(content: Any, place: str = "") -> dict[str, str]:
    """Every text of an item by its place: `question`, `turns.0.answer` …"""
    if isinstance(content, str):
        return {place: content}
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    texts: dict[str, str] = {}
    for key, value in pairs:
        texts |= texts_of(value, f"{place}.{key}" if place else str(key))
    return texts


def edited(item: SynthItem, edits: Mapping[str, str]) -> SynthItem:
    """The item with other texts; places that it does not have are passed over."""
    content = copy.deepcopy(item.content)
    places = texts_of(content)
    for place, text in edits.items():
        if place not in places:
            continue
        *way, last = place.split(".")
        inner: Any = content
        for step in way:
            inner = inner[int(step)] if isinstance(inner, list) else inner[step]
        inner[int(last) if isinstance(inner, list) else last] = text
    return item.model_copy(update={"content": content})


def edits_of(reviews: Mapping[str, Review]) -> dict[str, str]:
    """What the reviewers of an item changed, all together."""
    edits: dict[str, str] = {}
    for review in reviews.values():
        edits |= review.edits
    return edits


def is_against(review: Review) -> bool:
    """Whether a decision leaves an item out."""
    return review.decision == "reject" or review.score not in (None, BEST)


def reviewed(items: Sequence[SynthItem], reviews: Reviews) -> tuple[list[SynthItem], tuple[str, ...]]:
    """The items that stay, with their edits, and notes about the others.

    Once an item has been scored, items that are not scored by three people yet are left out too.
    """
    scoring = any(review.decision == "score" for item_reviews in reviews.values() for review in item_reviews.values())
    passing: list[SynthItem] = []
    rejected = waiting = changed = 0
    for item in items:
        item_reviews = reviews.get(item.id, {})
        edits = edits_of(item_reviews)
        if any(map(is_against, item_reviews.values())):
            rejected += 1
        elif scoring and sum(review.score == BEST for review in item_reviews.values()) < REVIEWERS:
            waiting += 1
        else:
            changed += bool(edits)
            passing.append(edited(item, edits) if edits else item)
    notes = []
    if reviews:
        notes.append(f"reviewed: {len(reviews)} of {len(items)} items; {rejected} rejected, {changed} edited")
    if waiting:
        notes.append(f"{waiting} items are left out until {REVIEWERS} people have scored them {BEST}")
    return passing, tuple(notes)


def accuracy(items: Iterable[SynthItem], reviews: Reviews, reviewer: str) -> tuple[int, int]:
    """Of the items of a sample that a reviewer decided: how many were accepted as they were, and how many there are.

    An item that had to be edited was not accurate; nor is one with a score below the best.
    """
    decided = [reviews[item.id][reviewer] for item in items if reviewer in reviews.get(item.id, {})]
    accepted = sum(review.decision == "accept" or (review.score == BEST and not review.edits) for review in decided)
    return accepted, len(decided)
