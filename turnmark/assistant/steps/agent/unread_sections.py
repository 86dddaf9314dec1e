"""Sections that a search found and that are not shown, but named with a number by which a model can read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from turnmark.assistant.llm.prompts.context_budget import count_tokens
from turnmark.assistant.llm.prompts.tool_definitions import MAX_ARGUMENT_CHARACTERS, MAX_NAME_CHARACTERS, short_line
from turnmark.core.errors import RequestError
from turnmark.core.untrusted import escape_marks, quote_lines
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import section_of

MAX_UNREAD_SECTIONS = 6
"""Maximum sections that are named after a search."""


class UnreadSections:
    """The sections of one turn that are named but not shown.

    Their numbers are written as `#3`, since `[3]` is a citation of a section that is shown.

    Args:
        document_of: returns all passages of a passage's document.
    """

    def __init__(self, document_of: Callable[[Passage], Sequence[Passage]]) -> None:
        self._document_of = document_of
        self._sections: list[list[Passage]] = []

    def named(self, passages: Iterable[Passage]) -> str:
        """Return a quoted line for each section of the passages, with its number and size, or "" if there are none."""
        numbers = list(dict.fromkeys(self._number_of(passage) for passage in passages))
        lines = [self._line(number) for number in numbers[:MAX_UNREAD_SECTIONS]]
        return quote_lines(escape_marks("\n".join(lines))) if lines else ""

    def section(self, number: str) -> list[Passage]:
        """Return the passages of the section with a number; RequestError if no section has it."""
        digits = number.strip("#[] ")
        if not digits.isdecimal() or not 0 < int(digits[:4]) <= len(self._sections):
            raise RequestError(f"no section is named {short_line(number, MAX_NAME_CHARACTERS)!r}")
        return self._sections[int(digits[:4]) - 1]

    def _number_of(self, passage: Passage) -> int:
        """Return the number of a passage's section; a new section gets the next one."""
        for number, section in enumerate(self._sections, 1):
            if any(passage.id == other.id for other in section):
                return number
        self._sections.append(section_of(passage, self._document_of(passage)) or [passage])
        return len(self._sections)

    def _line(self, number: int) -> str:
        section = self._sections[number - 1]
        size = sum(count_tokens(passage.text) for passage in section)
        first = section[0]
        heading = short_line(first.heading, MAX_ARGUMENT_CHARACTERS)
        return f"#{number} {heading} ({short_line(first.document, MAX_ARGUMENT_CHARACTERS)}): {size:,} tokens"
