"""Rate the lines that may answer, and choose the spans of a quotation around the best ones.

A span consists of adjacent lines of one section, with lists complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnmark.assistant.citations.marks import TextLine, lines_of
from turnmark.assistant.steps.retrieve.definitions import definition_share, is_entry
from turnmark.assistant.steps.retrieve.retrieve_sections import is_navigation, join_passages
from turnmark.assistant.steps.step_results import (
    PartEvidence,
)
from turnmark.assistant.steps.verify.claim_support import content_stems, language_of_sources, stems
from turnmark.corpora.text.languages import ENGLISH
from turnmark.corpora.types import Passage
from turnmark.retrieval.embedding.vector_cache import Embed
from turnmark.retrieval.types import Hit, Retriever, section_of

WORDS_WEIGHT, RANK_WEIGHT = 0.5, 0.4
"""Weights of the shared words and of the rank of the hit; the cosine of the line has weight 1. They were chosen on the
tuning halves of the conversations, and checked by the passages that are quoted on MTRAG (docs/measured.md)."""
DEFINITION_WEIGHT, STEPS_WEIGHT = 1.0, 0.2
"""Weights of a line's likeness to a definition, and of an item or code, if one is asked for or steps are."""
MAX_RATED_ROWS = 20
"""Maximum rated rows from the tables of `PartEvidence.tables`."""
MIN_RANKED_LENGTH = 6
"""Minimum length of a list of hits for ranking: the second of two hits ranks as high as the second of six."""
_STEPS = ("item", "code")


@dataclass(frozen=True)
class RatedLine:
    """A line of a hit and how well it matches the questions.

    Attributes:
        hit: 0-based position in the list of hits.
        score: higher is better; comparable within one list only.
    """

    hit: int
    line: TextLine
    score: float


def rate_lines(part: PartEvidence, embed: Embed | None, subject: str = "", asks_steps: bool = False) -> list[RatedLine]:
    """Rate every line of a part's hits that can answer, best first. Headings and lines of one word cannot answer.

    The score is the sum of the cosine with the mean of the part's wordings, the share of the part's words in the line
    (rare words count more), and the rank of the hit, because the retriever read the complete passage. Without an
    embedder the cosine counts as 0. The table rows that have most of the part's words rank like the first hit, because
    the retriever found the table, not the row.

    Args:
        subject: what the part asks the definition of, or "".
        asks_steps: whether it asks how something is done.
    """
    hits = [*part.hits, *part.tables]
    candidates = _candidate_lines(part.hits)
    ranks = [1 - position / max(len(part.hits), MIN_RANKED_LENGTH) for position, _ in candidates]
    rows = [(len(part.hits) + position, line) for position, line in _candidate_lines(part.tables) if line.kind == "row"]
    row_shares = word_shares(part, *_texts_and_headings(rows, hits))
    nearest = sorted(range(len(rows)), key=lambda number: -row_shares[number])[:MAX_RATED_ROWS]
    candidates += [rows[number] for number in nearest if row_shares[number] > 0]
    ranks += [1.0] * (len(candidates) - len(ranks))
    if not candidates:
        return []
    shares = word_shares(part, *_texts_and_headings(candidates, hits))
    embedded = [line.in_context(hits[position].passage.title) for position, line in candidates]
    cosines = _cosines(part, embedded, embed) if embed else [0.0] * len(candidates)
    scores = [
        cosine + WORDS_WEIGHT * share + RANK_WEIGHT * rank + STEPS_WEIGHT * (asks_steps and line.kind in _STEPS)
        for cosine, share, rank, (_, line) in zip(cosines, shares, ranks, candidates, strict=True)
    ]
    if subject:
        scores = [
            score + DEFINITION_WEIGHT * (definition_share(subject, line, passage) - is_entry(line, passage))
            for score, (position, line) in zip(scores, candidates, strict=True)
            for passage in (hits[position].passage,)
        ]
    ranked = sorted(range(len(candidates)), key=lambda number: (-scores[number], number))
    return [RatedLine(*candidates[number], scores[number]) for number in ranked]


def _candidate_lines(hits: Sequence[Hit]) -> list[tuple[int, TextLine]]:
    """Return the lines of hits that can answer, each with the position of its hit."""
    return [
        (position, line)
        for position, hit in enumerate(hits)
        for line in lines_of(hit.passage)
        if line.can_answer and line.size > 1
    ]


def _texts_and_headings(candidates: Sequence[tuple[int, TextLine]], hits: Sequence[Hit]) -> tuple[list[str], list[str]]:
    texts = [line.text for _, line in candidates]
    headings = [" › ".join(filter(None, (hits[position].passage.title, line.section))) for position, line in candidates]
    return texts, headings


def _wordings(part: PartEvidence) -> list[str]:
    """Return the texts that lines are compared with: the message as typed, its rewrite, and search phrases."""
    return list(dict.fromkeys((part.text, part.question, *part.phrases)))


def _cosines(part: PartEvidence, texts: Sequence[str], embed: Embed) -> list[float]:
    """Return the cosine of each text with the mean of the vectors of the part's wordings."""
    unique = list(dict.fromkeys(texts))
    wordings = _wordings(part)
    vectors = embed([*wordings, *unique])
    mean = sum(vectors[1 : len(wordings)], vectors[0]) / len(wordings)
    cosine_of = dict(zip(unique, map(float, vectors[len(wordings) :] @ mean), strict=True))
    return [cosine_of[text] for text in texts]


def word_shares(part: PartEvidence, texts: Sequence[str], headings: Sequence[str]) -> list[float]:
    """Return the share of the part's words in each text and its headings. Rare words weigh more."""
    language = language_of_sources([hit.passage.text for hit in part.hits], part.text)
    bags = [stems(f"{heading} {text}", language) for heading, text in zip(headings, texts, strict=True)]
    wordings = " ".join(_wordings(part))
    # English has a list of stop words, so all other words count.
    asked = stems(wordings, language) if language == ENGLISH else content_stems(wordings, language)
    # In one order, so that sums are reproducible.
    weights = {word: 1 / (1 + sum(word in bag for bag in bags)) ** 0.5 for word in sorted(asked)}
    total = sum(weights.values()) or 1.0
    return [sum(weight for word, weight in weights.items() if word in bag) / total for bag in bags]


MAX_BLOCK_WORDS, MAX_STEPS_WORDS = 220, 400
"""Maximum words of a list or table that is quoted completely, and of one for a message that asks for steps."""
MIN_SECOND_QUOTE_SCORE = 0.8
"""Minimum score of a line for a further span, as a share of the best score."""
MAX_ADJACENT_PASSAGES = 2
"""Maximum passages before and after a hit, within its section, into which a span may grow."""


@dataclass
class QuotedSpan:
    """Adjacent lines of one section to quote, with the best line for each part that they answer.

    Attributes:
        hit: its passage contains the lines; adjacent passages are joined if the lines span them.
        above: Markdown head of the table, if the span begins with one of its later rows; otherwise empty.
    """

    hit: Hit
    lines: tuple[TextLine, ...]
    best_lines: list[TextLine]
    above: str = ""

    @property
    def bounds(self) -> tuple[int, int]:
        """Start and end of the span, as character offsets in the passage."""
        return self.lines[0].start, self.lines[-1].end

    @property
    def text(self) -> str:
        """The quoted text."""
        return self.hit.passage.text[slice(*self.bounds)]

    @property
    def heading(self) -> str:
        """The heading path above the quotation."""
        return " › ".join(dict.fromkeys(filter(None, (self.hit.passage.title, self.lines[0].section))))

    def contains(self, hit: Hit, line: TextLine) -> bool:
        """Return whether the span contains a line of a hit."""
        start, end = self.bounds_in(hit.passage)
        return start <= line.start < end

    def bounds_in(self, passage: Passage) -> tuple[int, int]:
        """Return start and end of the span in another passage of its document; (0, 0) if the document differs."""
        if self.hit.passage.document != passage.document:
            return 0, 0
        offset = self.hit.passage.start - passage.start
        return self.bounds[0] + offset, self.bounds[1] + offset


def choose_spans(
    ranked: Sequence[RatedLine],
    hits: Sequence[Hit],
    count: int,
    words: int,
    earlier: Sequence[QuotedSpan] = (),
    retriever: Retriever | None = None,
    forward_first: bool = False,
) -> list[QuotedSpan]:
    """Return up to `count` spans around the best lines, from different sections or far apart in one.

    Args:
        ranked: rated lines, best first.
        words: approximate length of a span.
        retriever: finds the passages next to a hit, or None if a span ends where its passage ends.
        earlier: spans that other parts quote already. A span that contains a good line for this part is returned
            unchanged, and the line is added to its best lines.
        forward_first: see `_lines_around`.
    """
    chosen: list[QuotedSpan] = []
    # With navigation pages, the menu of a wiki answers "How do I reset my password?".
    pages = [row for row in ranked if not is_navigation(hits[row.hit].passage)] or ranked
    for row in pages:
        if len(chosen) == count or (chosen and row.score < MIN_SECOND_QUOTE_SCORE * pages[0].score):
            break
        hit = hits[row.hit]
        if any(other.contains(hit, row.line) for other in chosen):
            continue
        if shared := next((other for other in earlier if other.contains(hit, row.line)), None):
            shared.best_lines.append(row.line)
            chosen.append(shared)
            continue
        chosen.append(_span_around(row, hit, words, [*earlier, *chosen], retriever, forward_first))
    return chosen


def _span_around(
    row: RatedLine, hit: Hit, words: int, quoted: Sequence[QuotedSpan], retriever: Retriever | None, forward_first: bool
) -> QuotedSpan:
    """Return the span around a line of a hit; it may extend into adjacent passages of the section.

    Args:
        words, forward_first: see `_lines_around`.
        quoted: spans that are quoted already and are left out.
    """
    section = [hit.passage]
    if retriever is not None and row.line.kind != "row":
        section = section_of(hit.passage, retriever.neighbors(hit.passage))
        position = next(number for number, passage in enumerate(section) if passage.id == hit.passage.id)
        section = section[max(0, position - MAX_ADJACENT_PASSAGES) : position + MAX_ADJACENT_PASSAGES + 1]
    passage = join_passages(section)
    best = _line_at(passage, hit.passage.start + row.line.start)
    lines = _lines_around(best, lines_of(passage), words, [other.bounds_in(passage) for other in quoted], forward_first)
    start, end = passage.start + lines[0].start, passage.start + lines[-1].end
    passage = join_passages([part for part in section if part.start < end and start < part.end])
    lines = tuple(line for line in lines_of(passage) if start <= passage.start + line.start < end)
    best = _line_at(passage, hit.passage.start + row.line.start)
    whole = hit.model_copy(update={"passage": passage})
    return QuotedSpan(whole, lines, [best], _head_above(lines[0], passage))


def _line_at(passage: Passage, start: int) -> TextLine:
    """Return the line of a passage that contains a character, given by its offset in the document."""
    lines = lines_of(passage)
    return next((line for line in reversed(lines) if passage.start + line.start <= start), lines[0])


def _lines_around(
    best_line: TextLine,
    lines: Sequence[TextLine],
    words: int,
    quoted_spans: Sequence[tuple[int, int]],
    forward_first: bool,
) -> tuple[TextLine, ...]:
    """Return the lines around the best line: its list or table, then lines after and before it, within its section.

    Args:
        words: lines are added up to this length.
        quoted_spans: starts and ends of text that is quoted already and is left out.
        forward_first: whether all lines after it are added before those above it, since one step follows another.
    """
    best = lines.index(best_line)

    def fits(first: int, last: int, most: int) -> bool:
        chosen = lines[first : last + 1]
        return (
            0 <= first <= last < len(lines)
            and sum(line.size for line in chosen) <= most
            and all(line.kind != "heading" and line.section == best_line.section for line in chosen)
            and not any(start <= line.start < end for line in chosen for start, end in quoted_spans)
        )

    most = MAX_STEPS_WORDS if forward_first else MAX_BLOCK_WORDS
    leads = best_line.text.endswith((":", "：")) and best + 1 < len(lines) and lines[best + 1].kind == "item"
    first, last = _list_bounds(lines, best + leads, best + leads)
    if not fits(first, last, most):
        if best_line.kind == "row":
            return (best_line,)
        if forward_first and fits(first, best, most):
            words = most  # a person begins with the first step
        else:
            first = best
        last = best
    elif (first < last or leads) and fits(first - 1, last, sum(line.size for line in lines[first - 1 : last + 1])):
        first -= 1  # the sentence that introduces the list
    for steps in ((1,), (-1,)) if forward_first else ((1, -1),):
        growing = True
        while growing:
            growing = False
            for step in steps:
                low, high = (first, last + 1) if step > 0 else (first - 1, last)
                if fits(low, high, words):
                    first, last, growing = low, high, True
    while last > best and last + 1 < len(lines) and _names_what_follows(lines[last]):
        last -= 1
    low, high = _list_bounds(lines, first, last)
    if fits(low, high, most):
        first, last = low, high
    return tuple(lines[first : last + 1])


def _list_bounds(lines: Sequence[TextLine], first: int, last: int) -> tuple[int, int]:
    """Return the positions of the first and last line of a span that shows no list or table in part."""
    blocks = {line.block for line in (lines[first], lines[last]) if line.kind in ("item", "row")}
    inside = [at for at, line in enumerate(lines) if line.block in blocks]
    return min([first, *inside]), max([last, *inside])


def _names_what_follows(line: TextLine) -> bool:
    """Return whether a line only introduces those below it: a caption, a label such as "Tip", "Do as follows:"."""
    is_label = line.size <= 2 and not line.text.endswith(_SENTENCE_ENDS) and not any(map(str.isdigit, line.text))
    return line.kind == "caption" or (line.kind == "sentence" and (is_label or line.text.endswith((":", "："))))


_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", ")", "»", "”")


def _head_above(first: TextLine, passage: Passage) -> str:
    """Return the Markdown head of a row's table; empty for other lines."""
    if first.kind != "row":
        return ""
    head = [line for line in lines_of(passage) if line.kind == "head" and line.block == first.block]
    return passage.text[head[0].start : head[-1].end] if head else passage.header


def further_places(
    ranked: Sequence[RatedLine],
    hits: Sequence[Hit],
    shown: Sequence[QuotedSpan],
    limit: int,
    known: set[tuple[str, int]],
    said: set[str],
) -> list[tuple[Hit, TextLine]]:
    """Return the best lines that say more than their headings and repeat no quotation and no other line, each from
    another paragraph, list or table.

    Args:
        known: passages and blocks of the lines that were returned for earlier parts, which count for the limit; the
            new ones are added.
        said: lines that were returned for earlier parts; the new ones and those of `shown` are added.
    """
    places: list[tuple[Hit, TextLine]] = []
    named = frozenset(known)
    said |= {line.text for span in shown for line in span.lines}
    for row in ranked:
        hit = hits[row.hit]
        block = hit.passage.id, row.line.block
        is_new = block not in known and not is_navigation(hit.passage) and row.line.says_more(hit.passage.title)
        limit -= block in named
        is_new = is_new and row.line.text not in said and not any(span.contains(hit, row.line) for span in shown)
        if len(places) < limit and is_new:
            known.add(block)
            said.add(row.line.text)
            places.append((hit, row.line))
    return places
