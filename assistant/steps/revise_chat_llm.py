"""The last reply of a chat as a language model changes it: the whole answer in plain text, in one call.

Small models copy the form of a prompt that asks for edits by number; a whole answer they can write. What cannot be used
of it (the old answer again, an echo of the instruction, a refusal, a broken limit) is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.assistant.budget import fit
from turnmark.assistant.generators.base import Generator
from turnmark.assistant.prompts import fence, fence_tag, load_prompt
from turnmark.assistant.steps.edit_requests import EditRequest
from turnmark.assistant.steps.llm import passage_texts, written
from turnmark.assistant.steps.operations import pieces_of
from turnmark.assistant.steps.outline import length, outline_of, same_words
from turnmark.assistant.steps.revise_rules import Material
from turnmark.assistant.steps.support import coverage
from turnmark.assistant.steps.unknown import says_unknown
from turnmark.assistant.types import Usage
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Record
from turnmark.retrieval.types import Hit

LONGER = 3
"""An answer of more than so many times the words of the old one is another answer, unless something was to be added."""
OF_THE_OLD = 0.2
"""The least share of its content words that a changed answer takes from the old one and from the passages."""
_SPEAKS_OF_IT = re.compile(
    r"\b(?:old|previous|original|new|changed) answer\b|\bthe (?:instruction|user)\b", re.IGNORECASE
)
_LABEL = re.compile(r"^\s*(?:\*\*)?(?:changed|revised|new|shorter)?\s*answer\s*(?:\*\*)?:\s*", re.IGNORECASE)
_FENCE = re.compile(r"</?(?:answer|passage)-[^>]{1,40}>|^```\w*$", re.MULTILINE)


class ChangedAnswer(Record):
    """What a model made of an answer. `text` "": nothing that can be used, `problem` says why."""

    text: str = ""
    problem: str = ""
    usage: Usage = Usage()
    hits: tuple[Hit, ...] = ()


def changed_answer(generator: Generator, material: Material, request: EditRequest | None, adds: bool) -> ChangedAnswer:
    """Ask a model for the answer as the instruction wants it.

    Args:
        adds: the instruction asks for what the answer does not hold: passages are looked up for it.

    Raises:
        GeneratorError: the model gave no reply.
    """
    passages_found = material.found(material.instruction) if adds else None
    always = f"{material.question}\n{material.previous}\n{material.instruction}"
    room = generator.context_tokens - generator.reply_tokens
    hits: Sequence[Hit] = fit((), passages_found.hits[:3], always, room).hits if passages_found else ()
    numbers = passages_found.numbers[: len(hits)] if passages_found else ()
    previous = strip_citations(material.previous)
    tag = fence_tag(material.question, previous, material.instruction, *passage_texts(hits))
    passages = "\n\n".join(
        f"[{n}]\n{fence(text, 'passage', tag)}" for n, text in zip(numbers, passage_texts(hits), strict=True)
    )
    prompt = load_prompt("revise-answer", material.prompts).render(
        tag=tag, passages=passages, question=material.question, previous=fence(previous, "answer", tag),
        instruction=material.instruction,
    )  # fmt: skip
    reply = written(generator, prompt)
    text = _LABEL.sub("", _FENCE.sub("", reply.text)).strip()
    problem = problem_of(text, previous, material.instruction, request, passage_texts(hits))
    return ChangedAnswer(
        text="" if problem else text,
        problem=problem,
        usage=reply.usage,
        hits=passages_found.all if passages_found else material.known_hits,
    )


def problem_of(
    text: str, previous: str, instruction: str, request: EditRequest | None, passages: Sequence[str] = ()
) -> str:
    """Why a changed answer cannot be used; "" where it can."""
    bare = strip_citations(text).strip()
    if not any(map(str.isalnum, bare)):
        return "it is empty"
    if same_words(bare, previous):
        return "it is the old answer"
    if same_words(bare, instruction) or (len(bare) < 2 * len(instruction) and coverage(bare, [instruction]) >= 1):
        return "it is the instruction"
    if _SPEAKS_OF_IT.search(bare) and not _SPEAKS_OF_IT.search(previous):
        return "it speaks of the answer, and is none"
    if says_unknown(bare):
        return "it says that it does not know"
    if coverage(bare, [previous, *passages]) < OF_THE_OLD and (request is None or request.kind != "reword"):
        return "it is about something else"
    if length(bare) > LONGER * max(length(previous), 20):
        return "it is much longer than the old answer"
    return _limit_broken(bare, previous, request)


def _limit_broken(text: str, previous: str, request: EditRequest | None) -> str:
    if request is None:
        return ""
    if request.kind == "shorter" and length(text) >= length(previous):
        return "it is no shorter"
    if request.kind == "sentences" and len(pieces_of(text)) > request.count:
        return f"it has more than {request.count} sentence{'s' * (request.count != 1)}"
    if request.kind == "words" and length(text) > request.count:
        return f"it has more than {request.count} words"
    if request.kind == "list" and not outline_of(text).items:
        return "it is no list"
    return ""
