"""The answer step with a language model: one call answers all parts from the sections that were found.

The answer is exactly what the model writes: nothing is added or replaced.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from turnmark.assistant.citations.marks import (
    cited_numbers,
    number_in_order,
    spaced_sentences,
    with_numbers,
    without_item_mark,
)
from turnmark.assistant.citations.not_stated_mark import NOT_STATED_MARK, MarkedAnswer, write_answer
from turnmark.assistant.llm.calls.protocols import Generator, PromptMessage
from turnmark.assistant.llm.prompts.context_budget import PASSAGE_MARK_TOKENS, count_tokens, material_room
from turnmark.assistant.llm.prompts.history import earlier_turns
from turnmark.assistant.llm.prompts.prompt_files import load_prompt
from turnmark.assistant.llm.prompts.structured_output import WrittenText, number_lines
from turnmark.assistant.llm.prompts.tool_definitions import is_count_of_nothing
from turnmark.assistant.steps.answer.answer_collection import answer_about_collection
from turnmark.assistant.steps.answer.answer_quotes import quote_parts, refuse
from turnmark.assistant.steps.step_results import (
    Assessment,
    Draft,
    Evidence,
    UnderstoodMessage,
    assess,
)
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.understand.earlier_answers import answers_in, current_versions
from turnmark.assistant.types import Decision, ProcedureStep, Understanding, Usage
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.core.untrusted import escape_marks, quote_lines
from turnmark.corpora.text.languages import ENGLISH, language_name
from turnmark.corpora.text.segmentation import (
    ends_with_question_mark,
    list_items,
    strip_citations,
    strip_inline_markdown,
    words,
)
from turnmark.corpora.types import CONTINUED_MARK, Message, Passage, without_continued
from turnmark.retrieval.types import Hit

_BLANK_LINES = re.compile(r"\n(?:[ \t>]*\n){2,}")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_NEXT_HEADING = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)


class AnswerByModel:
    """Answer step for a large model: all parts in one call, from full sections."""

    name = "answer"

    def __call__(
        self, turn: Turn, understood: UnderstoodMessage, evidence: Evidence, assessment: Assessment, /
    ) -> Draft:
        if evidence.search_on is not None:
            found = evidence.search_on(turn, understood, evidence, assessment)
            if isinstance(found, Draft):
                return found
            evidence = found
        if not evidence.hits and not evidence.previous and not turn.trusted:
            draft = refuse(turn, evidence, assessment)
            turn.stream(draft.text)
            return draft
        prompt, notes = turn_prompt(turn, understood, evidence)
        turn.use("answer", Usage(), *notes)
        written, answer = write_answer(turn.model, prompt, len(evidence.hits), turn.stream)
        return draft_of_model(turn, evidence, assessment, written, answer)


def draft_of_model(
    turn: Turn, evidence: Evidence, assessment: Assessment, written: WrittenText, answer: MarkedAnswer
) -> Draft:
    """Return the model's answer as the draft, with the decision corrected to what the answer says."""
    turn.use("answer", written.usage, written.note)
    if answer.text or evidence.previous:
        text, cited = number_in_order(answer.text or evidence.previous, len(evidence.hits))
        others = [number for number in range(1, len(evidence.hits) + 1) if number not in cited]
        hits = tuple(evidence.hits[number - 1] for number in (*cited, *others))
        draft = Draft(text, assessment, hits, procedure_in(text), unstated=answer.unstated)
        numbers = {old: new for new, old in enumerate(cited, 1)}
        turn.calls = [call.model_copy(update={"found": with_numbers(call.found, numbers)}) for call in turn.calls]
        if not answer.text:
            turn.stream(text)
    else:  # nothing but the mark
        draft = refuse(turn, evidence, assessment)
        turn.stream(draft.text)
    absences = [number for number, hit in enumerate(evidence.hits, 1) if is_count_of_nothing(hit.passage)]
    decision = decision_of(answer, len(evidence.parts), absences)
    if decision != assessment.judgment.decision:
        update = {"decision": decision, "reason": "the model, after reading"}
        assessment = replace(assessment, judgment=assessment.judgment.model_copy(update=update))
        assessment.report(turn)
    return replace(draft, assessment=assessment, computed=evidence.computed, reasoning=written.reasoning)


def turn_prompt(
    turn: Turn, understood: UnderstoodMessage, evidence: Evidence, counts: bool = False
) -> tuple[tuple[PromptMessage, ...], list[str]]:
    """Return the messages that ask for a turn's answer, and notes on what was left out.

    Earlier messages are always shown: whether a message depends on them is a guess, and "Yes" means nothing without
    them. A revision may go back to an earlier version of the answer.
    """
    history = turn.history
    if evidence.previous:
        history = history[: answers_in(history)[-1]]
    return answer_prompt(
        turn.model,
        understood.understanding,
        turn.message,
        history if evidence.previous else current_versions(history),
        evidence.hits,
        turn.prompts,
        evidence.previous,
        "" if evidence.previous else turn.language_to_answer,
        counts,
        _extents(turn, [hit.passage for hit in evidence.hits], counts),
    )


def _extents(turn: Turn, sections: Sequence[Passage], reads_on: bool) -> list[str]:
    """Return for each section whether it is its whole document, or is cut; empty if neither is known.

    Args:
        reads_on: whether the model has tools to read on.
    """
    first = {section.document: section for section in sections if turn.retriever and section.path}
    documents = {name: turn.retriever.neighbors(section) for name, section in first.items()} if turn.retriever else {}
    shown = {(section.document, section.start) for section in sections}
    return [
        _extent(section, documents.get(section.document, ()), number if reads_on else 0, shown)
        for number, section in enumerate(sections, 1)
    ]


def _extent(passage: Passage, document: Sequence[Passage], number: int, shown: Collection[tuple[str, int]]) -> str:
    after = next((each for each in document if each.start >= passage.end), None)
    if document and document[0].start >= passage.start and after is None:
        return "(whole document)"
    if (
        after is None
        or (after.document, after.start) in shown
        or without_continued(after.section) != without_continued(passage.section)
    ):
        return ""
    return f"(cut: read after [{number}])" if number else "(cut)"


def answer_prompt(
    generator: Generator,
    understood: Understanding,
    message: str,
    history: Sequence[Message],
    hits: Sequence[Hit],
    prompts: Path | None = None,
    previous: str = "",
    language: str = "",
    counts: bool = False,
    extents: Sequence[str] = (),
) -> tuple[tuple[PromptMessage, ...], list[str]]:
    """Return the messages that ask for an answer or a revision, and notes on what was left out.

    Args:
        history: the messages before `message`, or before the answer to revise.
        previous: the answer to revise, with the numbers of `hits` as marks, or "" if the message is a question.
        language: the language to answer in, if the documents are in another one.
        counts: whether the model has tools that count over all documents.
        extents: for each hit, whether it is cut or a whole document, in words.
    """
    template = load_prompt("answer", prompts)
    interpretation = _interpretation(understood, message)
    previous_quoted = template.quote(previous)
    room = material_room(generator, template, message, interpretation, previous_quoted)
    notes: list[str] = []
    earlier, left_out = earlier_turns(history, room, template.quote)
    if left_out:
        notes.append(f"{left_out} earlier messages were left out: the model's context is full")
    room -= count_tokens(earlier)
    sections: list[str] = []
    for number, (hit, extent) in enumerate(zip(hits, extents or [""] * len(hits), strict=True), 1):
        section = format_section(number, hit.passage, template.quote, extent)
        room -= count_tokens(section) + PASSAGE_MARK_TOKENS
        if room < 0 and sections:
            left_out = len(hits) - len(sections)
            notes.append(f"{left_out} of {len(hits)} sections were left out: the model's context is full")
            break
        sections.append(section)
    messages = template.render(
        history=earlier,
        sections="\n\n".join(sections) or "(none were found)",
        today=datetime.date.today().strftime("%A, %-d %B %Y"),
        revises=bool(previous),
        previous=previous_quoted,
        message=message,
        understood=interpretation,
        language=language,
        counts=counts,
    )
    return messages, notes


def _interpretation(understood: Understanding, message: str) -> str:
    """Return what a message was understood to ask, if that has words that the message lacks; else "".

    A topic carried over by rules only serves the search, so it is not shown.
    """
    parts = understood.asked if understood.topic else understood.sub_questions
    if {*words(" ".join(parts))} <= {*words(message)}:
        return ""
    return number_lines(parts) if len(parts) > 1 else parts[0]


def format_section(number: int, passage: Passage, quote: Callable[[str], str] = quote_lines, extent: str = "") -> str:
    """Format a section for a prompt: its number, heading and source, its text, and its extent."""
    heading = passage.heading
    if passage.section.endswith(CONTINUED_MARK):
        heading = f"{heading} {CONTINUED_MARK}"
    document = passage.as_stored().document
    file = document if document.startswith(f"{passage.path}#") else passage.path  # one of several in a file
    path = f"{passage.index}:{file}" if passage.index else file
    source = ", ".join(filter(None, (path, passage.date)))
    if source:
        heading = f"{heading} ({source})"
    text = _BLANK_LINES.sub("\n\n", escape_marks(passage.shown_text))
    return "\n".join(filter(None, (f"[{number}]", quote(escape_marks(heading)), quote(text), extent)))


def procedure_in(text: str) -> tuple[ProcedureStep, ...]:
    """Return the steps of an answer's numbered list; empty if it has fewer than two.

    A step that is a heading includes the paragraphs below it; the last step includes as many as the longest other step.
    """
    items = [item for item in list_items(text) if item.number is not None and item.depth == 0]
    paragraphs_below: list[list[str]] = []
    for position, item in enumerate(items):
        end = items[position + 1].start if position + 1 < len(items) else len(text)
        paragraphs_below.append(_paragraphs(text[item.end : end]) if text[item.start] == "#" else [])
    if paragraphs_below:  # text after the list does not belong to its last step
        most = max(map(len, paragraphs_below[:-1]), default=0)
        paragraphs_below[-1] = paragraphs_below[-1][:most]
    steps = []
    for item, paragraphs in zip(items, paragraphs_below, strict=True):
        step_text = " ".join([item.text, *paragraphs])
        citations = tuple(dict.fromkeys(cited_numbers(step_text)))
        steps.append(ProcedureStep(step=strip_citations(step_text).strip(), citations=citations))
    return tuple(steps) if len(steps) > 1 else ()


def _paragraphs(body: str) -> list[str]:
    """Return the paragraphs and lists before the next heading, each as one plain line."""
    body = _NEXT_HEADING.split(body, maxsplit=1)[0]
    return [
        " ".join(strip_inline_markdown(without_item_mark(line.strip())) for line in paragraph.splitlines())
        for paragraph in _BLANK_LINE.split(body)
        if paragraph.strip()
    ]


def decision_of(answer: MarkedAnswer, parts: int, absences: Collection[int] = ()) -> Decision:
    """Return the decision that a model's answer expresses.

    `unknown` if its first sentence says that the documents do not answer the question (of several parts only if nothing
    is cited); `partial` if another sentence says so; `clarify` if it cites nothing and ends with a question. A sentence
    says so by its mark or its wording. Before it, or next to it, may be counted that no document mentions the thing.

    Args:
        parts: number of parts of the message.
        absences: numbers of the sources that count something in no document.
    """
    pieces = [piece.text for piece in spaced_sentences(answer.text)]
    sentences = [text for text in pieces if any(map(str.isalnum, strip_citations(text)))]
    if not answer.text:
        return "unknown"
    if not sentences:
        return "answer"
    cites = any(cited_numbers(sentence) for sentence in sentences)
    if not cites and ends_with_question_mark(sentences[-1]):
        return "clarify"
    texts = [strip_citations(sentence).strip() for sentence in sentences]
    unknown = [text in answer.unstated or is_refusal(text) for text in texts]
    counted = [bool(found := cited_numbers(sentence)) and {*found} <= {*absences} for sentence in sentences]
    cites = any(cited_numbers(sentence) for sentence, absent in zip(sentences, counted, strict=True) if not absent)
    first = next((at for at, absent in enumerate(counted) if not absent), 0)
    if unknown[first] and (parts == 1 or not cites):
        return "unknown"
    return "partial" if any(unknown) or answer.partly_unstated else "answer"


class AnswerBySmallModel:
    """Answer step for a small model: its answer from the quotations, which follow below it.

    Small models judge evidence badly. So if the evidence is weak, or the model says that the answer is not stated, the
    quotations alone are the answer. They do not count either, so what asks for a count or about the collection itself
    is answered as without a model.
    """

    name = "answer"

    def __call__(
        self, turn: Turn, understood: UnderstoodMessage, evidence: Evidence, assessment: Assessment, /
    ) -> Draft:
        if turn.trusted and not evidence.hits:  # a benchmark measures whether the model refuses
            return AnswerByModel()(turn, understood, evidence, assessment)
        draft = answer_about_collection(turn, understood, assessment)
        quotation = None if draft else quote_parts(turn, understood, evidence, assessment)
        if quotation is not None and assessment.judgment.decision == "answer":
            written, answer = self._write(turn, understood, quotation)
            if not _refuses_briefly(written.text) and not answer.unstated:
                below = f"\n\n{quote_lines(quotation.text)}"
                turn.stream(below)
                return replace(
                    quotation,
                    text=answer.text + below,
                    procedure=procedure_in(answer.text),
                    answers=(),
                    claims=answer.text,
                    reasoning=written.reasoning,
                )
            unsure = {"decision": "partial", "reason": "the model is not sure"}
            assessment = assess([judgment.model_copy(update=unsure) for judgment in assessment.parts])
            assessment.report(turn)
            quotation = quote_parts(turn, understood, evidence, assessment)
            quotation = quotation and replace(quotation, reasoning=written.reasoning)
        draft = draft or quotation or refuse(turn, evidence, assessment)
        turn.stream(draft.text)
        return draft

    def _write(self, turn: Turn, understood: UnderstoodMessage, quotation: Draft) -> tuple[WrittenText, MarkedAnswer]:
        """Have the model answer from a quotation, and stream its answer."""
        understanding = understood.understanding
        template = load_prompt("answer-small", turn.prompts)
        prompt = template.render(
            sections=template.quote(strip_citations(quotation.text).replace("**", "")),
            question=turn.message if understanding.topic else understanding.rewrite,
            language=turn.language_to_answer if turn.language == ENGLISH else language_name(turn.language),
        )
        written, answer = write_answer(turn.model, prompt, 0, turn.stream, _refuses_briefly)
        turn.use("answer", written.usage, written.note)
        return written, answer


def _refuses_briefly(text: str) -> bool:
    """Return whether the reply of a small model says that the answer is not stated."""
    return text.lstrip().startswith(NOT_STATED_MARK) or is_refusal(text, terse=True)
