"""What a model writes if it is asked as InsCoQA asks (section 5.3, appendix D): an answer in plain text and a flat
procedure, in one reply.

The form of the reply is checked strictly and counted (`format_ok`); what can be read of it is read whatever its form,
since an opening before the answer or a wish after the last step is no failure at the task.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from turnmark.assistant.generators.base import without_thinking

PROMPT = "inscoqa-answer"
_MARK = r"(?:\*\*|__)?"
_HASHES = r"(?:#{1,6}[ \t]*)?"
_ANSWER = re.compile(rf"^[ \t]*{_HASHES}{_MARK}Answer{_MARK}[ \t]*:{_MARK}[ \t]*", re.MULTILINE | re.IGNORECASE)
_NAME = rf"{_MARK}Procedural instructions{_MARK}[ \t]*:{_MARK}[ \t]*"
_STEPS = re.compile(rf"^[ \t]*{_HASHES}{_NAME}", re.MULTILINE | re.IGNORECASE)
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


@dataclass(frozen=True)
class InsCoQAReply:
    """What was read of a reply.

    Attributes:
        answer: in plain text; empty if the reply has none.
        steps: of the procedure, each on one line with what is below it; empty if none can be read.
        in_form: the reply is in the form of appendix D.
    """

    answer: str
    steps: tuple[str, ...]
    in_form: bool = True


def read_reply(text: str) -> InsCoQAReply:
    """Read a reply, whatever its form.

    The answer is what is behind `Answer:` and before `Procedural instructions:`; without the one, what is before the
    other. The steps are the list behind `Procedural instructions:` or, without that heading, the last numbered list of
    the reply. What is indented or bulleted below a numbered step belongs to it; what follows the list is no step.
    Never raises.
    """
    reply = without_thinking(text).strip()
    if strict := _read_strictly(reply):
        return strict
    headings = list(_STEPS_ANYWHERE.finditer(reply))
    if headings:
        opening_text = reply[: headings[0].start()]
        steps = max((_list_or_lines(part) for part in _STEPS_ANYWHERE.split(reply)[1:]), key=len)
    else:
        opening_text, steps = _last_list(reply)
    opening = _ANSWER.search(opening_text)
    answer = opening_text[opening.end() :] if opening else opening_text
    return InsCoQAReply(answer.strip(), steps, in_form=False)


def has_two_parts(text: str) -> bool:
    """Whether a text is a reply as a model wrote it, still in the two parts of appendix D."""
    return bool(_STEPS_ANYWHERE.search(without_thinking(text)))


def _read_strictly(reply: str) -> InsCoQAReply | None:
    """A reply in the form of appendix D; None if it is in another.

    Both headings, each at the beginning of a line and in this order, the answer first of all and not empty; steps
    numbered 1, 2, 3 …, one a line, or all of them on one line as the paper shows them; no list inside, no words after
    them. Markdown around the headings and a block of reasoning before them are let pass.
    """
    opening = _ANSWER.match(reply)
    heads = list(_STEPS.finditer(reply, opening.end())) if opening else []
    if opening is None or len(heads) != 1:
        return None
    answer = reply[opening.end() : heads[0].start()].strip()
    lines = [line for line in reply[heads[0].end() :].splitlines() if line.strip()]
    if len(lines) == 1:
        steps = _in_one_line(lines[0].strip())
    else:
        numbered = [_NUMBERED.fullmatch(line.strip()) for line in lines]
        flat = all(not line[0].isspace() for line in lines) or all(line[0].isspace() for line in lines)
        in_order = all(match and int(match[1]) == number for number, match in enumerate(numbered, 1))
        steps = tuple(match[2].strip() for match in numbered if match) if flat and in_order else ()
    return InsCoQAReply(answer, steps) if answer and steps and all(steps) else None


def _in_one_line(line: str) -> tuple[str, ...]:
    """`1. xx 2. xx`: each number is looked for after the one before it; empty if the line begins with none."""
    steps: list[str] = []
    mark = re.match(r"1[.)]\s+", line)
    while mark is not None:
        following = re.compile(rf"(?<=\s){len(steps) + 2}[.)]\s+").search(line, mark.end())
        steps.append(line[mark.end() : following.start() if following else None].strip())
        mark = following
    return tuple(steps)


# --- what can be read ------------------------------------------------------------------------------------------------


def _read_list(text: str) -> tuple[str, ...]:
    """The steps of a list, whatever is around and inside it; of a table, a step a row."""
    lines = [line for line in text.splitlines() if line.strip()]
    if rows := _read_table(lines):
        return rows
    matches = [_ITEM.fullmatch(line.rstrip()) for line in lines]
    items = [match for match in matches if match is not None]
    numbered = [item for item in items if item["number"]]
    if len(numbered) == 1 and len(parts := [step for step in _in_one_line(numbered[0].group().strip()) if step]) > 1:
        return tuple(parts)
    heads = numbered or [item for item in items if item["letter"]] or items
    if not heads:
        return ()
    outermost = len(heads[0]["indent"].expandtabs())
    steps: list[list[str]] = []
    last = max(n for n, (line, item) in enumerate(zip(lines, matches, strict=True)) if item or line[0].isspace())
    for line, item in zip(lines[: last + 1], matches, strict=False):
        if item is not None and item in heads and len(item["indent"].expandtabs()) <= outermost:
            steps.append([_drop_half_mark(item["text"])])
        elif steps:
            steps[-1].append(_drop_half_mark(item["text"]) if item is not None else line.strip())
    return tuple(" ".join(parts) for parts in steps)


def _drop_half_mark(text: str) -> str:
    """A step without the half of a pair of marks whose other half was before its number."""
    text = text.strip()
    return text.replace("**", "", 1) if text.count("**") % 2 else text


def _read_table(lines: list[str]) -> tuple[str, ...]:
    """The rows of a Markdown table below its rule, without the cell that counts them; empty if there is no table."""
    rule = next((number for number, line in enumerate(lines) if _RULE_ROW.fullmatch(line)), None)
    if rule is None:
        return ()
    rows = [row for line in lines[rule + 1 :] if (row := _ROW.fullmatch(line))]
    cells = [[cell.strip(" *") for cell in row["cells"].split("|")] for row in rows]
    return tuple(" ".join(filter(None, row[1:] if _COUNT.fullmatch(row[0]) else row)) for row in cells)


def _list_or_lines(text: str) -> tuple[str, ...]:
    """The steps behind a heading that announces them: a list's or, if there is none, the lines."""
    return _read_list(text) or tuple(line.strip() for line in text.splitlines() if line.strip())


def _last_list(reply: str) -> tuple[str, tuple[str, ...]]:
    """Of a reply without a heading what is before its last list, and the steps of that."""
    lines = reply.splitlines(keepends=True)
    items = [(n, item) for n, line in enumerate(lines) if (item := _ITEM.fullmatch(line.rstrip())) and _is_first(item)]
    firsts = [n for n, item in items if item["number"]] or [n for n, _ in items]
    if not firsts:
        rule = next((n for n, line in enumerate(lines) if _RULE_ROW.fullmatch(line.rstrip())), 0)
        firsts = [rule - 1] if rule else []
    steps = _read_list("".join(lines[firsts[-1] :])) if firsts else ()
    return ("".join(lines[: firsts[-1]]), steps) if len(steps) > 1 else (reply, ())


def _is_first(item: re.Match[str]) -> bool:
    digits = "".join(filter(str.isdecimal, item["number"] or ""))
    return int(digits) == 1 if digits else (item["letter"] or "")[:1].lower() == "a"
