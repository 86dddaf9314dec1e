"""Which sentences of a reply say most, and which are about a topic."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.assistant.steps.support import coverage, stems
from turnmark.corpora.text import content_words, strip_citations
from turnmark.retrieval.given import Embed

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
    """The places of the texts that are about a topic: by its words, or else the one most like it."""
    plain = _FILLER.sub(" ", topic)
    bare = [strip_citations(text) for text in texts]
    found: set[int] = set()
    for part in re.split(r",|;|\band\b|\bor\b", plain):
        if stems(part):
            found |= {at for at, text in enumerate(bare) if coverage(part, [text]) >= NAMES}
    if not found and embed is not None and texts and content_words(plain):
        vectors = embed([plain, *bare])
        scores = [float(value) for value in vectors[1:] @ vectors[0]]
        best, *others = sorted(range(len(scores)), key=lambda at: -scores[at])
        clear = not others or scores[best] - scores[others[0]] >= _CLEARLY
        found = {best} if scores[best] >= _LEAST_LIKE and clear else set()
    return sorted(found)
