"""Decisions of people about made items, as lines: what a line says, and one item asked about after the other."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from turnmark.corpora.console import inert, stdin_is_terminal, stdin_lines
from turnmark.evaluation.scoring import now
from turnmark.evaluation.synth.records import Made
from turnmark.evaluation.synth.reviews import REASONS, Review, edited, edits_of, texts_of

if TYPE_CHECKING:
    from rich.console import Console

SCORED = ("compound-qa",)
"""Kinds whose items are scored 0, 1 or 2."""
EDITABLE: Mapping[str, re.Pattern[str]] = {
    "mtrag": re.compile(r"turns\.\d+\.(?:question|answer)"),
    "inscoqa": re.compile(r"history\.\d+\.[01]|question|answer|procedure\.\d+"),
    "compound-qa": re.compile(r"com_question|com_reference"),
}
"""Kind -> the places of the texts that people may change: what a model wrote, no labels and no documents."""
_ANY = re.compile(".*")
_UNSEEN = re.compile(r"(?:.*\.)?(?:planned\..*|document_id|id|ID|conversation|domain|writer|type)")
"""Places that say nothing about whether an item is good."""
SHOWN = 600
"""Characters of a text that are shown before `f` asks for all of it."""
_HELP = {
    False: "a accept · e PLACE=TEXT or e {JSON} edit · r REASON [NOTE] reject · u [ID] undo · s skip · f in full · "
    "q quit",
    True: "0, 1 or 2 [NOTE] score · e PLACE=TEXT edit · u [ID] undo · s skip · f in full · q quit",
}

_END = "nothing is left to decide: u ID undo · q or Enter ends"


class NoDecision(Exception):
    """A line that decides nothing; says what was expected."""


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


@dataclass(frozen=True)
class Asking:
    """How one reviewer is asked about the items of a kind.

    Attributes:
        asked: id -> item, as it was made, of all that are asked about, decided or not.
        reviews: what was decided so far; kept up to date by whoever takes the decisions.
    """

    kind: str
    reviewer: str
    sample: bool
    console: Console
    asked: Mapping[str, Made]
    reviews: Mapping[str, Mapping[str, Review]]

    @property
    def scored(self) -> bool:
        return self.kind in SCORED

    def decisions(self, pending: Sequence[Made], wrong: list[str]) -> Iterator[Review]:
        """Each decision, until the lines end. Those that are taken back are one too, and their items come next.

        Args:
            wrong: gets what is to be said of lines that are no decision; on a terminal that is said at once.
        """
        terminal, lines = stdin_is_terminal(), enumerate(stdin_lines(), 1)
        waiting, begun, done = deque(pending), {item.id for item in pending}, list[str]()
        seen: Made | None = None
        while True:
            item = waiting[0] if waiting else None
            if terminal and item is not None and item is not seen:
                self._show(item, f"{len(begun) - len(waiting) + 1} of {len(begun)}", SHOWN)
            seen = item
            if terminal:
                self._say(f"[{_HELP[self.scored] if item else _END}] ", end="")
            at, line = next(lines, (0, ""))
            word, _, rest = line.strip().partition(" ")
            undo = word in ("u", "undo")
            if not at or word in ("q", "quit") or (item is None and not undo and not (terminal and word)):
                return
            try:
                if undo:
                    said = self._undo(rest.strip(), done)
                    yield said
                    again = edited(self.asked[said.id], edits_of(self.reviews.get(said.id, {})))
                    waiting = deque([again, *(one for one in waiting if one.id != said.id)])
                    begun.add(said.id)
                    done = [one for one in done if one != said.id]
                elif item is None:
                    self._say("nothing is left to decide")
                elif word in ("f", "full") and terminal:
                    self._show(item, "in full", None)
                elif word in ("s", "skip"):
                    waiting.popleft()
                else:
                    said = decision(line, item, self.reviewer, self.scored, self.sample, EDITABLE[self.kind])
                    yield said
                    done.append(item.id)
                    if said.decision != "edit" or not self.scored:  # what is scored is scored after its edit, too
                        waiting.popleft()
            except (NoDecision, ValidationError) as error:
                if terminal:
                    self._say(f"that is no decision: {error}")
                    continue
                wrong.append(f"line {at}: {inert(line.strip()[:80])!r} is no decision ({inert(error)})")
                if waiting and not undo:
                    waiting.popleft()

    def _undo(self, name: str, done: Sequence[str]) -> Review:
        """Take back what was decided of an item, else the last decision of this call.

        Raises:
            NoDecision: there is none.
        """
        if not name and not done:
            raise NoDecision("nothing was decided yet in this call; u ID takes back what was decided before")
        name = name or done[-1]
        if name not in self.asked or self.reviewer not in self.reviews.get(name, {}):
            raise NoDecision(f"{inert(name)!r}: {self.reviewer} has decided nothing of it, or is not asked about it")
        return Review(id=name, reviewer=self.reviewer, decision="undo", sample=self.sample, at=now())

    def _say(self, text: str, style: str = "", end: str = "\n") -> None:
        from turnmark.evaluation.report.terminal import plain

        self.console.print(plain(text, style), soft_wrap=True, end=end)

    def _show(self, item: Made, title: str, most: int | None) -> None:
        """The texts of an item with their places; those that may be edited stand out."""
        self._say(f"— {item.id} ({title})", "bold")
        for place, text in texts_of(item.content).items():
            if not _UNSEEN.fullmatch(place):
                cut = text if most is None or len(text) <= most else text[:most] + " […]"
                self._say(f"{place}: {cut}", "bold" if EDITABLE[self.kind].fullmatch(place) else "")
