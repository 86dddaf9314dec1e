"""The reply that is made from a turn and the results of its steps."""

from __future__ import annotations

from typing import Any

from turnmark.assistant.citations.cited_places import cited_page, cited_pictures
from turnmark.assistant.citations.marks import cited_numbers
from turnmark.assistant.llm.prompts.tool_definitions import LOOK_ID, is_computed
from turnmark.assistant.steps.step_results import CheckedDraft, Draft, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.types import Citation, Reply, Trace
from turnmark.corpora.types import without_continued
from turnmark.retrieval.types import Hit


def reply_of(turn: Turn, understood: UnderstoodMessage, draft: CheckedDraft) -> Reply:
    """Return the reply of a turn."""
    judgment, part_judgments = draft.assessment.judgment, draft.assessment.parts
    understanding = understood.understanding
    cited = draft.hits[: max(cited_numbers(draft.text), default=0)]  # sources are numbered as they are cited
    citations = [_citation(turn, understanding.rewrite, draft, n, hit) for n, hit in enumerate(cited, 1)]
    return Reply(
        question=turn.message,
        answer=draft.text,
        procedure=draft.procedure,
        citations=tuple(citations),
        decision=judgment.decision,
        rewrite=understanding.rewrite,
        sub_questions=draft.sub_questions,
        checks=draft.checks,
        generator=turn.generator.name if turn.generator else "extractive",
        usage=turn.usage,
        timings=turn.timings,
        notes=tuple(turn.notes),
        trace=Trace(
            forms=turn.forms,
            understanding=understanding,
            searches=tuple(turn.searches),
            calls=tuple(turn.calls),
            judgement=judgment,
            parts=part_judgments if len(part_judgments) > 1 else (),
            reasoning=draft.reasoning,
        ),
    )


def _citation(turn: Turn, question: str, draft: Draft, number: int, hit: Hit) -> Citation:
    """Return a source with its number, what computed it, and the page and the pictures that the draft is about."""
    names = set(Citation.model_fields) - {"n", "score", "page", "pictures", "statement", "basis"}
    passage = hit.passage.as_stored()
    fields: dict[str, Any] = {name: getattr(passage, name) for name in names}
    fields["section"] = without_continued(passage.section)
    computation = draft.computed.get(hit.passage.id)
    if computation is not None:
        basis = computation.result.basis
        fields |= {"id": hit.passage.id, "statement": computation.statement, "basis": basis}
    page = cited_page(hit.passage, number, draft.text)
    store = turn.retriever.pictures() if turn.retriever else None
    if store is not None and (hit.passage.id.startswith(LOOK_ID) or not is_computed(hit.passage.id)):
        fields["pictures"] = tuple(cited_pictures(hit.passage, store, number, question, draft.text))
    return Citation(n=number, score=hit.score, page=page, **fields)
