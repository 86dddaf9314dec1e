"""Revising a long answer as the user instructs: one turn of KIWI (section 2.2), with a language model and without.

The kinds of instruction are those of KIWI's table 3. The commonest fault found there is a change that nobody asked for
(table 4): both forms edit sentences by their number, so that what no edit names stands as it stood. What code can check
of an instruction (`turnmark.assistant.steps.constraints`) is checked, and mended once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.assistant.generators.base import Generator, OnText
from turnmark.assistant.steps.operations import Operation as Operation
from turnmark.assistant.steps.operations import Revision as Revision
from turnmark.assistant.steps.operations import operations as operations
from turnmark.assistant.steps.revise_llm import first_answer, with_model
from turnmark.assistant.steps.revise_material import PASSAGES as PASSAGES
from turnmark.assistant.steps.revise_material import Material, Search
from turnmark.assistant.steps.revise_rules import by_rules
from turnmark.retrieval.types import Hit

if TYPE_CHECKING:
    from turnmark.assistant.steps.answer import Embed
    from turnmark.assistant.steps.instructions import InstructionType


def revised(
    generator: Generator | None,
    question: str,
    previous: str,
    instruction: str,
    search: Search,
    embed: Embed | None,
    prompts: Path | None = None,
    on_text: OnText | None = None,
    *,
    known: Sequence[Hit] = (),
    sort: InstructionType | None = None,
    gone: Sequence[str] = (),
) -> Revision:
    """Revise an answer as instructed; `search` is asked, with the instruction, only where something must be looked up.

    With a generator: the instruction is typed by it; for one that seeks information, five passages are summarised
    against the answer, and the summary is put in; any other is followed from the answer alone. Without one, or where
    its reply cannot be used, by rules.

    Args:
        question: what the answer answers.
        previous: the answer so far; blank: with a generator a first one is written, from passages for the question.
        instruction: rules understand English only.
        search: gives passages, best first; the first five are used.
        embed: embeds sentences (unit vectors); without it, shared words decide.
        on_text: told of the revised answer, once and whole: edits cannot be streamed.
        known: what the marks `[n]` of `previous` count, from 1. New passages are numbered behind them, and one that is
            among them keeps its number; `hits` of the revision has them all.
        sort: the instruction's type where it is known, so that no model is asked for it; rules go by the words.
        gone: sentences that were taken out of the answer before; rules do not add them again.

    Raises:
        GeneratorError: the model gave no reply, or the answer does not fit into its context.
    """
    material = Material(question, previous, instruction, search, tuple(known), embed, prompts, sort, tuple(gone))
    if generator is None:
        made = by_rules(material)
    elif not previous.strip():
        made = first_answer(generator, material)
    else:
        made = with_model(generator, material)
    if on_text is not None:
        on_text(made.text)
    return made


def revise(question: str, previous: str, instruction: str, hits: Sequence[Hit], embed: Embed | None) -> Revision:
    """Revise by rules from passages at hand: `revised` without a generator, new citations 1-based into `hits`."""
    return revised(None, question, previous, instruction, lambda _: hits, embed)


def revise_with(
    generator: Generator,
    question: str,
    previous: str,
    instruction: str,
    hits: Sequence[Hit],
    prompts: Path | None = None,
) -> Revision:
    """Revise with a language model from passages at hand: `revised`, new citations 1-based into `hits`."""
    return revised(generator, question, previous, instruction, lambda _: hits, None, prompts)
