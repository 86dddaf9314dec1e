"""Verdicts: the labels or scale that a judge is offered, and the parser of its text. The last verdict counts.

A verdict is after its name on a separate line, or without such a line in double square brackets, or the complete text,
as the official prompts ask for it (`Rating: [[5]]`, `Total rating: 8`, `[[A>B]]`, `yes`). If there is none of these, a
label in single square brackets counts, as in Compound-QA's Table 17 (`[A>B]`), and a field `decision`, as in MTRAG-UN's
script. The last candidate must be one of the offered labels or on the scale. The parser does not search the words of
the reasons, and an earlier verdict never replaces an invalid last one: otherwise it would misread a judge that quotes
the reply, or that considers one label before it gives another.

A reply without a valid verdict is requested once more. InsCoQA (appendix E) asks for ratings as lines such as `Total
rating: 8`: the last number after each name counts, and all of them must be there and on their scales.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from turnmark.assistant.llm.calls.protocols import Generator, GeneratorError, PromptMessage
from turnmark.assistant.llm.calls.reasoning import split_reasoning
from turnmark.assistant.llm.prompts.structured_output import Failure, merge_roles, write_text
from turnmark.assistant.types import Usage
from turnmark.core.record import Record
from turnmark.core.untrusted import ellipsize
from turnmark.evaluation.prompts import JUDGES


class Labels(Record):
    """The labels that a judge chooses from; letter case does not matter."""

    name: str = Field(default="Verdict", description="name of the line that contains the verdict")
    offered: tuple[str, ...] = Field(min_length=2)

    blank: ClassVar[str] = "LABEL"
    """Placeholder for a label in prompts."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the line with the verdict."""
        return (self.name,)

    @property
    def example(self) -> str:
        """One of the labels."""
        return self.offered[-1]

    def in_words(self) -> str:
        """Return the offered labels, such as `yes, partial or no`."""
        return f"{', '.join(self.offered[:-1])} or {self.offered[-1]}"

    def read(self, text: str) -> Verdict | None:
        """Parse a label, or return None if the text is not one of them."""
        plain_text = _normalize_label(text)
        return next((Verdict(label=label) for label in self.offered if _normalize_label(label) == plain_text), None)


class RatingScale(Record):
    """Numbers from `low` to `high`; decimals are allowed, because judges write 7.5."""

    name: str = "Rating"
    low: FiniteFloat = 1
    high: FiniteFloat = 10

    blank: ClassVar[str] = "N"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the line with the rating; judges write `Score: 9` where `Rating: [[9]]` was asked for."""
        return (self.name, "Rating", "Score")

    @property
    def example(self) -> str:
        """A number on the scale."""
        return f"{self.low:g}"

    def in_words(self) -> str:
        """Return the scale, such as `a number from 1 to 10`."""
        return f"a number from {self.low:g} to {self.high:g}"

    def read(self, text: str) -> Verdict | None:
        """Parse a number such as `7` or `7/10`, or return None if the text is not a number on the scale."""
        match = _NUMBER.fullmatch(_normalize_label(text))
        if match is None or (match[2] is not None and float(match[2]) != self.high):
            return None
        value = float(match[1])
        return Verdict(label=f"{value:g}", value=value) if self.low <= value <= self.high else None


class Verdict(Record):
    """A judge's verdict: an offered label, or a number (`value`) and its text (`label`)."""

    label: str
    value: FiniteFloat | None = Field(default=None, description="the number on a scale, or None if a label was offered")
    text: str = Field(default="", description="the judge's full text, which ends in the verdict")


Offer = Labels | RatingScale

_NUMBER = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4})?)(?:\s*(?:/|out of)\s*([0-9]{1,4}))?")
# What follows a name: a number, or all that may make it another one, such as the end of a range (`7-8`).
_RATING_PATTERN = r"[*_`]*\s*:[\s*_`(]*([0-9][0-9.]*(?:\s*(?:/|%|out of|[-–—~]|to|or)\s*[0-9.]*)*)"
_BRACKET_PATTERN = re.compile(r"\[\[([^\[\]\n]{0,80})\]\]")
_SINGLE = re.compile(r"(?<!\[)\[([^\[\]\n]{1,80})\](?![\](])")
_DECISION = re.compile(r'"decision"\s*:\s*"([^"\n]{1,80})"')
_BEFORE = r"(?:feedback:{1,3}[ \t]*)?(?:(?:my|the|final|overall|total)\s+){0,3}"
# Invisible zero-width characters, which make a verdict unreadable, and full-width forms of ASCII.
_WIDTHLESS_CHARACTERS = dict.fromkeys(
    (0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFEFF)
)
_WIDE: dict[int, Any] = {0xFF01 + n: 0x21 + n for n in range(94)}
_SIGNS = {ord("»"): ">>", ord("≫"): ">>", ord("≈"): "="}
_TABLE = {**_WIDE, **_WIDTHLESS_CHARACTERS}
_DECORATION = " \t\r\n*_`'\"“”‘’.,;:!()"


def _normalize_label(text: str) -> str:
    """Return a label in lower case, without the punctuation and Markdown around it."""
    return " ".join(text.translate(_SIGNS).split()).strip(_DECORATION).casefold()


def strip_reasoning(text: str) -> str:
    """Return a text without reasoning and without invisible characters."""
    return split_reasoning(text.translate(_TABLE).replace("\\[", "[").replace("\\]", "]")).text


def read_verdict(text: str, offer: Offer) -> Verdict | str:
    """Parse the last verdict of a judge's text; without one, return what is wrong, in words for the judge."""
    spoken_text = strip_reasoning(text)
    candidates = _candidates(spoken_text, offer) or list(_other_candidates(spoken_text, offer))
    if not candidates:
        complete_text = offer.read(spoken_text)
        return complete_text or f"it holds no line of the form '{offer.name}: [[{offer.blank}]]'."
    _, last = max(candidates)
    verdict = offer.read(_without_name(last, offer))
    return verdict or f"the last verdict in it, {ellipsize(' '.join(last.split()), 40)!r}, is not {offer.in_words()}."


def _candidates(text: str, offer: Offer) -> list[tuple[int, str]]:
    """Return positions and texts of everything in the form of a verdict.

    If a line with the name can be read, only such lines count: a judge may write `[[10]]` of the scale after it.
    """
    names = "|".join(map(re.escape, offer.names))
    pattern = rf"^[ \t>*_#`-]*{_BEFORE}(?:{names})[*_`]*\s*[:=]([^\n]*)$"
    bare = [(match.start(), match[1]) for match in _BRACKET_PATTERN.finditer(text)]
    named: list[tuple[int, str]] = []
    for match in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE):
        brackets = _BRACKET_PATTERN.findall(match[1])
        named.append((match.start(1), brackets[-1] if brackets else match[1]))
    is_read = any(offer.read(_without_name(verdict, offer)) for _, verdict in named)
    return named if is_read else [*named, *bare]


def _other_candidates(text: str, offer: Offer) -> Iterator[tuple[int, str]]:
    """Yield positions and texts of labels in single brackets and of fields `decision`."""
    if not isinstance(offer, Labels):
        return
    for match in _SINGLE.finditer(text):
        if offer.read(match[1]):
            yield match.start(), match[1]
    for match in _DECISION.finditer(text):
        yield match.start(), match[1]


def _without_name(text: str, offer: Offer) -> str:
    """Reduce `Rating: 5` or `[5]` to `5`."""
    plain = text.strip(_DECORATION + "[]")
    for name in offer.names:
        if plain.casefold().startswith(name.casefold()) and plain[len(name) :].lstrip()[:1] in (":", "="):
            return plain[len(name) :].lstrip()[1:]
    return plain


def ask_verdict(
    generator: Generator, messages: Sequence[PromptMessage], offer: Offer, prompts: Path | None = None
) -> tuple[Verdict | Failure, Usage]:
    """Ask for a verdict; return it, or a failure with the judge's last text, and the usage.

    A reply cut by its token limit is requested once more with twice the limit; if it is cut again, it has failed. A
    reply stopped by a content filter has failed. A reply that is empty or does not end in a valid verdict is requested
    once more, and the judge is told what is wrong.
    """

    def read(text: str) -> Verdict | str:
        verdict = read_verdict(text, offer)
        return (
            verdict if isinstance(verdict, str) else verdict.model_copy(update={"text": strip_reasoning(text).strip()})
        )

    def repair(problem: str) -> Sequence[PromptMessage]:
        return JUDGES.load("verdict-repair", prompts).render(
            problem=problem, offered=offer.in_words(), blank=offer.blank, name=offer.name
        )

    return _ask_twice(generator, messages, read, "no verdict", repair)


R = TypeVar("R", bound=BaseModel)


def ask_ratings(
    generator: Generator, messages: Sequence[PromptMessage], names: Mapping[str, str], reply: type[R]
) -> tuple[R | Failure, Usage]:
    """Ask for ratings in plain text; return them, or a failure with the judge's last text, and the usage.

    A reply that lacks a rating, or has one off its scale, is requested once more.

    Args:
        names: name of a rating in the text -> field of `reply`, which also has a field `reason`.
    """

    def read(text: str) -> R | str:
        text = strip_reasoning(text)
        numbers: dict[str, str] = {}
        for name, field in names.items():
            number = _last_number(name, text)
            if number is None:
                return f"no line '{name}: N'"
            numbers[field] = number
        try:
            return reply.model_validate({"reason": text.strip(), **numbers})
        except ValidationError as error:
            return error.errors(include_url=False)[0]["msg"]

    return _ask_twice(generator, messages, read, "no ratings")


def _ask_twice(
    generator: Generator,
    messages: Sequence[PromptMessage],
    parse: Callable[[str], R | str],
    nothing: str,
    repair: Callable[[str], Sequence[PromptMessage]] | None = None,
) -> tuple[R | Failure, Usage]:
    """Ask and parse a reply; if `parse` returns a problem, ask once more.

    Args:
        nothing: what is missing, for the failure's reason.
        repair: function from the problem to messages that follow the first reply, or None to repeat the same messages.
    """
    usage, raw, problem = Usage(), "", ""
    for is_last_try in (False, True):
        try:
            reply = write_text(generator, merge_roles(messages))
        except GeneratorError as error:
            usage += error.usage
            if error.kind == "bad_reply" and not is_last_try:
                continue
            return Failure(kind=error.kind, raw=raw, reason=str(error)), usage
        usage, raw = usage + reply.usage, reply.text
        if reply.note is not None:
            kind = "length" if reply.finish_reason == "length" else "content_filter"
            return Failure(kind=kind, raw=raw, reason=reply.note.replace("the answer", "the judgment", 1)), usage
        result = parse(reply.text)
        if not isinstance(result, str):
            return result, usage
        problem = result
        if repair is not None:
            messages = [*messages, PromptMessage(role="assistant", content=reply.text), *repair(problem)]
    return Failure(kind="invalid", raw=raw, reason=f"{nothing}, twice: {problem}"), usage


def _last_number(name: str, text: str) -> str | None:
    """Return what follows the last occurrence of a name and a colon, if it begins with a number.

    Without the full name, its last words count: judges write `Rating: 8` where `Total rating: 8` was asked for.
    """
    words = name.split()
    for start in range(len(words)):
        shorter = r"\s+".join(map(re.escape, words[start:]))
        numbers = re.findall(rf"\b{shorter}{_RATING_PATTERN}", text, re.IGNORECASE)
        if numbers:
            return re.sub(r"\s*out of\s*", "/", numbers[-1].lower()).strip().rstrip(".")
    return None
