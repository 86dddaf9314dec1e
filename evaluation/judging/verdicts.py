"""What a judge may say, and how it is read from the text that it wrote: the last verdict counts, or none does.

A verdict is in double square brackets, or after its name on a separate line, or is all of the text; so official
prompts ask for it too (`Rating: [[5]]`, `Total rating: 8`, `[[A>B]]`, `yes`). Where nothing of that is there, a label
in single square brackets counts, which Compound-QA's Table 17 asks for (`[A>B]`), and a field `decision`, which
MTRAG-UN's script asks for. The last of them is held against what was on offer. It is never searched for among the
words of the reasons, and an earlier verdict never replaces a last one that is wrong: a judge that quotes the
reply it judges, or weighs one label before it gives another, would be misread.

A reply that is no verdict is asked for once more. InsCoQA (appendix E) asks for ratings as lines, `Total rating:
8`: a number follows its name, the last one counts, and all of them must be there and on their scales.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from turnmark.assistant.asking import Failure, merge_roles, write_text
from turnmark.assistant.generators.base import Generator, GeneratorError, PromptMessage
from turnmark.assistant.types import Usage
from turnmark.core.record import Record
from turnmark.evaluation.prompts import JUDGES


class Labels(Record):
    """The labels that a judge chooses from; letter case does not matter."""

    name: str = Field(default="Verdict", description="what the line of the verdict is called")
    offered: tuple[str, ...] = Field(min_length=2)

    blank: ClassVar[str] = "LABEL"
    """The word for a label in prompts."""

    def in_words(self) -> str:
        """What is on offer: `yes, partial or no`."""
        return f"{', '.join(self.offered[:-1])} or {self.offered[-1]}"

    def read(self, text: str) -> Verdict | None:
        """The label that `text` is; None: it is not one."""
        plain_text = _plain(text)
        return next((Verdict(label=label) for label in self.offered if _plain(label) == plain_text), None)


class RatingScale(Record):
    """Numbers from `low` to `high`, decimals among them: judges do give a 7.5."""

    name: str = "Rating"
    low: FiniteFloat = 1
    high: FiniteFloat = 10

    blank: ClassVar[str] = "N"

    def in_words(self) -> str:
        """What is on offer: `a number from 1 to 10`."""
        return f"a number from {self.low:g} to {self.high:g}"

    def read(self, text: str) -> Verdict | None:
        """The number that `text` is, also as `7/10`; None: it is not one, or not on the scale."""
        match = _NUMBER.fullmatch(_plain(text))
        if match is None or (match[2] is not None and float(match[2]) != self.high):
            return None
        value = float(match[1])
        return Verdict(label=f"{value:g}", value=value) if self.low <= value <= self.high else None


class Verdict(Record):
    """What a judge said: one of the labels as they were offered, or a number with its text."""

    label: str
    value: FiniteFloat | None = Field(default=None, description="of a scale")
    text: str = Field(default="", description="the full text that it ends")


Offer = Labels | RatingScale

_NUMBER = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4})?)(?:\s*/\s*([0-9]{1,4}))?")
_BRACKETED = re.compile(r"\[\[([^\[\]\n]{0,80})\]\]")
_SINGLE = re.compile(r"(?<!\[)\[([^\[\]\n]{1,80})\](?![\](])")
_DECISION = re.compile(r'"decision"\s*:\s*"([^"\n]{1,80})"')
_BEFORE = r"(?:feedback:{1,3}[ \t]*)?(?:(?:my|the|final|overall|total)\s+){0,3}"
# Characters without width, by which a verdict would look like one and be none; and ASCII in its wide forms.
_WIDTHLESS = dict.fromkeys((0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFEFF))
_WIDE: dict[int, Any] = {0xFF01 + n: 0x21 + n for n in range(94)}
_SIGNS = {ord("»"): ">>", ord("≫"): ">>", ord("≈"): "="}
_TABLE = {**_WIDE, **_WIDTHLESS}
_THOUGHT = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_DECORATION = " \t\r\n*_`'\"“”‘’.,;:!()"


def _plain(text: str) -> str:
    """A label without letter case, and without the punctuation and Markdown around it."""
    return " ".join(text.translate(_SIGNS).split()).strip(_DECORATION).casefold()


def spoken(text: str) -> str:
    """What of a text was said and not thought: no blocks of reasoning, closed or not, no characters one cannot see."""
    text = text.translate(_TABLE).replace("\\[", "[").replace("\\]", "]")
    marks = list(_THOUGHT.finditer(text))
    closed = [mark.end() for mark in marks if mark[1]]
    start = closed[-1] if closed else 0
    opened = [mark.start() for mark in marks if not mark[1] and mark.start() >= start]
    return text[start : opened[0] if opened else None]


def read_verdict(text: str, offer: Offer) -> Verdict | str:
    """The verdict on offer that a judge's text ends in, or what is wrong in words for the judge. Never raises."""
    text_spoken = spoken(text)
    candidates = list(_candidates(text_spoken, offer)) or list(_others(text_spoken, offer))
    if not candidates:
        verdict_of_all = offer.read(text_spoken)
        return verdict_of_all or f"it holds no line of the form '{offer.name}: [[{offer.blank}]]'."
    last = max(candidates)[1]
    verdict = offer.read(_unnamed(last, offer))
    return verdict or f"the last verdict in it, {_short(last)!r}, is not {offer.in_words()}."


def _candidates(text: str, offer: Offer) -> Iterator[tuple[int, str]]:
    """All that has the form of a verdict: its position and its text."""
    for match in _BRACKETED.finditer(text):
        yield match.start(), match[1]
    pattern = rf"^[ \t>*_#`-]*{_BEFORE}{re.escape(offer.name)}[*_`]*\s*[:=]([^\n]*)$"
    for match in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE):
        if not _BRACKETED.search(match[1]):
            yield match.start(1), match[1]


def _others(text: str, offer: Offer) -> Iterator[tuple[int, str]]:
    """Labels in single brackets and fields `decision`, with their positions."""
    if isinstance(offer, Labels):
        yield from ((match.start(), match[1]) for match in _SINGLE.finditer(text) if offer.read(match[1]))
        yield from ((match.start(), match[1]) for match in _DECISION.finditer(text))


def _unnamed(text: str, offer: Offer) -> str:
    """`5` of `Rating: 5` or `[5]`."""
    plain = text.strip(_DECORATION + "[]")
    name = offer.name.casefold()
    if plain.casefold().startswith(name) and plain[len(name) :].lstrip()[:1] in (":", "="):
        plain = plain[len(name) :].lstrip()[1:]
    return plain


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:40] + "…"


def ask_verdict(
    generator: Generator, messages: Sequence[PromptMessage], offer: Offer, prompts: Path | None = None
) -> tuple[Verdict | Failure, Usage]:
    """A verdict that is on offer, or a failure with the last text that the judge wrote; and what it cost.

    A reply cut by its limit is asked for once more with twice the room, as everywhere, and one that is cut again has
    failed, whatever it holds. One that was cut by a filter has failed too. One that is empty, or ends in no verdict
    that was on offer, is asked for once more with what is wrong about it.
    """

    def read(text: str) -> Verdict | str:
        verdict = read_verdict(text, offer)
        return verdict if isinstance(verdict, str) else verdict.model_copy(update={"text": spoken(text).strip()})

    def repair(problem: str) -> Sequence[PromptMessage]:
        return JUDGES.load("verdict-repair", prompts).render(
            problem=problem, offered=offer.in_words(), blank=offer.blank, name=offer.name
        )

    return _ask_twice(generator, messages, read, "no verdict", repair)


R = TypeVar("R", bound=BaseModel)


def ask_ratings(
    generator: Generator, messages: Sequence[PromptMessage], names: Mapping[str, str], reply: type[R]
) -> tuple[R | Failure, Usage]:
    """The ratings of a reply in plain text, or a failure with what the judge wrote last; and what it cost.

    A reply that lacks a rating, or has one off its scale, is asked for once more.

    Args:
        names: name of a rating in the text -> field of `reply`, which has a field `reason` besides.
    """

    def read(text: str) -> R | str:
        text = spoken(text)
        numbers = {field: number for name, field in names.items() if (number := _last(name, text)) is not None}
        missing = [name for name, field in names.items() if field not in numbers]
        if missing:
            return f"no line '{missing[0]}: N'"
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
    """What `parse` makes of a reply, or of a second one where it says in words what is wrong with the first.

    Args:
        nothing: what is missing, for the failure.
        repair: what is wrong -> how a second reply is asked for, after the first one; None: as before.
    """
    usage, raw, problem = Usage(), "", ""
    for last in (False, True):
        try:
            reply = write_text(generator, merge_roles(messages))
        except GeneratorError as error:
            usage += error.usage
            if error.kind == "bad_reply" and not last:
                continue
            return Failure(kind=error.kind, raw=raw, reason=str(error)), usage
        usage, raw = usage + reply.usage, reply.text
        if reply.note is not None:
            kind = "length" if reply.finish_reason == "length" else "content_filter"
            return Failure(kind=kind, raw=raw, reason=reply.note.replace("the answer", "the judgement", 1)), usage
        result = parse(reply.text)
        if not isinstance(result, str):
            return result, usage
        problem = result
        if repair is not None:
            messages = [*messages, PromptMessage(role="assistant", content=reply.text), *repair(problem)]
    return Failure(kind="invalid", raw=raw, reason=f"{nothing}, twice: {problem}"), usage


def _last(name: str, text: str) -> str | None:
    numbers = re.findall(rf"{re.escape(name)}[*_`]*\s*:\s*[*_`(]*([0-9.]+\s*(?:/\s*[0-9]+|%)?)", text, re.IGNORECASE)
    return numbers[-1].strip().rstrip(".") if numbers else None
