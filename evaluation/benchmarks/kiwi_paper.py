"""KIWI's own way to have a model revise (section 2.2, appendix A.1): the whole answer written anew, by plain prompts.

An instruction that seeks information takes two calls: what the passages say to it, then the answer with that put in.
Any other takes one, with question, answer and instruction. The assistant's turn asks for edits of numbered sentences
and mends them by code; this asks for what the paper's models were asked for, and takes the reply as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnmark.assistant.generators.base import Generator, GeneratorError
from turnmark.assistant.prompts import fence, fence_tag
from turnmark.assistant.steps.llm import Written, numbered, written
from turnmark.assistant.structured import joined
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Message
from turnmark.evaluation.benchmarks.prompted import titled
from turnmark.evaluation.judging.prompting import Messages, fit, room_for
from turnmark.evaluation.prompts import load_prompt
from turnmark.retrieval.types import Hit

FIRST, INFORMATION, REWRITE = "kiwi-first", "kiwi-information", "kiwi-rewrite"
PROMPTS = (FIRST, INFORMATION, REWRITE)
NEEDS_MODEL = "--protocol paper asks a language model by the paper's prompts: add --generator, or leave it out"


@dataclass(frozen=True)
class Rewritten:
    """An answer as a model wrote it, what it took, and what is to be noted."""

    text: str
    usage: Usage
    notes: tuple[str, ...] = ()


def first_answer(generator: Generator, question: str, hits: Sequence[Hit], prompts: Path | None = None) -> Rewritten:
    """The answer that a session begins with, from the passages found for the question.

    Raises:
        GeneratorError: no reply was to be had, or an empty one; or the question does not fit into the model's context.
    """
    return _reply(generator, FIRST, {"question": question}, hits, prompts)


def rewritten(
    generator: Generator,
    question: str,
    previous: str,
    instruction: str,
    hits: Sequence[Hit],
    seeks_information: bool,
    prompts: Path | None = None,
) -> Rewritten:
    """The answer revised as instructed, written anew as a whole.

    Args:
        hits: passages for the instruction, best first; shown only where it seeks information.
        prompts: folder with prompts of one's own.

    Raises:
        GeneratorError: no reply was to be had, or an empty one; or the texts do not fit into the model's context.
    """
    texts = {"previous": previous, "instruction": instruction}
    if not seeks_information:
        return _reply(generator, REWRITE, {"question": question, **texts, "information": ""}, (), prompts)
    summary = _reply(generator, INFORMATION, texts, hits, prompts)
    try:
        made = _reply(
            generator, REWRITE, {"question": question, **texts, "information": summary.text}, (), prompts
        )  # fmt: skip
    except GeneratorError as error:
        raise GeneratorError(error.kind, str(error), summary.usage + error.usage) from error
    return Rewritten(made.text, summary.usage + made.usage, (*summary.notes, *made.notes))


def _reply(
    generator: Generator, name: str, texts: Mapping[str, str], hits: Sequence[Hit], prompts: Path | None
) -> Rewritten:
    prompt = load_prompt(name, prompts)

    def render(passages: Sequence[str], _: Sequence[Message]) -> Messages:
        tag = fence_tag(*texts.values(), *passages)
        values = {key: fence(text, key, tag) if text else "" for key, text in texts.items()}
        if "passages" in prompt.placeholders:
            values["passages"] = numbered(passages, tag)
        return prompt.render(tag=tag, **values)

    shown = fit(render, [titled(hit.passage.title, hit.passage.text) for hit in hits], (), room_for(generator))
    if shown is None:
        what = f"question, answer and instruction do not fit into the context of {generator.name}"
        raise GeneratorError("bad_request", what)
    said: Written = written(generator, joined(shown.messages))
    return Rewritten(said.text, said.usage, (*shown.notes, *([said.note] if said.note else [])))
