"""The answer without a language model: quotations from the documents.

A quotation shows the heading path and a span, which is a run of adjacent lines of one section, with the best sentence
in bold. A second span follows if it adds to the first. Each span is shown as the document has it: no sentence is
shortened, and lines from different places are never joined.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from turnmark.assistant.citations.marks import ITEM_MARK, TextLine, lines_of, without_item_mark
from turnmark.assistant.steps.answer.answer_collection import answer_about_collection
from turnmark.assistant.steps.answer.answer_totals import answer_total
from turnmark.assistant.steps.retrieve.retrieve_sections import join_passages
from turnmark.assistant.steps.step_results import (
    Assessment,
    Draft,
    Evidence,
    PartEvidence,
    SourceList,
    UnderstoodMessage,
)
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.verify.claim_support import content_stems, language_of_sources, stems
from turnmark.assistant.types import GROUNDED_DECISIONS, Judgment, ProcedureStep
from turnmark.assistant.wording.reply_texts import UNKNOWN_TEXT, UNSURE_TEXT, in_language, not_found
from turnmark.core.untrusted import escape_marks, make_printable
from turnmark.corpora.text.languages import ENGLISH
from turnmark.corpora.types import Passage
from turnmark.retrieval.embedding.vector_cache import Embed
from turnmark.retrieval.types import Hit, Retriever, section_of

SPAN_WORDS, PROCEDURE_SPAN_WORDS = 150, 300
"""Approximate words of a span, and of one for a message that asks for steps. A list or table may be longer, since it is
kept complete."""
MAX_PARTS_WITH_TWO_SPANS = 2
"""Maximum parts of a message in which each part may get a second span."""
MAX_BLOCK_WORDS = 160
"""Maximum words of a list or table that is quoted completely."""
_NAVIGATION_PAGE = re.compile(r"(?:.*/)?_(?:menu|sidebar|navbar|nav|toc|header|footer)\.\w+", re.IGNORECASE)
"""The path of a page of a wiki or site that only has links. It is quoted only if there is nothing else."""
MIN_SECOND_QUOTE_SCORE = 0.8
"""Minimum score of a line for a further span, as a share of the best score."""
WORDS_WEIGHT, RANK_WEIGHT = 0.5, 0.4
"""Weights of the shared words and of the rank of the hit; the cosine of the line has weight 1. They were chosen on the
tuning halves of the conversations, and checked by the passages that are quoted on MTRAG (docs/measured.md)."""
TYPED_WEIGHT, CARRIED_WEIGHT, NUMBER_WEIGHT = 2.0, 0.5, 2.0
"""Weights of the message as typed (its rewrite has 1), of words that only the rewrite has (others have 1), and of
numbers in the message. They were chosen in the same way."""
MAX_RATED_ROWS = 20
"""Maximum rated rows from the tables of `PartEvidence.tables`."""
MAX_ADJACENT_PASSAGES = 2
"""Maximum passages before and after a hit, within its section, into which a span may grow."""
MIN_RANKED_LENGTH = 6
"""Minimum length of a list of hits for ranking: the second of two hits ranks as high as the second of six."""


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


def rate_lines(part: PartEvidence, embed: Embed | None) -> list[RatedLine]:
    """Rate every line of a part's hits that can answer, best first. Headings and lines of one word cannot answer.

    The score is the sum of the cosine with the mean of the part's wordings, the share of the part's words in the line
    (rare words count more), and the rank of the hit, because the retriever read the complete passage. Without an
    embedder the cosine counts as 0. The table rows that have most of the part's words rank like the first hit, because
    the retriever found the table, not the row.
    """
    hits = [*part.hits, *part.tables]
    candidates = _candidate_lines(part.hits)
    ranks = [1 - position / max(len(part.hits), MIN_RANKED_LENGTH) for position, _ in candidates]
    rows = [(len(part.hits) + position, line) for position, line in _candidate_lines(part.tables) if line.kind == "row"]
    row_shares = _word_shares(part, *_texts_and_headings(rows, hits))
    nearest = sorted(range(len(rows)), key=lambda number: -row_shares[number])[:MAX_RATED_ROWS]
    candidates += [rows[number] for number in nearest if row_shares[number] > 0]
    ranks += [1.0] * (len(candidates) - len(ranks))
    if not candidates:
        return []
    shares = _word_shares(part, *_texts_and_headings(candidates, hits))
    embedded = [line.in_context(hits[position].passage.title) for position, line in candidates]
    cosines = _cosines(part, embedded, embed) if embed else [0.0] * len(candidates)
    scores = [
        cosine + WORDS_WEIGHT * share + RANK_WEIGHT * rank
        for cosine, share, rank in zip(cosines, shares, ranks, strict=True)
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


def _weighted_wordings(part: PartEvidence) -> dict[str, float]:
    """Return the texts that lines are compared with, and their weights.

    The message as typed counts twice as much as its rewrite. If a model wrote search phrases, which use the terms of
    the documents, both count twice as much as each phrase.
    """
    weights = {part.text: TYPED_WEIGHT}
    weights.setdefault(part.question, TYPED_WEIGHT if part.phrases else 1.0)
    for phrase in part.phrases:
        weights.setdefault(phrase, 1.0)
    return weights


def _cosines(part: PartEvidence, texts: Sequence[str], embed: Embed) -> list[float]:
    """Return the cosine of each text with the mean of the vectors of the part's wordings."""
    unique = list(dict.fromkeys(texts))
    wordings = _weighted_wordings(part)
    vectors = embed([*wordings, *unique])
    weighted = [weight * vector for weight, vector in zip(wordings.values(), vectors, strict=False)]
    mean = sum(weighted[1:], weighted[0]) / sum(wordings.values())
    cosine_of = dict(zip(unique, map(float, vectors[len(wordings) :] @ mean), strict=True))
    return [cosine_of[text] for text in texts]


def _word_shares(part: PartEvidence, texts: Sequence[str], headings: Sequence[str]) -> list[float]:
    """Return the share of the part's words in each text and its headings.

    Rare words weigh more, numbers that were typed weigh still more, and words that were only carried over weigh less.
    """
    language = language_of_sources([hit.passage.text for hit in part.hits], part.text)
    bags = [stems(f"{heading} {text}", language) for heading, text in zip(headings, texts, strict=True)]
    typed = _stems_asked(part.text, language)
    carried = _stems_asked(part.question, language) - _stems_asked(" ".join((part.text, *part.phrases)), language)
    weights: dict[str, float] = {}
    for word in sorted(
        _stems_asked(" ".join(_weighted_wordings(part)), language)
    ):  # in a fixed order, so that sums are the same in each process
        weight = 1 / (1 + sum(word in bag for bag in bags)) ** 0.5
        if word in carried:
            weight *= CARRIED_WEIGHT
        elif word in typed and any(map(str.isdigit, word)):
            weight *= NUMBER_WEIGHT
        weights[word] = weight
    total = sum(weights.values()) or 1.0
    return [sum(weight for word, weight in weights.items() if word in bag) / total for bag in bags]


def _stems_asked(text: str, language: str) -> frozenset[str]:
    """Return the stems that lines are searched for. English has a list of stop words, so all other words count."""
    return stems(text, language) if language == ENGLISH else content_stems(text, language)


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
    good = [row for row in ranked if row is ranked[0] or row.score >= MIN_SECOND_QUOTE_SCORE * ranked[0].score]
    # Without this, the menu of a wiki answers "How do I reset my password?".
    pages = [row for row in good if not _NAVIGATION_PAGE.fullmatch(hits[row.hit].passage.as_stored().document)]
    for row in pages or good:
        if len(chosen) == count:
            break
        hit = hits[row.hit]
        if any(other.contains(hit, row.line) for other in chosen):
            continue
        if shared := next((other for other in earlier if other.contains(hit, row.line)), None):
            shared.best_lines.append(row.line)
            chosen.append(shared)
            continue
        quoted = [*earlier, *chosen]
        span = _span_around(row, hit, words, quoted, retriever, forward_first)
        if not chosen or _adds_words(span, quoted):
            chosen.append(span)
    return chosen


def _adds_words(span: QuotedSpan, quoted: Sequence[QuotedSpan]) -> bool:
    """Return whether more than a third of a span's words are new. Without this, a passage that only has the title of
    the page is quoted behind the page.
    """
    quoted_stems = {stem for other in quoted for line in other.lines for stem in stems(line.text)}
    span_stems = {stem for line in span.lines for stem in stems(line.text)}
    return len(span_stems - quoted_stems) > len(span_stems) / 3


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
    found = hit.passage.start - passage.start, hit.passage.end - passage.start
    lines = _lines_around(
        best, lines_of(passage), words, found, [other.bounds_in(passage) for other in quoted], forward_first
    )
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
    found: tuple[int, int],
    quoted_spans: Sequence[tuple[int, int]],
    forward_first: bool,
) -> tuple[TextLine, ...]:
    """Return the lines around the best line: its list or table, then lines after and before it, within its section.

    Args:
        words: lines are added up to this length.
        found: start and end of the passage that the search found; its lines are added first.
        quoted_spans: starts and ends of text that is quoted already and is left out.
        forward_first: whether all lines after it are added before those above it, since one step follows another.
    """
    best = lines.index(best_line)

    def free(position: int) -> bool:
        line = lines[position]
        inside = line.kind != "heading" and line.section == best_line.section
        return inside and not any(start <= line.start < end for start, end in quoted_spans)

    def size(first: int, last: int) -> int:
        return sum(line.size for line in lines[first : last + 1])

    first = last = best
    leads = best_line.text.endswith((":", "：")) and best + 1 < len(lines) and lines[best + 1].kind == "item"
    if best_line.kind in ("item", "row") or leads:
        listed = lines[best + leads].block
        block = [position for position, line in enumerate(lines) if line.block == listed]
        if size(block[0], block[-1]) <= MAX_BLOCK_WORDS and all(map(free, block)):
            first, last = block[0], block[-1]
            if first and free(first - 1):
                first -= 1  # the sentence that introduces the list
        elif best_line.kind == "row":
            return (best_line,)
    sides = (("after",), ("before",)) if forward_first else (("after", "before"),)
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


def format_span(span: QuotedSpan, number: int) -> str:
    """Format a span for the reply: the heading path, then the document's text with its best sentences in bold.

    Args:
        number: citation number `[n]` of the span.
    """
    passage = span.hit.passage
    start, end = span.bounds
    text = passage.text[start:end]
    for best in sorted(dict.fromkeys(span.best_lines), key=lambda line: -line.start):
        begin, stop = best.start - start, best.end - start
        if best.kind in ("sentence", "item"):
            text = text[:begin] + set_bold(text[begin:stop]) + text[stop:]
        elif best.kind == "row":
            text = text[:begin] + bold_row(text[begin:stop]) + text[stop:]
    *caption, head = span.above.rsplit("\n\n", 1)
    above = head if any(name in text for name in caption) else span.above
    text = "\n".join(filter(None, (above, _rows_before(span), text, _rows_after(span))))
    mark = f"\n[{number}]" if span.lines[-1].kind in ("code", "row") else f" [{number}]"
    heading = " › ".join(dict.fromkeys(filter(None, (passage.title, span.lines[0].section))))
    body = _EMPTY_QUOTES.sub("", escape_marks(make_printable(text))).strip("\n").rstrip() + mark
    return f"{escape_marks(heading)}  \n{body}" if heading else body  # two trailing spaces: a Markdown line break


OMITTED_ROWS = "| … |"
"""The row that replaces rows of a table that are not quoted."""


def _rows_before(span: QuotedSpan) -> str:
    """Return `OMITTED_ROWS` if a span begins below the first row of a table, else an empty text."""
    first = span.lines[0]
    if first.kind != "row":
        return ""
    block = [line for line in lines_of(span.hit.passage) if line.block == first.block]
    begins_here = block[0].kind == "head" or not span.hit.passage.header
    rows = [line for line in block if line.kind == "row"]
    return "" if begins_here and first == rows[0] else OMITTED_ROWS


def _rows_after(span: QuotedSpan) -> str:
    """Return `OMITTED_ROWS` if a span ends before the last row of a table in its passage, else an empty text."""
    last = span.lines[-1]
    if last.kind != "row":
        return ""
    block = [line for line in lines_of(span.hit.passage) if line.block == last.block]
    return "" if last == block[-1] else OMITTED_ROWS


def bold_row(text: str) -> str:
    """Set the cells of a table's row in bold; a cell with other asterisks stays unchanged."""
    pieces = []
    for piece in _CELL_BORDER.split(text):
        cell = _STRONG.sub(r"\2", piece.strip())
        marked = f"**{cell}**" if cell and cell != "|" and "*" not in cell else piece.strip()
        pieces.append(piece.replace(piece.strip(), marked, 1) if piece.strip() else piece)
    return "".join(pieces)


_CELL_BORDER = re.compile(r"((?<!\\)\|)")


def set_bold(text: str) -> str:
    """Set a sentence or list item in bold: its first paragraph, after the item mark and without emphasis inside.

    Text with a code fence is returned unchanged.
    """
    mark = _LINE_START.match(text)
    lead = mark.group() if mark else ""
    body, gap, rest = text[len(lead) :].rstrip().partition("\n\n")
    if "```" in body:
        return text
    plain = _EMPHASIS.sub("", body).strip()
    opening, inner, closing = _WIDE_MARKS.fullmatch(plain).groups()  # type: ignore[union-attr]
    return f"{lead}{opening}**{inner}**{closing}{gap}{rest}" if inner else text


_WIDE_MARKS = re.compile(r"([「『（《【“]*)(.*?)([。！？｡」』）》】”؟।]*)", re.DOTALL)
"""Punctuation of scripts without spaces around the text in bold. In CommonMark, "字**。字" ends no bold text."""
_LINE_START = re.compile(rf"(?:>\s*)*(?:{ITEM_MARK.pattern})?")
_EMPTY_QUOTES = re.compile(r"\A(?:[> \t]*\n)+|(?:\n[> \t]*)+\Z")
"""Empty lines, also of block quotations (`>`), at the start and end of a span."""
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_EMPHASIS = re.compile(r"\*+|(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)")


def list_steps(span: QuotedSpan, number: int) -> tuple[ProcedureStep, ...]:
    """Return the items of a quoted list as procedure steps; empty if it has fewer than two.

    Args:
        number: citation number `[n]` of the span.
    """
    items = [line for line in span.lines if line.kind == "item"]
    texts = [without_item_mark(line.text).strip() for line in items]
    return (
        tuple(ProcedureStep(step=escape_marks(text), citations=(number,)) for text in texts if text)
        if len(texts) > 1
        else ()
    )


class AnswerByQuotes:
    """Answer step without a model: quotations, unless the message asks for a count or about the collection itself."""

    name = "answer"

    def __call__(
        self, turn: Turn, understood: UnderstoodMessage, evidence: Evidence, assessment: Assessment, /
    ) -> Draft:
        draft = (
            answer_about_collection(turn, understood, assessment)
            or answer_total(turn, evidence, assessment)
            or quote_parts(turn, understood, evidence, assessment)
            or refuse(turn, evidence, assessment)
        )
        turn.stream(draft.text)
        return draft


def quote_parts(turn: Turn, understood: UnderstoodMessage, evidence: Evidence, assessment: Assessment) -> Draft | None:
    """Quote the documents for each part of a message, each span once; return None if nothing was found for any part."""
    sources = SourceList(evidence)
    parts = list(zip(evidence.parts, assessment.parts, strict=True))
    # A small model reads the quotations, so they stay short.
    forward_first = understood.understanding.wants_procedure and len(parts) == 1 and turn.generator is None
    shown: list[QuotedSpan] = []
    answers: list[str] = []
    new_by_part = []  # the spans that each part adds
    for part, judgment in parts:
        spans_of_part = _spans_for_part(turn, part, judgment, len(parts), shown, forward_first)
        new_by_part.append([span for span in spans_of_part if span not in shown])
        shown += new_by_part[-1]
        answers.append(" ".join(line.text for span in spans_of_part for line in span.lines))
    if not shown:
        return None
    numbers = dict(zip(map(id, shown), sources.number(span.hit for span in shown), strict=True))
    texts: list[str] = []
    for (part, judgment), new, answer in zip(parts, new_by_part, answers, strict=True):
        if new and judgment.decision == "partial":
            texts.append(in_language(UNSURE_TEXT, turn.language))
        texts += [format_span(span, numbers[id(span)]) for span in new]
        if not answer:
            texts.append(not_found(part.text, turn.language))
    steps = [list_steps(span, numbers[id(span)]) for span in shown]
    procedure = next(filter(None, steps), ())
    draft = Draft("\n\n".join(texts), assessment, procedure=procedure, answers=tuple(answers), claims="")
    return draft.with_sources(sources)


def _spans_for_part(
    turn: Turn,
    part: PartEvidence,
    judgment: Judgment,
    parts: int,
    earlier: Sequence[QuotedSpan],
    forward_first: bool,
) -> list[QuotedSpan]:
    """Return the spans to quote for one of some `parts`; see `choose_spans`."""
    if judgment.decision not in GROUNDED_DECISIONS or not part.hits:
        return []
    count = 2 if parts <= MAX_PARTS_WITH_TWO_SPANS else 1
    words = PROCEDURE_SPAN_WORDS if forward_first else SPAN_WORDS
    retriever = turn.retriever if turn.evidence is None else None  # nothing is added to given evidence
    return choose_spans(
        rate_lines(part, turn.embed), [*part.hits, *part.tables], count, words, earlier, retriever, forward_first
    )


def refuse(turn: Turn, evidence: Evidence, assessment: Assessment) -> Draft:
    """Return the refusal for a message that has no answerable part."""
    text = in_language(UNKNOWN_TEXT, turn.language)
    return Draft(text, assessment, evidence.hits, answers=("",) * len(evidence.parts))
