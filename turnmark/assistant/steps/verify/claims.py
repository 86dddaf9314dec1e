"""Find the sentences, list items and table rows of an answer that claim something, and what each of them cites."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from turnmark.assistant.citations.marks import ITEM_MARK, cited_numbers, spaced_sentences, without_item_mark
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.corpora.text.segmentation import ends_with_question_mark, strip_citations, words


@dataclass
class Claim:
    """A sentence, list item or table row of an answer, without marks, and the citation numbers in it.

    Attributes:
        counts: numbers of items that the answer enumerates here, which need no source.
    """

    text: str
    numbers: list[int]
    counts: frozenset[str] = frozenset()


_CODE = re.compile(r"^[ \t]*(?P<fence>```|~~~).*?(?:^[ \t]*(?P=fence)[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_TABLE_RULE = re.compile(r"\|?[\s:|-]*-[\s:|-]*")
_BOLD_TITLE = re.compile(r"\*\*[^*\d.。!！]+\*\*\s*[:：]?")
_FRAME_OF_LETTER = re.compile(
    r"[^\d\n]{1,60}[,，:：][*_]*(?:\n[^\d\n]{0,60})*|(?:[^\d\n]{0,60}\n)?\[[^\W\d][^\]\n]{0,40}\]"
)
"""A line of a letter, such as "Dear Ms. Smith,", or its end: "Best regards,", a name or "[Your name]"."""
_SUBJECT = re.compile(
    r"\W*(?:subject|betreff|objet|asunto|oggetto|assunto|onderwerp|temat|тема|konu|subiect|θέμα|perihal|chủ đề|เรื่อง"
    r"|विषय|الموضوع|موضوع|主题|件名|제목)\W*[:：].*",
    re.IGNORECASE,
)
_GREETING = re.compile(r"[^\d\n]{1,60}[,，:：]")
MAX_FRAME_WORDS = 9
"""Maximum words of a title, greeting or closing."""


def claims_of(text: str, unstated: Collection[str] = ()) -> list[Claim]:
    """Return every sentence, list item and row that claims something, with the citations in it or directly after it.

    Headings, heads of tables, code, questions, the frame of a letter, lines that only introduce what follows, and
    sentences that say what is not known claim nothing; the last two do if they cite.

    Args:
        unstated: sentences that a model marked as not stated in the documents.
    """
    claims: list[Claim] = []
    pieces = list(_pieces(_CODE.sub("", text)))
    plain = [strip_citations(piece).strip() for piece in pieces]
    cited = [bool(cited_numbers(piece)) for piece in pieces]
    for position, sentence in enumerate(plain):
        numbers = cited_numbers(pieces[position])
        following = plain[position + 1] if position + 1 < len(plain) else ""
        if not any(map(str.isalnum, sentence)):  # only marks, which belong to the sentence before
            if claims:
                claims[-1].numbers += numbers
        elif sentence.startswith("#") or (sentence.startswith("|") and _TABLE_RULE.fullmatch(following)):
            continue
        elif numbers or (sentence not in unstated and _claims_something(plain, position, cited)):
            claims.append(Claim(_without_number(plain, position), numbers, _counts(plain, position)))
    return claims


def _pieces(text: str) -> Iterator[str]:
    """Yield the rows of tables and the sentences between them."""
    for is_table, lines in groupby(text.split("\n"), lambda line: line.lstrip().startswith("|")):
        if is_table:
            yield from (line.strip() for line in lines)
        else:
            yield from (piece.text for piece in spaced_sentences("\n".join(lines)))


def _without_number(plain: Sequence[str], position: int) -> str:
    """Return an item without its mark, or a row without its borders and without its number among the rows."""
    if not plain[position].startswith("|"):
        return without_item_mark(plain[position])
    cells = [cell.strip() for cell in plain[position].strip("| ").split("|")]
    above = sum(1 for _ in takewhile(lambda line: line.startswith("|"), reversed(plain[:position])))
    row = above - 1  # of a table with a head and a rule
    return " | ".join(cells[1:] if len(cells) > 1 and cells[0].rstrip(".") == str(row) else cells)


def _claims_something(plain: Sequence[str], position: int, cited: Sequence[bool]) -> bool:
    """Return whether a sentence without citations claims something."""
    sentence = plain[position]
    if ends_with_question_mark(sentence) or is_refusal(sentence) or _SUBJECT.fullmatch(sentence):
        return False
    is_item = ITEM_MARK.match(sentence) is not None or sentence.startswith("|")
    if is_item or len(words(sentence)) > MAX_FRAME_WORDS:
        introduces = sentence.rstrip("*_ ").endswith((":", "：")) and position + 1 < len(plain)
        return not (introduces and (ITEM_MARK.match(plain[position + 1]) or plain[position + 1].startswith("|")))
    frame = _BOLD_TITLE.fullmatch(sentence) or _FRAME_OF_LETTER.fullmatch(sentence)
    return not (frame or _frames_letter(plain, position, cited))


def _frames_letter(plain: Sequence[str], position: int, cited: Sequence[bool]) -> bool:
    """Return whether a short sentence is the last line of a letter, or its first or last sentence between others.

    Such sentences hope that the reader is well. In a letter that cites nothing they may be what it says.
    """
    greeting = next((at for at, line in enumerate(plain[:3]) if _GREETING.fullmatch(line)), None)
    if greeting is None or re.search(r"\d", plain[position]):
        return False
    last = len(plain) - 1
    if position == last:
        return not plain[last].endswith((".", "。"))
    return any(cited) and position in (greeting + 1, last - 1)


_SEPARATOR = re.compile(r"[,;，；、]|\s(?:and|or|und|oder|et|ou|y|o|e|en|of|i|и|или|та|ve|și|dan)\s|和|及|と")


def _counts(plain: Sequence[str], position: int) -> frozenset[str]:
    """Return how many items a sentence enumerates after a colon, or how many items or rows follow it."""
    _, colon, items = plain[position].replace("：", ":").partition(":")
    if colon and items.strip():
        return frozenset((str(len(_SEPARATOR.split(items))),))
    rest = plain[position + 1 :]
    following = len(list(takewhile(lambda line: ITEM_MARK.match(line) or line.startswith("|"), rest)))
    has_head = any(_TABLE_RULE.fullmatch(line) for line in rest[:2])
    return frozenset((str(following - 2 * has_head),)) if following else frozenset()
