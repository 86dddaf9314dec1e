"""The answer step with a language model: one call over the sections that were found, all parts at once.

What the model writes is the answer: nothing is added to its words or replaces them.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from turnmark.assistant.asking import WrittenText, one_a_line, write_text
from turnmark.assistant.budget import PASSAGE_MARKS, count_tokens, room_beside
from turnmark.assistant.generators.base import Generator, PromptMessage
from turnmark.assistant.prompts import load_prompt, quote_lines
from turnmark.assistant.steps.history import earlier_turns
from turnmark.assistant.steps.marks import cited_numbers, escape_marks, pieces_of, says_unknown, without_item_mark
from turnmark.assistant.steps.quote import nothing, quotations
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Decision, Draft, ProcedureStep, Understanding, Usage
from turnmark.corpora.text import list_items, plain, strip_citations, words
from turnmark.corpora.types import CONTINUED, Message, Passage
from turnmark.retrieval.types import Hit

_BLANKS = re.compile(r"\n(?:[ \t>]*\n){2,}")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_NEXT_HEADING = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)
NOT_STATED = re.compile(r"^\W*(?:(?:it|this|the answer) is )?not (?:stated|mentioned|given|specified|provided)\b", re.I)


class Read:
    """All parts in one call, from full sections."""

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        if turn.written:  # the model answered while it searched
            return
        if not turn.hits:
            turn.draft = nothing(turn.parts)
            turn.stream(turn.draft.text)
            return
        prompt, notes = turn_prompt(turn)
        turn.use("answer", Usage(), *notes)
        settle_reply(turn, write_text(turn.model, prompt, turn.stream))


def settle_reply(turn: Turn, reply: WrittenText) -> None:
    """Take what the model wrote as the answer, and what it comes to as the decision."""
    turn.use("answer", reply.usage, reply.note)
    turn.draft = draft_of(reply.text)
    decision = decision_of(reply.text, len(turn.parts))
    if decision != turn.judgement.decision:
        turn.decide(turn.judgement.model_copy(update={"decision": decision, "reason": "the model, after reading"}))


def turn_prompt(turn: Turn) -> tuple[tuple[PromptMessage, ...], list[str]]:
    """The messages that ask for a turn's answer.

    Earlier turns are always shown: whether a message leans on them is a guess, and "Yes" means nothing without them.
    """
    return answer_prompt(turn.model, turn.understanding, turn.message, turn.history, turn.hits, turn.prompts)


def answer_prompt(
    generator: Generator,
    understood: Understanding,
    message: str,
    history: Sequence[Message],
    hits: Sequence[Hit],
    prompts: Path | None = None,
    previous: str = "",
) -> tuple[tuple[PromptMessage, ...], list[str]]:
    """The messages that ask for an answer, or for the last one changed; and what had to be left out, in words.

    Args:
        history: the turns before the message, or before the answer that is to be changed.
        previous: that answer; "": the message is a question.
    """
    template = load_prompt("answer", prompts)
    meant, changed = _meant(understood, message), template.quote(strip_citations(previous))
    room = room_beside(generator, template, message, meant, changed)
    notes: list[str] = []
    earlier, left_out = earlier_turns(history, room, template.quote)
    if left_out:
        notes.append(f"{left_out} earlier messages were left out: the model's context is full")
    room -= count_tokens(earlier)
    shown: list[str] = []
    for number, hit in enumerate(hits, 1):
        text = show_section(number, hit.passage, template.quote)
        room -= count_tokens(text) + PASSAGE_MARKS
        if room < 0 and shown:
            notes.append(f"{len(hits) - len(shown)} of {len(hits)} sections were left out: the model's context is full")
            break
        shown.append(text)
    return template.render(
        history=earlier,
        sections="\n\n".join(shown) or "(none were found)",
        today=datetime.date.today().strftime("%A, %-d %B %Y"),
        revises=bool(previous),
        previous=changed,
        message=message,
        understood=meant,
    ), notes


def _meant(understood: Understanding, message: str) -> str:
    """What a message was understood to ask, if that says more than the message does.

    What rules carry over is for the search alone.
    """
    parts = understood.asked or () if understood.topic else understood.sub_questions
    if len(parts) > 1:
        return one_a_line(parts)
    return "".join(part for part in parts if words(part) != words(message))


def show_section(number: int, passage: Passage, quote: Callable[[str], str] = quote_lines) -> str:
    """A section as a prompt shows it: its number, where it is from, and its text."""
    head = f"{passage.heading} {CONTINUED}" if passage.section.endswith(CONTINUED) else passage.heading
    source = ", ".join(filter(None, (passage.path, passage.date)))
    title = quote(escape_marks(f"{head} ({source})" if source else head))
    text = _BLANKS.sub("\n\n", escape_marks(passage.text))
    return f"[{number}]\n{title}\n{quote(text)}"


def draft_of(text: str) -> Draft:
    """A model's answer, its numbered list read as a procedure; a step that is a heading has what is below it."""
    items = [item for item in list_items(text) if item.number is not None and item.depth == 0]
    ends = [*(item.start for item in items[1:]), len(text)]
    below = [
        _paragraphs(text[item.end : end]) if text[item.start] == "#" else []
        for item, end in zip(items, ends, strict=False)
    ]
    if below:  # words after the last step do not belong to it
        below[-1] = below[-1][: max(map(len, below[:-1]), default=0)]
    steps = []
    for item, paragraphs in zip(items, below, strict=True):
        said = " ".join([item.text, *paragraphs])
        citations = tuple(dict.fromkeys(cited_numbers(said)))
        steps.append(ProcedureStep(step=strip_citations(said).strip(), citations=citations))
    return Draft(text=text, procedure=tuple(steps) if len(steps) > 1 else ())


def _paragraphs(body: str) -> list[str]:
    """The paragraphs and lists below a heading as plain lines, up to the next heading."""
    body = _NEXT_HEADING.split(body, maxsplit=1)[0]
    return [
        " ".join(plain(without_item_mark(line.strip())) for line in paragraph.splitlines())
        for paragraph in _BLANK_LINE.split(body)
        if paragraph.strip()
    ]


def decision_of(text: str, parts: int) -> Decision:
    """What a model's answer comes to, by its words.

    `unknown` if its first sentence says that the documents do not say it and only what is near follows; `partial` if
    that is said of a part; `clarify` if it only asks back.
    """
    pieces = [piece.text for piece in pieces_of(text) if any(map(str.isalnum, strip_citations(piece.text)))]
    missing = [says_unknown(strip_citations(piece)) for piece in pieces]
    if not any(cited_numbers(piece) for piece in pieces) and pieces and pieces[-1].rstrip().endswith(("?", "？")):
        return "clarify"
    if missing and missing[0] and (parts == 1 or not any(cited_numbers(piece) for piece in pieces)):
        return "unknown"
    return "partial" if any(missing) else "answer"


class ReadBriefly:
    """A small model's answer from the two nearest stretches, and below it what it rests on.

    It is weak at judging: if the evidence is, or it says that nothing is stated, the quotation alone is the answer.
    """

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        quotation = quotations(turn)
        if quotation is not None and turn.judgement.decision == "answer":
            understood = turn.understanding
            template = load_prompt("answer-small", turn.prompts)
            prompt = template.render(
                sections=template.quote(strip_citations(quotation.text).replace("**", "")),
                question=turn.message if understood.topic else understood.rewrite,
            )
            reply = write_text(turn.model, prompt, turn.stream)
            turn.use("answer", reply.usage, reply.note)
            if not (NOT_STATED.match(reply.text) or says_unknown(reply.text)):
                below = f"\n\n{quote_lines(quotation.text)}"
                steps = draft_of(reply.text).procedure
                turn.draft = Draft(text=reply.text + below, procedure=steps, claims=reply.text)
                turn.stream(below)
                return
            for part in turn.parts:
                part.judgement = part.judgement.model_copy(
                    update={"decision": "partial", "reason": "the model is not sure"}
                )
            turn.decide()
            quotation = quotations(turn)
        turn.draft = quotation or nothing(turn.parts)
        turn.stream(turn.draft.text)
