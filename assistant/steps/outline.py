"""A reply as what it consists of: paragraphs of sentences, and the items of its list. Citation marks stay with both."""

from __future__ import annotations

import re

from turnmark.assistant.steps.marks import MARK, cited
from turnmark.assistant.steps.numbered import ITEM
from turnmark.assistant.steps.operations import pieces_of
from turnmark.assistant.types import Draft, Step
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Record

_MARKS_AT_END = re.compile(rf"\s*((?:{MARK.pattern}\s*)*)$")


class Outline(Record):
    """A reply in parts: what stands before its list, the items without their marks, what stands behind it."""

    before: tuple[tuple[str, ...], ...] = ()
    items: tuple[str, ...] = ()
    after: tuple[tuple[str, ...], ...] = ()
    numbered: bool = False

    @property
    def paragraphs(self) -> tuple[tuple[str, ...], ...]:
        return self.before + self.after

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(sentence for paragraph in self.paragraphs for sentence in paragraph)

    @property
    def text(self) -> str:
        """The reply as one text, its list numbered or with dashes."""
        marks = [f"{n}. " if self.numbered else "- " for n in range(1, len(self.items) + 1)]
        listed = "\n".join(mark + item for mark, item in zip(marks, self.items, strict=True))
        before, after = ("\n\n".join(map(" ".join, part)) for part in (self.before, self.after))
        return "\n\n".join(filter(None, (before, listed, after)))

    @property
    def draft(self) -> Draft:
        """The reply as a draft; `items` are the steps of its procedure."""
        steps = tuple(Step(step=strip_citations(item).strip(), citations=tuple(cited(item))) for item in self.items)
        return Draft(text=self.model_copy(update={"items": ()}).text, procedure=steps)


def outline_of(text: str) -> Outline:
    """The parts of a reply. Lines right below an item belong to it; several lists count as one."""
    before: list[list[str]] = []
    after: list[list[str]] = []
    items: list[str] = []
    numbered, in_item = False, False
    lines: list[str] = []

    def close() -> None:
        if lines:
            paragraph = [" ".join(piece.text.split()) for piece in pieces_of(" ".join(lines))]
            (after if items else before).append(paragraph)
            lines.clear()

    for line in text.splitlines():
        mark = ITEM.match(line.strip())
        if mark:
            close()
            numbered = numbered or mark.group()[0].isdigit()
            items.append(line.strip()[mark.end() :])
            in_item = True
        elif not line.strip():
            close()
            in_item = False
        elif in_item:
            items[-1] += f" {line.strip()}"
        else:
            lines.append(line.strip())
    close()
    return Outline(
        before=tuple(map(tuple, before)), items=tuple(items), after=tuple(map(tuple, after)), numbered=numbered
    )


def length(text: str) -> int:
    """Words without citation marks."""
    return len(words(strip_citations(text)))


def unmarked(text: str) -> tuple[str, str]:
    """A sentence without its full stop and the marks at its end; and these marks."""
    end = text.rstrip()
    end = end[:-1] if re.search(rf"{MARK.pattern}\.$", end) else end
    marks = _MARKS_AT_END.search(end)
    body = end[: marks.start()] if marks else end
    return body.rstrip().rstrip("."), " ".join(marks[1].split()) if marks else ""


def joined(sentences: tuple[str, ...] | list[str]) -> str:
    """Several sentences as one, with semicolons between them; each keeps its marks."""
    parts = []
    for at, sentence in enumerate(sentences):
        body, marks = unmarked(sentence)
        if at and re.match(r"[A-Z][a-z]+\b(?! [A-Z])", body) and not re.match(r"I\b", body):
            body = body[0].lower() + body[1:]
        parts.append(f"{body} {marks}".rstrip())
    return "; ".join(parts) + "."


def clipped(sentence: str) -> str:
    """A sentence without what stands in brackets and without its last subordinate clauses; its marks stay."""
    body, marks = unmarked(sentence)
    core = " ".join(re.sub(r"\s*\([^()]*\)", "", body).split())
    cut = re.search(
        r"(?:;| [–—-] |, (?:which|so that|because|since|although|though|while|whereas|for example|e\.g\.|such as"
        r"|and then"
        r"|including|but|i\.e\.|as)\b|: )",
        core,
    )
    if cut and len(words(core[: cut.start()])) >= 4:
        core = core[: cut.start()]
    return f"{core}. {marks}".rstrip() if core else sentence


def same_words(text: str, other: str) -> bool:
    """Whether two texts have the same words in the same order, citation marks and numbers of items aside."""
    return _plain(text) == _plain(other)


def _plain(text: str) -> list[str]:
    lines = (ITEM.sub("", line.strip(), count=1) for line in strip_citations(text).splitlines())
    return words(" ".join(lines))
