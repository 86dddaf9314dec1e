"""`turnwise synth review`: people accept, edit, reject or score what a synthesis made, one line a decision.

On a terminal each item is shown and asked for. Lines that come from elsewhere are decisions in the order of the items
that are still to be decided; a line that is none leaves its item undecided, and all such lines are told at the end.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from corpora.console import shown, stdin_is_terminal, stdin_lines
from corpora.errors import RequestError
from evaluation.folders import read_manifest
from evaluation.scoring import now
from evaluation.spending import Ledger
from evaluation.synth.finishing import finished
from evaluation.synth.folder import ITEMS, open_folder, read_lines
from evaluation.synth.jobs import usage_of
from evaluation.synth.kinds import kind_of
from evaluation.synth.records import Made, Manifest
from evaluation.synth.reviews import (
    BEST,
    REASONS,
    Review,
    accuracy,
    append_review,
    edited,
    edits_of,
    read_reviews,
    texts_of,
)

if TYPE_CHECKING:
    from rich.console import Console

PAPER = 0.9515
"""What the inspection of a tenth of InsCoQA found (section 3.2)."""
SCORED = ("compound-qa",)
"""Kinds whose items are scored 0, 1 or 2."""
EDITABLE: Mapping[str, re.Pattern[str]] = {
    "mtrag": re.compile(r"turns\.\d+\.(?:question|answer)"),
    "inscoqa": re.compile(r"history\.\d+\.[01]|question|answer|procedure\.\d+"),
    "compound-qa": re.compile(r"com_question|com_reference"),
    "kiwi": re.compile("question"),
}
"""Kind -> the places of the texts that people may change: what a model wrote, no labels and no documents."""
_ANY = re.compile(".*")
_UNSEEN = re.compile(r"(?:.*\.)?(?:planned\..*|document_id|id|ID|conversation|domain|writer|type)")
"""Places that say nothing about whether an item is good."""
SHOWN = 600
"""Characters of a text that are shown before `f` asks for all of it."""
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?)\s*%")
_HELP = {
    False: "a accept · e PLACE=TEXT or e {JSON} edit · r REASON [NOTE] reject · s skip · f in full · q quit",
    True: "0, 1 or 2 [NOTE] score · e PLACE=TEXT edit · s skip · f in full · q quit",
}


class NoDecision(Exception):
    """A line that decides nothing; says what was expected."""


@dataclass
class Reviewed:
    """What came of a review.

    Attributes:
        left: items that this reviewer has not decided, of those asked about.
        wrong: lines that were no decision.
    """

    folder: Path
    reviewer: str
    asked: int
    decided: int = 0
    left: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    sampled: tuple[int, int] | None = None
    wrong: list[str] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        good, of = self.sampled or (0, 0)
        return {
            "folder": str(self.folder),
            "reviewer": self.reviewer,
            "asked": self.asked,
            "decided": self.decided,
            "left": self.left,
            "decisions": dict(self.decisions),
            "reasons": dict(self.reasons),
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


def decision(
    line: str, item: Made, reviewer: str, scored: bool, sample: bool, editable: re.Pattern[str] = _ANY
) -> Review:
    """The decision that a line says.

    Args:
        editable: places that may be edited.

    Raises:
        NoDecision: it says none.
    """
    word, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    said: dict[str, Any] = {"id": item.id, "reviewer": reviewer, "sample": sample, "at": now()}
    if word in ("0", "1", "2") and scored:
        return Review(decision="score", score=int(word), note=rest, **said)
    if word in ("a", "accept") and not scored:
        return Review(decision="accept", note=rest, **said)
    if word in ("e", "edit") and rest:
        return Review(decision="edit", edits=_edits(rest, item, editable), **said)
    if word in ("r", "reject") and not scored:
        reason, _, note = rest.partition(" ")
        if reason not in REASONS:
            raise NoDecision(f"a rejection has a reason, one of: {', '.join(REASONS)}")
        return Review(decision="reject", reason=reason, note=note.strip(), **said)
    raise NoDecision(_HELP[scored])


def _edits(text: str, item: Made, editable: re.Pattern[str]) -> dict[str, str]:
    """`PLACE=TEXT`, or an object of them; only places that the item has and that may be edited."""
    if text.startswith("{"):
        found: dict[str, str]
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise NoDecision("an edit in JSON is one object: place -> text") from None
    else:
        place, equals, new = text.partition("=")
        found = {place.strip(): new.strip()} if equals else {}
    there = [place for place in texts_of(item.content) if editable.fullmatch(place)]
    if not found or not all(isinstance(new, str) and new.strip() for new in found.values()):
        raise NoDecision("an edit is PLACE=TEXT, or a JSON object of places and texts, none of them empty")
    strange = [place for place in found if place not in there]
    if strange:
        raise NoDecision(f"no text to edit at {', '.join(map(repr, strange))}; there are: {', '.join(there)}")
    return found


def review(path: Path, reviewer: str, share: str | None, seed: int, console: Console) -> Reviewed:
    """Ask about what this reviewer has not decided yet, and bring the benchmark's files up to date.

    Raises:
        RequestError: nothing is there to review, or the flags are wrong.
        TurnwiseError: the folder is in use.
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
        asking = _Asking(manifest.kind, reviewer, share is not None, console)
        for item, said in asking.decisions(pending, made):
            earlier = before.get(item.id, {}).get(reviewer)
            if earlier is not None and earlier.edits:  # it holds beside the score, or the edit, that follows it
                said = said.model_copy(update={"edits": earlier.edits | said.edits})
            append_review(folder, said)
            made.decided += said.decision != "edit" or not scored
            made.decisions[said.decision if said.score is None else str(said.score)] += 1
            if said.reason:
                made.reasons[said.reason] += 1
            before.setdefault(item.id, {})[reviewer] = said
        report = finished(kind, opened, None, notes=(), seconds=0.0, usage=usage_of(opened, Ledger()))
    made.left = sum(not decided(item) for item in asked)
    made.sampled = accuracy((item for item in asked if decided(item)), before, reviewer) if share is not None else None
    made.notes = report.notes
    return made


def _out(reviews: Mapping[str, Review], reviewer: str) -> bool:
    """Whether somebody else has rejected the item already, so that it is not among the data that a sample is of."""
    others = [one for name, one in reviews.items() if name != reviewer]
    return any(one.decision == "reject" or (one.score is not None and one.score != BEST) for one in others)


@dataclass(frozen=True)
class _Asking:
    """How one reviewer is asked about the items of a kind."""

    kind: str
    reviewer: str
    sample: bool
    console: Console

    @property
    def scored(self) -> bool:
        return self.kind in SCORED

    def decisions(self, pending: Sequence[Made], made: Reviewed) -> Iterator[tuple[Made, Review]]:
        """Each item that was decided, until the lines end."""
        terminal, lines = stdin_is_terminal(), enumerate(stdin_lines(), 1)
        for number, item in enumerate(pending, 1):
            if terminal:
                self._show(item, f"{number} of {len(pending)}", SHOWN)
            while True:
                if terminal:
                    self._say(f"[{_HELP[self.scored]}] ", end="")
                at, line = next(lines, (0, ""))
                word = line.strip()
                if not at or word in ("q", "quit"):
                    return
                if word in ("s", "skip"):
                    break
                if word in ("f", "full") and terminal:
                    self._show(item, "in full", None)
                    continue
                try:
                    said = decision(line, item, self.reviewer, self.scored, self.sample, EDITABLE[self.kind])
                    yield item, said
                    if said.decision != "edit" or not self.scored:  # what is scored is scored after its edit, too
                        break
                except (NoDecision, ValidationError) as error:
                    if not terminal:
                        made.wrong.append(f"line {at}: {shown(word[:80])!r} is no decision ({shown(error)})")
                        break
                    self._say(f"that is no decision: {error}")

    def _say(self, text: str, style: str = "", end: str = "\n") -> None:
        from evaluation.report.terminal import plain

        self.console.print(plain(text, style), soft_wrap=True, end=end)

    def _show(self, item: Made, title: str, most: int | None) -> None:
        """The texts of an item with their places; those that may be edited stand out."""
        self._say(f"— {item.id} ({title})", "bold")
        for place, text in texts_of(item.content).items():
            if not _UNSEEN.fullmatch(place):
                cut = text if most is None or len(text) <= most else text[:most] + " […]"
                self._say(f"{place}: {cut}", "bold" if EDITABLE[self.kind].fullmatch(place) else "")
