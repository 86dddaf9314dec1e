"""What a draft claims, sentence by sentence and step by step, and whether a claim rests on the passages that it cites.

Without a language model a claim is supported where `LEAST_SUPPORT` of its content words stand in what it cites, and its
names there or in the question, or where a sentence there means nearly the same (`LIKE`) and every name of it stands
there. Either way every number of it must stand there. docs/measured.md has what that tells apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnmark.assistant.steps.marks import cited
from turnmark.assistant.steps.operations import ITEM, pieces_of
from turnmark.assistant.steps.support import coverage, missing_names, missing_numbers, strange_names
from turnmark.assistant.steps.unknown import says_unknown
from turnmark.assistant.types import Draft
from turnmark.corpora.text import plain, sentences, strip_citations, words
from turnmark.retrieval.task_passages import Embed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


LEAST_SUPPORT = 0.5
LIKE = 0.7


@dataclass
class Claim:
    """A sentence or step of a draft.

    `piece`: its place among the sentences of the text (`pieces_of`), `step`: among the steps; one of them is None.
    """

    text: str
    numbers: list[int]
    piece: int | None = None
    step: int | None = None


def claims_of(draft: Draft) -> list[Claim]:
    """Every sentence and step that claims something, with the citations that stand in it or directly after it.

    A heading, a line that only leads up to a list, and a sentence that says what is not known claim nothing, unless
    they cite.
    """
    claims: list[Claim] = []
    pieces = pieces_of(draft.text)
    for at, piece in enumerate(pieces):
        bare, numbers = strip_citations(piece.text).strip(), cited(piece.text)
        if not any(map(str.isalnum, bare)):
            if claims:
                claims[-1].numbers += numbers
            continue
        following = pieces[at + 1].text if at + 1 < len(pieces) else ""
        if numbers or not (_claims_nothing(bare) or (bare.endswith((":", "：")) and ITEM.match(following))):
            claims.append(Claim(bare, numbers, piece=at))
    return claims + [Claim(step.step, list(step.citations), step=at) for at, step in enumerate(draft.procedure)]


def _claims_nothing(bare: str) -> bool:
    return bare.startswith("#") or says_unknown(bare)


@dataclass
class Sources:
    """The passages of a turn, as claims are held against them. Nothing is embedded before it is needed.

    Args:
        texts: the passages, titles included; the first is `[1]`.
        question: what was asked: an answer names what the question names, whether or not its passage does. None: where
            words decide, names do not count, as for the embedded judge, which was measured so.
    """

    texts: Sequence[str]
    embed: Embed | None = None
    question: str | None = None
    _vectors: dict[int, NDArray[np.float32] | None] = field(default_factory=dict)

    def support(self, text: str, numbers: Sequence[int]) -> bool:
        """Whether passages, by number, support a claim."""
        valid = [n for n in dict.fromkeys(numbers) if 1 <= n <= len(self.texts)]
        return self._by_words(text, valid) or self._by_likeness(text, valid)

    def _by_words(self, text: str, numbers: Sequence[int]) -> bool:
        cited_texts = [self.texts[n - 1] for n in numbers]
        covered = bool(cited_texts and words(text)) and coverage(text, cited_texts) >= LEAST_SUPPORT
        if not covered or missing_numbers(text, cited_texts):
            return False
        return self.question is None or not strange_names(text, [*cited_texts, self.question])

    def _by_likeness(self, text: str, numbers: Sequence[int]) -> bool:
        cited_texts = [self.texts[n - 1] for n in numbers]
        if self.embed is None or not cited_texts or not words(text):
            return False
        strange = missing_numbers(text, cited_texts) or missing_names(text, cited_texts)
        return not strange and self.likeness(text, numbers) >= LIKE

    def likeness(self, text: str, numbers: Sequence[int]) -> float:
        """The best cosine of a claim with a sentence of these passages; 0 without an embedder."""
        if self.embed is None:
            return 0.0
        sources = [vectors for n in numbers if (vectors := self._sentences(n)) is not None]
        if not sources:
            return 0.0
        claim = self.embed([plain(text)])[0]
        return max(float((vectors @ claim).max()) for vectors in sources)

    def _sentences(self, n: int) -> NDArray[np.float32] | None:
        """The vectors of a passage's sentences; None where it has none."""
        if n not in self._vectors:
            text = self.texts[n - 1]
            parts = [part for start, end in sentences(text) if words(part := plain(text[start:end]))]
            self._vectors[n] = self.embed(parts) if self.embed is not None and parts else None
        return self._vectors[n]

    def supporter(self, text: str, cited_already: Sequence[int]) -> int | None:
        """The passage that by itself supports a claim best, of those it does not cite; None where none does."""
        candidates = [n for n in range(1, len(self.texts) + 1) if n not in cited_already]
        supporters = [n for n in candidates if self._by_words(text, [n])]
        # Passages are embedded only where no words decide.
        supporters = supporters or [n for n in candidates if self._by_likeness(text, [n])]
        return max(supporters, key=lambda n: (coverage(text, [self.texts[n - 1]]), -n), default=None)
