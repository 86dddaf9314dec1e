"""Revising an answer with a language model: KIWI's four prompts (appendix A.1), and edits of numbered sentences.

Calls: one that types the instruction; for one that seeks information, one that summarises the passages; one that gives
the edits; and at most one that mends them. A structured call may be asked again (`turnmark.assistant.structured`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from turnmark.assistant.budget import INSTRUCTIONS, count_tokens, fit
from turnmark.assistant.generators.base import Generator, GeneratorError, PromptMessage, without_thinking
from turnmark.assistant.generators.schema import bounded
from turnmark.assistant.prompts import fence, fence_tag, load_prompt
from turnmark.assistant.steps.constraints import constraints_of, unmet
from turnmark.assistant.steps.edit_requests import EditRequest
from turnmark.assistant.steps.instructions import REWRITABLE, InstructionType, typed
from turnmark.assistant.steps.llm import passage_texts, written
from turnmark.assistant.steps.marks import cited, says_unknown
from turnmark.assistant.steps.operations import EditsReply, applied, joined, operations, pieces_of, problems, shown
from turnmark.assistant.steps.outline import length, outline_of, same_words
from turnmark.assistant.steps.revise_rules import Material, Passages, Revision, Search, by_rules, mended
from turnmark.assistant.steps.support import coverage
from turnmark.assistant.structured import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.types import Usage
from turnmark.corpora.kiwi import FINE_TYPES, Coarse
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Record
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

EDITS_PER_SENTENCE, MORE_EDITS = 2, 10
"""More edits than so many for each sentence, and these for what is new, no instruction needs."""
NOTHING = "NOTHING FOUND"
"""What the model writes where the passages say nothing to the instruction."""


def _known(*names: str) -> BeforeValidator:
    """Lets a name pass in any case and with any hyphen."""
    plain = {re.sub(r"[^a-z]", "", name.lower()): name for name in names}

    def named(value: object) -> object:
        return plain.get(re.sub(r"[^a-z]", "", value.lower()), value) if isinstance(value, str) else value

    return BeforeValidator(named)


class TypeReply(BaseModel):
    """The object that types an instruction."""

    coarse: Annotated[Coarse, _known("information-seeking", "stylistic")] = Field(validation_alias="class")
    fine: Annotated[
        Literal[
            "More information", "Expand coverage", "Clarification", "Remove", "Specific edit", "Condense", "Reorganize",
            "Others",
        ],
        _known(*FINE_TYPES),
    ] = Field(validation_alias="type")  # fmt: skip


def type_asked(generator: Generator, material: Material) -> tuple[InstructionType, Usage, str | None]:
    """The type of an instruction as a model sees it; by rules, with a note, where it gives none."""
    tag = fence_tag(material.question, material.instruction)
    prompt = load_prompt("revise-type", material.prompts).render(
        tag=tag,
        question=fence(material.question, "question", tag),
        instruction=fence(material.instruction, "instruction", tag),
    )
    reply, usage = ask(generator, prompt, TypeReply)
    if isinstance(reply, Failure):
        return typed(material.instruction), usage, f"the instruction was typed by rules: {reply.reason}"
    return InstructionType(coarse=reply.coarse, fine=reply.fine), usage, None


def with_model(generator: Generator, material: Material) -> Revision:
    """Revise with a language model; see `revised`.

    Raises:
        GeneratorError: no reply was to be had, an empty one, or the answer does not fit into the context.
    """
    return _Revising(generator, material).revision()


@dataclass
class _Revising:
    """One revision on its way: what was spent, and what the person should know."""

    generator: Generator
    material: Material
    usage: Usage = field(default_factory=Usage)
    notes: list[str] = field(default_factory=list)
    evidence: Passages = field(default_factory=Passages)

    def revision(self) -> Revision:
        material = self.material
        self.evidence = Passages(numbered=material.known_hits)
        room = self.generator.context_tokens - self.generator.reply_tokens - INSTRUCTIONS
        if count_tokens(f"{material.question}\n{material.previous}\n{material.instruction}") > room:
            problem = f"the answer to revise does not fit into the context of {self.generator.name}"
            raise GeneratorError("bad_request", problem)
        sort = material.sort
        if sort is None:
            sort, spent, note = type_asked(self.generator, material)
            self._add(spent, note)
        try:
            prompt = self._integrate() if sort.coarse == "information-seeking" else self._stylistic(sort)
            if prompt is None:
                return self._done(material.previous, sort)
            return self._edited(prompt, sort)
        except GeneratorError as error:
            raise GeneratorError(error.kind, str(error), self.usage + error.usage) from error

    def _add(self, usage: Usage, note: str | None = None) -> None:
        self.usage += usage
        self.notes += [note] if note else []

    # The prompts

    def _integrate(self) -> tuple[PromptMessage, ...] | None:
        """The request for edits that put in what the passages say; None, with a note, where they say nothing."""
        material = self.material
        passages = material.passages_for(material.instruction)
        always = f"{material.question}\n{material.previous}\n{material.instruction}"
        fitted = fit((), passages.hits, always, self.generator.context_tokens - self.generator.reply_tokens)
        self.evidence = Passages(fitted.hits, passages.numbers[: len(fitted.hits)], passages.numbered)
        self.notes += fitted.notes
        if not fitted.hits:
            self.notes.append("the answer was left as it is: no passage was found for the instruction")
            return None
        tag = fence_tag(material.previous, material.instruction, *passage_texts(fitted.hits))
        completion = written(
            self.generator,
            load_prompt("revise-summarise", material.prompts).render(
                tag=tag,
                passages=_passages(self.evidence, tag),
                previous=fence(material.previous, "answer", tag),
                instruction=material.instruction,
            ),
        )
        self._add(completion.usage, completion.note)
        if completion.text.strip(" .\"'*").upper() == NOTHING:
            self.notes.append("the answer was left as it is: the passages say nothing to the instruction")
            return None
        return self._asking("revise-integrate", summary=completion.text)

    def _stylistic(self, sort: InstructionType) -> tuple[PromptMessage, ...]:
        return self._asking("revise-stylistic", rewritable=sort.fine in REWRITABLE)

    def _asking(
        self, name: str, summary: str | None = None, rewritable: bool | None = None
    ) -> tuple[PromptMessage, ...]:
        material = self.material
        answer = shown(pieces_of(material.previous))
        tag = fence_tag(material.question, answer, material.instruction, summary or "")
        values: dict[str, str | bool] = {} if rewritable is None else {"whole": rewritable}
        if summary is not None:
            values["summary"] = fence(summary, "information", tag)
        return load_prompt(name, material.prompts).render(
            tag=tag,
            question=material.question,
            previous=fence(answer, "answer", tag),
            instruction=material.instruction,
            **values,
        )

    # The edits

    def _edited(self, prompt: tuple[PromptMessage, ...], sort: InstructionType) -> Revision:
        """The answer after the edits that the model gives, mended once where they do not do."""
        limit = max(self.generator.reply_tokens, STRUCTURED_TOKENS)
        schema = bounded(EditsReply, EDITS_PER_SENTENCE * len(pieces_of(self.material.previous)) + MORE_EDITS)
        reply, usage = ask(self.generator, prompt, schema, max_tokens=limit)
        self._add(usage)
        if isinstance(reply, Failure):
            return self._failed(reply, sort)
        text, faults, missed = self._made(reply, sort)
        if faults or missed:
            complaints = "\n".join(f"- {complaint}" for complaint in (*faults, *missed))
            repair = load_prompt("revise-repair", self.material.prompts).render(problems=complaints)
            first_reply = PromptMessage(role="assistant", content=reply.model_dump_json())
            second, usage = ask(self.generator, (*prompt, first_reply, *repair), schema, max_tokens=limit)
            self._add(usage)
            if not isinstance(second, Failure):
                better = self._made(second, sort)
                if len(better[1]) + len(better[2]) <= len(faults) + len(missed):
                    text, faults, missed = better
        if faults:
            self.notes.append(f"not every edit could be made: {'; '.join(faults)}")
        return self._done(text, sort)

    def _made(self, reply: EditsReply, sort: InstructionType) -> tuple[str, list[str], list[str]]:
        """The answer after the edits that can be made, what is wrong with the others, and what demands it misses."""
        previous = self.material.previous
        pieces = pieces_of(previous)
        faults: list[str] = []
        if reply.whole.strip() and sort.fine in REWRITABLE:
            text = reply.whole.strip()
        else:
            faults, valid = problems(reply.operations, len(pieces))
            text = joined(applied(pieces, valid))
            if reply.whole.strip() and not reply.operations:
                faults.append("the whole answer may not be written anew for this instruction; give operations")
            if not any(map(str.isalnum, text)):
                text, faults = previous, [*faults, "nothing would be left of the answer"]
        return (
            text,
            faults,
            [demand.message for demand in unmet(constraints_of(self.material.instruction), previous, text)],
        )

    def _failed(self, failure: Failure, sort: InstructionType) -> Revision:
        """What becomes of a reply that holds no edits: prose where all may be written anew, else the rules."""
        if failure.kind == "content_filter":
            raise GeneratorError("refused", failure.reason or "the endpoint's content filter stopped it")
        if failure.kind != "length" and failure.kind != "invalid":
            raise GeneratorError(failure.kind, failure.reason)
        raw = without_thinking(failure.raw).strip()
        if not raw:
            raise GeneratorError("bad_reply", f"{self.generator.name} gave an empty reply")
        if sort.fine in REWRITABLE and failure.kind == "invalid" and "{" not in raw:
            self.notes.append("the model wrote the answer anew, as a text and not as edits")
            return self._done(raw, sort)
        reason = f"the model's edits could not be used ({failure.reason})"
        self._add(Usage(), f"revised by rules: {reason}")
        revision = by_rules(self.material, self.notes)
        return revision.model_copy(
            update={"usage": self.usage, "kind": sort.fine, "coarse": sort.coarse, "fallback": reason}
        )

    def _done(self, text: str, sort: InstructionType) -> Revision:
        """The revision, with what code can still mend mended, and with what is amiss said."""
        material = self.material
        demands = constraints_of(material.instruction)
        if text != material.previous:
            text = mended(material.question, material.previous, text, demands, material.embed)
        missed = tuple(demand.message for demand in unmet(demands, material.previous, text))
        if text == material.previous and not self.notes:
            self.notes.append("the answer was left as it is: the model gave no edit")
        elif missed:
            self.notes.append(f"not all that was asked for is met: {'; '.join(missed)}")
        numbers = {*range(1, len(material.known_hits) + 1), *self.evidence.numbers, *cited(material.previous)}
        if strange := sorted(set(cited(text)) - numbers):
            marks = ", ".join(f"[{n}]" for n in strange)
            self.notes.append(f"it cites {marks}, which is none of the passages")
        return Revision(
            text=text, operations=operations(material.previous, text), usage=self.usage, notes=tuple(self.notes),
            kind=sort.fine, coarse=sort.coarse, unmet=missed, hits=self.evidence.numbered,
        )  # fmt: skip


def _passages(passages: Passages, tag: str) -> str:
    """Passages as a prompt shows them: each fenced, the number it is cited by before it."""
    texts = passage_texts(passages.hits)
    lines = (f"[{n}]\n{fence(text, 'passage', tag)}" for n, text in zip(passages.numbers, texts, strict=True))
    return "\n\n".join(lines) or "(none were found)"


def revised(
    generator: Generator | None,
    question: str,
    previous: str,
    instruction: str,
    search: Search,
    embed: Embed | None,
    prompts: Path | None = None,
    *,
    known_hits: Sequence[Hit] = (),
    sort: InstructionType | None = None,
    removed: Sequence[str] = (),
) -> Revision:
    """Revise an answer as instructed; `search` is asked, with the instruction, only where something must be looked up.

    With a generator: the instruction is typed by it; for one that seeks information, five passages are summarised
    against the answer, and the summary is put in; any other is followed from the answer alone. Without one, or where
    its reply cannot be used, by rules.

    Args:
        question: what the answer answers.
        previous: the answer so far; nothing is made of a blank one.
        instruction: rules understand English only.
        search: gives passages, best first; the first five are used.
        embed: embeds sentences (unit vectors); without it, shared words decide.
        known_hits: what the marks `[n]` of `previous` count, from 1. New passages are numbered behind them, and one
            that is among them keeps its number; `hits` of the revision has them all.
        sort: the instruction's type where it is known, so that no model is asked for it; rules go by the words.
        removed: sentences that were taken out of the answer before; rules do not add them again.

    Raises:
        GeneratorError: the model gave no reply, or the answer does not fit into its context.
    """
    material = Material(
        question, previous, instruction, search, tuple(known_hits), embed, prompts, sort, tuple(removed)
    )
    return by_rules(material) if generator is None or not previous.strip() else with_model(generator, material)


# --- the last reply of a chat, as the whole answer in plain text, in one call ---


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
    passages_found = material.passages_for(material.instruction) if adds else None
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
        hits=passages_found.numbered if passages_found else material.known_hits,
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
