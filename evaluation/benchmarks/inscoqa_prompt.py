"""InsCoQA's own way to ask a model (section 5.3, appendix D): all documents, the conversation and the question in one
prompt; an answer in plain text and a flat procedure in one reply, asked for once.

The form of the reply is checked strictly and counted (`format_ok`); what can be read of it is read whatever its form,
since a greeting before the answer or a wish after the last step is no failure at the task. The assistant's turn does
the same task by steps of its own.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

from turnmark.assistant.generators.base import Generator, GeneratorError, without_thinking
from turnmark.assistant.steps.llm import write_text
from turnmark.assistant.structured import merge_roles
from turnmark.corpora.inscoqa import Task
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.turns import fit_question
from turnmark.evaluation.records import Sample

PROMPT = "inscoqa-answer"
ROLE = "answer"
_MARK = r"(?:\*\*|__)?"
_ANSWER = re.compile(
    rf"^[ \t]*(?:#{{1,6}}[ \t]*)?{_MARK}Answer{_MARK}[ \t]*:{_MARK}[ \t]*", re.MULTILINE | re.IGNORECASE
)
_NAME = rf"{_MARK}Procedural instructions{_MARK}[ \t]*:{_MARK}[ \t]*"
_STEPS = re.compile(rf"^[ \t]*(?:#{{1,6}}[ \t]*)?{_NAME}", re.MULTILINE | re.IGNORECASE)
_STEPS_ANYWHERE = re.compile(rf"(?:^[ \t]*#{{1,6}}[ \t]*)?{_NAME}", re.MULTILINE | re.IGNORECASE)
_NUMBERED = re.compile(r"(\d{1,3})[.)][ \t]+(\S.*)")
_ITEM = re.compile(
    r"(?P<indent>[ \t]*)(?:#{1,6}[ \t]+)?(?:\*\*|__)?"
    r"(?:(?P<number>(?:step|步骤)[ \t]*\d{1,3}[ \t]*[.):：、-]?|[(（]\d{1,3}[)）]|\d{1,3}[.):：、](?!\d))"
    r"|(?P<letter>[a-z][.)])(?=[ \t*_])|(?P<bullet>[-*+•–])(?=[ \t]))"
    r"(?:\*\*|__)?[ \t]*(?P<text>\S.*)",
    re.IGNORECASE,
)
_ROW = re.compile(r"[ \t]*\|(?P<cells>.*)\|[ \t]*")
_RULE_ROW = re.compile(r"[ \t]*\|[ \t:|-]+\|[ \t]*")
_COUNT = re.compile(r"(?:step|步骤)?[ \t]*\d{1,3}[.):]?", re.IGNORECASE)
_BULLET = re.compile(r"[-*+•–]\s|[a-z][.)]\s", re.IGNORECASE)


@dataclass(frozen=True)
class ReadReply:
    """What was read of a reply.

    Attributes:
        answer: in plain text; empty where the reply has none.
        steps: of the procedure, each on one line with what stands below it; empty where none can be read.
        problem: why the reply is not in the form of appendix D; empty where it is.
    """

    answer: str
    steps: tuple[str, ...]
    problem: str = ""


def read_reply(text: str) -> ReadReply:
    """Read a reply, whatever its form.

    The answer is what stands behind `Answer:` and before `Procedural instructions:`; without the one, what stands
    before the other. The steps are the list behind `Procedural instructions:` or, without that heading, the last
    numbered list of the reply. What is indented or bulleted below a numbered step belongs to it; what follows the list
    is no step. Never raises.
    """
    reply = without_thinking(text).strip()
    problem, steps = _check(reply)
    if not problem:
        opening, heading = _ANSWER.match(reply), _STEPS.search(reply)
        assert opening is not None
        assert heading is not None
        return ReadReply(reply[opening.end() : heading.start()].strip(), steps)
    headings = list(_STEPS_ANYWHERE.finditer(reply))
    if headings:
        opening_text = reply[: headings[0].start()]
        steps = max((_listed(part) for part in _STEPS_ANYWHERE.split(reply)[1:]), key=len)
    else:
        opening_text, steps = _last_list(reply)
    opening = _ANSWER.search(opening_text)
    answer = opening_text[opening.end() :] if opening else opening_text
    return ReadReply(answer.strip(), steps, problem)


def has_two_parts(text: str) -> bool:
    """Whether a text is a reply as a model wrote it, still in the two parts of appendix D."""
    return bool(_STEPS_ANYWHERE.search(without_thinking(text)))


# --- the form --------------------------------------------------------------------------------------------------------


def _check(reply: str) -> tuple[str, tuple[str, ...]]:
    """What is wrong with the form, else "" and the steps.

    Strict: both headings, each at the beginning of a line and in this order, the answer first of all and not empty;
    steps numbered 1, 2, 3 …, one a line, or all of them on one line as the paper shows them; no list inside, no words
    after them. Markdown around the headings and a block of reasoning before them are let pass.
    """
    opening = _ANSWER.match(reply)
    if opening is None:
        return "it does not begin with 'Answer:'.", ()
    heads = list(_STEPS.finditer(reply, opening.end()))
    if len(heads) != 1:
        problem = "there is no line" if not heads else "there is more than one line"
        return f"{problem} that begins with 'Procedural instructions:'.", ()
    if not reply[opening.end() : heads[0].start()].strip():
        return "there is nothing after 'Answer:'.", ()
    lines = [line for line in reply[heads[0].end() :].splitlines() if line.strip()]
    if not lines:
        return "there is nothing after 'Procedural instructions:'.", ()
    if len(lines) == 1:
        steps = _in_one_line(lines[0].strip())
        return ("", steps) if steps and all(steps) else ("there is a line that is no numbered step.", ())
    return _check_lines(lines)


def _check_lines(lines: list[str]) -> tuple[str, tuple[str, ...]]:
    steps: list[str] = []
    for line in lines:
        match = _NUMBERED.fullmatch(line.strip())
        if match is None:
            inside = line[0].isspace() or _BULLET.match(line)
            return f"there is {'a list inside the list' if inside else 'a line that is no numbered step'}.", ()
        if steps and line[0].isspace() and not lines[0][0].isspace():
            return "there is a list inside the list.", ()
        if int(match[1]) != len(steps) + 1:
            return f"step {len(steps) + 1} is numbered {match[1]}.", ()
        steps.append(match[2].strip())
    return "", tuple(steps)


def _in_one_line(line: str) -> tuple[str, ...]:
    """`1. xx 2. xx`: each number is looked for after the one before it; empty where the line begins with none."""
    steps: list[str] = []
    mark = re.match(r"1[.)]\s+", line)
    while mark is not None:
        following = re.compile(rf"(?<=\s){len(steps) + 2}[.)]\s+").search(line, mark.end())
        steps.append(line[mark.end() : following.start() if following else None].strip())
        mark = following
    return tuple(steps)


# --- what can be read ------------------------------------------------------------------------------------------------


def _steps(text: str) -> tuple[str, ...]:
    """The steps of a list, whatever stands around and inside it; of a table, a step a row."""
    lines = [line for line in text.splitlines() if line.strip()]
    if rows := _table(lines):
        return rows
    items = [_ITEM.fullmatch(line.rstrip()) for line in lines]
    found = [item for item in items if item is not None]
    numbered = [item for item in found if item["number"]]
    if len(numbered) == 1 and len(parts := [step for step in _in_one_line(numbered[0].group().strip()) if step]) > 1:
        return tuple(parts)
    heads = numbered or [item for item in found if item["letter"]] or found
    if not heads:
        return ()
    outermost = len(heads[0]["indent"].expandtabs())
    steps: list[list[str]] = []
    last = max(place for place, (line, item) in enumerate(zip(lines, items, strict=True)) if item or line[0].isspace())
    for line, item in zip(lines[: last + 1], items, strict=False):
        if item is not None and item in heads and len(item["indent"].expandtabs()) <= outermost:
            steps.append([_unmarked(item["text"])])
        elif steps:
            steps[-1].append(_unmarked(item["text"]) if item is not None else line.strip())
    return tuple(" ".join(parts) for parts in steps)


def _unmarked(text: str) -> str:
    """A step without the half of a pair of marks whose other half stood before its number."""
    text = text.strip()
    return text.replace("**", "", 1) if text.count("**") % 2 else text


def _table(lines: list[str]) -> tuple[str, ...]:
    """The rows of a Markdown table below its rule, without the cell that counts them; empty where there is none."""
    rule = next((place for place, line in enumerate(lines) if _RULE_ROW.fullmatch(line)), None)
    if rule is None:
        return ()
    rows = [row for line in lines[rule + 1 :] if (row := _ROW.fullmatch(line))]
    cells = [[cell.strip(" *") for cell in row["cells"].split("|")] for row in rows]
    return tuple(" ".join(filter(None, row[1:] if _COUNT.fullmatch(row[0]) else row)) for row in cells)


def _listed(text: str) -> tuple[str, ...]:
    """The steps behind a heading that says there are some: a list's or, where there is none, the lines."""
    return _steps(text) or tuple(line.strip() for line in text.splitlines() if line.strip())


def _last_list(reply: str) -> tuple[str, tuple[str, ...]]:
    """Of a reply without a heading what stands before its last list, and the steps of that."""
    lines = reply.splitlines(keepends=True)
    items = [(n, item) for n, line in enumerate(lines) if (item := _ITEM.fullmatch(line.rstrip())) and _is_first(item)]
    firsts = [n for n, item in items if item["number"]] or [n for n, _ in items]
    if not firsts:
        rule = next((n for n, line in enumerate(lines) if _RULE_ROW.fullmatch(line.rstrip())), 0)
        firsts = [rule - 1] if rule else []
    steps = _steps("".join(lines[firsts[-1] :])) if firsts else ()
    return ("".join(lines[: firsts[-1]]), steps) if len(steps) > 1 else (reply, ())


def _is_first(item: re.Match[str]) -> bool:
    digits = "".join(filter(str.isdecimal, item["number"] or ""))
    return int(digits) == 1 if digits else (item["letter"] or "")[:1].lower() == "a"


def prompted_sample(item: Item, generator: Generator, prompts: Path | None = None) -> Sample:
    """Ask a model as the paper does, and take down its reply: as written in `prediction`, its steps in `procedure`.

    Args:
        prompts: folder with prompts of one's own.

    Raises:
        GeneratorError: no reply was to be had, or an empty one; or the question does not fit into the model's context.
    """
    task: Task = item.task
    began = time.perf_counter()
    texts = [(document.title, document.text) for document in task.documents]
    prompt = fit_question(PROMPT, texts, task.history, task.question, generator, prompts)
    if prompt is None:
        raise GeneratorError("bad_request", "the question does not fit into the model's context")
    reply = write_text(generator, merge_roles(prompt.messages))
    parts = read_reply(reply.text)
    notes = [*prompt.notes, *([reply.note] if reply.note else [])]
    if parts.problem:
        notes.append(f"the reply is not in the form that was asked for: {parts.problem}")
    return Sample(
        id=item.id,
        status="done",
        domain=item.domain,
        query=task.question,
        prediction=reply.text,
        procedure=tuple({"step": step, "citations": []} for step in parts.steps),
        notes=tuple(notes),
        usage={ROLE: reply.usage},
        timings={"answer": round(time.perf_counter() - began, 4)},
    )
