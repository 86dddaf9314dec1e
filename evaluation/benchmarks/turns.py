"""How a benchmark's question is answered: by the assistant's turn, or by a prompt of the benchmark's own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnmark.assistant.asking import merge_roles, write_text
from turnmark.assistant.assistant import Assistant
from turnmark.assistant.budget import fit_prompt, room_for
from turnmark.assistant.generators.base import Generator, GeneratorError
from turnmark.assistant.steps.marks import says_unknown
from turnmark.assistant.tracing import trace_if_on
from turnmark.assistant.types import Event, Reply, Usage
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.records import ContextRef, Sample, SubAnswer
from turnmark.retrieval.types import Hit

PASSAGES = 5
"""Passages of a retrieved context in the papers' protocol (MTRAG section 6.1)."""


def turn_sample(
    assistant: Assistant,
    item: Item,
    history: Sequence[Message],
    question: str,
    evidence: Sequence[Hit] | None = None,
    trusted: bool = False,
    apart: bool = False,
) -> Sample:
    """Run the turn and take down its reply. The text keeps its citation marks.

    Args:
        evidence: passages to answer from, best first; None: the assistant searches for them.
        trusted: they are the task's own, so that they are tried however little they look like the question.
        apart: take down what is said to each part of the question.
    """
    details: dict[str, Any] = {}

    def listen(event: Event) -> None:
        details.update({key: event.detail[key] for key in ("hits", "confidence") if key in event.detail})

    reply = trace_if_on(assistant).reply(history, question, listen, evidence, trusted)
    return Sample(
        id=item.id,
        status="done",
        domain=item.domain,
        query=question,
        rewrite=reply.rewrite if reply.rewrite != question else None,
        contexts=tuple(ContextRef(document_id=name, score=score) for name, score in details.get("hits", ())),
        prediction=reply.answer,
        marks=max(len(details.get("hits", ())), len(reply.citations)),
        procedure=tuple(step.model_dump(mode="json") for step in reply.procedure),
        decision=reply.decision,
        hedged=_is_hedged(reply),
        confidence=details.get("confidence"),
        notes=reply.notes,
        sub_answers=_sub_answers(reply, question) if apart else (),
        usage=_used(reply),
        timings=dict(reply.timings),
    )


def _is_hedged(reply: Reply) -> bool:
    """Whether evidence was graded and none of it was good enough to be sure."""
    judgements = reply.trace.parts or ((reply.trace.judgement,) if reply.trace.judgement else ())
    graded = reply.trace.forms.get("decide") == "extractive" and reply.decision == "partial"
    return graded and not any(judgement.decision == "answer" for judgement in judgements)


def _sub_answers(reply: Reply, question: str) -> tuple[SubAnswer, ...]:
    """The parts as the question has them, with what was said to each."""
    if len(reply.sub_questions) == 1:
        return (SubAnswer(question=question, answer=strip_citations(reply.answer)),)
    understood = reply.trace.understanding
    questions = (understood.asked or understood.sub_questions) if understood else ()
    return tuple(
        SubAnswer(question=text, answer=part.answer) for text, part in zip(questions, reply.sub_questions, strict=True)
    )


def _used(reply: Reply) -> dict[str, Usage]:
    return {role: usage for role, usage in reply.usage.items() if usage != Usage()}


def with_steps(text: str, procedure: Sequence[dict[str, Any]]) -> str:
    """An answer as people read it: the text, then a numbered line a step unless the text has them."""
    bare = _bare(text)
    if all(_bare(str(step["step"])) in bare for step in procedure):
        return text
    lines = [f"{number}. {step['step']}" for number, step in enumerate(procedure, 1)]
    return "\n".join([text, *lines] if text else lines)


def strip_marks(text: str, sample: Sample) -> str:
    """A text of a sample without the citation marks that the system was asked to write, and no others."""
    return text if sample.marks is None else strip_citations(text, sample.marks)


def _bare(text: str) -> str:
    """One line, without marks and emphasis."""
    return " ".join(strip_citations(text).replace("**", "").split())


def headed(passage: Passage) -> str:
    """The title of a passage's document, with the headings above it."""
    return " › ".join(filter(None, (passage.title, passage.section)))


def titled(title: str, text: str) -> str:
    """A document as such a prompt shows it: its title above it, unless it begins with that."""
    begins = text.lstrip("# \n").startswith(title.strip() or "\0")
    return text if begins else "\n\n".join(filter(None, (title, text)))


def prompted_sample(
    item: Item, name: str, documents: Sequence[tuple[str, str]], generator: Generator, prompts: Path | None
) -> Sample:
    """Ask a model once by the prompt `name`, as a paper does, and record its reply.

    Args:
        documents: title and text each; a bare prompt shows the texts alone.
        prompts: folder with prompts of one's own.
    """
    began = time.perf_counter()
    prompt = JUDGES.load(name, prompts)
    texts = [text if prompt.bare else titled(title, text) for title, text in documents]
    fitted = fit_prompt(prompt, room_for(generator), {"question": item.question}, texts, item.history)
    if fitted is None:
        raise GeneratorError("bad_request", "the question does not fit into the model's context")
    reply = write_text(generator, merge_roles(fitted.messages))
    return Sample(
        id=item.id,
        status="done",
        domain=item.domain,
        query=item.question,
        prediction=reply.text,
        decision="unknown" if reply.note is None and says_unknown(reply.text) else "answer",
        notes=(*fitted.notes, *([reply.note] if reply.note else [])),
        usage={"answer": reply.usage},
        timings={"answer": round(time.perf_counter() - began, 4)},
    )
