"""Exact counts over all stored passages, where a ranking returns only the best few.

There is no index for this: a scan of 100,000 passages takes about a second (docs/measured.md).
"""

from __future__ import annotations

import re
import time
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise, zip_longest
from typing import Any, NamedTuple

from turnmark.core.errors import RequestError
from turnmark.corpora.text import CJK, combining_marks
from turnmark.corpora.types import without_continued
from turnmark.retrieval.store import DocumentEntry, Passages, StoredText

PATTERN_SECONDS = 5.0
"""Most seconds that a regular expression may take over all passages."""
LONGEST_PATTERN = 200
"""Most characters of the words or the expression."""
KEPT = 20
"""Most lines of a document that are returned."""
# Chinese, Japanese, Thai, Lao, Burmese and Khmer put no space between words.
_UNSPACED = re.compile(f"[{CJK}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_SLASHED = re.compile(r"/(.+)/", re.DOTALL)
_RECURSIVE = re.compile(r"\(\?(?:R|[+-]?\d|&|P>)")  # may take all memory before any time is up


class MatchingLine(NamedTuple):
    """A line of a document that matches, the id of its passage, and where in the line the first match begins."""

    document: str
    passage: str
    section: str
    text: str
    at: int


@dataclass
class Occurrences:
    """Where words or a regular expression occur.

    Attributes:
        documents: number of documents that were scanned.
        times: document -> number of occurrences, most first.
        titles: document -> title, for these documents.
        sections: number of sections with an occurrence.
        line_count: number of lines with an occurrence.
        lines: at most `KEPT` lines of each document: the first line of every document, then the second of each.
    """

    documents: int
    times: Mapping[str, int]
    titles: Mapping[str, str]
    sections: int
    line_count: int
    lines: list[MatchingLine]


@dataclass(frozen=True)
class Collection:
    """The passages of a store, without those that are hidden."""

    store: Passages
    hidden: frozenset[str] = frozenset()

    def without(self, hidden: Iterable[str]) -> Collection:
        """Return the collection without these passages."""
        return replace(self, hidden=self.hidden | frozenset(hidden))

    def count(self) -> int:
        """Return the number of documents."""
        return len(self.documents()) if self.hidden else self.store.document_count

    def documents(self, where: Mapping[str, str] | None = None) -> list[DocumentEntry]:
        """Return the documents under a filter (`Query.where`), by id."""
        if not self.hidden:
            return self.store.documents(where)
        counts = Counter(text.document for text in self._texts(where))
        return [
            row.model_copy(update={"passages": counts[row.document]})
            for row in self.store.documents(where)
            if row.document in counts
        ]

    def holding(self, wanted: str, where: Mapping[str, str] | None = None) -> list[tuple[DocumentEntry, int]]:
        """Return the documents that contain all of some words, with the number of passages that contain any of them."""
        finders = [_by_words(word) for word in _short(wanted).split()]
        matched: dict[str, set[int]] = {}
        counts: Counter[str] = Counter()
        for text, content in self._contents(where):
            here = {at for at, find in enumerate(finders) if next(find(content), None) is not None}
            if here:
                matched.setdefault(text.document, set()).update(here)
                counts[text.document] += 1
        rows = [row for row in self.documents(where) if len(matched.get(row.document, ())) == len(finders) > 0]
        return sorted(((row, counts[row.document]) for row in rows), key=lambda pair: -pair[1])

    def grep(self, wanted: str, where: Mapping[str, str] | None = None) -> Occurrences:
        """Count words, or `/a regular expression/`, in all documents, ignoring case.

        Words match as whole words in this order, also across line breaks. A regular expression may take
        `PATTERN_SECONDS` over all passages; one that takes longer is an error, never a partial count.

        Raises:
            RequestError: `wanted` is empty, too long, not a regular expression, or one that takes too long.
        """
        find = _finder(wanted)
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
            firsts: dict[int, int] = {}  # number of a line -> where the first match in it begins
            for start in starts:
                firsts.setdefault(content.count("\n", 0, start), start)
            line_count += len(firsts)
            kept = lines.setdefault(text.document, [])
            for number, start in list(firsts.items())[: KEPT - len(kept)]:
                row = content.split("\n", number + 1)[number]
                indent = len(row) - len(row.lstrip())
                at = start - (content.rfind("\n", 0, start) + 1) - indent
                kept.append(MatchingLine(text.document, text.id, section, row.strip(), max(at, 0)))
        in_turns = [line for rank in zip_longest(*lines.values()) for line in rank if line is not None]
        return Occurrences(len(documents), dict(times.most_common()), titles, len(sections), line_count, in_turns)

    def _texts(self, where: Mapping[str, str] | None) -> Iterator[StoredText]:
        return (text for text in self.store.texts(where) if text.id not in self.hidden)

    def _contents(self, where: Mapping[str, str] | None) -> Iterator[tuple[StoredText, str]]:
        """Yield each passage with its text; the first text of a document begins with the title if it lacks it.

        A filter on sections or pages leaves out the title, which is in none of them.
        """
        document = None
        titled = not {"section", "page"} & set(where or ())
        for text in self._texts(where):
            first, document = text.document != document, text.document
            lacks_title = titled and first and text.title and not _says(text.text, text.title)
            content = f"{text.title}\n{text.text}" if lacks_title else text.text
            yield text, content if content.isascii() else unicodedata.normalize("NFC", content)


Find = Callable[[str], Iterator[int]]
"""Yields where in a text each occurrence begins."""


def _says(text: str, title: str) -> bool:
    """Whether a text has a title in it, as words of their own and whatever its markup."""
    pieces = _without_markup(text).split(_without_markup(title) or title)
    return any(not before[-1:].isalnum() and not after[:1].isalnum() for before, after in pairwise(pieces))


def _without_markup(text: str) -> str:
    for mark in "*_`\\":
        text = text.replace(mark, "")
    return text


def _short(wanted: str) -> str:
    """Return what is looked for as the texts are written: each accent in one character with its letter."""
    wanted = unicodedata.normalize("NFC", wanted.strip())
    if len(wanted) > LONGEST_PATTERN:
        raise RequestError(f"{wanted[:40]!r}… is longer than {LONGEST_PATTERN} characters; look for less of it")
    return wanted


def _finder(wanted: str) -> Find:
    wanted = _short(wanted)
    if slashed := _SLASHED.fullmatch(wanted):
        return _by_pattern(slashed[1])
    if not wanted:
        raise RequestError("nothing to look for")
    return _by_words(wanted)


def _by_words(wanted: str) -> Find:
    parts = wanted.casefold().split()
    before = "" if _UNSPACED.match(parts[0][0]) else rf"(?<![\w{combining_marks()}])"
    after = "" if _UNSPACED.match(parts[-1][-1]) else rf"(?![\w{combining_marks()}])"
    pattern = re.compile(before + r"\s+".join(map(re.escape, parts)) + after)

    def find(text: str) -> Iterator[int]:
        folded = text.casefold()
        if all(part in folded for part in parts):
            starts = (match.start() for match in pattern.finditer(folded))
            yield from starts if len(folded) == len(text) else _unfolded(text, starts)

    return find


def _unfolded(text: str, starts: Iterable[int]) -> Iterator[int]:
    """Yield where places in the folded text are in the text itself: folding makes "ß" two characters."""
    ends = list(accumulate(len(character.casefold()) for character in text))
    return (bisect_right(ends, start) for start in starts)


def _by_pattern(written: str) -> Find:
    import regex

    pattern = _compiled(written)
    ends = time.monotonic() + PATTERN_SECONDS

    def find(text: str) -> Iterator[int]:
        left = ends - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            for match in pattern.finditer(text, timeout=left, concurrent=True):
                if match.end() > match.start():
                    yield match.start()
        except (TimeoutError, MemoryError, regex.error):
            raise RequestError(
                f"/{written}/ took longer than {PATTERN_SECONDS:g} s; look for plain words, or a simpler expression"
            ) from None

    return find


@lru_cache(maxsize=32)
def _compiled(written: str) -> Any:
    import regex

    if _RECURSIVE.search(written):
        raise RequestError(f"/{written}/ calls itself; look for plain words, or a simpler expression")
    try:
        return regex.compile(written, regex.IGNORECASE | regex.MULTILINE)
    except (regex.error, RecursionError, OverflowError, MemoryError, ValueError) as error:
        raise RequestError(f"/{written}/ is no regular expression: {error}") from None
