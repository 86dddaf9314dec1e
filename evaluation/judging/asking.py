"""Ask a judge for a verdict: its finish reason first, then what it says, one more time where that is no verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from turnmark.assistant.generators.base import Generator, GeneratorError, PromptMessage
from turnmark.assistant.steps.llm import written
from turnmark.assistant.structured import Failure, joined
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Record
from turnmark.evaluation.judging.verdicts import Offer, Verdict, read_verdict, spoken
from turnmark.evaluation.prompts import load_prompt


class Told(Record):
    """A verdict, and the whole text that it ends."""

    verdict: Verdict
    text: str


def ask_verdict(
    generator: Generator, messages: Sequence[PromptMessage], offer: Offer, prompts: Path | None = None
) -> tuple[Told | Failure, Usage]:
    """A verdict that is on offer, or a failure with the last text that the judge wrote; and what it cost.

    A reply cut by its limit is asked for once more with twice the room, as everywhere, and one that is cut again has
    failed, whatever stands in it. One that was cut by a filter has failed too. One that is empty, or ends in no verdict
    that was on offer, is asked for once more with what is wrong about it.

    Args:
        messages: the request; it should say in words what is on offer, and in which form.
        prompts: folder with prompts of one's own.
    """
    usage, raw, problem = Usage(), "", ""
    for last in (False, True):
        try:
            said = written(generator, joined(messages))
        except GeneratorError as error:
            usage += error.usage
            if error.kind == "bad_reply" and not last:
                continue
            return Failure(kind=error.kind, raw=raw, reason=str(error)), usage
        usage, raw = usage + said.usage, said.text
        if said.note is not None:
            kind = "length" if said.finish_reason == "length" else "content_filter"
            return Failure(kind=kind, raw=raw, reason=said.note.replace("the answer", "the judgement", 1)), usage
        found = read_verdict(said.text, offer)
        if isinstance(found, Verdict):
            return Told(verdict=found, text=spoken(said.text).strip()), usage
        problem = found
        told = load_prompt("verdict-repair", prompts).render(
            problem=problem, offered=offer.in_words(), blank=offer.blank, name=offer.name
        )
        messages = [*messages, PromptMessage(role="assistant", content=said.text), *told]
    return Failure(kind="invalid", raw=raw, reason=f"no verdict, twice: {problem}"), usage
