"""The answer without a language model: a quotation. The heading path, and a stretch of one section with its best
sentence in bold; a second one if it adds to the first. Nothing is mixed, cut or joined: what is shown can be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from turnmark.assistant.steps.marks import ITEM, TextLine, escape_marks, lines_of, without_item_mark
from turnmark.assistant.steps.support import stems
from turnmark.assistant.turn import UNKNOWN_TEXT, Part, Turn
from turnmark.assistant.types import GROUNDED, Draft, ProcedureStep
from turnmark.core.console import printable
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

WORDS, PART_WORDS = 150, 100
"""Of a stretch, about; the second if the message has parts. A list or a table in it stays complete."""
MOST_PARTS = 2
"""Parts of a message up to which each may get a second stretch."""
LONGEST_BLOCK = 160
"""Words of a list or table that is quoted complete; of a longer one, the rows around the best one."""
UNSURE = "I am not sure this answers it. The nearest I found:"
SECOND = 0.8
"""Share of the best score from which a second stretch is quoted."""
_NAVIGATION = re.compile(r"(?:.*/)?_(?:menu|sidebar|navbar|nav|toc|header|footer)\.\w+", re.IGNORECASE)
"""Pages of a wiki or site that hold its links: quoted only if no other page is as near."""
WORDS_WEIGHT, RANK_WEIGHT = 0.5, 0.4
"""Of the shared words, and of the rank of the hit, with 1 for the cosine of the line. Chosen on the tuning halves of
the conversations and checked by which passages are quoted on MTRAG (docs/measured.md)."""
FEW = 6
"""A shorter list of hits is rated as one of so many: the second of two is no worse than the second of six."""


@dataclass(frozen=True)
class RatedLine:
    """A line of a hit and how near it is to what is asked."""

    hit: int
    line: TextLine
    score: float


def rate_lines(questions: Sequence[str], hits: Sequence[Hit], embed: Embed | None) -> list[RatedLine]:
    """The lines of hits that can answer, nearest first.

    The score is the mean cosine with the questions, the share of their words (rare ones count more), and the rank of
    the hit, since what found it read the passage as a whole. Without an embedder there is no cosine.
    """
    pool = [
        (at, line)
        for at, hit in enumerate(hits)
        for line in lines_of(hit.passage)
        if line.kind != "heading" and line.size > 1
    ]
    if not pool:
        return []
    texts = [line.text for _, line in pool]
    above = [" › ".join(filter(None, (hits[at].passage.title, line.section))) for at, line in pool]
    ranks = [1 - at / max(len(hits), FEW) for at, _ in pool]
    shares = _shares(questions, texts, above)
    cosines = _cosines(questions, texts, embed) if embed else [0.0] * len(pool)
    scores = [
        cosine + WORDS_WEIGHT * share + RANK_WEIGHT * rank
        for cosine, share, rank in zip(cosines, shares, ranks, strict=True)
    ]
    ranked = sorted(range(len(pool)), key=lambda at: (-scores[at], at))
    return [RatedLine(*pool[at], scores[at]) for at in ranked]


def _cosines(questions: Sequence[str], texts: Sequence[str], embed: Embed) -> list[float]:
    """The cosine of each text with the mean of the questions."""
    unique = list(dict.fromkeys(texts))
    vectors = embed([*questions, *unique])
    question = vectors[: len(questions)].mean(axis=0)
    near = dict(zip(unique, map(float, vectors[len(questions) :] @ question), strict=True))
    return [near[text] for text in texts]


def _shares(questions: Sequence[str], texts: Sequence[str], above: Sequence[str]) -> list[float]:
    """The share of the questions' words that each text has, with its headings; a word in few texts counts more."""
    bags = [stems(f"{name} {text}") for name, text in zip(above, texts, strict=True)]
    needed = stems(" ".join(questions))
    weights = {word: 1 / (1 + sum(word in bag for bag in bags)) ** 0.5 for word in needed}
    total = sum(weights.values()) or 1.0
    return [sum(weights[word] for word in needed & bag) / total for bag in bags]


@dataclass
class Stretch:
    """Neighbouring lines of one section of a hit, and the best of them: one for each part that they answer."""

    hit: Hit
    lines: tuple[TextLine, ...]
    bests: list[TextLine]

    @property
    def span(self) -> tuple[int, int]:
        """Characters of the passage."""
        return self.lines[0].start, self.lines[-1].end

    def holds(self, hit: Hit, line: TextLine) -> bool:
        """Whether a line of a hit is in it."""
        return self.hit.passage.id == hit.passage.id and self.span[0] <= line.start < self.span[1]


def stretches(
    ranked: Sequence[RatedLine], hits: Sequence[Hit], count: int, words: int, earlier: Sequence[Stretch] = ()
) -> list[Stretch]:
    """Up to `count` stretches around the best lines, of different sections or far apart in one.

    Args:
        words: of a stretch, about.
        earlier: what is quoted for other parts; such a stretch is not quoted again, but this part's best line in it
            becomes one of its best.
    """
    chosen: list[Stretch] = []
    near = [row for row in ranked if row is ranked[0] or row.score >= SECOND * ranked[0].score]
    pages = [row for row in near if not _NAVIGATION.fullmatch(hits[row.hit].passage.document)]
    for row in pages or near:
        if len(chosen) == count:
            break
        hit = hits[row.hit]
        if any(other.holds(hit, row.line) for other in chosen):
            continue
        if same := next((other for other in earlier if other.holds(hit, row.line)), None):
            same.bests.append(row.line)
            chosen.append(same)
            continue
        known = [*earlier, *chosen]
        taken = [other.span for other in known if other.hit.passage.id == hit.passage.id]
        stretch = Stretch(hit, _around(row, lines_of(hit.passage), words, taken), [row.line])
        known_stems = {stem for other in known for line in other.lines for stem in stems(line.text)}
        new = {stem for line in stretch.lines for stem in stems(line.text)}
        if not chosen or len(new - known_stems) > len(new) / 3:
            chosen.append(stretch)
    return chosen


def _around(
    row: RatedLine, lines: Sequence[TextLine], words: int, taken: Sequence[tuple[int, int]]
) -> tuple[TextLine, ...]:
    """The stretch around a line: its list or table, then what follows and what precedes, within its section."""
    at = next(at for at, line in enumerate(lines) if line.start == row.line.start)

    def free(position: int) -> bool:
        line = lines[position]
        inside = line.kind != "heading" and line.section == row.line.section
        return inside and not any(start <= line.start < end for start, end in taken)

    def size(first: int, last: int) -> int:
        return sum(line.size for line in lines[first : last + 1])

    first = last = at
    if row.line.kind in ("item", "row"):
        block = [n for n, line in enumerate(lines) if line.block == row.line.block]
        if size(block[0], block[-1]) <= LONGEST_BLOCK and all(map(free, block)):
            first, last = block[0], block[-1]
            if first and free(first - 1):
                first -= 1  # what leads up to the list
    growing = True
    while growing:
        growing = False
        for position in (last + 1, first - 1):
            if 0 <= position < len(lines) and free(position):
                low, high = min(first, position), max(last, position)
                if size(low, high) <= words:
                    first, last, growing = low, high, True
    return tuple(lines[first : last + 1])


def show_stretch(stretch: Stretch, number: int) -> str:
    """A stretch as the reply shows it: the heading path, and the document's text, its best sentences in bold."""
    passage = stretch.hit.passage
    start, end = stretch.span
    text = passage.text[start:end]
    for best in sorted(dict.fromkeys(stretch.bests), key=lambda line: -line.start):
        if best.kind in ("sentence", "item"):
            begin, stop = best.start - start, best.end - start
            text = text[:begin] + bold(text[begin:stop]) + text[stop:]
    mark = f"\n[{number}]" if stretch.lines[-1].kind in ("code", "row") else f" [{number}]"
    heading = " › ".join(dict.fromkeys(filter(None, (passage.title, stretch.lines[0].section))))
    body = _EMPTY_QUOTES.sub("", escape_marks(printable(text))).strip("\n").rstrip() + mark
    return f"{escape_marks(heading)}  \n{body}" if heading else body  # two blanks: a line break in Markdown


def bold(text: str) -> str:
    """A sentence or list item in bold: its first paragraph, without the mark of the item and its emphasis."""
    mark = _LEAD.match(text)
    lead = mark.group() if mark else ""
    body, gap, rest = text[len(lead) :].rstrip().partition("\n\n")
    if "```" in body:
        return text
    plain = _EMPHASIS.sub("", body).strip()
    return f"{lead}**{plain}**{gap}{rest}"


_LEAD = re.compile(rf"(?:>\s*)*(?:{ITEM.pattern})?")
_EMPTY_QUOTES = re.compile(r"\A(?:[> \t]*\n)+|(?:\n[> \t]*)+\Z")
"""Lines of block quotations with nothing on them, before and behind a stretch."""
_EMPHASIS = re.compile(r"\*+|(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)")


def list_steps(stretch: Stretch, number: int) -> tuple[ProcedureStep, ...]:
    """The items of a quoted list."""
    items = [line for line in stretch.lines if line.kind == "item"]
    texts = [without_item_mark(line.text).strip() for line in items]
    return (
        tuple(ProcedureStep(step=escape_marks(text), citations=(number,)) for text in texts if text)
        if len(texts) > 1
        else ()
    )


class Quote:
    """The documents' own words for each part."""

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        turn.draft = quotations(turn) or nothing(turn.parts)
        turn.stream(turn.draft.text)


def quotations(turn: Turn) -> Draft | None:
    """What is quoted for the parts of a message, each stretch once; None if nothing was found for any."""
    shown: list[Stretch] = []
    texts: list[str] = []
    answers: list[str] = []
    new_by_part = []
    count = 2 if len(turn.parts) <= MOST_PARTS else 1
    words = WORDS if len(turn.parts) == 1 else PART_WORDS
    for part in turn.parts:
        stretches_of_part = _for_part(part, turn.embed, count, words, shown)
        new_by_part.append([stretch for stretch in stretches_of_part if stretch not in shown])
        shown += new_by_part[-1]
        answers.append(" ".join(line.text for stretch in stretches_of_part for line in stretch.lines))
    if not shown:
        return None
    numbers = dict(zip(map(id, shown), turn.number(stretch.hit for stretch in shown), strict=True))
    for part, new, answer in zip(turn.parts, new_by_part, answers, strict=True):
        if new and part.judgement.decision == "partial":
            texts.append(UNSURE)
        texts += [show_stretch(stretch, numbers[id(stretch)]) for stretch in new]
        if not answer:
            texts.append(not_found(part.text))
    steps = [list_steps(stretch, numbers[id(stretch)]) for stretch in shown]
    procedure = next(filter(None, steps), ())
    return Draft(text="\n\n".join(texts), procedure=procedure, answers=tuple(answers), claims="")


def _for_part(part: Part, embed: Embed | None, count: int, words: int, earlier: Sequence[Stretch]) -> list[Stretch]:
    if part.judgement.decision not in GROUNDED or not part.hits:
        return []
    wordings = tuple(dict.fromkeys((part.text, part.question)))
    # A model's phrases name what the documents call it; what was asked counts twice.
    questions = (*wordings, *wordings, *part.phrases) if part.phrases else wordings
    return stretches(rate_lines(questions, part.hits, embed), part.hits, count, words, earlier)


def nothing(parts: Sequence[Part]) -> Draft:
    """What is said if nothing was found for any part."""
    return Draft(text=UNKNOWN_TEXT, answers=("",) * len(parts))


def not_found(question: str) -> str:
    """What is said for a part that nothing was found for."""
    phrase = " ".join(question.split()).rstrip(" .!?…。！？")
    return f"I found nothing about “{phrase}”."
