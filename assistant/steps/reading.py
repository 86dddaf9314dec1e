"""A model's answer to one question, read from excerpts of passages: a sentence or two, or steps, with their marks.

An excerpt is the sentences of a passage that are nearest to what is asked, lists kept together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnmark.assistant.budget import count_tokens
from turnmark.assistant.generators.base import (
    Completion,
    Generator,
    GeneratorError,
    OnText,
    PromptMessage,
    without_thinking,
)
from turnmark.assistant.generators.choosing import choose
from turnmark.assistant.prompts import load_prompt, quoted
from turnmark.assistant.steps.llm import steps_in
from turnmark.assistant.steps.marks import says_unknown, unmarked
from turnmark.assistant.steps.select import rated
from turnmark.assistant.steps.understand_llm import quoted_turns
from turnmark.assistant.steps.units import Unit, units_of
from turnmark.assistant.types import Draft, Usage
from turnmark.corpora.text import sentences, strip_citations, words
from turnmark.corpora.types import Message, Record
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

WORDS = 90
"""Of an excerpt, about: three are then 350 to 400 tokens. A passage of a third more is shown whole."""


@dataclass(frozen=True)
class Excerpt:
    """What is shown of a passage.

    Attributes:
        number: of its passage in the reply.
        head: its title and section; may be empty.
        text: its lines.
    """

    number: int
    head: str
    text: str

    def shown(self) -> str:
        """As a prompt shows it: its number, and quoted all that is the document's own."""
        body = "\n".join(filter(None, (self.head, self.text)))
        return f"[{self.number}]\n{quoted(unmarked(body))}"


def excerpts_of(
    questions: Sequence[tuple[str, str]],
    hits: Sequence[Hit],
    numbers: Sequence[int],
    embed: Embed | None,
    length: int = WORDS,
) -> list[Excerpt]:
    """An excerpt of each passage, best first.

    Args:
        questions: the questions, each as it was put and as it is rewritten; a sentence counts for the one it fits best.
        numbers: of the passages in the reply.
        embed: embeds sentences (unit vectors); None: shared words decide.
        length: words of an excerpt, about.
    """
    long = [hit for hit in hits if len(words(hit.passage.text)) > length * 4 // 3]
    pool = units_of(long)
    scores: dict[tuple[str, int], float] = {}
    if pool:
        titles = [" ".join(filter(None, (hit.passage.title, hit.passage.section))) for hit in long]
        for question in questions:
            measured = rated(question, pool, embed, titles)
            for unit, value in zip(measured.units, measured.direct(), strict=True):
                place = (unit.document, unit.at)
                scores[place] = max(scores.get(place, float(value)), float(value))
    excerpts = []
    for hit, number in zip(hits, numbers, strict=True):
        units = [unit for unit in units_of([hit]) if (unit.document, unit.at) in scores] if hit in long else []
        head = " › ".join(dict.fromkeys(filter(None, (hit.passage.title, hit.passage.section))))
        text = _lines(_nearest(units, scores, length), head) if units else hit.passage.text.strip()
        excerpts.append(Excerpt(number, head, text))
    return excerpts


def _nearest(units: Sequence[Unit], scores: dict[tuple[str, int], float], length: int) -> list[Unit]:
    """The units to show: the best blocks that there is room for, in reading order."""
    blocks = _blocks(units)
    order = sorted(blocks, key=lambda block: -max(scores[unit.document, unit.at] for unit in block))
    selection: list[Unit] = []
    room = length
    for block in order:
        for unit in block:
            size = len(words(unit.text))
            if selection and size > room:
                break
            selection.append(unit)
            room -= size
        if room <= 0:
            break
    return sorted(selection, key=lambda unit: unit.at)


def _blocks(units: Sequence[Unit]) -> list[list[Unit]]:
    """Sentences by themselves, and lists with the sentence that leads up to them."""
    blocks: list[list[Unit]] = []
    for unit in units:
        last = blocks[-1] if blocks else []
        if unit.item and last and (last[-1].item or last[-1].text.endswith((":", "："))):
            last.append(unit)
        else:
            blocks.append([unit])
    return blocks


def _lines(units: Sequence[Unit], head: str) -> str:
    """The units as text: sentences run on, list items have lines of their own, headings that the head lacks as well."""
    lines: list[str] = []
    running = False
    heading = ""
    for unit in units:
        if unit.heading and unit.heading != heading:
            heading, running = unit.heading, False
            if heading not in head:
                lines.append(f"{heading}:")
        if unit.item:
            lines.append(f"{f'{unit.number}.' if unit.number is not None else '-'} {unit.text}")
            running = False
        elif running:
            lines[-1] += f" {unit.text}"
        else:
            lines.append(unit.text)
            running = True
    return "\n".join(lines)


REPLY_TOKENS, STEPS_TOKENS = 110, 260
"""The most that a reply may have. One that runs on is cut at its last whole sentence or step."""


OPTIONS = ("Stated", "Missing")


class Reading(Record):
    """What a model answered to one question."""

    draft: Draft
    unknown: bool
    usage: Usage = Usage()


def read(
    generator: Generator,
    question: str,
    excerpts: Sequence[Excerpt],
    steps: bool = False,
    history: Sequence[Message] = (),
    on_text: OnText | None = None,
    prompts: Path | None = None,
) -> Reading:
    """One call. A model that thinks first, and so says nothing within the limit, is asked once more with all its room.

    Args:
        steps: the reply shall be a numbered list.
        history: earlier turns, where the question leans on them; the last few are shown.
        on_text: told of the text as it comes.

    Raises:
        GeneratorError: no reply was to be had, or an empty one.
    """
    limit = STEPS_TOKENS if steps else REPLY_TOKENS
    prompt = _fitting(generator, question, excerpts, steps, history, prompts, limit)
    reply = generator.complete(prompt, max_tokens=limit, on_text=on_text)
    usage, text = reply.usage, _said(reply)
    if not text and reply.finish_reason == "length" and generator.reply_tokens > reply.max_tokens:
        reply = generator.complete(prompt)
        usage, text = usage + reply.usage, _said(reply)
    if not text:
        raise GeneratorError("bad_reply", f"{reply.model} gave an empty reply", usage)
    if reply.finish_reason != "stop":
        text = whole_part(text)
    if says_unknown(text):
        return Reading(draft=Draft(text=strip_citations(text)), unknown=True, usage=usage)
    lead, listed = steps_in(text) if steps or _LISTED.search(text) else (text, ())
    return Reading(draft=Draft(text=_once(lead), procedure=listed), unknown=False, usage=usage)


STATED = "Is the answer to this stated in the excerpts, or is it missing: {question} Write only Stated or Missing."
"""Not "yes or no": of a question that is itself one of yes or no, these would be its answer."""


def stated(
    generator: Generator, question: str, excerpts: Sequence[Excerpt], prompts: Path | None = None
) -> tuple[float | None, Usage]:
    """How likely the model holds the answer to stand in the excerpts, 0..1, after the same prefix as `read`.

    None where the generator tells no probabilities. What the model would write by itself is worth nothing here.
    """
    try:
        choice = choose(generator, read_prompt(STATED.format(question=question), excerpts, prompts=prompts), OPTIONS)
    except GeneratorError as error:
        return None, error.usage
    return (choice.probabilities[0], choice.usage) if choice else (None, Usage())


def _fitting(
    generator: Generator,
    question: str,
    excerpts: Sequence[Excerpt],
    steps: bool,
    history: Sequence[Message],
    prompts: Path | None,
    limit: int,
) -> tuple[PromptMessage, ...]:
    """The prompt with as many of the excerpts, best first, as the model's context has room for.

    Raises:
        GeneratorError: not even one has.
    """
    for count in range(len(excerpts), 0, -1):
        prompt = read_prompt(question, excerpts[:count], steps, history, prompts)
        if sum(count_tokens(message.content) for message in prompt) + limit <= generator.context_tokens:
            return prompt
    raise GeneratorError("bad_request", f"the question does not fit into the context of {generator.name}")


def read_prompt(
    question: str,
    excerpts: Sequence[Excerpt],
    steps: bool = False,
    history: Sequence[Message] = (),
    prompts: Path | None = None,
) -> tuple[PromptMessage, ...]:
    """The messages that `read` sends: those of two questions about the same excerpts differ in the last line alone."""
    return load_prompt("answer-brief", prompts).render(
        excerpts="\n".join(excerpt.shown() for excerpt in excerpts) or "(none were found)",
        history=quoted_turns(history),
        question=" ".join(question.split()),
        steps=steps,
    )


def _said(reply: Completion) -> str:
    text = without_thinking(reply.text).strip()
    return "" if text.startswith("<think") else text


_LAST_END = re.compile(r"[.!?…。！？](?:[\"'”’)\]*_]|\s*\[\d{1,3}\])*(?=\s|$)")


_NUMBERED = re.compile(r"(?:^|\s)\d{1,3}\.$")


def whole_part(text: str) -> str:
    """A text that was cut, up to the end of its last whole sentence or line; all of it where it has none."""
    ends = [match.end() for match in _LAST_END.finditer(text) if not _NUMBERED.search(text[: match.end()])]
    line = text.rfind("\n")
    end = max([*ends, line])
    return text[:end].rstrip() if end > 0 else text


_LISTED = re.compile(r"^\s*1[.)]\s.*\n+\s*2[.)]\s", re.MULTILINE)


_LIST_BEGINS = re.compile(r"(?:^|\n)\s*(?:\W*steps?\b\W*(?:\n|$)|1[.)]\s)", re.IGNORECASE)
LIST_OPENING = 12
"""Characters of a line that tell whether it begins a list or names one."""


class BeforeList:
    """Passes streamed text on, up to a numbered list or its heading, in whose place the documents' own steps stand."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text, self._text, self._sent = on_text, "", 0

    def __call__(self, delta: str) -> None:
        """More text; the beginning of a line is held back until it is known for none of a list."""
        self._text += delta
        line = self._text.rfind("\n") + 1
        begun = len(self._text[line:].strip()) >= LIST_OPENING
        self._send(len(self._text) if begun else len(self._text[:line].rstrip()))

    def finish(self) -> None:
        """Pass on what was held back."""
        self._send(len(self._text))

    def _send(self, end: int) -> None:
        if listed := _LIST_BEGINS.search(self._text):
            end = min(end, listed.start())
        if end > self._sent:
            self._on_text(self._text[self._sent : end])
            self._sent = end


def _once(text: str) -> str:
    """The text without sentences that it has twice."""
    spans = sentences(text)
    pieces = dict.fromkeys(" ".join(text[start:end].split()) for start, end in spans)
    return text if len(pieces) == len(spans) else " ".join(pieces)
