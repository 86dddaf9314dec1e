"""The mark by which a model says that the documents do not state something: `[0]`, the number of no section.

The model writes it where it would write a citation. A refusal is therefore recognized in every language; its wording
decides only if the model forgets the mark. The mark is removed from the answer, also while the answer is streamed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from turnmark.assistant.citations.mark_forms import finished_length, with_standard_marks
from turnmark.assistant.citations.marks import cited_numbers, number_in_order, spaced_sentences
from turnmark.assistant.llm.calls.protocols import Generator, OnText, PromptMessage
from turnmark.assistant.llm.prompts.structured_output import WrittenText, write_text
from turnmark.core.record import Record
from turnmark.corpora.text.segmentation import strip_citations

NOT_STATED_MARK = "[0]"
_NOT_STATED_NUMBER = 0
_HELD_TEXT = re.compile(r"[ \t]*\[(?:0(?:\][^\n]{0,12})?)?\Z|[ \t]+\Z")
"""The end of an unfinished text that may be the mark, or whose next characters tell whether it is one."""


class MarkedAnswer(Record):
    """The answer of a model without the mark.

    Attributes:
        text: what the person reads.
        unstated: the sentences that had the mark and cite nothing, without citations: the documents do not state
            something.
        partly_unstated: the sentences that had the mark next to a citation.
    """

    text: str
    unstated: tuple[str, ...] = ()
    partly_unstated: tuple[str, ...] = ()


def read_answer(text: str, sources: int) -> MarkedAnswer:
    """Remove the mark from what a model wrote, and return the sentences that had it.

    Args:
        sources: number of sections that were shown, whose citations are converted to their usual form.
    """
    text = with_standard_marks(text, sources)
    if NOT_STATED_MARK not in text:
        return MarkedAnswer(text=text)
    unstated: list[str] = []
    partly: list[str] = []
    for piece in spaced_sentences(text):
        numbers = cited_numbers(piece.text)
        if _NOT_STATED_NUMBER in numbers and without_mark(piece.text) != piece.text:
            sentences_of_kind = partly if any(numbers) else unstated
            sentences_of_kind.append(strip_citations(piece.text).strip())
    return MarkedAnswer(text=without_mark(text).strip(), unstated=tuple(unstated), partly_unstated=tuple(partly))


def without_mark(text: str) -> str:
    """Return a text without the mark and the space before it; `list[0]` in code stays."""
    return strip_citations(text, most=_NOT_STATED_NUMBER, least=_NOT_STATED_NUMBER)


class MarkFilter:
    """A receiver of the pieces of an answer that passes them on without the mark, and with sources numbered in order.

    Args:
        on_text: receives the pieces, or None if they are dropped.
        sources: see `read_answer`.
        is_discarded: tells from the beginning of a reply that nobody will see it; then nothing is passed on.
    """

    def __init__(self, on_text: OnText | None, sources: int, is_discarded: Callable[[str], bool] | None = None) -> None:
        self._on_text, self._sources = on_text, sources
        self._is_discarded = is_discarded
        self._text = ""
        self._passed = 0

    def __call__(self, piece: str) -> None:
        self._text += piece
        if self._is_discarded is not None and not self._passed and len(self._text) < HELD_CHARACTERS:
            return
        text = self._text[: finished_length(self._text)]
        held = _HELD_TEXT.search(text)
        self._pass(text[: held.start()] if held else text)

    def finish(self) -> None:
        """Pass on what was held back."""
        self._pass(self._text)

    def _pass(self, text: str) -> None:
        if self._is_discarded is not None and not self._passed and self._is_discarded(self._text):
            self._on_text = None
        text = with_standard_marks(text, self._sources)
        clean, _ = number_in_order(without_mark(text) if NOT_STATED_MARK in text else text, self._sources)
        if self._on_text is not None and len(clean) > self._passed:
            self._on_text(clean[self._passed :])
            self._passed = len(clean)


HELD_CHARACTERS = 24
"""Characters of a reply that are held back if its beginning decides whether anybody sees it."""


def write_answer(
    generator: Generator,
    messages: Sequence[PromptMessage],
    sources: int,
    on_text: OnText | None = None,
    is_discarded: Callable[[str], bool] | None = None,
) -> tuple[WrittenText, MarkedAnswer]:
    """Ask for an answer. Return the reply as the model wrote it, and as it is shown; `on_text` receives the latter.

    Args:
        sources: see `read_answer`.
        is_discarded: see `MarkFilter`.
    """
    shown = MarkFilter(on_text, sources, is_discarded)
    reply = write_text(generator, messages, shown if on_text is not None else None)
    shown.finish()
    return reply, read_answer(reply.text, sources)
