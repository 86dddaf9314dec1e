"""Two ways to answer a benchmark's question: the assistant's turn, or one call by the prompt of a benchmark's paper."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from turnmark.assistant.llm.calls.protocols import Generator, GeneratorError
from turnmark.assistant.llm.prompts.context_budget import fit_prompt, prompt_room
from turnmark.assistant.llm.prompts.structured_output import merge_roles, write_text
from turnmark.assistant.llm.prompts.tool_definitions import is_computed
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.types import Event, Reply, Usage
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.core.errors import TurnmarkError
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.records import ContextRef, Sample, SubAnswer
from turnmark.evaluation.tasks.items import Item
from turnmark.retrieval.types import Hit

MAX_UNTOLD_MARK = 10
"""Highest citation mark if fewer passages are known: the most that a setting of the benchmarks shows."""
PAPER_TOP_K = 5
"""Number of retrieved passages in the papers' protocol (MTRAG section 6.1)."""


class EarlierTurn(TurnmarkError):
    """The previous turn of a conversation has no answer, so the conversation cannot continue.

    The name of the class is stored in samples, as the kind of their failure.
    """


def turn_sample(
    assistant: Assistant,
    item: Item,
    history: Sequence[Message],
    question: str,
    evidence: Sequence[Hit] | None = None,
    trusted: bool = False,
    apart: bool = False,
) -> Sample:
    """Run the assistant's turn and record its reply as a sample. The text keeps its citation marks.

    Args:
        evidence: passages to answer from, best first, or None if the assistant searches for them.
        trusted: answer from the evidence even if it is not similar to the question, because it comes with the task.
        apart: also record the answer to each part of the question.
    """
    details: dict[str, Any] = {}

    def listen(event: Event) -> None:
        details.update({key: event.detail[key] for key in ("hits", "confidence") if key in event.detail})

    reply = assistant.reply(history, question, listen, evidence, trusted)
    hits = details.get("hits", ())
    return Sample(
        id=item.id,
        status="done",
        domain=item.domain,
        query=question,
        rewrite=reply.rewrite if reply.rewrite != question else None,
        contexts=tuple(_contexts(hits, reply)),
        prediction=reply.answer,
        marks=max(len(hits), len(reply.citations)),
        cited=tuple(citation.id for citation in reply.citations),
        procedure=tuple(step.model_dump(mode="json") for step in reply.procedure),
        decision=reply.decision,
        hedged=is_hedged(reply),
        confidence=details.get("confidence"),
        notes=reply.notes,
        sub_answers=_sub_answers(reply, question) if apart else (),
        usage={role: usage for role, usage in reply.usage.items() if usage != Usage()},
        timings=dict(reply.timings),
    )


def _contexts(hits: Sequence[tuple[str, float]], reply: Reply) -> Iterator[ContextRef]:
    """Yield the sources of a reply. A count over documents, which is in no corpus, includes its text; others are left
    out if the reply does not cite them."""
    cited = {citation.id: citation for citation in reply.citations}
    for name, score in hits:
        if not is_computed(name):
            yield ContextRef(document_id=name, score=score)
        elif name in cited:
            yield ContextRef(document_id=name, score=score, title=cited[name].title, text=cited[name].text)


def is_hedged(reply: Reply) -> bool:
    """Return whether a reply says that it is unsure: evidence was graded, but none of it was good enough to be sure."""
    judgments = reply.trace.parts or ((reply.trace.judgement,) if reply.trace.judgement else ())
    graded = reply.trace.forms.get("decide") == "extractive" and reply.decision == "partial"
    return graded and not any(judgment.decision == "answer" for judgment in judgments)


def _sub_answers(reply: Reply, question: str) -> tuple[SubAnswer, ...]:
    """Return the parts in the question's own words, each with its answer."""
    if len(reply.sub_questions) == 1:
        return (SubAnswer(question=question, answer=strip_citations(reply.answer)),)
    understood = reply.trace.understanding
    questions = (understood.asked or understood.sub_questions) if understood else ()
    return tuple(
        SubAnswer(question=text, answer=part.answer) for text, part in zip(questions, reply.sub_questions, strict=True)
    )


def with_steps(text: str, procedure: Sequence[dict[str, Any]]) -> str:
    """Append the steps of a procedure to an answer, numbered, one per line, unless the text contains them already."""
    bare = _bare(text)
    if all(_bare(str(step["step"])) in bare for step in procedure):
        return text
    lines = [f"{number}. {step['step']}" for number, step in enumerate(procedure, 1)]
    return "\n".join([text, *lines] if text else lines)


def strip_marks(text: str, sample: Sample) -> str:
    """Remove the citation marks from a text of a sample, whoever wrote it, and keep other brackets.

    Whether a file or a run has the same reply must not change its scores. A mark is a single number from 1 to that of
    the passages shown, which files do not always say.
    """
    return strip_citations(text, max(sample.marks or 0, MAX_UNTOLD_MARK))


def _bare(text: str) -> str:
    """Return a text on one line, without citation marks and bold markers."""
    return " ".join(strip_citations(text).replace("**", "").split())


def heading_of(passage: Passage) -> str:
    """Return the title of a passage's document and the headings above the passage."""
    return " › ".join(filter(None, (passage.title, passage.section)))


def with_title(title: str, text: str) -> str:
    """Put a document's title above its text, unless the text begins with it."""
    bare_title = title.strip()
    if bare_title and text.lstrip("# \n").startswith(bare_title):
        return text
    return "\n\n".join(filter(None, (title, text)))


def prompted_sample(
    item: Item, name: str, documents: Sequence[tuple[str, str]], generator: Generator, prompts: Path | None
) -> Sample:
    """Ask a model once by the prompt `name` and record its reply as a sample.

    Args:
        documents: pairs of title and text; a bare prompt shows only the texts.
        prompts: folder with the user's own prompts.

    Raises:
        GeneratorError: the question does not fit into the context, or the call failed.
    """
    began = time.perf_counter()
    prompt = JUDGES.load(name, prompts)
    texts = [text if prompt.bare else with_title(title, text) for title, text in documents]
    fitted = fit_prompt(prompt, prompt_room(generator), {"question": item.question}, texts, item.history)
    if fitted is None:
        raise GeneratorError("bad_request", "the question does not fit into the model's context")
    reply = write_text(generator, merge_roles(fitted.messages))
    notes = (*fitted.notes, reply.note) if reply.note else fitted.notes
    return Sample(
        id=item.id,
        status="done",
        domain=item.domain,
        query=item.question,
        prediction=reply.text,
        decision="unknown" if reply.note is None and is_refusal(reply.text) else "answer",
        notes=tuple(notes),
        usage={"answer": reply.usage},
        timings={"answer": round(time.perf_counter() - began, 4)},
    )
