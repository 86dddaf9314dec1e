"""`turnmark synth review`: people accept, edit, reject or score what a synthesis made, one line a decision.

On a terminal each item is shown and asked for. Lines that come from elsewhere are decisions in the order of the items
that are still to be decided; a line that is none leaves its item undecided, and all such lines are told at the end.
`u` takes a decision back, and its item is the next that is asked about.
"""

from __future__ import annotations

import random
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from turnmark.corpora.console import inert, stdin_is_terminal, stdin_lines
from turnmark.corpora.errors import RequestError
from turnmark.evaluation.budget import Ledger
from turnmark.evaluation.rundir import read_manifest
from turnmark.evaluation.scoring import now
from turnmark.evaluation.synth.attempt import open_synthesis
from turnmark.evaluation.synth.datasheet import usage_of, write_outputs
from turnmark.evaluation.synth.folder import ITEMS, Manifest, SynthItem, open_folder
from turnmark.evaluation.synth.reviews import (
    REASONS,
    Review,
    Reviews,
    accuracy,
    edited,
    edits_of,
    is_against,
    open_reviews,
    read_reviews,
    take_in,
    texts_of,
)

if TYPE_CHECKING:
    from rich.console import Console

PAPER = 0.9515
"""What the inspection of a tenth of InsCoQA found (section 3.2)."""
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?)\s*%")
SCORED = ("compound-qa",)
"""Kinds whose items are scored 0, 1 or 2."""
EDITABLE: Mapping[str, re.Pattern[str]] = {
    "mtrag": re.compile(r"turns\.\d+\.(?:question|answer)"),
    "inscoqa": re.compile(r"history\.\d+\.[01]|question|answer|procedure\.\d+"),
    "compound-qa": re.compile(r"com_question|com_reference"),
}
"""Kind -> the places of the texts that people may change: what a model wrote, no labels and no documents."""
_ANY_PLACE = re.compile(".*")
_UNSEEN = re.compile(r"(?:.*\.)?(?:planned\..*|document_id|id|ID|conversation|domain|writer|type)")
"""Places that say nothing about whether an item is good."""
PREVIEW = 600
"""Characters of a text that are shown before `f` asks for all of it."""
_HELP = {
    False: "a accept · e PLACE=TEXT edit · r REASON [NOTE] reject · u [ID] undo · s skip · f in full · q quit",
    True: "0, 1 or 2 [NOTE] score · e PLACE=TEXT edit · u [ID] undo · s skip · f in full · q quit",
}

_END = "nothing is left to decide: u ID undo · q or Enter ends"


class NoDecision(Exception):
    """A line that decides nothing; its text says what was expected."""


def decision(
    line: str, item: SynthItem, reviewer: str, scored: bool, sample: bool, editable: re.Pattern[str] = _ANY_PLACE
) -> Review:
    """The decision that a line says.

    Args:
        editable: places that may be edited.

    Raises:
        NoDecision: it says none.
    """
    word, _, argument = line.strip().partition(" ")
    argument = argument.strip()
    about: dict[str, Any] = {"id": item.id, "reviewer": reviewer, "sample": sample, "at": now()}
    if word in ("0", "1", "2") and scored:
        return Review(decision="score", score=int(word), note=argument, **about)
    if word in ("a", "accept") and not scored:
        return Review(decision="accept", note=argument, **about)
    if word in ("e", "edit") and argument:
        return Review(decision="edit", edits=_edits(argument, item, editable), **about)
    if word in ("r", "reject") and not scored:
        reason, _, note = argument.partition(" ")
        if reason not in REASONS:
            raise NoDecision(f"a rejection has a reason, one of: {', '.join(REASONS)}")
        return Review(decision="reject", reason=reason, note=note.strip(), **about)
    raise NoDecision(_HELP[scored])


def _edits(text: str, item: SynthItem, editable: re.Pattern[str]) -> dict[str, str]:
    """`PLACE=TEXT`; only a place that the item has and that may be edited."""
    place, _, new_text = (part.strip() for part in text.partition("="))
    if not place or not new_text:
        raise NoDecision("an edit is PLACE=TEXT, and the text is not empty")
    places = [name for name in texts_of(item.content) if editable.fullmatch(name)]
    if place not in places:
        raise NoDecision(f"no text to edit at {place!r}; there are: {', '.join(places)}")
    return {place: new_text}


@dataclass(frozen=True)
class _Prompt:
    """How one reviewer is asked about the items of a kind.

    Attributes:
        items: id -> item, as it was made, of all that are asked about, decided or not.
        reviews: what was decided so far; kept up to date by whoever takes the decisions.
    """

    kind: str
    reviewer: str
    sample: bool
    console: Console
    items: Mapping[str, SynthItem]
    reviews: Reviews

    @property
    def scored(self) -> bool:
        return self.kind in SCORED

    def decisions(self, pending: Sequence[SynthItem], problems: list[str]) -> Iterator[Review]:
        """Each decision, until the lines end. Those that are taken back are one too, and their items come next.

        Args:
            problems: gets what is to be said of lines that are no decision; on a terminal that is said at once.
        """
        terminal, lines = stdin_is_terminal(), enumerate(stdin_lines(), 1)
        waiting, shown_ids, decided_ids = deque(pending), {item.id for item in pending}, list[str]()
        last_shown: SynthItem | None = None
        while True:
            item = waiting[0] if waiting else None
            if terminal and item is not None and item is not last_shown:
                self._show(item, f"{len(shown_ids) - len(waiting) + 1} of {len(shown_ids)}", PREVIEW)
            last_shown = item
            if terminal:
                self._say(f"[{_HELP[self.scored] if item else _END}] ", end="")
            number, line = next(lines, (0, ""))
            word, _, argument = line.strip().partition(" ")
            undo = word in ("u", "undo")
            if not number or word in ("q", "quit") or (item is None and not undo and not (terminal and word)):
                return
            try:
                if undo:
                    review = self._undo(argument.strip(), decided_ids)
                    yield review
                    item_again = edited(self.items[review.id], edits_of(self.reviews.get(review.id, {})))
                    waiting = deque([item_again, *(later for later in waiting if later.id != review.id)])
                    shown_ids.add(review.id)
                    decided_ids = [name for name in decided_ids if name != review.id]
                elif item is None:
                    self._say("nothing is left to decide")
                elif word in ("f", "full") and terminal:
                    self._show(item, "in full", None)
                elif word in ("s", "skip"):
                    waiting.popleft()
                else:
                    review = decision(line, item, self.reviewer, self.scored, self.sample, EDITABLE[self.kind])
                    yield review
                    decided_ids.append(item.id)
                    if review.decision != "edit" or not self.scored:  # what is scored is scored after its edit, too
                        waiting.popleft()
            except (NoDecision, ValidationError) as error:
                if terminal:
                    self._say(f"that is no decision: {error}")
                    continue
                problems.append(f"line {number}: {inert(line.strip()[:80])!r} is no decision ({inert(error)})")
                if waiting and not undo:
                    waiting.popleft()

    def _undo(self, name: str, decided_ids: Sequence[str]) -> Review:
        """Take back what was decided of an item, else the last decision of this call.

        Raises:
            NoDecision: there is none.
        """
        if not name and not decided_ids:
            raise NoDecision("nothing was decided yet in this call; u ID takes back what was decided before")
        name = name or decided_ids[-1]
        if name not in self.items or self.reviewer not in self.reviews.get(name, {}):
            raise NoDecision(f"{inert(name)!r}: {self.reviewer} has decided nothing of it, or is not asked about it")
        return Review(id=name, reviewer=self.reviewer, decision="undo", sample=self.sample, at=now())

    def _say(self, text: str, style: str = "", end: str = "\n") -> None:
        from turnmark.evaluation.report.rendering import plain

        self.console.print(plain(text, style), soft_wrap=True, end=end)

    def _show(self, item: SynthItem, title: str, limit: int | None) -> None:
        """The texts of an item with their places; those that may be edited stand out."""
        self._say(f"— {item.id} ({title})", "bold")
        for place, text in texts_of(item.content).items():
            if not _UNSEEN.fullmatch(place):
                cut = text if limit is None or len(text) <= limit else text[:limit] + " […]"
                self._say(f"{place}: {cut}", "bold" if EDITABLE[self.kind].fullmatch(place) else "")


@dataclass
class Reviewed:
    """What came of a review.

    Attributes:
        reviews: decisions of this call that stand; what was taken back counts as undone alone.
        left: items that this reviewer has not decided, of those asked about.
        wrong: lines that were no decision.
    """

    folder: Path
    reviewer: str
    asked: int
    scored: bool
    undone: int = 0
    left: int = 0
    reviews: list[Review] = field(default_factory=list)
    sampled: tuple[int, int] | None = None
    wrong: list[str] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    @property
    def decided(self) -> int:
        """How many decisions; an edit that is to be scored is none yet."""
        return sum(review.decision != "edit" or not self.scored for review in self.reviews)

    @property
    def decisions(self) -> Counter[str]:
        """Decision, or score -> how often."""
        return Counter(review.decision if review.score is None else str(review.score) for review in self.reviews)

    @property
    def reasons(self) -> Counter[str]:
        """Reason of a rejection -> how often."""
        return Counter(review.reason for review in self.reviews if review.reason)

    def count(self, review: Review) -> None:
        """Take a decision of this call into account."""
        if review.decision == "undo":
            self.undone += 1
            self.reviews = [earlier for earlier in self.reviews if earlier.id != review.id]
        else:
            self.reviews.append(review)

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        accepted, inspected = self.sampled or (0, 0)
        sample = {"n": inspected, "accepted": accepted, "accuracy": accepted / max(1, inspected), "paper": PAPER}
        return {
            "folder": str(self.folder), "reviewer": self.reviewer, "asked": self.asked, "decided": self.decided,
            "undone": self.undone, "left": self.left, "decisions": dict(self.decisions),
            "reasons": dict(self.reasons), "sample": sample if inspected else None, "wrong": self.wrong,
            "notes": list(self.notes),
        }  # fmt: skip


def place_of(path: Path) -> tuple[Path, Manifest]:
    """The folder of a synthesis, from it or from its `items.jsonl`, and its manifest.

    Raises:
        RequestError: there is none.
    """
    folder = path.parent if path.name == ITEMS else path
    if not folder.is_dir():
        raise RequestError(f"{str(path)!r}: name the folder of a synthesis, or the {ITEMS} in it")
    manifest = read_manifest(folder, Manifest, "synthesis")
    if manifest is None:
        raise RequestError(f"{str(path)!r}: there is no manifest.json, so it is no synthesis")
    return folder, manifest


def drawn(items: Sequence[SynthItem], share: str | None, seed: int) -> list[SynthItem]:
    """The items to ask about: all, or a share of them such as `10%`, one at least, drawn by the seed.

    Raises:
        RequestError: the share is none.
    """
    if share is None:
        return list(items)
    match = _SHARE.fullmatch(share.strip())
    if match is None or not 0 < float(match[1]) <= 100:
        raise RequestError(f"--sample {share!r}: expected a share such as 10%")
    count = max(1, round(len(items) * float(match[1]) / 100))
    chosen = set(random.Random(seed).sample(range(len(items)), min(count, len(items))))
    return [item for place, item in enumerate(items) if place in chosen]


def review_items(path: Path, reviewer: str, share: str | None, seed: int, console: Console) -> Reviewed:
    """Ask about what this reviewer has not decided yet, and bring the benchmark's files up to date.

    Raises:
        RequestError: nothing is there to review, or the flags are wrong.
        TurnmarkError: the folder is in use.
    """
    folder, manifest = place_of(path)
    if not re.fullmatch(r"[\w.@ -]{1,60}", reviewer):
        raise RequestError(f"--reviewer {reviewer!r}: up to 60 letters, digits, '.', '_', '-', '@' and spaces")
    synthesis = open_synthesis(manifest.kind, manifest.options)
    scored = manifest.kind in SCORED
    with open_folder(folder, manifest) as opened:
        items = sorted(opened.items(), key=lambda item: (item.seed, item.id))
        if not items:
            raise RequestError(f"{str(path)!r}: there are no items to review")
        reviews = read_reviews(folder)

        def decided(item: SynthItem) -> bool:
            own = reviews.get(item.id, {}).get(reviewer)
            return own is not None and (own.score is not None or not scored)

        candidates = [item for item in items if share is None or not _out(reviews.get(item.id, {}), reviewer)]
        selected = drawn(candidates, share, seed)
        pending = [edited(item, edits_of(reviews.get(item.id, {}))) for item in selected if not decided(item)]
        outcome = Reviewed(folder, reviewer, len(selected), scored)
        by_id = {item.id: item for item in selected}
        prompt = _Prompt(manifest.kind, reviewer, share is not None, console, by_id, reviews)
        with closing(open_reviews(folder)) as journal:
            for review in prompt.decisions(pending, outcome.wrong):
                earlier = reviews.get(review.id, {}).get(reviewer)
                # An edit holds beside the score, or the edit, that follows it.
                if earlier is not None and earlier.edits and review.decision in ("edit", "score"):
                    review = review.model_copy(update={"edits": earlier.edits | review.edits})
                journal.append(review)
                take_in(reviews, review)
                outcome.count(review)
        outcome.notes = write_outputs(synthesis, opened, usage=usage_of(opened, Ledger())).notes
    outcome.left = sum(not decided(item) for item in selected)
    if share is not None:
        outcome.sampled = accuracy((item for item in selected if decided(item)), reviews, reviewer)
    return outcome


def _out(reviews: Mapping[str, Review], reviewer: str) -> bool:
    """Whether somebody else has rejected the item already, so that it is not among the data that a sample is of."""
    return any(is_against(review) for name, review in reviews.items() if name != reviewer)
