"""The language-model forms of two steps: rewriting a message from its conversation, and answering from passages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from turnmark.assistant.budget import INSTRUCTIONS, PASSAGE_MARKS, count_tokens, fit
from turnmark.assistant.generators.base import (
    Completion,
    EmptyReply,
    FinishReason,
    Generator,
    GeneratorError,
    OnText,
    PromptMessage,
    without_thinking,
)
from turnmark.assistant.prompts import fence, fence_tag, load_prompt
from turnmark.assistant.steps.marks import cited, says_unknown, unmarked
from turnmark.assistant.structured import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.types import Draft, Step, Usage
from turnmark.corpora.text import sentences, strip_citations, words
from turnmark.corpora.types import Message, Record
from turnmark.retrieval.types import Hit

# A rewrite puts in what is missing. One that is so much longer than the message has drifted from it.
LONGEST_GROWTH = 3
GROWTH_ALLOWED = 25  # words beyond that


def class_of(value: object) -> object:
    """`standalone` or `non-standalone`, however a model spells it; what is neither is left to be refused."""
    if isinstance(value, str):
        letters = re.sub(r"[^a-z]", "", value.lower())
        return {"standalone": "standalone", "nonstandalone": "non-standalone"}.get(letters, value)
    return value


class RewriteReply(BaseModel):
    """The object of MTRAG's protocol (appendix C.1): the class of a message, and the message reworded."""

    kind: Annotated[Literal["standalone", "non-standalone"], BeforeValidator(class_of)] = Field(
        validation_alias="class"
    )
    reworded: str = Field(validation_alias=AliasChoices("reworded_version", "reworded version"))


class RewriteResult(Record):
    """A message as it would be asked without its conversation; itself when it stands alone or nothing usable came."""

    standalone: bool
    rewrite: str
    usage: Usage = Usage()
    note: str | None = Field(default=None, description="for the person: what went wrong, or was left out")
    failure: str | None = Field(
        default=None, description="why nothing usable came: a `FailureKind`, `too_long`, `drifted`, `empty`"
    )


class AnswerResult(Record):
    """What a model answered."""

    draft: Draft
    unknown: bool = Field(description="the reply says that it does not know")
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()


class Written(Record):
    """What a model wrote."""

    text: str = Field(description="never empty")
    usage: Usage
    note: str | None = Field(description="why it is not whole; None where it is")
    finish_reason: FinishReason


def rewrite(
    generator: Generator, history: Sequence[Message], message: str, prompts: Path | None = None
) -> RewriteResult:
    """Reword a message so that it needs no conversation; unchanged when it needs none.

    Never raises a `GeneratorError`: a turn goes on with the message as it was typed, and a note.

    Args:
        prompts: folder with a prompt of one's own.
    """
    request = rewrite_prompt("rewrite", generator, history, message, prompts)
    if request is None:
        note = "searched as typed: too long to be reworded"
        return RewriteResult(standalone=False, rewrite=message, note=note, failure="too_long")
    prompt, left_out = request
    reply, usage = ask(generator, prompt, RewriteReply)
    if isinstance(reply, Failure):
        note = f"searched as typed: no rewrite came ({reply.kind.replace('_', ' ')}: {reply.reason})"
        return RewriteResult(standalone=False, rewrite=message, usage=usage, note=note, failure=reply.kind)
    reworded = " ".join(reply.reworded.split())
    if reply.kind == "standalone" or not reworded:
        alone = reply.kind == "standalone"
        failure = None if alone else "empty"
        return RewriteResult(standalone=alone, rewrite=message, usage=usage, note=left_out, failure=failure)
    if drifted(reworded, message):
        note = "searched as typed: the model's rewrite was far longer than the question"
        return RewriteResult(standalone=False, rewrite=message, usage=usage, note=note, failure="drifted")
    return RewriteResult(standalone=False, rewrite=reworded, usage=usage, note=left_out)


def drifted(reworded: str, message: str) -> bool:
    """Whether another wording of a message is so much longer that it is no longer the message."""
    return len(words(reworded)) > LONGEST_GROWTH * len(words(message)) + GROWTH_ALLOWED


def rewrite_prompt(
    name: str,
    generator: Generator,
    history: Sequence[Message],
    message: str,
    prompts: Path | None = None,
    passages: Sequence[str] | None = None,
) -> tuple[tuple[PromptMessage, ...], str | None] | None:
    """The messages that ask for another wording of a message; None where the message leaves no room for the reply.

    Args:
        name: of the prompt.
        passages: what it shows of the documents, fenced; None: its prompt has no place for that.

    Returns:
        The messages, and in words which earlier turns were left out.
    """
    passage_texts = passages or ()
    # Room for a reply that is cut once and asked for again, and for one repair.
    room = (
        generator.context_tokens
        - 3 * STRUCTURED_TOKENS
        - sum(PASSAGE_MARKS + count_tokens(text) for text in passage_texts)
    )
    if INSTRUCTIONS + count_tokens(message) > room:
        return None
    fitted = fit(history, (), message, room)
    tag = fence_tag(message, *(turn.content for turn in fitted.history), *passage_texts)
    values = {"tag": tag, "history": turns(fitted.history, tag), "message": message}
    if passages is not None:
        values["passages"] = "\n".join(fence(text, "passage", tag) for text in passage_texts) or "(none were found)"
    return load_prompt(name, prompts).render(**values), "; ".join(fitted.notes) or None


def answer(
    generator: Generator,
    question: str,
    history: Sequence[Message],
    hits: Sequence[Hit],
    wants_procedure: bool,
    on_text: OnText,
    prompts: Path | None = None,
    parts: Sequence[str] = (),
) -> AnswerResult:
    """Answer from the passages, with citations `[n]` into `hits`; a procedure becomes steps.

    Args:
        parts: of the question, those to answer, each in a paragraph; empty: the question is one.

    A reply cut by the limit is asked for once more with twice the room, not streamed: the draft then differs from what
    `on_text` was told. One that is cut again is kept as it stands, with a note, and no steps are read from it.

    Raises:
        GeneratorError: no reply was to be had, or an empty one.
    """
    prompt = answer_prompt(question, history, hits, wants_procedure, prompts, parts)
    return read_answer(written(generator, prompt, on_text), wants_procedure)


def clarify(
    generator: Generator,
    question: str,
    readings: Sequence[str],
    hits: Sequence[Hit],
    on_text: OnText,
    prompts: Path | None = None,
) -> AnswerResult:
    """Ask back which of some readings is meant; see the prompt `clarify`.

    Raises:
        GeneratorError: no reply was to be had, or an empty one.
    """
    texts = passage_texts(hits)
    tag = fence_tag(question, *readings, *texts)
    prompt = load_prompt("clarify", prompts).render(
        tag=tag,
        passages=numbered(texts, tag),
        question=question,
        readings=one_a_line(readings) or "(none was named: ask what is meant)",
    )
    return read_answer(written(generator, prompt, on_text), wants_procedure=False)


def read_answer(completion: Written, wants_procedure: bool) -> AnswerResult:
    """What was written, as an answer: whether it knows, and its steps."""
    if completion.note:
        return AnswerResult(
            draft=Draft(text=completion.text), unknown=False, usage=completion.usage, notes=(completion.note,)
        )
    if says_unknown(completion.text):
        return AnswerResult(draft=Draft(text=strip_citations(completion.text)), unknown=True, usage=completion.usage)
    body, steps, problem = parse_steps(completion.text)
    if wants_procedure and not steps and not problem:
        body, steps = steps_in(completion.text)
    notes = (
        [f"the steps are shown as they were written: {problem}"] if problem and wants_procedure and not steps else []
    )
    if completion.finish_reason == "length":
        notes.append("the model went on repeating itself: what it had said is left out")
    draft = Draft(text=body, procedure=steps)
    return AnswerResult(draft=draft, unknown=False, usage=completion.usage, notes=tuple(notes))


def answer_prompt(
    question: str,
    history: Sequence[Message],
    hits: Sequence[Hit],
    wants_procedure: bool,
    prompts: Path | None = None,
    parts: Sequence[str] = (),
) -> tuple[PromptMessage, ...]:
    """The messages that `answer` sends: passages and earlier turns fenced, each passage with its number before it."""
    texts = passage_texts(hits)
    tag = fence_tag(question, *(turn.content for turn in history), *texts)
    return load_prompt("answer", prompts).render(
        tag=tag,
        passages=numbered(texts, tag),
        history=turns(history, tag),
        question=question,
        parts=one_a_line(parts),
        steps=wants_procedure,
    )


def passage_texts(hits: Sequence[Hit]) -> list[str]:
    """What of the passages a prompt shows: their indexed text, without marks that would pass for citations of ours."""
    return [unmarked(hit.passage.indexed_text) for hit in hits]


def numbered(texts: Sequence[str], tag: str) -> str:
    """Passages as a prompt shows them: each fenced, its number before it."""
    lines = (f"[{n}]\n{fence(text, 'passage', tag)}" for n, text in enumerate(texts, 1))
    return "\n\n".join(lines) or "(none were found)"


def one_a_line(texts: Sequence[str]) -> str:
    """Texts with their numbers, a line each whatever they hold: a line of their own would pass for one of ours."""
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, 1))


def turns(history: Sequence[Message], tag: str) -> str:
    """Earlier turns as a prompt shows them: each fenced."""
    return "\n".join(fence(turn.content, turn.role, tag) for turn in history)


def written(
    generator: Generator,
    messages: Sequence[PromptMessage],
    on_text: OnText | None = None,
) -> Written:
    """A reply in prose; one that is cut by its limit is asked for once more with twice the room, not streamed.

    Raises:
        GeneratorError: no reply was to be had, or an empty one.
    """
    reply = generator.complete(messages, on_text=on_text)
    usage = reply.usage
    text = without_thinking(reply.text).strip()
    new = before_repeats(text) if reply.finish_reason == "length" else ""
    if new:  # more room would only be filled with more of the same
        return Written(text=new, usage=usage, note=None, finish_reason="length")
    if reply.finish_reason == "length":
        reply, spent = _once_more(generator, messages, reply)
        usage += spent
        text = without_thinking(reply.text).strip()
    if not text:
        raise _nothing_said(reply, usage)
    ended = {
        "length": f"the answer is not whole: it was cut at the reply's limit of {reply.max_tokens} tokens",
        "content_filter": "the answer is not whole: the endpoint's content filter stopped it",
    }
    return Written(text=text, usage=usage, note=ended.get(reply.finish_reason), finish_reason=reply.finish_reason)


LEAST_PIECES, REPEATED = 8, 0.4
"""Sentences of a text that can be told to run on, and the share of them that were said before."""


def before_repeats(text: str) -> str:
    """What a text says before it begins to repeat itself; "" where it does not run on."""
    spans = sentences(text)
    pieces = [" ".join(words(text[start:end])) for start, end in spans]
    again = [at for at, piece in enumerate(pieces) if piece in pieces[:at] and len(piece.split()) > 2]
    if len(pieces) < LEAST_PIECES or len(again) < REPEATED * len(pieces):
        return ""
    return _HEAD.sub("", text[: spans[again[0]][0]].rstrip()).rstrip()


def _once_more(generator: Generator, messages: Sequence[PromptMessage], cut: Completion) -> tuple[Completion, Usage]:
    """A cut reply asked for again with twice the room, or what the context has; the cut one when that says no more."""
    prompt = sum(count_tokens(message.content) for message in messages)
    room = min(2 * cut.max_tokens, generator.context_tokens - prompt)
    if room <= cut.max_tokens:
        return cut, Usage()
    try:
        retry = generator.complete(messages, max_tokens=room)
    except GeneratorError as error:
        return cut, error.usage
    return (retry if retry.finish_reason != "length" or len(retry.text) > len(cut.text) else cut), retry.usage


def _nothing_said(reply: Completion, usage: Usage) -> GeneratorError:
    """The error of a reply without text."""
    if reply.finish_reason == "length":
        problem = f"{reply.model} used up {reply.max_tokens} tokens before it said anything; raise max_tokens"
        return EmptyReply(problem, usage)
    if reply.finish_reason == "content_filter":
        problem = f"{reply.model} said nothing: the endpoint's content filter stopped it"
        return GeneratorError("refused", problem, usage)
    return EmptyReply(f"{reply.model} gave an empty reply", usage)


# --- reading a reply -------------------------------------------------------------------------------------------------

_STEPS_LINE = re.compile(r"^[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*|__)?Steps(?:\*\*|__)?:?(?:\*\*|__)?[ \t]*$", re.MULTILINE)
_STEP = re.compile(r"(\d{1,3})[.)][ \t]+(\S.*)")


def parse_steps(text: str) -> tuple[str, tuple[Step, ...], str]:
    """Split a reply at its last line `Steps:` into what stands before it and the steps after it.

    Strict: one step a line, numbered 1, 2, 3 …, none indented, no list inside, no words after it. Where that does not
    hold nothing is split off.

    Returns:
        The text without the block, the steps, and what is wrong about the block ("" where nothing is).
    """
    heads = list(_STEPS_LINE.finditer(text))
    if not heads:
        return text, (), ""
    steps: list[Step] = []
    for line in filter(str.strip, text[heads[-1].end() :].splitlines()):
        item = _STEP.fullmatch(line.rstrip())
        if item is None:
            problem = "a list inside the list" if line[0].isspace() else "a line that is no numbered step"
            return text, (), f"there is {problem} under 'Steps:'"
        if int(item[1]) != len(steps) + 1:
            return text, (), f"step {len(steps) + 1} is numbered {item[1]}"
        numbers = tuple(dict.fromkeys(cited(item[2])))
        steps.append(Step(step=strip_citations(item[2]).strip(), citations=numbers))
    if not steps:
        return text, (), "there is nothing under 'Steps:'"
    return text[: heads[-1].start()].rstrip(), tuple(steps), ""


_ITEM = re.compile(r"(?:^|(?<=\s))(?:\*\*)?(?:step\s+)?(\d{1,2})[.):](?:\*\*)?\s+(?=\S)", re.IGNORECASE)
_HEAD = re.compile(r"(?:^|(?<=[.!?:\]\n]))[\s*_#-]*\b(?:the |these are the )?steps?(?: are)?\b\W*$", re.IGNORECASE)


def steps_in(text: str) -> tuple[str, tuple[Step, ...]]:
    """What stands before a numbered list, and its items, however they are laid out; no items where there are not two.

    >>> steps_in("Do this. Steps: 1. Open it [1]. 2. Close it.")[1][1].step
    'Close it.'
    """
    places: list[re.Match[str]] = []
    for match in _ITEM.finditer(text):
        if int(match[1]) == len(places) + 1:
            places.append(match)
    if len(places) < 2:
        return text, ()
    ends = [match.start() for match in places[1:]] + [len(text)]
    steps_by_text: dict[str, Step] = {}
    for match, end in zip(places, ends, strict=True):
        item = text[match.end() : end].strip()
        step = " ".join(strip_citations(item).split()).strip(" -*")
        if step:
            steps_by_text.setdefault(step.lower(), Step(step=step, citations=tuple(dict.fromkeys(cited(item)))))
    return _HEAD.sub("", text[: places[0].start()].strip()).strip(), tuple(steps_by_text.values())
