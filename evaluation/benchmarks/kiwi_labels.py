"""What KIWI's analysis says of a turn (sections 4.2 and 4.3): the type of its instruction, what went wrong, and whether
what was retrieved would have done; by few-shot prompts and by rules.

The paper's authors labelled some turns by hand, and GPT-4 the rest. Retrieval they judged by hand alone; by rules we
hold the sentences that a user put in by hand against the passages, which says nothing of turns without an edit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, cast

from pydantic import BaseModel, Field

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps.support import covers
from turnmark.assistant.types import Usage
from turnmark.corpora.kiwi import Session, Turn
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Record
from turnmark.evaluation.benchmarks.kiwi_turns import asked, is_good
from turnmark.evaluation.judging.kiwi_rules import INFORMATION, operations, read_revision, type_of
from turnmark.evaluation.prompts import JUDGES

Instruction = Literal[
    "More information",
    "Expand coverage",
    "Clarification",
    "Remove",
    "Specific edit",
    "Condense",
    "Reorganize",
    "Others",
]
Error = Literal["Unrequested change", "Ignored", "Constraint failure", "Poor integration", "Others"]
Retrieved = Literal["all", "some", "none"]
PROMPTS = ("kiwi-instruction", "kiwi-error", "kiwi-retrieved")
SAID = 0.6
"""Share of a sentence's content words that the passages hold, from which on they say it."""


class TurnLabels(Record):
    """What is said of a turn: the text of a sample, as JSON."""

    instruction: Instruction
    error: Error | None = Field(default=None, description="None: rated good, or there is no comment to go by")
    retrieved: Retrieved | None = Field(default=None, description="None: nothing was to be retrieved, or nobody knows")


class InstructionReply(BaseModel):
    """What the prompt `kiwi-instruction` asks for."""

    category: Instruction


class ErrorReply(BaseModel):
    """What the prompt `kiwi-error` asks for."""

    category: Error


class RetrievedReply(BaseModel):
    """What the prompt `kiwi-retrieved` asks for."""

    retrieved: Retrieved


def labels_asked(
    session: Session, turn: Turn, generator: Generator, prompts: Path | None = None
) -> tuple[TurnLabels, dict[str, Usage]]:
    """What a model says of a turn, in up to three calls, and what each took.

    Raises:
        GeneratorError: it gave no label, or the turn does not fit into its context.
    """
    used: dict[str, Usage] = {}
    texts = {"question": session.question, "instruction": turn.instruction}
    reply, used["instruction"] = asked(
        generator, JUDGES.load("kiwi-instruction", prompts).fill(texts), InstructionReply
    )
    labels = TurnLabels(instruction=reply.category)
    if is_good(turn.rating):
        return labels, used
    if turn.comment and turn.comment.strip():
        texts = {"instruction": turn.instruction, "comment": turn.comment}
        error_reply, used["error"] = asked(generator, JUDGES.load("kiwi-error", prompts).fill(texts), ErrorReply)
        labels = labels.model_copy(update={"error": error_reply.category})
    if turn.passages and seeks(turn, labels):
        texts = {
            "question": session.question,
            "instruction": turn.instruction,
            "previous": turn.previous,
        }
        passages = [passage.text for passage in turn.passages]
        retrieved_reply, used["retrieved"] = asked(
            generator, JUDGES.load("kiwi-retrieved", prompts).fill(texts, passages), RetrievedReply
        )
        labels = labels.model_copy(update={"retrieved": retrieved_reply.retrieved})
    return labels, used


def labels_by_rules(turn: Turn) -> TurnLabels:
    """What rules say of a turn; English instructions and comments only."""
    labels = TurnLabels.model_validate({"instruction": type_of(turn.instruction).fine})
    if is_good(turn.rating):
        return labels
    retrieved = retrieved_by_rules(turn) if seeks(turn, labels) else None
    return labels.model_copy(update={"error": error_by_rules(turn), "retrieved": retrieved})


def seeks(turn: Turn, labels: TurnLabels) -> bool:
    """Whether an instruction seeks information: as its user ticked it, else by its fine type."""
    return turn.coarse == "information-seeking" if turn.coarse else labels.instruction in INFORMATION


# --- by rules --------------------------------------------------------------------------------------------------------

# In this order: a comment that names a change nobody asked for counts as that, whatever else it says (the commonest
# kind, Table 4), and most comments say "did not", so that "Ignored" comes last.
_WORDS: Mapping[Error, str] = {
    "Unrequested change": r"""unasked|unrequested|unprompted|unnecessar(?:y|ily)|nobody asked
        without (?:being asked|asking)|(?:had|did|was|were)(?: not|n['’]t) (?:been )?ask(?:ed)?
        not (?:been )?(?:asked|requested|mentioned)|rewrote the (?:whole|entire)
        (?:also|too|even) (?:removed|changed|deleted|dropped|rewrote|rewritten|altered|added|modified)
        (?:removed|changed|deleted|dropped|lost|altered|modified) (?:some|other|parts?|most|the rest|too much|important)
        (?:removed|changed|deleted|dropped|lost|altered|modified) (?:relevant|useful|everything else)
        (?:is|are|was|were) (?:gone|lost)|should (?:not have|have (?:been|stayed|kept) (?:a copy|as|the))""",
    "Poor integration": r"""flow|awkward\w*|disconnect\w*|integrat\w*|coheren\w*|incoheren\w*|tacked|stuck on|abrupt\w*
        imbalanc\w*|unbalanced|out of place|does(?: not|n['’]t) fit|repet\w*|redundan\w*|disjointed|choppy
        transition\w*""",
    "Constraint failure": r"""too (?:long|short|many|few)|(?:more|fewer|less|longer|shorter) than|word limit
        (?:wrong|another) (?:place|position|order|number|length)|verbatim|word for word
        (?:at|in|to) the (?:wrong|end|beginning|start|middle|last|first|second)
        not (?:at|in|as) the (?:first|last|beginning|end)|instead of (?:\d+|one|two|three|four|five|a)
        (?:\d+|two|three|four|five|six) (?:sentences?|paragraphs?|words)""",
    "Ignored": r"""still (?:there|here|in|has|have|the|mentions?|contains?)|ignor\w*|no changes?|same answer|unchanged
        nothing (?:was |has |is )?(?:changed|done|added|removed)|failed to
        did(?: not|n['’]t) (?:do|follow|remove|add|change|answer|address|make|include|provide|shorten|condense)
        does(?: not|n['’]t) (?:follow|answer|include|provide|address|remove)
        not (?:in it|followed|done|added|removed|answered|addressed)""",
}
_COMMENTS: Mapping[Error, re.Pattern[str]] = {
    kind: re.compile(rf"\b(?:{'|'.join(line.strip() for line in lines.splitlines())})\b", re.IGNORECASE)
    for kind, lines in _WORDS.items()
}


def error_by_rules(turn: Turn) -> Error:
    """What went wrong in a revision that is not good: by words of the comment, else by what code finds in the texts."""
    for kind, pattern in _COMMENTS.items():
        if turn.comment and pattern.search(turn.comment):
            return kind
    return cast(Error, read_revision(turn.instruction, turn.previous, turn.answer).error)


def retrieved_by_rules(turn: Turn) -> Retrieved | None:
    """Whether the passages say what the user put in by hand; None where nothing was retrieved, or nothing put in."""
    if not turn.passages or turn.edit is None:
        return None
    previous, edit = strip_citations(turn.previous), strip_citations(turn.edit)
    needed = [
        operation.after
        for operation in operations(previous, edit)
        if operation.kind in ("insert", "replace", "rewrite")
    ]
    if not needed:
        return None
    texts = [operation.text for operation in turn.passages]
    supported_count = sum(covers(sentence, texts, SAID) for sentence in needed)
    return "all" if supported_count == len(needed) else "some" if supported_count else "none"
