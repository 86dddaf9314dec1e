"""A judge's prompt over a case: what it shows, what of it fits, and whose prompt it is.

What is too long for a judge's context is cut where that hurts least, and the outcome says so: first the ends of the
passages, the longest ones most; then the oldest turns; then whole passages, the last ones first. Question, reply and
reference are never cut: a judgement of a part of a reply is none of the reply.

Prompts of one's own that are those of a paper are told by a digest; their texts are not in this project. It is over the
text without white space, in lower case, typographic quotation marks made plain, each placeholder by our name for it.
Sources: `rb-llm` MTRAG Figure 6 (judge_utils.py of the repository prints the same); `idk` MTRAG Figure 8 with the
examples that judge_utils.py has; `clarification` underspecified_eval.py, for MTRAG-UN Figure 6.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnmark.assistant.budget import count_tokens
from turnmark.assistant.generators.base import Generator, PromptMessage
from turnmark.assistant.prompts import Prompt, fence_tag
from turnmark.assistant.steps.llm import numbered, turns
from turnmark.corpora.types import Message
from turnmark.evaluation.judging.judgements import Case
from turnmark.evaluation.prompts import TAG, OwnPrompt, framed, load_prompt, own_names

Messages = tuple[PromptMessage, ...]
Render = Callable[[Sequence[str], Sequence[Message]], Messages]
"""The prompt with these passages and these turns."""

LEAST = 60
"""Tokens that are left of each passage before turns are left out."""
REPAIR = 200
"""Tokens of the request to judge once more."""
CUT = " […]"


@dataclass(frozen=True)
class Fitted:
    """A prompt that fits, and in words what it does not show."""

    messages: Messages
    notes: tuple[str, ...] = ()


def room_for(generator: Generator, reply: int | None = None) -> int:
    """Tokens that a prompt may have: there is room for a reply, for another, and for what is said between them.

    Args:
        reply: tokens of a reply; None: the generator's own.
    """
    window = generator.context_tokens
    return window - min(2 * (reply or generator.reply_tokens) + REPAIR, window // 2)


def fit(render: Render, passages: Sequence[str], history: Sequence[Message], room: int) -> Fitted | None:
    """The prompt within `room` tokens; None where it does not fit even without passages and earlier turns."""

    def attempt(passages_shown: Sequence[str], turns: Sequence[Message]) -> Messages | None:
        messages = render(passages_shown, turns)
        return messages if sum(count_tokens(message.content) for message in messages) <= room else None

    prompt = attempt(passages, history)
    if prompt is not None:
        return Fitted(prompt)
    if passages and attempt(_cut(passages, LEAST), history) is not None:
        low, high = LEAST, max(map(count_tokens, passages))  # low fits, high does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if attempt(_cut(passages, middle), history) is not None else (low, middle)
        return Fitted(render(_cut(passages, low), history), (_ends_cut(passages, low),))
    shortest = _cut(passages, LEAST)
    for first in range(1, len(history) + 1):
        messages = attempt(shortest, history[first:])
        if messages is not None:
            return Fitted(messages, (*_cut_notes(passages), _turns_out(first, len(history))))
    for count in range(len(passages) - 1, -1, -1):
        messages = attempt(shortest[:count], ())
        if messages is not None:
            left_out_note = f"{len(passages) - count} of {len(passages)} passages left out, the last ones"
            turns = [_turns_out(len(history), len(history))] if history else []
            return Fitted(messages, (*_cut_notes(passages[:count]), *turns, left_out_note))
    return None


def _cut_notes(passages: Sequence[str]) -> list[str]:
    return [_ends_cut(passages, LEAST)] if _cut(passages, LEAST) != list(passages) else []


def _ends_cut(passages: Sequence[str], limit: int) -> str:
    cut = sum(text != shortened_text for text, shortened_text in zip(passages, _cut(passages, limit), strict=True))
    return f"the ends of {cut} of {len(passages)} passages cut, at about {limit} tokens"


def _turns_out(dropped: int, total: int) -> str:
    return f"{dropped} of {total} earlier messages left out, the oldest"


def _cut(passages: Sequence[str], limit: int) -> list[str]:
    return [shortened(text, limit) for text in passages]


def shortened(text: str, limit: int) -> str:
    """The longest beginning of `text` that has at most so many tokens and ends with a word; marked where it was cut."""
    if count_tokens(text) <= limit:
        return text
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    low, high = 0, len(ends)  # how many words fit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(text[: ends[middle - 1]]) <= limit else (low, middle - 1)
    return (text[: ends[low - 1]] if low else text[: limit * 3]) + CUT


_CASE_TEXTS = ("question", "answer", "reference")
_KINDS = {"answer": "reply"}
_SPEAKERS = {"assistant": "agent"}


def placeholder_values(
    prompt: Prompt, case: Case, texts: Mapping[str, str], passages: Sequence[str], history: Sequence[Message]
) -> dict[str, str]:
    """The values of a prompt's placeholders.

    Bare material has the form of MTRAG's official scripts (judge_utils.py): passages one after the other, turns as
    lines that begin with `user: ` and `agent: `.

    Args:
        texts: placeholder -> text, beside those of the case.
        passages: as many of the case's as fit.
        history: as many of the case's earlier turns as fit.
    """
    shown_texts: dict[str, str] = {
        name: getattr(case, name) for name in _CASE_TEXTS if name in prompt.placeholders
    } | dict(texts)
    tag = fence_tag(*shown_texts.values(), *passages, *(turn.content for turn in history), case.question)
    values = {name: framed(prompt, text, _KINDS.get(name, name), tag) for name, text in shown_texts.items()}
    conversation = (*history, Message(role="user", content=case.question))
    marked = TAG in prompt.placeholders
    if marked:
        values[TAG] = tag
    if "passages" in prompt.placeholders:
        values["passages"] = numbered(passages, tag) if marked else "\n\n".join(passages)
    for name, messages in (("history", tuple(history)), ("conversation", conversation)):
        if name in prompt.placeholders:
            values[name] = turns(messages, tag) if marked else _lines(messages)
    return values


def _lines(messages: Sequence[Message]) -> str:
    return "\n".join(f"{_SPEAKERS.get(message.role, message.role)}: {message.content}" for message in messages)


PAPERS: Mapping[str, str] = {
    "rb-llm": "1996041c5ba951a8",
    "idk": "8e9f35533a79d111",
    "clarification": "191d880a78861855",
}
"""Prompt -> digest of the one that its paper used."""
OFFICIAL, OWN = "the paper's prompt", "a prompt of one's own"
"""What a published figure's instrument is held against, in place of `measures.OWN_WORDS`."""
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_QUOTES = {ord("‘"): "'", ord("’"): "'", ord("“"): '"', ord("”"): '"', ord("–"): "-", ord("—"): "-"}


def digest(prompt: Prompt) -> str:
    """16 digits of a SHA-256 over what a prompt says, however it is laid out."""
    text = "".join(_PLACEHOLDER.sub(r"{\1}", section) for _, section in prompt.sections)
    plain = unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()
    return hashlib.sha256("".join(plain.split()).encode("utf-8")).hexdigest()[:16]


def is_papers(name: str, directory: Path | None) -> bool:
    """Whether the prompt that is asked with is the one of the paper."""
    prompt = load_prompt(name, directory)
    return isinstance(prompt, OwnPrompt) and name in PAPERS and digest(prompt) == PAPERS[name]


def whose(names: Iterable[str], directory: Path | None) -> str:
    """Whose prompts a measure asks with: `OFFICIAL`, `OWN`, or empty for the built-in ones."""
    names = tuple(names)
    if not own_names(names, directory):
        return ""
    return OFFICIAL if all(is_papers(name, directory) for name in names) else OWN
