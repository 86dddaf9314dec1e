"""What of the passages a model reads: of a long one the sentences and lists nearest to the question, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnmark.assistant.prompts import quoted
from turnmark.assistant.steps.marks import unmarked
from turnmark.assistant.steps.select import rated
from turnmark.assistant.steps.units import Unit, units_of
from turnmark.corpora.text import words
from turnmark.retrieval.given import Embed
from turnmark.retrieval.types import Hit

WORDS = 90
"""Of an excerpt, about: three are then 350 to 400 tokens. A passage of a third more is shown whole."""


@dataclass(frozen=True)
class Excerpt:
    """What is shown of a passage.

    Attributes:
        number: of its passage in the reply.
        head: its title and section; may be empty.
        text: its lines.
    """

    number: int
    head: str
    text: str

    def shown(self) -> str:
        """As a prompt shows it: its number, and quoted all that is the document's own."""
        body = "\n".join(filter(None, (self.head, self.text)))
        return f"[{self.number}]\n{quoted(unmarked(body))}"


def excerpts_of(
    asked: Sequence[tuple[str, str]],
    hits: Sequence[Hit],
    numbers: Sequence[int],
    embed: Embed | None,
    length: int = WORDS,
) -> list[Excerpt]:
    """An excerpt of each passage, best first.

    Args:
        asked: the questions, each as it was put and as it is rewritten; a sentence counts for the one it fits best.
        numbers: of the passages in the reply.
        embed: embeds sentences (unit vectors); None: shared words decide.
        length: words of an excerpt, about.
    """
    long = [hit for hit in hits if len(words(hit.passage.text)) > length * 4 // 3]
    pool = units_of(long)
    scores: dict[tuple[str, int], float] = {}
    if pool:
        titles = [" ".join(filter(None, (hit.passage.title, hit.passage.section))) for hit in long]
        for question in asked:
            measured = rated(question, pool, embed, titles)
            for unit, value in zip(measured.units, measured.direct(), strict=True):
                place = (unit.document, unit.at)
                scores[place] = max(scores.get(place, float(value)), float(value))
    made = []
    for hit, number in zip(hits, numbers, strict=True):
        own = [unit for unit in units_of([hit]) if (unit.document, unit.at) in scores] if hit in long else []
        head = " › ".join(dict.fromkeys(filter(None, (hit.passage.title, hit.passage.section))))
        text = _lines(_nearest(own, scores, length), head) if own else hit.passage.text.strip()
        made.append(Excerpt(number, head, text))
    return made


def _nearest(units: Sequence[Unit], scores: dict[tuple[str, int], float], length: int) -> list[Unit]:
    """The units to show: the best blocks that there is room for, in reading order."""
    blocks = _blocks(units)
    order = sorted(blocks, key=lambda block: -max(scores[unit.document, unit.at] for unit in block))
    chosen: list[Unit] = []
    room = length
    for block in order:
        for unit in block:
            size = len(words(unit.text))
            if chosen and size > room:
                break
            chosen.append(unit)
            room -= size
        if room <= 0:
            break
    return sorted(chosen, key=lambda unit: unit.at)


def _blocks(units: Sequence[Unit]) -> list[list[Unit]]:
    """Sentences by themselves, and lists with the sentence that leads up to them."""
    blocks: list[list[Unit]] = []
    for unit in units:
        last = blocks[-1] if blocks else []
        if unit.item and last and (last[-1].item or last[-1].text.endswith((":", "："))):
            last.append(unit)
        else:
            blocks.append([unit])
    return blocks


def _lines(units: Sequence[Unit], head: str) -> str:
    """The units as text: sentences run on, list items have lines of their own, headings that the head lacks as well."""
    lines: list[str] = []
    running = False
    heading = ""
    for unit in units:
        if unit.heading and unit.heading != heading:
            heading, running = unit.heading, False
            if heading not in head:
                lines.append(f"{heading}:")
        if unit.item:
            lines.append(f"{f'{unit.number}.' if unit.number is not None else '-'} {unit.text}")
            running = False
        elif running:
            lines[-1] += f" {unit.text}"
        else:
            lines.append(unit.text)
            running = True
    return "\n".join(lines)
