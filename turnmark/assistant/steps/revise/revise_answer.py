"""The revise step: change the last answer as the message instructs.

Rules make a few changes of layout and length, which keep the documents' words. A model rewrites the complete answer in
one call: it is shown the conversation, the sections behind its answers, those of the last answer first, and the
sections that the instruction asks for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from turnmark.assistant.citations.marks import ITEM_MARK, spaced_sentences, without_item_mark
from turnmark.assistant.citations.not_stated_mark import MarkedAnswer, write_answer
from turnmark.assistant.llm.calls.protocols import Generator, OnText
from turnmark.assistant.llm.prompts.history import ends_with_question
from turnmark.assistant.llm.prompts.prompt_files import load_prompt
from turnmark.assistant.llm.prompts.structured_output import WrittenText, write_text
from turnmark.assistant.steps.answer.answer_llm import answer_prompt, decision_of, procedure_in
from turnmark.assistant.steps.retrieve.retrieve_sections import (
    conversation_query,
    drop_repeats,
    interleave,
    read_sections,
)
from turnmark.assistant.steps.step_results import Assessment, Draft, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.understand.courtesy import is_conversational
from turnmark.assistant.steps.understand.edit_requests import EditRequest, edit_requests, is_instruction
from turnmark.assistant.types import Decision, Judgment, Understanding
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.assistant.wording.reply_texts import (
    ALREADY_TEXT,
    NEEDS_MODEL_TEXT,
    NOTHING_TO_CHANGE_TEXT,
    UNCHANGED_TEXT,
    UNSURE_TEXT,
    in_language,
    text_at_start,
)
from turnmark.core.errors import RequestError
from turnmark.core.untrusted import escape_marks
from turnmark.corpora.text.segmentation import strip_citations, words
from turnmark.corpora.types import Message
from turnmark.retrieval.types import Hit, Query

NO_ANSWER_YET_TEXT = "there is no answer yet to revise; ask something first"
_REVISION_JUDGMENT = Judgment(decision="answer", confidence=1.0, reason="a revision")
MAX_EARLIER_ANSWERS = 3
"""Maximum answers before the last one whose passages a model is shown, too, e.g. for "put both in one list"."""
MAX_SEARCHES, MAX_SEARCHES_PER_EARLIER = 8, 4
"""Maximum searches for the passages behind the last answer, and behind an earlier one."""
PASSAGES_PER_SEARCH, PASSAGES_PER_EARLIER_SEARCH, PASSAGES_FOR_QUESTION = 1, 1, 2
"""Passages that a model is shown from each of these searches, and from the search for the last answer's question."""
LAYOUT_TOKENS_SHARE = 0.6
"""Share of the limit of tokens that the sections may have if the instruction asks for nothing new."""


class RevisionByRules:
    """Revise step without a model: changes of layout and length by rules."""

    name = "answer"

    def __call__(self, turn: Turn, understood: UnderstoodMessage, /) -> Draft:  # noqa: ARG002
        question_at, previous = _last_answer(turn)
        requests = edit_requests(turn.message)
        text = "" if is_refusal(previous) else apply_requests(previous, requests)
        if not text or text.strip() == previous.strip():
            reason = ALREADY_TEXT if text else _why_unchanged(previous, requests)
            reply = in_language(UNCHANGED_TEXT, turn.language) + in_language(reason, turn.language)
            return _streamed(turn, reply, Judgment(decision="converse", confidence=1.0, reason="not changed"))
        hits = _hits_behind(turn, question_at, previous)
        turn.report_hits(hits)
        decision: Decision = "partial" if text_at_start(previous, UNSURE_TEXT) else "answer"
        judgment = _REVISION_JUDGMENT.model_copy(update={"decision": decision})
        return _streamed(turn, _add_citations(text, hits), judgment, hits)


def _why_unchanged(previous: str, requests: Sequence[EditRequest]) -> str:
    """Return why rules cannot change an answer: there is nothing to change, or it takes a model."""
    rules_apply = bool(requests) and all(request.kind != "other" for request in requests)
    return NOTHING_TO_CHANGE_TEXT if rules_apply or is_refusal(previous) else NEEDS_MODEL_TEXT


def _streamed(turn: Turn, text: str, judgment: Judgment, hits: Sequence[Hit] = ()) -> Draft:
    """Return an answer as a draft, after reporting its judgment and streaming it."""
    assessment = Assessment(judgment)
    assessment.report(turn)
    turn.stream(text)
    return Draft(text, assessment, tuple(hits), procedure_in(text))


class RevisionByModel:
    """Revise step for a large model, which rewrites the complete answer in one call."""

    name = "answer"

    def __call__(self, turn: Turn, understood: UnderstoodMessage, /) -> Draft:
        question_at, previous = _last_answer(turn)
        share = 1.0 if _lookups_of_instruction(turn, understood) else LAYOUT_TOKENS_SHARE
        found = _hits_to_read(turn, understood, question_at, previous)
        hits = read_sections(turn, understood.parts, found, round(share * turn.config.tokens), previous)
        turn.report_hits(hits)
        assessment = Assessment(_REVISION_JUDGMENT)
        assessment.report(turn)
        before = turn.history[: answers_in(turn.history)[-1]]
        written, answer, notes = revise_by_model(
            turn.model, before, previous, turn.message, hits, turn.prompts, turn.stream
        )
        turn.use("revise", written.usage, *notes, written.note)
        decision = decision_of(answer, 1)
        if decision != "answer":
            assessment = Assessment(_REVISION_JUDGMENT.model_copy(update={"decision": decision}))
            assessment.report(turn)
        text = answer.text or previous
        return Draft(
            text, assessment, tuple(hits), procedure_in(text), unstated=answer.unstated, reasoning=written.reasoning
        )


class RevisionBySmallModel(RevisionByRules):
    """Revise step for a small model: rules if they apply; otherwise the model rewrites the answer from its own text."""

    def __call__(self, turn: Turn, understood: UnderstoodMessage, /) -> Draft:
        question_at, previous = _last_answer(turn)
        if apply_requests(previous, edit_requests(turn.message)) or is_refusal(previous):
            return super().__call__(turn, understood)
        unquoted = "\n".join(line for line in previous.splitlines() if not line.startswith(">")).strip()
        template = load_prompt("revise-small", turn.prompts)
        prompt = template.render(
            question=turn.history[question_at].content if question_at is not None else "(not known)",
            previous=template.quote(escape_marks((unquoted or previous).replace("**", ""))),
            message=turn.message,
        )
        written = write_text(turn.model, prompt, turn.stream)
        turn.use("revise", written.usage, written.note)
        hits = _hits_behind(turn, question_at, previous)
        turn.report_hits(hits)
        assessment = Assessment(_REVISION_JUDGMENT)
        assessment.report(turn)
        text = _add_citations(written.text, hits)
        return Draft(text, assessment, tuple(hits), procedure_in(text), reasoning=written.reasoning)


def revise_by_model(
    generator: Generator,
    history: Sequence[Message],
    previous: str,
    instruction: str,
    hits: Sequence[Hit],
    prompts: Path | None = None,
    on_text: OnText | None = None,
) -> tuple[WrittenText, MarkedAnswer, list[str]]:
    """Have a model revise an answer. Return what it wrote, the answer, and notes on what was left out of the prompt.

    Args:
        history: the messages before the answer; the last one is its question.
        previous: the answer to revise.
    """
    about = Understanding(kind="revision", rewrite=instruction, sub_questions=(instruction,))
    prompt, notes = answer_prompt(generator, about, instruction, history, hits, prompts, previous)
    return *write_answer(generator, prompt, len(hits), on_text), notes


def _last_answer(turn: Turn) -> tuple[int | None, str]:
    """Return `last_answer` of a turn's history; raises RequestError if there is no answer."""
    question_at, previous = last_answer(turn.history)
    if not previous:
        raise RequestError(NO_ANSWER_YET_TEXT)
    return question_at, previous


def last_answer(history: Sequence[Message]) -> tuple[int | None, str]:
    """Return the position of the question of the last answer (None if it is not known), and that answer without marks.

    Courtesies and instructions are no questions.
    """
    answers = answers_in(history)
    if not answers:
        return None, ""
    answer_at = answers[-1]
    answer = strip_citations(history[answer_at].content)
    for position in range(answer_at - 1, -1, -1):
        message = history[position]
        if message.role != "user" or is_conversational(message.content):
            continue
        if not is_instruction(history[:position], message.content):
            return position, answer
    return None, answer


def answers_in(history: Sequence[Message]) -> list[int]:
    """Return the positions of the answers in a conversation.

    Replies to courtesies, and replies that explain why an answer was left unchanged, do not count.
    """

    def replies_to_courtesy(position: int) -> bool:
        before = history[:position]
        if not before or before[-1].role != "user" or not is_conversational(before[-1].content):
            return False
        return not ends_with_question(before[:-1])

    answers: list[int] = []
    for position, message in enumerate(history):
        if message.role != "assistant" or not message.content.strip() or text_at_start(message.content, UNCHANGED_TEXT):
            continue
        if not replies_to_courtesy(position):
            answers.append(position)
    return answers


class Lookup(NamedTuple):
    """A search for a revision.

    Attributes:
        why: what it is for, in the trace.
        most: maximum number of its hits that a model reads.
    """

    query: Query
    why: str
    most: int


def _hits_behind(turn: Turn, question_at: int | None, previous: str) -> list[Hit]:
    """Search for the passages behind the last answer: first the best of each sentence, then all others."""
    results = _run_searches(turn, [*_lookups_of_answer(previous), *_lookups_of_question(turn, question_at)])
    best = [hits[0] for hits in results if hits]
    others = [hit for hits in reversed(results) for hit in hits]
    return drop_repeats([*best, *others])


def _hits_to_read(turn: Turn, understood: UnderstoodMessage, question_at: int | None, previous: str) -> list[Hit]:
    """Search for the passages that a model reads.

    In this order: those behind the last answer, those that the instruction asks for, those behind earlier answers, and
    those of the last answer's question.
    """
    earlier_answers = answers_in(turn.history)[:-1]
    earlier_lookups: list[Lookup] = []
    for position in reversed(earlier_answers[-MAX_EARLIER_ANSWERS:]):
        for lookup in _lookups_of_answer(turn.history[position].content, MAX_SEARCHES_PER_EARLIER):
            earlier_lookups.append(
                Lookup(lookup.query, "the sources of an earlier answer", PASSAGES_PER_EARLIER_SEARCH)
            )
    groups = [
        _lookups_of_answer(previous),
        _lookups_of_instruction(turn, understood),
        earlier_lookups,
        _lookups_of_question(turn, question_at),
    ]
    remaining_results = iter(_run_searches(turn, [lookup for group in groups for lookup in group]))
    hits: list[Hit] = []
    for group in groups:
        hits += interleave([next(remaining_results)[: lookup.most] for lookup in group])
    return drop_repeats(hits)


def _lookups_of_answer(answer: str, most: int = MAX_SEARCHES) -> list[Lookup]:
    """Return searches for the passages behind an answer, one per sentence; sentences are joined to get at most `most`.

    The passages are not known otherwise, since a conversation is stored without citation marks.
    """
    texts = [strip_citations(piece.text) for piece in spaced_sentences(answer)]
    texts = [text for text in texts if len(words(text)) > 3]
    if not texts:
        return []
    count = min(len(texts), most)
    bounds = [len(texts) * number // count for number in range(count + 1)]
    pieces = [" ".join(texts[start:end]) for start, end in pairwise(bounds)]
    return [Lookup(Query(text=piece), "the sources of the answer", PASSAGES_PER_SEARCH) for piece in pieces]


def _lookups_of_question(turn: Turn, question_at: int | None) -> list[Lookup]:
    if question_at is None:
        return []
    question = turn.history[question_at].content
    query = conversation_query(turn.history[:question_at], question, turn.languages)
    return [Lookup(query, "the question of the answer", PASSAGES_FOR_QUESTION)]


def _lookups_of_instruction(turn: Turn, understood: UnderstoodMessage) -> list[Lookup]:
    """Return the search for what an instruction asks to add; no search if it is only about layout.

    A model that understood the instruction gives search phrases if it asks for more.
    """
    phrases = tuple(phrase for part in understood.parts for phrase in part.phrases)
    if not phrases and (understood.form == "llm" or edit_requests(turn.message)):
        return []
    query = Query(text=turn.message, history=turn.history, variants=phrases)
    return [Lookup(query, "the instruction asks for more", turn.top_k)]


def _run_searches(turn: Turn, lookups: Sequence[Lookup]) -> list[list[Hit]]:
    """Return the hits of each search; all empty without a retriever."""
    if turn.retriever is None:
        return [[] for _ in lookups]
    results = turn.retriever.search([lookup.query for lookup in lookups], turn.top_k)
    for lookup, hits in zip(lookups, results, strict=True):
        turn.searched(lookup.query, hits, lookup.why)
    return results


# --- revision by rules ---


def _is_quotation(block: str) -> bool:
    """Return whether a paragraph is a quotation: it begins with a heading path on a line."""
    first, _, rest = block.strip().partition("\n")
    if not rest.strip():
        return False
    if " › " in first or first.endswith("  "):
        return True
    return not ITEM_MARK.match(first) and first[-1:] not in ".!?:;…|"


def _body(block: str) -> str:
    """Return a paragraph without its heading path."""
    block = block.strip()
    return block.partition("\n")[2] if _is_quotation(block) else block


_FENCED_CODE = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)


def _lines_of_code(match: re.Match[str]) -> str:
    """Return the lines of a code block as paragraphs, so that each can become an item."""
    lines = [f"`{line.strip()}`" for line in match[1].splitlines() if line.strip()]
    return "\n\n".join(lines) + "\n\n"


def apply_requests(previous: str, requests: Sequence[EditRequest]) -> str:
    """Apply requested changes to an answer without marks, one by one, or return "" if rules cannot apply all of them.

    The note `UNSURE_TEXT` stays above the answer.
    """
    unsure = text_at_start(previous, UNSURE_TEXT)
    text = previous.removeprefix(unsure) if requests else ""
    for request in requests:
        text = _apply_request(text, request)
    return f"{unsure}\n\n{text}" if text and unsure else text


def _apply_request(previous: str, request: EditRequest) -> str:
    """Apply one change to an answer, or return "" if rules cannot."""
    blocks = [block for block in re.split(r"\n\s*\n", previous) if block.strip()]
    bodies = [_FENCED_CODE.sub(_lines_of_code, _body(block)) for block in blocks]
    if request.kind == "steps":
        return "\n".join(_items(bodies))
    if request.kind == "list":
        return "\n".join(f"- {sentence}" for sentence in _sentences(bodies) if sentence[-1] not in ":：")
    if request.kind in ("only", "without"):
        return _select_items(bodies, request)
    if request.kind == "shorter":
        return _shorten(blocks)
    return ""


def _select_items(bodies: Sequence[str], request: EditRequest) -> str:
    """Keep only, or leave out, some items of an answer, or else sentences, or return "" if it has too few."""
    items = _items(bodies) or _rows(bodies)
    units = items or _sentences(bodies)
    if len(units) <= request.count:
        return ""
    if request.last:
        selected, rest = units[-request.count :], units[: -request.count]
    else:
        selected, rest = units[: request.count], units[request.count :]
    separator = "\n" if items else " "
    return separator.join(selected if request.kind == "only" else rest)


def _shorten(blocks: Sequence[str]) -> str:
    """Shorten an answer to its first quotation; an answer with at most one is shortened to its first half."""
    starts = [position for position, block in enumerate(blocks) if _is_quotation(block)]
    if len(starts) > 1:
        return "\n\n".join(blocks[: starts[1]])
    bodies = [_body(block) for block in blocks]
    items = _items(bodies) or _rows(bodies)
    units = items or _sentences(bodies)
    return ("\n" if items else " ").join(units[: max(1, len(units) // 2)])


def _items(bodies: Sequence[str]) -> list[str]:
    """Return the list items of an answer, with their marks."""
    lines = [line.strip() for body in bodies for line in body.splitlines()]
    return [line for line in lines if ITEM_MARK.match(line)]


_TABLE = re.compile(r"((?:^[ \t]*\|[^\n]*(?:\n|\Z))+)", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")


def _rows(bodies: Sequence[str]) -> list[str]:
    """Return the rows of the tables of an answer as list items."""
    rows: list[str] = []
    for body in bodies:
        for table in _TABLE.findall(body):
            rows += [f"- {row}" for row in _rows_of(table)]
    return rows


def _rows_of(table: str) -> list[str]:
    """Return each row of a table as a line of plain text, without the header row and the rule below it."""
    rows: list[str] = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in _CELL.split(line)]
        rows.append(" – ".join(filter(None, cells)))
    has_header = len(rows) > 1 and not any(map(str.isalnum, rows[1]))
    if has_header:
        del rows[0]
    return [row for row in rows if any(map(str.isalnum, row))]


def _sentences(bodies: Sequence[str]) -> list[str]:
    """Return the sentences, items and table rows of an answer, without its headings."""
    texts: list[str] = []
    for body in bodies:
        for number, part in enumerate(_TABLE.split(body)):  # text and tables in turn
            is_table = number % 2 == 1
            if is_table:
                texts += _rows_of(part)
            else:
                texts += [" ".join(piece.text.split()) for piece in spaced_sentences(part)]
    return [without_item_mark(text.replace("**", "")) for text in texts if any(map(str.isalnum, text))]


def _add_citations(text: str, hits: Sequence[Hit]) -> str:
    """Add a citation mark to each line of more than two words that occurs word for word in a passage."""
    sources = [" ".join(words(hit.passage.text)) for hit in hits]
    lines = []
    for line in text.split("\n"):
        line_words = words(without_item_mark(line.strip()).replace("*", ""))
        if len(line_words) > 2:
            normalized = " ".join(line_words)
            number = next((number for number, source in enumerate(sources, 1) if normalized in source), None)
            if number is not None:
                line = f"{line} [{number}]"
        lines.append(line)
    return "\n".join(lines)
