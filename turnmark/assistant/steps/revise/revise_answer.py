"""The revise step: change the last answer as the message instructs.

Rules (`edit_rules`) choose among the lines of the answer and keep the documents' words. A model rewrites the complete
answer in one call: it is shown the conversation, the sections behind its answers, those of the last answer first, and
the sections that the instruction asks for.
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
from turnmark.assistant.steps.revise.edit_rules import apply_requests
from turnmark.assistant.steps.step_results import Assessment, Draft, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.understand.courtesy import is_conversational
from turnmark.assistant.steps.understand.edit_requests import EditRequest, edit_requests, is_instruction
from turnmark.assistant.steps.understand.understand_rules import wants_procedure
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
        asked_for_steps = question_at is not None and wants_procedure(turn.history[question_at].content)
        text = "" if is_refusal(previous) else apply_requests(previous, requests, is_complete=asked_for_steps)
        if not text or text.strip() == previous.strip():
            reason = ALREADY_TEXT if text else _why_unchanged(previous, requests)
            reply = in_language(UNCHANGED_TEXT, turn.language) + in_language(reason, turn.language)
            return _streamed(turn, reply, Judgment(decision="converse", confidence=1.0, reason="not changed"))
        cited_text, hits = _add_citations(text, _hits_behind(turn, question_at, text))
        turn.report_hits(hits)
        decision: Decision = "partial" if text_at_start(text, UNSURE_TEXT) else "answer"
        judgment = _REVISION_JUDGMENT.model_copy(update={"decision": decision})
        return _streamed(turn, cited_text, judgment, hits)


def _why_unchanged(previous: str, requests: Sequence[EditRequest]) -> str:
    """Return why rules cannot change an answer: there is nothing to change, or it takes a model."""
    rules_apply = bool(requests) and all(request.kind not in ("other", "limit", "table") for request in requests)
    return NOTHING_TO_CHANGE_TEXT if rules_apply or is_refusal(previous) else NEEDS_MODEL_TEXT


def _streamed(turn: Turn, text: str, judgment: Judgment, hits: Sequence[Hit] = ()) -> Draft:
    """Return an answer as a draft, after reporting its judgment and streaming it."""
    assessment = Assessment(judgment)
    assessment.report(turn)
    turn.stream(text)
    # Lines of an answer that quotes the documents need no check, e.g. titles in a list of all documents.
    return Draft(text, assessment, tuple(hits), procedure_in(text), claims=None if turn.generator else "")


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
        text, cited = _add_citations(written.text, hits)
        hits = drop_repeats([*cited, *hits])
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


_FENCED_CODE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)


def _add_citations(text: str, hits: Sequence[Hit]) -> tuple[str, list[Hit]]:
    """Add a mark to each paragraph and item that occurs word for word in a passage, and return the cited ones.

    Texts of one or two words, code and heading paths get no mark, and a table gets one below it.
    """
    sources = [" ".join(words(hit.passage.text)) for hit in hits]
    code = [match.span() for match in _FENCED_CODE.finditer(text)]
    cited: list[Hit] = []
    marked: list[str] = []
    position = 0
    paragraph: list[str] = []
    for line, following in pairwise([*text.split("\n"), ""]):
        in_code = any(start <= position < end for start, end in code)
        position += len(line) + 1
        marked.append(line)
        if in_code or line.endswith("  ") or not line.strip():
            paragraph = []
            continue
        paragraph += words(without_item_mark(line.strip()).replace("*", ""))
        continues = (
            following.strip() and not ITEM_MARK.match(following.strip()) and not following.startswith(("```", "~~~"))
        )
        if continues and (line.startswith("|") or not following.startswith("|")):
            paragraph = [] if line.startswith("|") else paragraph
            continue
        found = [hit for hit, source in zip(hits, sources, strict=True) if " ".join(paragraph) in source]
        if found and len(paragraph) > 2:
            cited += [] if found[0] in cited else found[:1]
            marked[-1] += f"{chr(10) if line.startswith('|') else ' '}[{cited.index(found[0]) + 1}]"
        paragraph = []
    return "\n".join(marked), cited
