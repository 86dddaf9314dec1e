"""The answer without a language model: quotations from the documents.

A quotation shows the heading path and a span, which is a run of adjacent lines of one section, with the best sentence
in bold. It is shown as the document has it: no sentence is shortened, and lines from different places are never joined.
Up to three further places follow, each as one line with its heading path and its best sentence. A small model reads two
longer spans instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnmark.assistant.steps.answer.answer_collection import answer_about_collection
from turnmark.assistant.steps.answer.answer_totals import answer_total
from turnmark.assistant.steps.answer.quote_markdown import format_places, format_span, list_steps
from turnmark.assistant.steps.answer.quote_spans import (
    QuotedSpan,
    RatedLine,
    choose_spans,
    further_places,
    rate_lines,
    word_shares,
)
from turnmark.assistant.steps.step_results import (
    Assessment,
    Draft,
    Evidence,
    PartEvidence,
    SourceList,
    UnderstoodMessage,
    assess,
)
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.types import GROUNDED_DECISIONS, Judgment
from turnmark.assistant.wording.phrases import defined_subject, wants_procedure
from turnmark.assistant.wording.reply_texts import (
    NOT_FOUND_TEXT,
    UNKNOWN_TEXT,
    UNSURE_PART_TEXT,
    UNSURE_TEXT,
    about_part,
    in_language,
)

PROCEDURE_FACTOR, READ_FACTOR = 3.0, 2.5
"""How much longer a span is than `quote_words` if the message asks for steps, and if a small model reads it. A list or
table may be longer still, since it is kept complete."""
MAX_FURTHER_PLACES, MAX_PLACES_IF_SURE = 3, 2
"""Maximum further places below a quotation, and below one that surely answers. Each further part takes one away."""
MAX_PARTS_WITH_TWO_SPANS = 2
"""Maximum parts of a message in which each part may get a second span."""
SHARE_WEIGHT, LEAD_WEIGHT, MIN_SURENESS = 0.9, 3.9, 1.2
"""See `_doubt_quote`."""


class AnswerByQuotes:
    """Answer step without a model: quotations, unless the message asks for a count or about the collection itself."""

    name = "answer"

    def __call__(
        self, turn: Turn, understood: UnderstoodMessage, evidence: Evidence, assessment: Assessment, /
    ) -> Draft:
        draft = (
            answer_about_collection(turn, understood, assessment)
            or answer_total(turn, evidence, assessment)
            or quote_parts(turn, understood, evidence, assessment)
            or refuse(turn, evidence, assessment)
        )
        turn.stream(draft.text)
        return draft


def quote_parts(turn: Turn, understood: UnderstoodMessage, evidence: Evidence, assessment: Assessment) -> Draft | None:
    """Quote the documents for each part of a message, each span once; return None if nothing was found for any part."""
    sources = SourceList(replace(evidence, hits=()))  # what is quoted gets the first numbers
    parts = list(zip(evidence.parts, assessment.parts, strict=True))
    # A small model reads the quotations, so they stay short.
    forward_first = understood.understanding.wants_procedure and len(parts) == 1 and turn.generator is None
    shown: list[QuotedSpan] = []
    named: set[tuple[str, int]] = set()
    said: set[str] = set()
    answers: list[str] = []
    texts: list[str | QuotedSpan] = []
    numbers: dict[int, int] = {}
    judgments: list[Judgment] = []
    for part, judgment in parts:
        ranked = _rank_lines(turn, part, judgment)
        spans_of_part = _spans_for_part(turn, part, ranked, len(parts), shown, forward_first)
        new = [span for span in spans_of_part if span not in shown]
        shown += new
        is_judged = turn.trusted or turn.generator is not None
        if spans_of_part and judgment.decision == "answer" and not is_judged:
            judgment = _doubt_quote(turn, part, judgment, ranked, spans_of_part[0])
        judgments.append(judgment)
        numbers |= zip(map(id, new), sources.number(span.hit for span in new), strict=True)
        if new and judgment.decision == "partial":
            doubt = UNSURE_PART_TEXT if len(parts) > 1 else UNSURE_TEXT
            texts.append(about_part(doubt, part.text, turn.language))
        texts += new
        if turn.generator is None:
            limit = MAX_PLACES_IF_SURE if judgment.decision == "answer" else MAX_FURTHER_PLACES
            limit = min(limit, max(1, MAX_FURTHER_PLACES + 1 - len(parts)))
            places = further_places(ranked, [*part.hits, *part.tables], shown, limit, named, said)
            texts += format_places(places, sources, shown)
        answers.append(" ".join(line.text for span in spans_of_part for line in span.lines))
        if not spans_of_part:
            texts.append(about_part(NOT_FOUND_TEXT, part.text, turn.language))
    if not shown:
        return None
    graded = assess(judgments)
    if graded.judgment.decision != assessment.judgment.decision:
        graded.report(turn)
        assessment = graded
    sources.number(evidence.hits)
    steps = [list_steps(span, numbers[id(span)]) for span in shown]
    procedure = next(filter(None, steps), ())
    # Spans are formatted last, since a later part may set another sentence in bold.
    formatted = [text if isinstance(text, str) else format_span(text, numbers[id(text)]) for text in texts]
    draft = Draft("\n\n".join(formatted), assessment, procedure=procedure, answers=tuple(answers), claims="")
    return draft.with_sources(sources)


def _doubt_quote(
    turn: Turn, part: PartEvidence, judgment: Judgment, ranked: Sequence[RatedLine], span: QuotedSpan
) -> Judgment:
    """Return the judgment `partial` for a quotation that answers less often than four times in five.

    Three figures tell: how far the confidence is above the minimum of the index, the share of the question's words in
    the quotation and its headings, and the lead of the best line over the best one of another passage. Their weights
    were fitted on the tuning halves of the conversations, each collection judged by the others.
    """
    hits = [hit.passage for hit in part.hits]
    texts = [span.text, *(passage.text for passage in hits)]
    headings = [span.heading, *(f"{passage.title} {passage.section}" for passage in hits)]
    share = word_shares(part, texts, headings)[0]
    lead = ranked[0].score - next((row.score for row in ranked if row.hit != ranked[0].hit), 0.0)
    sure = judgment.confidence - turn.sure_from + SHARE_WEIGHT * share + LEAD_WEIGHT * lead
    if sure >= MIN_SURENESS:
        return judgment
    reason = f"the quotation has {share:.2f} of the words and leads by {lead:.2f}"
    return judgment.model_copy(update={"decision": "partial", "reason": reason})


def _rank_lines(turn: Turn, part: PartEvidence, judgment: Judgment) -> list[RatedLine]:
    """Return the lines that may answer a part, best first; none if nothing was found for it."""
    if judgment.decision not in GROUNDED_DECISIONS or not part.hits:
        return []
    asked = part.text, turn.languages
    return rate_lines(part, turn.embed, defined_subject(*asked), wants_procedure(*asked))


def _spans_for_part(
    turn: Turn,
    part: PartEvidence,
    ranked: Sequence[RatedLine],
    parts: int,
    earlier: Sequence[QuotedSpan],
    forward_first: bool,
) -> list[QuotedSpan]:
    """Return the spans to quote for one of some `parts`; see `choose_spans`."""
    if not ranked:
        return []
    count, factor = 1, PROCEDURE_FACTOR if forward_first else 1.0
    if turn.generator is not None:
        count, factor = 2 if parts <= MAX_PARTS_WITH_TWO_SPANS else 1, READ_FACTOR
    words = round(factor * turn.config.quote_words)
    retriever = turn.retriever if turn.evidence is None else None  # nothing is added to given evidence
    return choose_spans(ranked, [*part.hits, *part.tables], count, words, earlier, retriever, forward_first)


def refuse(turn: Turn, evidence: Evidence, assessment: Assessment) -> Draft:
    """Return the refusal for a message that has no answerable part."""
    text = in_language(UNKNOWN_TEXT, turn.language)
    return Draft(text, assessment, evidence.hits, answers=("",) * len(evidence.parts))
