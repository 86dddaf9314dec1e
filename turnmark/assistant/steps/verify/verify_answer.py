"""The verify step: remove marks without a source, and report unsupported sentences, which stay in the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnmark.assistant.citations.marks import spaced_sentences, with_numbers
from turnmark.assistant.steps.step_results import CheckedDraft, Computation, Draft, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.verify.claim_support import Sources, match_sentences
from turnmark.assistant.steps.verify.claims import claims_of
from turnmark.assistant.types import GROUNDED_DECISIONS, Checks, ProcedureStep, SubQuestion
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.languages import detect_language
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.retrieval.embedding.vector_cache import Embed


class Verification:
    """Verify step, which checks an answer by words, numbers, names and embeddings."""

    name = "verify"

    def __call__(self, turn: Turn, understood: UnderstoodMessage, draft: Draft, /) -> CheckedDraft:
        draft, repaired = drop_dead_marks(draft)
        understanding = understood.understanding
        questions = understanding.sub_questions
        decision = draft.assessment.judgment.decision
        if decision not in GROUNDED_DECISIONS:
            parts = [SubQuestion(text=text, answered=decision == "converse") for text in questions]
            return CheckedDraft(**vars(draft), sub_questions=tuple(parts))
        asked_before = [message.content for message in turn.history if message.role == "user"]
        if understanding.kind == "revision" or any(part.phrases for part in understood.parts):
            asked_before = []  # only what is about the conversation has nothing to search for
        checks = check_claims(draft, " ".join((turn.message, *questions)), turn.embed, asked_before)
        answers = draft.answers if len(draft.answers) == len(questions) else ()
        if understanding.kind == "revision":
            parts = [SubQuestion(text=text, answered=True) for text in questions]
        else:
            parts = judge_parts(questions, answers, draft, turn.embed)
        asked = understanding.wants_procedure and bool(draft.procedure)
        valid = is_valid_procedure(draft.procedure) if asked else None
        answered_share = sum(part.answered for part in parts) / len(parts)
        update = {"parts_answered": answered_share, "procedure_valid": valid, "repaired": repaired}
        return CheckedDraft(**vars(draft), checks=checks.model_copy(update=update), sub_questions=tuple(parts))


def drop_dead_marks(draft: Draft) -> tuple[Draft, bool]:
    """Remove citation numbers without a source from a draft. Return the draft and whether there were any."""
    sources = range(1, len(draft.hits) + 1)
    text = with_numbers(draft.text, dict(zip(sources, sources, strict=True)))
    steps = [
        step.model_copy(update={"citations": tuple(number for number in step.citations if number in sources)})
        for step in draft.procedure
    ]
    return replace(draft, text=text, procedure=tuple(steps)), text != draft.text


def check_claims(draft: Draft, question: str, embed: Embed | None, asked_before: Sequence[str] = ()) -> Checks:
    """Check the claims of an answer against the sources that they cite, and find those that no source supports.

    A claim without a mark may be supported by any source, or repeat what the user asked before.

    Args:
        question: the answer may repeat its numbers and names, even if no source has them.
        asked_before: the user's earlier messages.
    """
    if draft.claims == "":
        return Checks(grounded=1.0)
    text = draft.text if draft.claims is None else draft.claims
    claims = claims_of(text, draft.unstated)
    texts, values = list[str](), dict[int, list[float]]()
    for number, hit in enumerate(draft.hits, 1):
        computation = draft.computed.get(hit.passage.id)
        texts.append(hit.passage.indexed_text)
        if computation is not None:
            texts[-1] += f"\n{_about(computation)}\n{question}"
            values[number] = [*computation.values, len(computation.result.rows)]
    language = language_of(text) or detect_language(text)
    sources, earlier = Sources(texts, embed, question, values, language), Sources(asked_before, embed, question)
    all_numbers, all_earlier = range(1, len(draft.hits) + 1), range(1, len(asked_before) + 1)
    repeated = [not claim.numbers and earlier.supports(claim.text, all_earlier, claim.counts) for claim in claims]
    grounded = [
        is_repeated or sources.supports(claim.text, claim.numbers or all_numbers, claim.counts)
        for claim, is_repeated in zip(claims, repeated, strict=True)
    ]
    unsupported = [
        claim.text
        for claim, is_grounded in zip(claims, grounded, strict=True)
        if not is_grounded and not sources.supports(claim.text, all_numbers, claim.counts)
    ]
    return Checks(
        grounded=sum(grounded) / len(claims) if claims else None,
        unsupported=tuple(unsupported),
        wording_checked=not any(sources.is_translated(claim.text, claim.numbers or all_numbers) for claim in claims),
        citations_valid=draft.claims is not None
        or all(claim.numbers or is_repeated for claim, is_repeated in zip(claims, repeated, strict=True)),
    )


def _about(computation: Computation) -> str:
    """Return the words of a computation: its statement, and what the tables that it read and their columns are called.

    The words of an answer that states a figure are those of the question and of the columns.
    """
    tables = computation.result.tables
    labels = [label for table in tables for label in (table.title, table.caption, *(c.label for c in table.columns))]
    return "\n".join((computation.statement.replace("_", " "), *labels))


def judge_parts(
    questions: Sequence[str], answers: Sequence[str], draft: Draft, embed: Embed | None
) -> list[SubQuestion]:
    """Judge for each part whether the reply answers it.

    Args:
        answers: the answer to each part. If empty, the sentences that answer a part are found in the draft's text.
    """
    if answers:
        return [
            SubQuestion(text=part, answered=bool(answer), answer=strip_citations(answer))
            for part, answer in zip(questions, answers, strict=True)
        ]
    claims = claims_of(draft.text, draft.unstated)
    if len(questions) == 1:
        answered = bool(claims) or not (draft.unstated or is_refusal(draft.text))
        return [SubQuestion(text=questions[0], answered=answered)]
    lines = [claim.text for claim in claims]
    # An answer that cannot answer a part says so.
    complete = not draft.unstated and not any(is_refusal(piece.text) for piece in spaced_sentences(draft.text))
    found = [" ".join(map(lines.__getitem__, matched)) for matched in match_sentences(questions, lines, embed)]
    return [
        SubQuestion(text=question, answered=complete or bool(answer), answer=answer)
        for question, answer in zip(questions, found, strict=True)
    ]


def is_valid_procedure(steps: Sequence[ProcedureStep]) -> bool:
    """Return whether a procedure has at least two steps, all of them different, cited, and on one line."""
    texts = [" ".join(step.step.lower().split()).rstrip(" .!") for step in steps]
    are_valid = all(step.citations and "\n" not in step.step.strip() for step in steps) and all(texts)
    return are_valid and len(texts) == len(set(texts)) >= 2
