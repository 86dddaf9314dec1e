"""InsCoQA's own way to ask a model (section 5.3, appendix D): all documents, the conversation and the question in one
prompt; an answer in plain text and a flat procedure in one reply, read strictly and asked for once more where it is in
no such form.

The assistant's turn does the same task by steps of its own. This one is there so that a model can be measured as the
paper's were.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

from assistant.generators.base import Generator, GeneratorError, PromptMessage, without_thinking
from assistant.steps.llm import Written, written
from assistant.structured import joined
from assistant.types import Usage
from corpora.inscoqa import Task
from evaluation.benchmarks.base import Item
from evaluation.benchmarks.prompted import fitted, titled
from evaluation.judging.fitting import Messages
from evaluation.prompts import load_prompt
from evaluation.records import Sample

PROMPTS = ("inscoqa-answer", "inscoqa-repair")
ROLE = "answer"
_HEAD = r"^[ \t]*(?:#{{1,6}}[ \t]*)?(?:\*\*|__)?{name}(?:\*\*|__)?[ \t]*:(?:\*\*|__)?[ \t]*"
_ANSWER = re.compile(_HEAD.format(name="Answer"), re.MULTILINE | re.IGNORECASE)
_STEPS = re.compile(_HEAD.format(name="Procedural instructions"), re.MULTILINE | re.IGNORECASE)
_NUMBERED = re.compile(r"(\d{1,3})[.)][ \t]+(\S.*)")
_BULLET = re.compile(r"[-*+•–]\s|[a-z][.)]\s", re.IGNORECASE)


@dataclass(frozen=True)
class TwoParts:
    """A reply in the form of appendix D."""

    answer: str
    steps: tuple[str, ...]


def two_parts(text: str) -> TwoParts | str:
    """Read a reply: `Answer:` and what follows, then `Procedural instructions:` and a flat list; or what is wrong.

    Strict: both headings, each at the beginning of a line and in this order, the answer first of all and not empty;
    steps numbered 1, 2, 3 …, one a line, or all of them on one line as the paper shows them; no list inside, no words
    after them. Markdown around the headings and a block of reasoning before them are let pass. Never raises.
    """
    said = without_thinking(text).strip()
    opening = _ANSWER.match(said)
    if opening is None:
        return "it does not begin with 'Answer:'."
    heads = list(_STEPS.finditer(said, opening.end()))
    if len(heads) != 1:
        found = "there is no line" if not heads else "there is more than one line"
        return f"{found} that begins with 'Procedural instructions:'."
    answer = said[opening.end() : heads[0].start()].strip()
    if not answer:
        return "there is nothing after 'Answer:'."
    steps = _listed(said[heads[0].end() :])
    return steps if isinstance(steps, str) else TwoParts(answer, steps)


def _listed(text: str) -> tuple[str, ...] | str:
    """The steps of a flat numbered list, or what is wrong with it."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "there is nothing after 'Procedural instructions:'."
    if len(lines) == 1:
        return _in_one_line(lines[0].strip())
    steps: list[str] = []
    for line in lines:
        found = _NUMBERED.fullmatch(line.strip())
        if found is None:
            inside = line[0].isspace() or _BULLET.match(line)
            return f"there is {'a list inside the list' if inside else 'a line that is no numbered step'}."
        if steps and line[0].isspace() and not lines[0][0].isspace():
            return "there is a list inside the list."
        if int(found[1]) != len(steps) + 1:
            return f"step {len(steps) + 1} is numbered {found[1]}."
        steps.append(found[2].strip())
    return tuple(steps)


def _in_one_line(line: str) -> tuple[str, ...] | str:
    """`1. xx 2. xx`: each number is looked for after the one before it."""
    steps: list[str] = []
    mark = re.match(r"1[.)]\s+", line)
    if mark is None:
        return "there is a line that is no numbered step."
    while mark is not None:
        following = re.compile(rf"(?<=\s){len(steps) + 2}[.)]\s+").search(line, mark.end())
        steps.append(line[mark.end() : following.start() if following else None].strip())
        mark = following
    return tuple(steps) if all(steps) else f"step {steps.index('') + 1} says nothing."


def prompted_sample(item: Item, generator: Generator, prompts: Path | None = None) -> Sample:
    """Ask a model as the paper does, and take down its reply: the answer as `prediction`, the steps as `procedure`.

    A reply in another form is asked for once more. One that is in no such form either is kept as it stands, without
    steps and with a note: what a system says is never lost, and its completion rate is then 0.

    Args:
        prompts: folder with prompts of one's own.

    Raises:
        GeneratorError: no reply was to be had, or an empty one; or the question does not fit into the model's context.
    """
    task: Task = item.task
    began = time.perf_counter()
    texts = [titled(document.title, document.text) for document in task.documents]
    shown = fitted(PROMPTS[0], texts, task.history, task.question, generator, prompts)
    if shown is None:
        raise GeneratorError("bad_request", "the question does not fit into the model's context")
    said = written(generator, joined(shown.messages))
    usage, found = said.usage, two_parts(said.text)
    if isinstance(found, str) and said.note is None:
        said, spent = _once_more(generator, shown.messages, said, found, prompts)
        usage, found = usage + spent, two_parts(said.text)
    notes = [*shown.notes, *([said.note] if said.note else [])]
    if isinstance(found, str):
        notes.append(f"no steps were read from the reply: {found}")
        found = TwoParts(_without_headings(said.text), ())
    return Sample(
        id=item.id,
        status="done",
        domain=item.domain,
        query=task.question,
        prediction=found.answer,
        procedure=tuple({"step": step, "citations": []} for step in found.steps),
        notes=tuple(notes),
        usage={ROLE: usage},
        timings={"answer": round(time.perf_counter() - began, 4)},
    )


def _once_more(
    generator: Generator, messages: Messages, said: Written, problem: str, prompts: Path | None
) -> tuple[Written, Usage]:
    """The reply to a request for the right form; the one that there is where none comes."""
    told = load_prompt(PROMPTS[1], prompts).render(problem=problem)
    try:
        again = written(generator, joined([*messages, PromptMessage(role="assistant", content=said.text), *told]))
    except GeneratorError as error:
        return said, error.usage
    return again, again.usage


def _without_headings(text: str) -> str:
    """The answer of a reply in no right form: what stands under `Answer:`, or all of it."""
    said = without_thinking(text).strip()
    opening = _ANSWER.match(said)
    rest = said[opening.end() :] if opening else said
    head = _STEPS.search(rest)
    return (rest[: head.start()].strip() if head else rest.strip()) or said
