"""`turnmark synth review`: people accept, edit, reject or score what a synthesis made, one line a decision.

On a terminal each item is shown and asked for. Lines that come from elsewhere are decisions in the order of the items
that are still to be decided; a line that is none leaves its item undecided, and all such lines are told at the end.
`u` takes a decision back, and its item is the next that is asked about.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.corpora.errors import RequestError
from turnmark.evaluation.folders import read_manifest
from turnmark.evaluation.spending import Ledger
from turnmark.evaluation.synth.asking import SCORED, Asking
from turnmark.evaluation.synth.finishing import finished
from turnmark.evaluation.synth.folder import ITEMS, open_folder, read_lines
from turnmark.evaluation.synth.jobs import usage_of
from turnmark.evaluation.synth.kinds import kind_of
from turnmark.evaluation.synth.records import Made, Manifest
from turnmark.evaluation.synth.reviews import (
    BEST,
    Review,
    accuracy,
    append_review,
    edited,
    edits_of,
    read_reviews,
    take_in,
)

if TYPE_CHECKING:
    from rich.console import Console

PAPER = 0.9515
"""What the inspection of a tenth of InsCoQA found (section 3.2)."""
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?)\s*%")


@dataclass
class Reviewed:
    """What came of a review.

    Attributes:
        undone: decisions that were taken back; what was decided in this call and taken back counts nowhere else.
        left: items that this reviewer has not decided, of those asked about.
        wrong: lines that were no decision.
    """

    folder: Path
    reviewer: str
    asked: int
    decided: int = 0
    undone: int = 0
    left: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    sampled: tuple[int, int] | None = None
    wrong: list[str] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    _own: dict[str, list[Review]] = field(default_factory=dict, repr=False)

    def count(self, said: Review, scored: bool) -> None:
        """Take a decision of this call into account."""
        if said.decision == "undo":
            self.undone += 1
            for one in self._own.pop(said.id, []):
                self._add(one, scored, -1)
        else:
            self._own.setdefault(said.id, []).append(said)
            self._add(said, scored, 1)

    def _add(self, said: Review, scored: bool, by: int) -> None:
        self.decided += by * (said.decision != "edit" or not scored)
        self.decisions[said.decision if said.score is None else str(said.score)] += by
        if said.reason:
            self.reasons[said.reason] += by

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        good, of = self.sampled or (0, 0)
        return {
            "folder": str(self.folder),
            "reviewer": self.reviewer,
            "asked": self.asked,
            "decided": self.decided,
            "undone": self.undone,
            "left": self.left,
            "decisions": dict(+self.decisions),
            "reasons": dict(+self.reasons),
            "sample": {"n": of, "accepted": good, "accuracy": good / of, "paper": PAPER} if of else None,
            "wrong": self.wrong,
            "notes": list(self.notes),
        }


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


def drawn(items: Sequence[Made], share: str | None, seed: int) -> list[Made]:
    """The items to ask about: all, or a share of them such as `10%`, one at least, drawn by the seed.

    Raises:
        RequestError: the share is none.
    """
    if share is None:
        return list(items)
    found = _SHARE.fullmatch(share.strip())
    if found is None or not 0 < float(found[1]) <= 100:
        raise RequestError(f"--sample {share!r}: a share such as 10% was expected")
    count = max(1, round(len(items) * float(found[1]) / 100))
    chosen = set(random.Random(seed).sample(range(len(items)), min(count, len(items))))
    return [item for place, item in enumerate(items) if place in chosen]


def review(path: Path, reviewer: str, share: str | None, seed: int, console: Console) -> Reviewed:
    """Ask about what this reviewer has not decided yet, and bring the benchmark's files up to date.

    Raises:
        RequestError: nothing is there to review, or the flags are wrong.
        TurnmarkError: the folder is in use.
    """
    folder, manifest = place_of(path)
    if not re.fullmatch(r"[\w.@ -]{1,60}", reviewer):
        raise RequestError(f"--reviewer {reviewer!r}: up to 60 letters, digits, '.', '_', '-', '@' and spaces")
    kind = kind_of(manifest.kind, manifest.options)
    items = sorted(read_lines(folder / ITEMS, Made), key=lambda item: (item.seed, item.id))
    if not items:
        raise RequestError(f"{str(path)!r}: there are no items to review")
    before = read_reviews(folder)
    scored = manifest.kind in SCORED

    def decided(item: Made) -> bool:
        own = before.get(item.id, {}).get(reviewer)
        return own is not None and (own.score is not None or not scored)

    there = [item for item in items if share is None or not _out(before.get(item.id, {}), reviewer)]
    asked = drawn(there, share, seed)
    pending = [edited(item, edits_of(before.get(item.id, {}))) for item in asked if not decided(item)]
    made = Reviewed(folder, reviewer, len(asked))
    with open_folder(folder, manifest) as opened:
        asking = Asking(manifest.kind, reviewer, share is not None, console, {one.id: one for one in asked}, before)
        for said in asking.decisions(pending, made.wrong):
            earlier = before.get(said.id, {}).get(reviewer)
            # An edit holds beside the score, or the edit, that follows it.
            if earlier is not None and earlier.edits and said.decision in ("edit", "score"):
                said = said.model_copy(update={"edits": earlier.edits | said.edits})
            append_review(folder, said)
            take_in(before, said)
            made.count(said, scored)
        report = finished(kind, opened, None, notes=(), seconds=0.0, usage=usage_of(opened, Ledger()))
    made.left = sum(not decided(item) for item in asked)
    made.sampled = accuracy((item for item in asked if decided(item)), before, reviewer) if share is not None else None
    made.notes = report.notes
    return made


def _out(reviews: Mapping[str, Review], reviewer: str) -> bool:
    """Whether somebody else has rejected the item already, so that it is not among the data that a sample is of."""
    others = [one for name, one in reviews.items() if name != reviewer]
    return any(one.decision == "reject" or (one.score is not None and one.score != BEST) for one in others)
