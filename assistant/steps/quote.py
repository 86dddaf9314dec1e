"""The answer without a language model: quotations from the documents.

A quotation shows the heading path and a stretch, that is, neighbouring lines of one section, with the best sentence in
bold. A second stretch follows if it adds to the first. Each stretch is shown as the document has it: no sentence is
shortened, and lines of different places are never joined.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from turnmark.assistant.refusal import UNKNOWN_TEXT, UNSURE_TEXT, not_found
from turnmark.assistant.steps.counting import count_mentions
from turnmark.assistant.steps.marks import ITEM, TextLine, lines_of, without_item_mark
from turnmark.assistant.steps.retrieve import join_passages
from turnmark.assistant.steps.support import stems
from turnmark.assistant.turn import Part, Turn
from turnmark.assistant.types import GROUNDED, Draft, ProcedureStep
from turnmark.core.untrusted import escape_marks, printable
from turnmark.corpora.types import Passage
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit, Retriever, section_of

WORDS, PART_WORDS, STEPS_WORDS = 150, 100, 300
"""Approximate words of a stretch: for a message with one part, with several, and with one that asks for steps. A list
or table is kept complete."""
MOST_PARTS = 2
"""Most parts that a message may have for each of them to get a second stretch."""
LONGEST_BLOCK = 160
"""Most words of a list or table that is quoted complete; of a longer one, only the rows around the best are."""
ROWS_AROUND = 2
"""Most rows of such a table before the best one, and after it."""
SECOND = 0.8
"""Least score of a line for a further stretch, as a share of the best score."""
_NAVIGATION = re.compile(r"(?:.*/)?_(?:menu|sidebar|navbar|nav|toc|header|footer)\.\w+", re.IGNORECASE)
"""Navigation pages of a wiki or site: quoted only if no other page scores high enough."""
WORDS_WEIGHT, RANK_WEIGHT = 0.5, 0.4
"""Weights of the shared words and of the rank of the hit; the cosine of the line has weight 1. Chosen on the tuning
halves of the conversations, and checked by which passages are quoted on MTRAG (docs/measured.md)."""
TYPED, CARRIED, NUMBERS = 2.0, 0.5, 2.0
"""Weights of the message as typed where its rewrite has 1, of words that only the rewrite has where others have 1, and
of numbers in the message. Chosen in the same way."""
MOST_ROWS = 20
"""Most rows of the tables further down that are rated."""
BESIDE = 2
"""Passages of its section before a hit, and after it, into which a stretch may grow."""
FEW = 6
"""Least length that a list of hits is ranked as having: the second of two ranks as high as the second of six."""


@dataclass(frozen=True)
class RatedLine:
    """A line of a hit, and how well it matches the questions.

    Attributes:
        hit: 0-based position in the list of hits.
        score: higher is better; comparable within one list only.
    """

    hit: int
    line: TextLine
    score: float


def rate_lines(part: Part, embed: Embed | None) -> list[RatedLine]:
    """Rate every line of a part's hits that can answer, best first; headings and lines of one word cannot.

    The score sums the cosine with the mean of the part's wordings, the share of its words that the line has (rare
    words count more), and the rank of the hit, because the retriever read the complete passage. Without an embedder
    the cosine counts as 0. Rows of the tables further down, those with most of the part's words, rank like the first
    hit, because the retriever found the table, not its row.
    """
    hits = [*part.hits, *part.tables]
    candidates = _lines(part.hits)
    ranks = [1 - position / max(len(part.hits), FEW) for position, _ in candidates]
    rows = [(len(part.hits) + position, line) for position, line in _lines(part.tables) if line.kind == "row"]
    row_shares = _shares(part, *_texts_and_headings(rows, hits))
    nearest = sorted(range(len(rows)), key=lambda number: -row_shares[number])[:MOST_ROWS]
    candidates += [rows[number] for number in nearest if row_shares[number] > 0]
    ranks += [1.0] * (len(candidates) - len(ranks))
    if not candidates:
        return []
    shares = _shares(part, *_texts_and_headings(candidates, hits))
    embedded = [line.in_context(hits[position].passage.title) for position, line in candidates]
    cosines = _cosines(part, embedded, embed) if embed else [0.0] * len(candidates)
    scores = [
        cosine + WORDS_WEIGHT * share + RANK_WEIGHT * rank
        for cosine, share, rank in zip(cosines, shares, ranks, strict=True)
    ]
    ranked = sorted(range(len(candidates)), key=lambda number: (-scores[number], number))
    return [RatedLine(*candidates[number], scores[number]) for number in ranked]


def _lines(hits: Sequence[Hit]) -> list[tuple[int, TextLine]]:
    """Return the lines of hits that can answer, each with the position of its hit."""
    return [
        (position, line)
        for position, hit in enumerate(hits)
        for line in lines_of(hit.passage)
        if line.says and line.size > 1
    ]


def _texts_and_headings(candidates: Sequence[tuple[int, TextLine]], hits: Sequence[Hit]) -> tuple[list[str], list[str]]:
    texts = [line.text for _, line in candidates]
    headings = [" › ".join(filter(None, (hits[position].passage.title, line.section))) for position, line in candidates]
    return texts, headings


def _wordings(part: Part) -> dict[str, float]:
    """Return the texts that lines are compared with, and their weights.

    What was typed counts twice as much as what it was understood to mean. A model's search phrases use the terms of the
    documents; beside them both count twice.
    """
    weights = {part.text: TYPED}
    weights.setdefault(part.question, TYPED if part.phrases else 1.0)
    for phrase in part.phrases:
        weights.setdefault(phrase, 1.0)
    return weights


def _cosines(part: Part, texts: Sequence[str], embed: Embed) -> list[float]:
    """Return the cosine of each text with the mean of the vectors of the part's wordings."""
    unique = list(dict.fromkeys(texts))
    wordings = _wordings(part)
    vectors = embed([*wordings, *unique])
    weighted = [weight * vector for weight, vector in zip(wordings.values(), vectors, strict=False)]
    mean = sum(weighted[1:], weighted[0]) / sum(wordings.values())
    cosine_of = dict(zip(unique, map(float, vectors[len(wordings) :] @ mean), strict=True))
    return [cosine_of[text] for text in texts]


def _shares(part: Part, texts: Sequence[str], headings: Sequence[str]) -> list[float]:
    """Return the share of the part's words that each text and its headings have.

    Rare words weigh more, numbers that were typed more still, and words that were only carried over less.
    """
    bags = [stems(f"{heading} {text}") for heading, text in zip(headings, texts, strict=True)]
    typed = stems(part.text)
    carried = stems(part.question) - stems(" ".join((part.text, *part.phrases)))
    weights: dict[str, float] = {}
    for word in sorted(stems(" ".join(_wordings(part)))):  # in one order, so that sums are the same in each process
        weight = 1 / (1 + sum(word in bag for bag in bags)) ** 0.5
        if word in carried:
            weight *= CARRIED
        elif word in typed and any(map(str.isdigit, word)):
            weight *= NUMBERS
        weights[word] = weight
    total = sum(weights.values()) or 1.0
    return [sum(weight for word, weight in weights.items() if word in bag) / total for bag in bags]


@dataclass
class Stretch:
    """Neighbouring lines of one section of a hit, and the best line for each part that they answer.

    Attributes:
        hit: its passage has the lines, joined from several if they go on there.
        above: Markdown head of the table whose later rows come first; empty if another line does.
    """

    hit: Hit
    lines: tuple[TextLine, ...]
    bests: list[TextLine]
    above: str = ""

    @property
    def span(self) -> tuple[int, int]:
        """Start and end of the stretch, in characters of the passage."""
        return self.lines[0].start, self.lines[-1].end

    def holds(self, hit: Hit, line: TextLine) -> bool:
        """Return whether the stretch contains a line of a hit."""
        start, end = self.span_in(hit.passage)
        return start <= line.start < end

    def span_in(self, passage: Passage) -> tuple[int, int]:
        """Start and end of the stretch, in characters of a passage of the same document; (0, 0) in another one."""
        if self.hit.passage.document != passage.document:
            return 0, 0
        offset = self.hit.passage.start - passage.start
        return self.span[0] + offset, self.span[1] + offset


def stretches(
    ranked: Sequence[RatedLine],
    hits: Sequence[Hit],
    count: int,
    words: int,
    earlier: Sequence[Stretch] = (),
    retriever: Retriever | None = None,
    onward: bool = False,
) -> list[Stretch]:
    """Return up to `count` stretches around the best lines, from different sections or far apart in one.

    Args:
        ranked: rated lines, best first.
        words: approximate length of a stretch.
        retriever: knows the neighbours of a passage; None: a stretch ends where its passage does.
        earlier: stretches that other parts quote already. One that contains a good line for this part is returned
            as it is, and the line joins its best lines.
        onward: see `_around`.
    """
    chosen: list[Stretch] = []
    good = [row for row in ranked if row is ranked[0] or row.score >= SECOND * ranked[0].score]
    outside_navigation = [row for row in good if not _NAVIGATION.fullmatch(hits[row.hit].passage.as_stored().document)]
    for row in outside_navigation or good:
        if len(chosen) == count:
            break
        hit = hits[row.hit]
        if any(other.holds(hit, row.line) for other in chosen):
            continue
        if shared := next((other for other in earlier if other.holds(hit, row.line)), None):
            shared.bests.append(row.line)
            chosen.append(shared)
            continue
        quoted = [*earlier, *chosen]
        stretch = _stretch(row, hit, words, quoted, retriever, onward)
        quoted_stems = {stem for other in quoted for line in other.lines for stem in stems(line.text)}
        stretch_stems = {stem for line in stretch.lines for stem in stems(line.text)}
        if not chosen or len(stretch_stems - quoted_stems) > len(stretch_stems) / 3:
            chosen.append(stretch)
    return chosen


def _stretch(
    row: RatedLine, hit: Hit, words: int, quoted: Sequence[Stretch], retriever: Retriever | None, onward: bool
) -> Stretch:
    """Return the stretch around a line of a hit; it may go on in the passages of its section beside the hit's.

    Args:
        words, onward: see `_around`.
        quoted: stretches that are quoted already and are left out.
    """
    section = [hit.passage]
    if retriever is not None and row.line.kind != "row":
        section = section_of(hit.passage, retriever.neighbors(hit.passage))
        position = next(number for number, passage in enumerate(section) if passage.id == hit.passage.id)
        section = section[max(0, position - BESIDE) : position + BESIDE + 1]
    passage = join_passages(section)
    best = _line_at(passage, hit.passage.start + row.line.start)
    found = hit.passage.start - passage.start, hit.passage.end - passage.start
    lines = _around(best, lines_of(passage), words, found, [other.span_in(passage) for other in quoted], onward)
    start, end = passage.start + lines[0].start, passage.start + lines[-1].end
    passage = join_passages([part for part in section if part.start < end and start < part.end])
    lines = tuple(line for line in lines_of(passage) if start <= passage.start + line.start < end)
    best = _line_at(passage, hit.passage.start + row.line.start)
    whole = hit.model_copy(update={"passage": passage})
    return Stretch(whole, lines, [best], _head_above(lines[0], passage))


def _line_at(passage: Passage, start: int) -> TextLine:
    """Return the line of a passage that holds a character of its document, given by its offset there."""
    lines = lines_of(passage)
    return next((line for line in reversed(lines) if passage.start + line.start <= start), lines[0])


def _around(
    best_line: TextLine,
    lines: Sequence[TextLine],
    words: int,
    found: tuple[int, int],
    quoted_spans: Sequence[tuple[int, int]],
    onward: bool,
) -> tuple[TextLine, ...]:
    """Return the lines around a line: its list or table, then lines after and before it, within its section.

    Args:
        words: lines are added up to this length.
        found: characters of the passage that the search found; lines in them are added first.
        quoted_spans: characters of the passage that are quoted already and are left out.
        onward: lines after it are added first, as far as they go, since one step follows another.
    """
    best = lines.index(best_line)

    def free(position: int) -> bool:
        line = lines[position]
        inside = line.kind != "heading" and line.section == best_line.section
        return inside and not any(start <= line.start < end for start, end in quoted_spans)

    def size(first: int, last: int) -> int:
        return sum(line.size for line in lines[first : last + 1])

    def is_row(position: int) -> bool:
        return 0 <= position < len(lines) and lines[position].kind == "row" and lines[position].block == best_line.block

    first = last = best
    leads = best_line.text.endswith((":", "：")) and best + 1 < len(lines) and lines[best + 1].kind == "item"
    if best_line.kind in ("item", "row") or leads:
        listed = lines[best + leads].block
        block = [position for position, line in enumerate(lines) if line.block == listed]
        if size(block[0], block[-1]) <= LONGEST_BLOCK and all(map(free, block)):
            first, last = block[0], block[-1]
            if first and free(first - 1):
                first -= 1  # the sentence that introduces the list
        elif best_line.kind == "row":
            for _ in range(ROWS_AROUND):
                last += is_row(last + 1) and free(last + 1) and size(first, last + 1) <= words
                first -= is_row(first - 1) and free(first - 1) and size(first - 1, last) <= words
            return tuple(lines[first : last + 1])
    sides = (("after",), ("before",)) if onward else (("after", "before"),)
    for directions, (begin, end) in product(sides, (found, (0, lines[-1].end))):
        growing = True
        while growing:
            growing = False
            for direction in directions:
                position = last + 1 if direction == "after" else first - 1
                if 0 <= position < len(lines) and begin <= lines[position].start < end and free(position):
                    low, high = min(first, position), max(last, position)
                    if size(low, high) <= words:
                        first, last, growing = low, high, True
    while last > best and last + 1 < len(lines) and _names_what_follows(lines[last]):
        last -= 1
    return tuple(lines[first : last + 1])


def _names_what_follows(line: TextLine) -> bool:
    """Whether a line says nothing without those below it: a caption, a label such as "Tip", "Do as follows:"."""
    is_label = line.size <= 2 and not line.text.endswith(_ENDS) and not any(map(str.isdigit, line.text))
    return line.kind == "caption" or (line.kind == "sentence" and (is_label or line.text.endswith((":", "："))))


_ENDS = (".", "!", "?", "…", "。", "！", "？", ")", "»", "”")


def _head_above(first: TextLine, passage: Passage) -> str:
    """Return the Markdown head of the table that a line is a row of; empty for other lines."""
    if first.kind != "row":
        return ""
    head = [line for line in lines_of(passage) if line.kind == "head" and line.block == first.block]
    return passage.text[head[0].start : head[-1].end] if head else passage.header


def show_stretch(stretch: Stretch, number: int) -> str:
    """Format a stretch for the reply: the heading path, then the document's text with its best sentences in bold.

    Args:
        number: citation number `[n]` of the stretch.
    """
    passage = stretch.hit.passage
    start, end = stretch.span
    text = passage.text[start:end]
    for best in sorted(dict.fromkeys(stretch.bests), key=lambda line: -line.start):
        begin, stop = best.start - start, best.end - start
        if best.kind in ("sentence", "item"):
            text = text[:begin] + bold(text[begin:stop]) + text[stop:]
        elif best.kind == "row":
            text = text[:begin] + bold_row(text[begin:stop]) + text[stop:]
    *caption, head = stretch.above.rsplit("\n\n", 1)
    above = head if any(name in text for name in caption) else stretch.above
    text = "\n".join(filter(None, (above, _rows_before(stretch), text, _rows_after(stretch))))
    mark = f"\n[{number}]" if stretch.lines[-1].kind in ("code", "row") else f" [{number}]"
    heading = " › ".join(dict.fromkeys(filter(None, (passage.title, stretch.lines[0].section))))
    body = _EMPTY_QUOTES.sub("", escape_marks(printable(text))).strip("\n").rstrip() + mark
    return f"{escape_marks(heading)}  \n{body}" if heading else body  # two spaces make a line break in Markdown


LEFT_OUT = "| … |"
"""Row in place of the rows of a table that are not quoted."""


def _rows_before(stretch: Stretch) -> str:
    """Return `LEFT_OUT` if a stretch begins below the first row of a table, else an empty text."""
    first = stretch.lines[0]
    if first.kind != "row":
        return ""
    block = [line for line in lines_of(stretch.hit.passage) if line.block == first.block]
    begins_here = block[0].kind == "head" or not stretch.hit.passage.header
    rows = [line for line in block if line.kind == "row"]
    return "" if begins_here and first == rows[0] else LEFT_OUT


def _rows_after(stretch: Stretch) -> str:
    """Return `LEFT_OUT` if a stretch ends above the last row that its passage has of a table, else an empty text."""
    last = stretch.lines[-1]
    if last.kind != "row":
        return ""
    block = [line for line in lines_of(stretch.hit.passage) if line.block == last.block]
    return "" if last == block[-1] else LEFT_OUT


def bold_row(text: str) -> str:
    """Set the cells of a table's row in bold; a cell with other asterisks stays unchanged."""
    pieces = []
    for piece in _BARS.split(text):
        cell = _STRONG.sub(r"\2", piece.strip())
        marked = f"**{cell}**" if cell and cell != "|" and "*" not in cell else piece.strip()
        pieces.append(piece.replace(piece.strip(), marked, 1) if piece.strip() else piece)
    return "".join(pieces)


_BARS = re.compile(r"((?<!\\)\|)")


def bold(text: str) -> str:
    """Set a sentence or list item in bold: its first paragraph, after the item mark and without emphasis inside.

    Text with a code fence is returned unchanged.
    """
    mark = _LEAD.match(text)
    lead = mark.group() if mark else ""
    body, gap, rest = text[len(lead) :].rstrip().partition("\n\n")
    if "```" in body:
        return text
    plain = _EMPHASIS.sub("", body).strip()
    return f"{lead}**{plain}**{gap}{rest}"


_LEAD = re.compile(rf"(?:>\s*)*(?:{ITEM.pattern})?")
_EMPTY_QUOTES = re.compile(r"\A(?:[> \t]*\n)+|(?:\n[> \t]*)+\Z")
"""Empty lines, also of block quotations (`>`), at the start and end of a stretch."""
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_EMPHASIS = re.compile(r"\*+|(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)")


def list_steps(stretch: Stretch, number: int) -> tuple[ProcedureStep, ...]:
    """Return the items of a quoted list as procedure steps; empty if it has fewer than two.

    Args:
        number: citation number `[n]` of the stretch.
    """
    items = [line for line in stretch.lines if line.kind == "item"]
    texts = [without_item_mark(line.text).strip() for line in items]
    return (
        tuple(ProcedureStep(step=escape_marks(text), citations=(number,)) for text in texts if text)
        if len(texts) > 1
        else ()
    )


class Quote:
    """Answer step: counts where words are mentioned if the message asks that, else quotes for each part of it."""

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        turn.draft = count_mentions(turn) or quotations(turn) or refuse(turn.parts)
        turn.stream(turn.draft.text)


def quotations(turn: Turn) -> Draft | None:
    """Quote the documents for each part of a message, each stretch once; None if nothing was found for any part."""
    shown: list[Stretch] = []
    texts: list[str] = []
    answers: list[str] = []
    new_by_part = []  # the stretches that each part adds
    count = 2 if len(turn.parts) <= MOST_PARTS else 1
    words = WORDS if len(turn.parts) == 1 else PART_WORDS
    # A small model reads the quotations: for it they stay short.
    onward = turn.understanding.wants_procedure and len(turn.parts) == 1 and turn.generator is None
    if onward:
        words = STEPS_WORDS
    for part in turn.parts:
        stretches_of_part = _for_part(turn, part, count, words, shown, onward)
        new_by_part.append([stretch for stretch in stretches_of_part if stretch not in shown])
        shown += new_by_part[-1]
        answers.append(" ".join(line.text for stretch in stretches_of_part for line in stretch.lines))
    if not shown:
        return None
    numbers = dict(zip(map(id, shown), turn.number(stretch.hit for stretch in shown), strict=True))
    for part, new, answer in zip(turn.parts, new_by_part, answers, strict=True):
        if new and part.judgement.decision == "partial":
            texts.append(UNSURE_TEXT)
        texts += [show_stretch(stretch, numbers[id(stretch)]) for stretch in new]
        if not answer:
            texts.append(not_found(part.text))
    steps = [list_steps(stretch, numbers[id(stretch)]) for stretch in shown]
    procedure = next(filter(None, steps), ())
    return Draft(text="\n\n".join(texts), procedure=procedure, answers=tuple(answers), claims="")


def _for_part(
    turn: Turn, part: Part, count: int, words: int, earlier: Sequence[Stretch], onward: bool
) -> list[Stretch]:
    if part.judgement.decision not in GROUNDED or not part.hits:
        return []
    retriever = turn.retriever if turn.evidence is None else None  # evidence that is handed in is never added to
    ranked = rate_lines(part, turn.embed)
    return stretches(ranked, [*part.hits, *part.tables], count, words, earlier, retriever, onward)


def refuse(parts: Sequence[Part]) -> Draft:
    """Return the answer if nothing was found for any part."""
    return Draft(text=UNKNOWN_TEXT, answers=("",) * len(parts))
