"""A benchmark's own prompt over passages, a conversation and its last question, within a model's context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.prompts import fence, fence_tag
from turnmark.assistant.steps.llm import numbered, turns
from turnmark.corpora.types import Message
from turnmark.evaluation.judging.prompting import Fitted, Messages, fit, room_for
from turnmark.evaluation.prompts import load_prompt


def titled(title: str, text: str) -> str:
    """A document as such a prompt shows it: its title above it, where it has one."""
    return "\n\n".join(filter(None, (title, text)))


def fitted(
    name: str,
    texts: Sequence[str],
    history: Sequence[Message],
    question: str,
    generator: Generator,
    prompts: Path | None = None,
) -> Fitted | None:
    """The prompt `name`, all material fenced; None where the question does not fit into the model's context.

    Args:
        prompts: folder with prompts of one's own.
    """
    prompt = load_prompt(name, prompts)

    def render(passages: Sequence[str], earlier: Sequence[Message]) -> Messages:
        tag = fence_tag(question, *passages, *(turn.content for turn in earlier))
        return prompt.render(
            tag=tag,
            history=turns(earlier, tag),
            passages=numbered(passages, tag),
            question=fence(question, "question", tag),
        )

    return fit(render, texts, history, room_for(generator))
