"""A reply as paragraphs of sentences and the items of its list, marks included; which of them say most."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.assistant.steps.instructions import QUOTED
from turnmark.assistant.steps.marks import MARK, cited
from turnmark.assistant.steps.operations import ITEM, pieces_of, squeezed
from turnmark.assistant.steps.support import coverage, stems
from turnmark.assistant.types import Draft, Step
from turnmark.corpora.text import content_words, strip_citations, words
from turnmark.corpora.types import Record
from turnmark.retrieval.task_passages import Embed

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
        head, tail = ("\n\n".join(map(" ".join, part)) for part in (self.before, self.after))
        return "\n\n".join(filter(None, (head, listed, tail)))

    @property
    def draft(self) -> Draft:
        """The reply as a draft; `items` are the steps of its procedure."""
        steps = tuple(Step(step=strip_citations(item).strip(), citations=tuple(cited(item))) for item in self.items)
        return Draft(text=self.model_copy(update={"items": ()}).text, procedure=steps)


def outline_of(text: str) -> Outline:
    """The parts of a reply. Lines right below an item belong to it; several lists count as one."""
    head: list[list[str]] = []
    tail: list[list[str]] = []
    items: list[str] = []
    numbered, in_item = False, False
    lines: list[str] = []

    def close() -> None:
        if lines:
            paragraph = [" ".join(piece.text.split()) for piece in pieces_of(" ".join(lines))]
            (tail if items else head).append(paragraph)
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
    return Outline(before=tuple(map(tuple, head)), items=tuple(items), after=tuple(map(tuple, tail)), numbered=numbered)


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
    """A sentence without what stands in brackets and without its last subordinate clauses; its marks stay, and code."""
    body, marks = unmarked(sentence)
    code = [span.group() for span in _CODE.finditer(body)]
    numbers = iter(range(len(code)))
    core = " ".join(re.sub(r"\s*\([^()]*\)", "", _CODE.sub(lambda _: f"`{next(numbers)}`", body)).split())
    cut = re.search(
        r"(?:;| [–—-] |, (?:which|so that|because|since|although|though|while|whereas|for example|e\.g\.|such as"
        r"|and then"
        r"|including|but|i\.e\.|as)\b|: (?!`))",  # a command after a colon is what the sentence is there for
        core,
    )
    if cut and len(words(core[: cut.start()])) >= 4:
        core = core[: cut.start()]
    core = _CODE.sub(lambda span: code[int(span[1])], core)
    return f"{core}. {marks}".rstrip() if core else sentence


_CODE = re.compile(r"`([^`]*)`")


def same_words(text: str, second: str) -> bool:
    """Whether two texts have the same words in the same order, citation marks and numbers of items aside."""
    return _plain(text) == _plain(second)


def _plain(text: str) -> list[str]:
    lines = (ITEM.sub("", line.strip(), count=1) for line in strip_citations(text).splitlines())
    return words(" ".join(lines))


_FIGURE_ASKED = re.compile(
    r"\b(?:how (?:many|much|long|old|often|far|big|large|high|hot)|when|what (?:year|date|time))\b", re.I
)
# A heading among the sentences, or a sentence about the document itself.
SAYS_LITTLE = re.compile(
    r"^\W*(?-i:(?:[A-Z][\w'’-]*\W+){1,5}[A-Z][\w'’-]*)\W*$|\b(?:this|the (?:next|previous|following)) (?:section"
    r"|chapter|document|page|guide)\b"
    r"|\bwe will (?:focus|see|look|discuss|describe|explain)\b|\bsee (?:also )?(?:section|chapter)\b",
    re.IGNORECASE,
)
# A sentence that shares no word with its description: its cosine, and by how much it leads. With MiniLM "animals seen
# aboard" has .40 with a sentence on otters and at most .23 with three on a ferry; what is about nothing there, .23.
_LEAST_LIKE = 0.35
_CLEARLY = 0.1
NAMES = 0.7
_FILLER = re.compile(
    r"\b(?:the|any|all|every\w*|any\w*|each|sentences?|parts?|paragraphs?|passages?|information|mentions?|details?|"
    r"references?|discussion|descriptions?|section|bit|that|which|about|of|on|to|how|describes?|says?|is|"
    r"are|from|answer|text|please|at|beginning|start|end|top|bottom|first|last|with|in)\b",
    re.IGNORECASE,
)


def importance(question: str, texts: Sequence[str], embed: Embed | None) -> list[float]:
    """How much each sentence of a reply says to the question, and of what all say; the first one has a small lead."""
    if embed is None:
        scores = [coverage(question, [text]) + coverage(" ".join(texts), [text]) for text in texts]
    else:
        vectors = embed([question, *texts])
        middle = vectors[1:].mean(axis=0)
        scores = [float(0.5 * (vector @ middle) + vector @ vectors[0]) for vector in vectors[1:]]
    figures = bool(_FIGURE_ASKED.search(question))
    return [
        score
        + 0.1 * (at == 0)
        + 0.2 * (figures and bool(re.search(r"\d", text)))
        - 0.5 * bool(SAYS_LITTLE.search(text))
        for at, (score, text) in enumerate(zip(scores, texts, strict=True))
    ]


def about(topic: str, texts: Sequence[str], embed: Embed | None) -> list[int]:
    """The places of the texts that are about a topic: by what it quotes, by its words, or else the one most like it."""
    quotes = [squeezed("".join(quote)) for quote in QUOTED.findall(topic)]
    if quotes:
        return [at for at, text in enumerate(texts) if any(quote in squeezed(text) for quote in quotes)]
    plain = _FILLER.sub(" ", topic)
    bare = [strip_citations(text) for text in texts]
    places: set[int] = set()
    for part in re.split(r",|;|\band\b|\bor\b", plain):
        if stems(part):
            places |= {at for at, text in enumerate(bare) if coverage(part, [text]) >= NAMES}
    if not places and embed is not None and texts and content_words(plain):
        vectors = embed([plain, *bare])
        scores = [float(value) for value in vectors[1:] @ vectors[0]]
        best, *following = sorted(range(len(scores)), key=lambda at: -scores[at])
        clear = not following or scores[best] - scores[following[0]] >= _CLEARLY
        places = {best} if scores[best] >= _LEAST_LIKE and clear else set()
    return sorted(places)
