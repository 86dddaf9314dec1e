"""Exact counts over all stored passages; a ranking returns only the best few.

There is no index for counting: a scan of 100,000 passages takes about a second (docs/measured.md).
"""

from __future__ import annotations

import re
import time
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate, pairwise, zip_longest
from typing import Any, NamedTuple

from turnmark.core.errors import RequestError
from turnmark.core.grouping import group_pairs
from turnmark.corpora.tables.markdown_tables import cell_bars, cells_of, row_text
from turnmark.corpora.text.segmentation import UNSPACED_LETTER, combining_marks, fold_name
from turnmark.corpora.types import without_continued
from turnmark.retrieval.storage.filters import Where
from turnmark.retrieval.storage.joint_passages import Passages
from turnmark.retrieval.storage.passage_store import DocumentEntry, StoredText
from turnmark.retrieval.tables.row_finder import RowFinder, TableExcerpt

MAX_PATTERN_SECONDS = 5.0
"""Maximum time of a regular expression over all passages."""
MAX_PATTERN_CHARACTERS = 200
"""Maximum length of the words or the expression."""
MAX_LINES_PER_DOCUMENT = 20
"""Maximum number of returned lines per document."""
_MARKUP = str.maketrans("", "", "*_`\\")
_SLASHED_PATTERN = re.compile(r"/(.+)/", re.DOTALL)
_RECURSIVE_PATTERN = re.compile(r"\(\?(?:R|[+-]?\d|&|P>)")  # could use up the memory before the time limit


class MatchingLine(NamedTuple):
    """A line with a match.

    Attributes:
        passage: the id of its passage.
        start: offset of this passage in the document.
        text: the line, or the paragraph that it was wrapped from; a row of a large table has its labels before the
            cells.
        at: offset of the first match in the text.
    """

    document: str
    passage: str
    start: int
    section: str
    text: str
    at: int


@dataclass
class Occurrences:
    """Where words or a regular expression occur.

    Attributes:
        documents: number of documents that were scanned.
        times: document -> number of occurrences, in descending order.
        titles: document -> title, for these documents.
        sections: number of sections with an occurrence.
        line_count: number of lines with an occurrence.
        lines: at most `MAX_LINES_PER_DOCUMENT` lines of each document; first the first line of every document, then the
            second line of every document, and so on.
    """

    documents: int
    times: Mapping[str, int]
    titles: Mapping[str, str]
    sections: int
    line_count: int
    lines: list[MatchingLine]


@dataclass(frozen=True)
class Collection:
    """The passages of a store and the rows of its large tables under a filter, without the hidden ones."""

    store: Passages
    rows: Sequence[RowFinder] = ()
    hidden: frozenset[str] = frozenset()
    where: Where = ()

    def without(self, hidden: Iterable[str]) -> Collection:
        """Return the collection without these passages."""
        return replace(self, hidden=self.hidden | frozenset(hidden))

    def count(self) -> int:
        """Return the number of documents."""
        return len(self.documents()) if self.hidden or self.where else self.store.document_count

    def documents(self, where: Where = ()) -> list[DocumentEntry]:
        """Return the documents under a filter (`Query.where`), by id."""
        entries = self.store.documents((*self.where, *where))
        if not self.hidden:
            return entries
        counts = Counter(text.document for text in self.texts(where))
        return [row.model_copy(update={"passages": counts[row.document]}) for row in entries if row.document in counts]

    def containing(self, wanted: str, where: Where = ()) -> list[tuple[DocumentEntry, int]]:
        """Return the documents that contain all words, each with the number of its passages that contain any of them.

        Each row of a large table counts like a passage.
        """
        finders = [_words_finder(word) for word in _normalized_pattern(wanted).split()]
        matched: dict[str, set[int]] = {}
        counts: Counter[str] = Counter()
        for text, content in self._contents(where):
            here = {at for at, find in enumerate(finders) if next(find(content), None) is not None}
            if here:
                matched.setdefault(text.document, set()).update(here)
                counts[text.document] += 1
        rows = [row for row in self.documents(where) if len(matched.get(row.document, ())) == len(finders) > 0]
        return sorted(((row, counts[row.document]) for row in rows), key=lambda pair: -pair[1])

    def grep(self, wanted: str, where: Where = ()) -> Occurrences:
        """Count words, or `/a regular expression/`, in all documents, ignoring case.

        Words match as whole words in the given order, also across line breaks. A regular expression matches within a
        line, or a paragraph that was wrapped. If it takes longer than `MAX_PATTERN_SECONDS` over all passages, that is
        an error; a partial count is never returned.

        Raises:
            RequestError: `wanted` is empty or too long, or the regular expression is invalid or takes too long.
        """
        find = _finder_of(wanted)
        times: Counter[str] = Counter()
        sections: set[tuple[str, str]] = set()
        lines: dict[str, list[MatchingLine]] = {}
        titles: dict[str, str] = {}
        documents: set[str] = set()
        line_count = 0
        for text, content in self._contents(where):
            documents.add(text.document)
            starts = list(find(content))
            if not starts:
                continue
            times[text.document] += len(starts)
            section = without_continued(text.section)
            sections.add((text.document, section))
            titles[text.document] = text.title
            firsts: dict[tuple[int, int], int] = {}  # span of the line or paragraph -> offset of its first match
            for start in starts:
                firsts.setdefault(_paragraph_around(content, start), start)
            line_count += len(firsts)
            kept_lines = lines.setdefault(text.document, [])
            for (begin, end), start in list(firsts.items())[: MAX_LINES_PER_DOCUMENT - len(kept_lines)]:
                before = content[begin:start].lstrip()
                line, at = " ".join(content[begin:end].split("\n")).strip(), len(before)
                if text.header:
                    line, at = _label_row(line, text.header, at)
                kept_lines.append(MatchingLine(text.document, text.id, text.start, section, line, at))
        in_turns = [line for rank in zip_longest(*lines.values()) for line in rank if line is not None]
        return Occurrences(len(documents), dict(times.most_common()), titles, len(sections), line_count, in_turns)

    def texts(self, where: Where = ()) -> Iterator[StoredText]:
        """Yield all passages under a filter, a document after the other."""
        return (text for text in self.store.texts((*self.where, *where)) if text.id not in self.hidden)

    def _contents(self, where: Where) -> Iterator[tuple[StoredText, str]]:
        """Yield each passage with its text, and each row of the large tables.

        A document's first text is preceded by the title if it lacks it. If sections or pages are filtered, the title is
        left out, because it is part of none of them. The description of a large table and the first rows, which the
        text shows, are left out: all rows follow.
        """
        document = None
        all_where = (*self.where, *where)
        titled = not any(condition.key in ("section", "page") for condition in all_where)
        shown = group_pairs(each for finder in self.rows for each in finder.shown(all_where))
        for text in self.texts(where):
            first, document = text.document != document, text.document
            lacks_title = titled and first and text.title and not _contains_title(text.text, text.title)
            own = _remove_tables(text, shown[text.document]) if text.document in shown else text.text
            content = f"{text.title}\n{own}" if lacks_title else own
            yield text, content if content.isascii() else unicodedata.normalize("NFC", content)
        for finder in self.rows:
            for text in finder.texts(all_where):
                if text.id not in self.hidden:
                    yield text, text.text if text.text.isascii() else unicodedata.normalize("NFC", text.text)


def _remove_tables(text: StoredText, tables: Sequence[TableExcerpt]) -> str:
    """Return the text of a passage without the stretches that describe large tables, except their labels."""
    content = text.text
    for table in tables:
        first = min(max(table.start - text.start, 0), len(content))
        last = min(max(table.end - text.start, 0), len(content))
        kept = (line if line == table.head else "" for line in content[first:last].split("\n"))
        # Spaces keep the offsets for the next table.
        content = content[:first] + "\n".join(kept).ljust(last - first) + content[last:]
    return content


MIN_WRAPPED_CHARACTERS = 45
"""Minimum characters of a line that may have been wrapped, so that the next line continues it."""
_NEW_PARAGRAPH = re.compile(r"\s*(?:[-*+•#>|=`~]|\d+[.)]\s|$)|\s{4}")


def _paragraph_around(content: str, at: int) -> tuple[int, int]:
    """Return the span of the line at an offset, with the lines that it was wrapped from."""
    start, end = content.rfind("\n", 0, at) + 1, content.find("\n", at) % (len(content) + 1)
    while start and not _NEW_PARAGRAPH.match(content, start, end):
        before = content.rfind("\n", 0, start - 1) + 1
        if start - 1 - before < MIN_WRAPPED_CHARACTERS or _starts_code(content[before:start]):
            break
        start = before
    last = content.rfind("\n", 0, end) + 1
    while end < len(content) and end - last >= MIN_WRAPPED_CHARACTERS and not _starts_code(content[last:end]):
        after = content.find("\n", end + 1) % (len(content) + 1)
        if _NEW_PARAGRAPH.match(content, end + 1, after):
            break
        last, end = end + 1, after
    return start, end


def _starts_code(line: str) -> bool:
    """Return whether a line is a row of a table, a heading or code, which no other line continues."""
    return line.lstrip().startswith(("|", "#", "`", "~")) or line.startswith("    ")


def _label_row(row: str, header: str, at: int) -> tuple[str, int]:
    """Return a row of a table with the labels of its columns, and the offset there of what is at an offset of it."""
    names, cells = cells_of(header), cells_of(row)
    column = max(sum(1 for bar in cell_bars(row) if bar < at) - 1, 0)
    before = row_text(names, cells[:column])
    return row_text(names, cells), len(before) + 2 if before else 0


Finder = Callable[[str], Iterator[int]]
"""A function that yields the offset of each occurrence in a text."""


def _contains_title(text: str, title: str) -> bool:
    """Return whether a text contains a title as whole words, ignoring markup."""
    pieces = text.translate(_MARKUP).split(title.translate(_MARKUP) or title)
    return any(not before[-1:].isalnum() and not after[:1].isalnum() for before, after in pairwise(pieces))


def _normalized_pattern(wanted: str) -> str:
    """Return the words or expression to search for in NFC, as the texts are compared."""
    wanted = unicodedata.normalize("NFC", wanted.strip())
    if len(wanted) > MAX_PATTERN_CHARACTERS:
        raise RequestError(f"{wanted[:40]!r}… is longer than {MAX_PATTERN_CHARACTERS} characters; shorten it")
    return wanted


def _finder_of(wanted: str) -> Finder:
    wanted = _normalized_pattern(wanted)
    if slashed := _SLASHED_PATTERN.fullmatch(wanted):
        return _regex_finder(slashed[1])
    if not wanted:
        raise RequestError("the words to search for are empty")
    return _words_finder(wanted)


def _words_finder(wanted: str) -> Finder:
    parts = fold_name(wanted).split()
    before = "" if UNSPACED_LETTER.match(parts[0][0]) else rf"(?<![\w{combining_marks()}])"
    after = "" if UNSPACED_LETTER.match(parts[-1][-1]) else rf"(?![\w{combining_marks()}])"
    pattern = re.compile(before + r"\s+".join(map(re.escape, parts)) + after)

    def find(text: str) -> Iterator[int]:
        folded = fold_name(text)
        if all(part in folded for part in parts):
            starts = (match.start() for match in pattern.finditer(folded))
            yield from starts if len(folded) == len(text) else _unfold(text, starts)

    return find


def _unfold(text: str, starts: Iterable[int]) -> Iterator[int]:
    """Convert offsets in the folded text to offsets in the text itself: folding turns "ß" into two characters."""
    letters = [match.span() for match in _letter_pattern().finditer(text)]
    ends = list(accumulate(len(fold_name(text[start:end])) for start, end in letters))
    return (letters[bisect_right(ends, start)][0] for start in starts)


@cache
def _letter_pattern() -> re.Pattern[str]:
    """Return a pattern of a letter with its marks."""
    return re.compile(f".[{combining_marks()}\uff9e\uff9f]*", re.DOTALL)


_WRAPPED = re.compile(rf"(?<=[^\n]{{{MIN_WRAPPED_CHARACTERS}}})\n(?!{_NEW_PARAGRAPH.pattern})")
"""A line break inside a paragraph."""
_WHITE_SPACE = re.compile(r"(?<!\\)((?:\\\\)*)\\s")


def _regex_finder(written: str) -> Finder:
    import regex

    pattern = _compile(written)
    spent = 0.0  # processor time, since other programs must not make an expression fail

    def find(text: str) -> Iterator[int]:
        nonlocal spent
        began, left = time.thread_time(), MAX_PATTERN_SECONDS - spent
        text = _WRAPPED.sub(" ", text)
        try:
            if left <= 0:
                raise TimeoutError
            if pattern.search(text, timeout=left, concurrent=True) is None:  # takes half the time of `finditer`
                return
            for match in pattern.finditer(text, timeout=left, concurrent=True):
                if match.end() > match.start():
                    yield match.start()
        except (TimeoutError, MemoryError, regex.error):
            raise RequestError(
                f"/{written}/ took longer than {MAX_PATTERN_SECONDS:g} s; use plain words or a simpler expression"
            ) from None
        finally:
            spent += time.thread_time() - began

    return find


@lru_cache(maxsize=32)
def _compile(written: str) -> Any:
    import regex

    if _RECURSIVE_PATTERN.search(written):
        raise RequestError(f"/{written}/ is recursive; use plain words or a simpler expression")
    try:
        return regex.compile(_WHITE_SPACE.sub(r"\1\\h", written), regex.IGNORECASE | regex.MULTILINE)
    except (regex.error, RecursionError, OverflowError, MemoryError, ValueError) as error:
        raise RequestError(f"/{written}/ is not a valid regular expression: {error}") from None
