"""Parse a reply to InsCoQA's prompt (section 5.3, appendix D): a plain-text answer and a flat list of steps.

`format_ok` is the result of a strict check of the form, whose headings may also be Chinese, Japanese or Korean. Answer
and steps are also read from replies that fail it: an introduction before the answer or good wishes after the last step
are no failure at the task.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from turnmark.assistant.llm.calls.reasoning import split_reasoning
from turnmark.corpora.text.segmentation import CJK

PROMPT = "inscoqa-answer"
_MARK = r"(?:\*\*|__)?"
_HASHES = r"(?:#{1,6}[ \t]*)?"
_ANSWER_NAMES = r"Answer|(?:最[终終])?(?:答案|答[复復覆]|回答|回[复復覆]|解答|答)|お?答え|답변|대답|답"
_FOREIGN_STEPS_NAMES = (
    r"(?:程序性?|流程|操作|具[体體]|[执執]行|[详詳][细細]|解[决決])?步[骤驟](?:[说說]明)?"
    r"|(?:操作|程序性?)(?:[说說]明|指南|指引|指示|流程|程序|指令)|流程|(?:操作|作業)?手順(?:書)?"
    r"|(?:진행 ?|수행 ?)?절차(?: ?지침)?|단계(?:별 ?(?:절차|안내|지침))?|순서"
)
"""Headings of the steps in Chinese (simplified and traditional), Japanese and Korean."""


def _heading(names: str) -> str:
    """Return a pattern for one of these headings with a colon, or in brackets without one: `答案：`, `【答案】`."""
    return rf"{_MARK}(?:(?:{names}){_MARK}[ \t]*[:：]|[【［](?:{names})[】］]{_MARK}[ \t]*[:：]?){_MARK}[ \t]*"


_ANSWER = re.compile(rf"^[ \t]*{_HASHES}{_heading(_ANSWER_NAMES)}", re.MULTILINE | re.IGNORECASE)
_ENGLISH_STEPS = _heading("Procedural instructions")
_STEPS = re.compile(
    rf"^[ \t]*{_HASHES}{_heading(f'Procedural instructions|{_FOREIGN_STEPS_NAMES}')}", re.MULTILINE | re.IGNORECASE
)
# A heading that is also a usual word must be at the beginning of a line or after a sentence.
_STEPS_ANYWHERE = re.compile(
    rf"(?:^[ \t]*#{{1,6}}[ \t]*)?{_ENGLISH_STEPS}"
    rf"|(?:^[ \t]*{_HASHES}|(?<=[。！？；])[ \t]*){_heading(_FOREIGN_STEPS_NAMES)}",
    re.MULTILINE | re.IGNORECASE,
)
_HAS_ENGLISH_STEPS = re.compile(_ENGLISH_STEPS, re.IGNORECASE)
_AFTER_NUMBER = rf"(?:[.)][ \t]+|[.．、)）][ \t]*(?=[{CJK}\uac00-\ud7a3]))"
"""The mark after the number of a step: a space follows, unless the step is in a script that needs none."""
_NUMBERED_LINE = re.compile(rf"(\d{{1,3}}){_AFTER_NUMBER}(\S.*)")
_CIRCLED_NUMERALS = "①-⑳"
_HAN_NUMERALS = "一二三四五六七八九十"
_ITEM = re.compile(
    r"(?P<indent>[ \t]*)(?:#{1,6}[ \t]+)?(?:\*\*|__)?"
    r"(?:(?P<number>(?:step|步[骤驟]|手順|ステップ|단계)[ \t]*\d{1,3}[ \t]*[.):：、-]?"
    r"|[(（]\d{1,3}[)）]|\d{1,3}[.．):：、）](?!\d)"
    rf"|第[ \t]*(?:\d{{1,3}}|[{_HAN_NUMERALS}]{{1,3}})[ \t]*步[ \t]*[.):：、，,-]?|[{_CIRCLED_NUMERALS}][.、]?"
    rf"|[{_HAN_NUMERALS}]{{1,3}}、|\d{{1,3}}[ \t]*단계[ \t]*[.):：-]?)"
    r"|(?P<letter>[a-z][.)])(?=[ \t*_])|(?P<bullet>[-*+•–・])(?=[ \t]))"
    r"(?:\*\*|__)?[ \t]*(?P<text>\S.*)",
    re.IGNORECASE,
)
_ROW = re.compile(r"[ \t]*\|(?P<cells>.*)\|[ \t]*")
_RULE_ROW = re.compile(r"[ \t]*\|[ \t:|-]+\|[ \t]*")
_COUNT = re.compile(r"(?:step|步[骤驟]|手順)?[ \t]*\d{1,3}[.):]?", re.IGNORECASE)


@dataclass(frozen=True)
class InsCoQAReply:
    """A parsed reply.

    Attributes:
        answer: the plain-text answer; may be empty.
        steps: the steps of the procedure, each with its sub-items on one line; empty if no steps were recognized.
        in_form: whether the reply has the form of appendix D.
    """

    answer: str
    steps: tuple[str, ...]
    in_form: bool = True


def read_reply(text: str) -> InsCoQAReply:
    """Parse a reply, whatever its form.

    The answer is the text after `Answer:` (or from the beginning) up to `Procedural instructions:`; the headings may be
    translated. The steps are the list after `Procedural instructions:` or, without that heading, the last numbered list
    of the reply. Indented or bulleted lines below a numbered step belong to it; text after the list is not a step.
    Never raises.
    """
    reply = split_reasoning(text).text.strip()
    strict = _read_strictly(text.strip()) or _read_strictly(reply)
    if strict is not None:
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
    """Return whether a text is an unparsed reply with the heading `Procedural instructions:` (appendix D).

    A translated heading counts only below a heading of the answer: an answer of its own may have it above a list.
    """
    reply = split_reasoning(text).text
    if _HAS_ENGLISH_STEPS.search(reply):
        return True
    answer = _ANSWER.match(reply.strip())
    return answer is not None and bool(_STEPS_ANYWHERE.search(reply.strip(), answer.end()))


def _read_strictly(reply: str) -> InsCoQAReply | None:
    """Parse a reply that has the form of appendix D, or return None if it does not.

    The form: both headings at the beginning of a line, `Answer:` first of all with a non-empty answer; steps numbered
    1, 2, 3 …, one per line, or all on one line as in the paper; no nested list, no text after the steps. Markdown
    around the headings and a block of reasoning before them are allowed.
    """
    answer_heading = _ANSWER.match(reply)
    if answer_heading is None:
        return None
    steps_headings = list(_STEPS.finditer(reply, answer_heading.end()))
    if len(steps_headings) != 1:
        return None
    steps_heading = steps_headings[0]
    answer = reply[answer_heading.end() : steps_heading.start()].strip()
    lines = [line for line in reply[steps_heading.end() :].splitlines() if line.strip()]
    steps = _in_one_line(lines[0].strip()) if len(lines) == 1 else _one_per_line(lines)
    return InsCoQAReply(answer, steps) if answer and steps and all(steps) else None


def _one_per_line(lines: list[str]) -> tuple[str, ...]:
    """Return the steps of a flat list numbered 1, 2, 3 …; empty if the lines are not one."""
    indented = [line[0].isspace() for line in lines]
    if any(indented) and not all(indented):
        return ()
    steps: list[str] = []
    for number, line in enumerate(lines, 1):
        match = _NUMBERED_LINE.fullmatch(line.strip())
        if match is None or int(match[1]) != number:
            return ()
        steps.append(match[2].strip())
    return tuple(steps)


def _in_one_line(line: str) -> tuple[str, ...]:
    """Return the steps of a line such as `1. xx 2. xx`; empty if the line does not begin with 1."""
    steps: list[str] = []
    mark = re.match(rf"[1１]{_AFTER_NUMBER}", line)
    while mark is not None:
        following = re.compile(rf"(?:(?<=\s)|(?<=[。；;，、！]))(?:{_numeral(len(steps) + 2)}){_AFTER_NUMBER}").search(
            line, mark.end()
        )
        steps.append(line[mark.end() : following.start() if following else None].strip())
        mark = following
    return tuple(steps)


def _numeral(number: int) -> str:
    """Return a pattern for a number in usual and in full-width digits."""
    digits = str(number)
    return f"{digits}|{digits.translate(_FULL_WIDTH)}"


_FULL_WIDTH = str.maketrans("0123456789", "０１２３４５６７８９")

# --- lenient parsing -------------------------------------------------------------------------------------------------


def _read_list(text: str) -> tuple[str, ...]:
    """Return the steps of a list, with any text around or inside it; of a table, each row is a step."""
    lines = text.splitlines()
    rows = _read_table([line for line in lines if line.strip()])
    if rows:
        return rows
    matches = [_ITEM.fullmatch(line.rstrip()) for line in lines]
    items = [match for match in matches if match is not None]
    numbered = [item for item in items if item["number"]]
    if len(numbered) == 1:
        steps_in_line = tuple(filter(None, _in_one_line(numbered[0].group().strip())))
        if len(steps_in_line) > 1:
            return steps_in_line
    lettered = [item for item in items if item["letter"]]
    heads = numbered or lettered or items
    if not heads:
        return ()
    outermost = len(heads[0]["indent"].expandtabs())
    heads = [head for head in heads if len(head["indent"].expandtabs()) <= outermost]
    steps: list[list[str]] = []
    for line, item in zip(lines[: _end_of_list(lines, matches, heads)], matches, strict=False):
        if item is not None and item in heads:
            steps.append([_drop_half_mark(item["text"])])
        elif steps and line.strip():
            steps[-1].append(_drop_half_mark(item["text"]) if item is not None else line.strip())
    return tuple(" ".join(parts) for parts in steps)


def _end_of_list(lines: Sequence[str], matches: Sequence[re.Match[str] | None], heads: Sequence[re.Match[str]]) -> int:
    """Return the index of the line after the last step.

    Items and indented lines belong to the list. Paragraphs below its last step belong to it, too: at most as many as
    below another step, or one if steps are headings. Later paragraphs are not steps.
    """
    inside = [
        bool(item) or (line[:1].isspace() and not line.isspace()) for line, item in zip(lines, matches, strict=True)
    ]
    end = len(inside) - inside[::-1].index(True)
    begins = [n for n, item in enumerate(matches) if item is not None and item in heads]
    bodies = [_paragraphs(lines, matches, begin, stop) for begin, stop in pairwise([*begins, len(lines)])]
    *others, (begin, body) = zip(begins, bodies, strict=True)
    is_heading = lines[begin].lstrip().startswith("#")
    most = max([int(is_heading), *(len(paragraphs) for _, paragraphs in others)])
    # Directly below the step, unless steps are headings or another step is followed by a blank line.
    apart = is_heading or any(paragraphs and paragraphs[0].start > start + 1 for start, paragraphs in others)
    taken = body[:most]
    if taken and (apart or taken[0].start == begin + 1):
        end = max(end, taken[-1].stop)
    return end


def _paragraphs(lines: Sequence[str], matches: Sequence[re.Match[str] | None], begin: int, stop: int) -> list[range]:
    """Return the paragraphs of plain lines below a step, up to the next step or heading."""
    paragraphs: list[range] = []
    for number in range(begin + 1, stop):
        line = lines[number]
        if line.startswith("#"):
            break
        if not line.strip() or line[0].isspace() or matches[number]:
            continue
        if paragraphs and paragraphs[-1].stop == number:
            paragraphs[-1] = range(paragraphs[-1].start, number + 1)
        else:
            paragraphs.append(range(number, number + 1))
    return paragraphs


def _drop_half_mark(text: str) -> str:
    """Remove the closing `**` of a step whose opening one was before its number."""
    text = text.strip()
    return text.replace("**", "", 1) if text.count("**") % 2 else text


def _read_table(lines: list[str]) -> tuple[str, ...]:
    """Return the rows of a Markdown table below its rule, without a leading cell of numbers; empty without a table."""
    rule = next((number for number, line in enumerate(lines) if _RULE_ROW.fullmatch(line)), None)
    if rule is None:
        return ()
    steps: list[str] = []
    for line in lines[rule + 1 :]:
        row = _ROW.fullmatch(line)
        if row is None:
            continue
        cells = [cell.strip(" *") for cell in row["cells"].split("|")]
        if _COUNT.fullmatch(cells[0]):
            cells = cells[1:]
        steps.append(" ".join(filter(None, cells)))
    return tuple(steps)


def _list_or_lines(text: str) -> tuple[str, ...]:
    """Return the steps of a text after its heading: the items of its list or, without a list, its lines."""
    return _read_list(text) or tuple(line.strip() for line in text.splitlines() if line.strip())


def _last_list(reply: str) -> tuple[str, tuple[str, ...]]:
    """Split a reply without a heading into the text before its last list and the steps of that list."""
    lines = reply.splitlines(keepends=True)
    start = _start_of_last_list(lines)
    if start is None:
        return reply, ()
    steps = _read_list("".join(lines[start:]))
    if len(steps) < 2:
        return reply, ()
    return "".join(lines[:start]), steps


def _start_of_last_list(lines: list[str]) -> int | None:
    """Return the index of the first line of the last numbered list or, without one, of a lettered list or a table."""
    numbered: list[int] = []
    lettered: list[int] = []
    for index, line in enumerate(lines):
        item = _ITEM.fullmatch(line.rstrip())
        if item is not None and _is_first(item):
            (numbered if item["number"] else lettered).append(index)
    firsts = numbered or lettered
    if firsts:
        return firsts[-1]
    rule = next((index for index, line in enumerate(lines) if _RULE_ROW.fullmatch(line.rstrip())), 0)
    return rule - 1 if rule else None


def _is_first(item: re.Match[str]) -> bool:
    """Return whether a list item is number 1 or letter a."""
    mark = item["number"] or ""
    digits = "".join(filter(str.isdecimal, mark))
    if digits:
        return int(digits) == 1
    if mark:
        return re.sub(f"[^{_CIRCLED_NUMERALS}{_HAN_NUMERALS}]", "", mark) in ("①", "一")
    return (item["letter"] or "")[:1].lower() == "a"
