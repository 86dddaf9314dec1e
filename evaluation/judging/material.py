"""What of a case a judge's prompt shows: each text under its placeholder, between marks or bare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnmark.assistant.prompts import Prompt, fence_tag
from turnmark.assistant.steps.llm import numbered, turns
from turnmark.corpora.types import Message
from turnmark.evaluation.judging.records import Case
from turnmark.evaluation.prompts import TAG, framed

_CASE_TEXTS = ("question", "answer", "reference")
_KINDS = {"answer": "reply"}
_SPEAKERS = {"assistant": "agent"}


def values_of(
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
    own: dict[str, str] = {name: getattr(case, name) for name in _CASE_TEXTS if name in prompt.placeholders} | dict(
        texts
    )
    tag = fence_tag(*own.values(), *passages, *(turn.content for turn in history), case.question)
    values = {name: framed(prompt, text, _KINDS.get(name, name), tag) for name, text in own.items()}
    whole = (*history, Message(role="user", content=case.question))
    marked = TAG in prompt.placeholders
    if marked:
        values[TAG] = tag
    if "passages" in prompt.placeholders:
        values["passages"] = numbered(passages, tag) if marked else "\n\n".join(passages)
    for name, messages in (("history", tuple(history)), ("conversation", whole)):
        if name in prompt.placeholders:
            values[name] = turns(messages, tag) if marked else _lines(messages)
    return values


def _lines(messages: Sequence[Message]) -> str:
    return "\n".join(f"{_SPEAKERS.get(message.role, message.role)}: {message.content}" for message in messages)
