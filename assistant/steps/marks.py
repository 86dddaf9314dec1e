"""How the texts of a turn are read: a reply's citation marks (`[1]`, `[1, 2]`, `[2-4]`), its sentences with them, and
"I don't know"; a passage's sentences, list items, table rows and code, with the headings above them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from turnmark.corpora.text import heading_text, list_items, plain, sentences, strip_citations, words
from turnmark.corpora.types import CONTINUED, Passage

_NUMBER_OR_RANGE = r"\d{1,3}(?:\s*[–-]\s*\d{1,3})?"
MARK = re.compile(rf"\[({_NUMBER_OR_RANGE}(?:\s*,\s*{_NUMBER_OR_RANGE})*)\]")
CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)


def cited_numbers(text: str) -> list[int]:
    """The numbers of all citation marks of a text outside code, in order: `[1]`, `[1, 2]` and `[2-4]`."""
    numbers: list[int] = []
    for match in MARK.finditer(CODE.sub(" ", text)):
        for part in match.group(1).split(","):
            first, _, last = part.replace("–", "-").partition("-")
            begin, end = int(first), int(last or first)
            numbers += range(begin, end + 1) if begin <= end <= begin + 50 else [begin, end]
    return numbers


def escape_marks(text: str) -> str:
    """A passage's text with its own `[2]` written `(2)`, so that a model cannot take it for one of our citations.

    Code stays as it is: it is there to be copied.
    """
    return "".join(piece if at % 2 else MARK.sub(r"(\1)", piece) for at, piece in enumerate(CODE.split(text)))


_LEADING_MARKS = re.compile(rf"(?:[ \t]*{MARK.pattern})+")
ITEM = re.compile(r"[-*•][ \t]+|\d{1,3}[.)][ \t]+")
"""The mark with which a list item begins."""


def without_item_mark(text: str) -> str:
    """A list item without the mark that it begins with; "see step 3. below" keeps its own."""
    match = ITEM.match(text)
    return text[match.end() :] if match else text


@dataclass(frozen=True)
class Piece:
    """A sentence with the white space before it. The pieces of a text, put together, are the text."""

    gap: str
    text: str


def pieces_of(text: str) -> list[Piece]:
    """The sentences of a text; put together, gaps included, they are the text."""
    spans = sentences(text)
    pieces: list[Piece] = []
    at = 0
    for n, (start, end) in enumerate(spans):
        start = max(start, at)
        # "It floats. [1] It sinks.": the mark belongs to the sentence before it.
        follower = spans[n + 1] if n + 1 < len(spans) else None
        if follower and "\n" not in text[end : follower[0]] and (marks := _LEADING_MARKS.match(text, end)):
            end = min(marks.end(), follower[1])
        start += len(text[start:end]) - len(text[start:end].lstrip())
        if start < end:
            pieces.append(Piece(text[at:start], text[start:end]))
            at = end
    return pieces


_LONGEST_UNKNOWN = 3  # sentences
_SOURCES = "(?:passages?|documents?|sources?|texts?|context|material|excerpts?|information)"
_THE_SOURCES = rf"(?:the|these|those|your) (?:(?:provided|given|available|numbered|retrieved|supplied) )*{_SOURCES}"
_FACTS = "(?:(?:any|enough|sufficient|the|specific|that|an) )*(?:information|answers?|data|details?|knowledge|mention)"
_TELL = (
    "(?:(?:actually|explicitly|directly|specifically) )?(?:say|state|mention|contain|include|provide|hold|give|specify|"
    f"cover|address|answer|discuss|describe|explain|tell|indicate|(?:have|offer) {_FACTS})s?"
)
_IS_GIVEN = "(?:mentioned|stated|specified|provided|given|covered|found|answered|determined|available)"
_OPENING = (
    "(?:(?:i'm|i am) (?:sorry|afraid),?(?: but| that)? |(?:sorry|unfortunately|apologies),?(?: but)? |"
    "(?:based on|according to|from|in) [^,.]{1,60}, )*"
)
_CLAIMS = (
    "(?:i|we) (?:do not|don't|did not|didn't) (?:actually |currently |really )?know(?! of)",
    f"(?:i|we) (?:do not|don't) (?:currently )?have {_FACTS}",
    "(?:i|we) (?:cannot|can't|could not|couldn't|did not|didn't|am unable to|was unable to) "
    "(?:find|answer|say|tell|determine)",
    rf"{_THE_SOURCES} (?:i was given |provided |available |above )?"
    rf"(?:do not|does not|don't|doesn't|did not|didn't) {_TELL}",
    rf"none of {_THE_SOURCES} {_TELL}",
    r"(?:there is|there's) (?:no|not enough|insufficient) (?:specific )?(?:information|mention|answer)"
    r"(?= (?:in|about|on|regarding|of|for|to|that|as to|available|provided|given)\b|[.,;]|$)",
    rf"no (?:specific )?(?:information|answer|mention) (?:\w+ ){{0,6}}?(?:is|was|can be|could be) {_IS_GIVEN}",
    rf"(?:this|that|it|the answer) (?:is not|isn't|cannot be|can't be) {_IS_GIVEN}"
    rf"(?= (?:in|by|from) {_THE_SOURCES}|[.]?$)",
)
_UNKNOWN = re.compile(rf"{_OPENING}(?:{'|'.join(_CLAIMS)})(?!\w)")
_HOWEVER = re.compile(r"\b(?:but|however|although|though|yet)\b|;")


@lru_cache(maxsize=1024)
def says_unknown(text: str) -> bool:
    """Whether an English reply says, all in all, that it does not know. Kept: a conversation asks it at every turn.

    Short, opening with a sentence to that effect, and claiming nothing else from the passages: a reply that gives
    a part of the answer and names what is missing is an answer. Cautious, since a cited answer that is taken for
    "I don't know" loses its sources: "IPv6 is not available [1]" answers. Replies of other systems, which cite
    nothing, are read by `turnmark.evaluation.metrics.idk`.
    """
    parts = [" ".join(text[start:end].split()).replace("’", "'").lower() for start, end in sentences(text)]
    parts = [part for part in parts if any(char.isalnum() for char in strip_citations(part))]
    opening = _UNKNOWN.match(parts[0]) if parts else None
    if opening is None or len(parts) > _LONGEST_UNKNOWN:
        return False
    turn = _HOWEVER.search(parts[0], opening.end())
    if turn and cited_numbers(parts[0][turn.end() :]):
        return False
    return not any(cited_numbers(part) for part in parts[1:] if not _UNKNOWN.match(part))


# --- the lines of a passage

Kind = Literal["sentence", "item", "row", "code", "heading"]


@dataclass(frozen=True)
class TextLine:
    """A sentence, list item, table row, block of code or heading of a passage.

    Attributes:
        start, end: characters of the passage's text.
        text: in plain words.
        section: headings above it, joined by ' › '.
        block: lines of one paragraph, list or table have one number.
    """

    kind: Kind
    start: int
    end: int
    text: str
    section: str
    block: int

    @property
    def size(self) -> int:
        """Words."""
        return len(words(self.text))


_CODE_BLOCK = re.compile(
    r"^(?P<mark>[ \t]{0,7}(?:`{3,}|~{3,}))[^\n]*\n.*?(?:^[ \t]{0,7}(?:`{3,}|~{3,})[ \t]*$|\Z)"
    r"|(?:(?<=\n\n)|\A)(?:(?: {4}|\t)(?![-*+•]|\d+[.)])[^\n]*(?:\n|\Z))+",
    re.MULTILINE | re.DOTALL,
)
_HEADING = re.compile(
    r"^ {0,3}(?P<marks>#{1,6})\s+(?P<marked>.*?)\s*#*\s*$"
    r"|^ {0,3}(?![-*+>|#]|\d{1,9}[.)])(?P<ruled>\S[^\n]{0,200})\n {0,3}(?P<rule>=+|-{2,})[ \t]*$",
    re.MULTILINE,
)
_ROW = re.compile(r"^[ \t]{0,3}\|[^\n]*$", re.MULTILINE)
_RULE = re.compile(r"[\s|:+=-]*")


@lru_cache(maxsize=512)
def lines_of(passage: Passage) -> tuple[TextLine, ...]:
    """The lines of a passage, in order. Kept: several steps of a turn look at the same passages."""
    text = passage.text
    code = [match.span() for match in _CODE_BLOCK.finditer(text)]
    headings = [match for match in _HEADING.finditer(text) if not _inside(match.start(), code)]
    rows = [match.span() for match in _ROW.finditer(text) if not _inside(match.start(), code)]
    items = [(item.start, item.end) for item in list_items(text) if not _inside(item.start, code)]
    spans: list[tuple[int, int, Kind]] = [(*match.span(), "heading") for match in headings]
    spans += [(start, end, "code") for start, end in code if not _inside(start, items)]
    spans += [(start, end, "row") for start, end in rows]
    spans += [(start, end, "item") for start, end in items]
    covered = [(start, end) for start, end, _ in spans]
    spans += [(start, end, "sentence") for start, end in sentences(text) if not _inside(start, covered)]
    names = _paths(passage, headings)
    lines: list[TextLine] = []
    block, before = 0, 0
    kind_before: Kind | None = None
    for start, end, kind in sorted(spans):
        gap = text[before:start]
        if kind != kind_before or (kind == "sentence" and gap.count("\n") > 1) or kind in ("heading", "code"):
            block += 1
        raw = text[start:end]
        words_of_line = heading_text(raw) if kind == "heading" else "" if _RULE.fullmatch(raw) else plain(raw)
        section = next((name for at, name in reversed(names) if at <= start), names[0][1])
        lines.append(TextLine(kind, start, end, words_of_line, section, block))
        before, kind_before = end, kind
    return tuple(lines)


def _inside(offset: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= offset < end for start, end in spans)


def _paths(passage: Passage, headings: list[re.Match[str]]) -> list[tuple[int, str]]:
    """From where in the text which path of headings holds."""
    section = passage.section.removesuffix(CONTINUED).rstrip()
    above = section.split(" › ") if section else []
    open_: list[tuple[int, str]] = []
    paths = [(0, section)]
    for match in headings:
        level = len(match["marks"]) if match["marks"] else 1 if match["rule"][0] == "=" else 2
        while open_ and open_[-1][0] >= level:
            open_.pop()
        open_.append((level, heading_text(match.group())))
        names = [name for _, name in open_ if name != passage.title and name not in above]
        paths.append((match.start(), " › ".join([*above, *names])))
    return paths
