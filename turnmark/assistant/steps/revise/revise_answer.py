"""The revise step: change the last answer as the message instructs.

Rules (`edit_rules`) choose among the lines of the answer and keep the documents' words. A model rewrites the complete
answer: it is shown the conversation, the sources of the last answer and of those that the instruction names, and the
sections that the instruction asks for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from turnmark.assistant.citations.marks import ITEM_MARK, without_item_mark
from turnmark.assistant.llm.prompts.prompt_files import load_prompt
from turnmark.assistant.llm.prompts.structured_output import write_text
from turnmark.assistant.steps.agent.search_agent import answer_with_tools
from turnmark.assistant.steps.answer.answer_llm import AnswerByModel, procedure_in
from turnmark.assistant.steps.retrieve.retrieve_sections import drop_repeats, read_sections, repeats
from turnmark.assistant.steps.revise.edit_rules import apply_requests
from turnmark.assistant.steps.revise.kept_sources import add_earlier_sources, last_answer_with_marks
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
from turnmark.assistant.steps.understand.earlier_answers import last_answer
from turnmark.assistant.steps.understand.edit_requests import edit_requests
from turnmark.assistant.types import Decision, Judgment
from turnmark.assistant.wording.phrases import wants_procedure
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.assistant.wording.reply_texts import (
    ALREADY_TEXT,
    NEEDS_MODEL_TEXT,
    NOTHING_TO_CHANGE_TEXT,
    UNCHANGED_TEXT,
    UNSURE_PART_TEXT,
    UNSURE_TEXT,
    in_language,
    text_at_start,
)
from turnmark.core.errors import RequestError
from turnmark.core.untrusted import escape_marks
from turnmark.corpora.text.segmentation import words
from turnmark.retrieval.types import Hit, Query

NO_ANSWER_YET_TEXT = "there is no answer yet to revise; ask something first"
_REVISION_JUDGMENT = Judgment(decision="answer", confidence=1.0, reason="a revision")
NEW_TOKENS_SHARE = 0.6
"""Share of the limit of tokens that the sections may have that an instruction asks for."""


class RevisionByRules:
    """Revise step without a model: changes of layout and length by rules."""

    name = "answer"

    def __call__(self, turn: Turn, understood: UnderstoodMessage, /) -> Draft:  # noqa: ARG002
        question_at, previous = _last_answer(turn)
        requests = edit_requests(turn.message)
        asked_for_steps = question_at is not None and wants_procedure(turn.history[question_at].content)
        text = "" if is_refusal(previous) else apply_requests(previous, requests, is_complete=asked_for_steps)
        if not text or text.strip() == previous.strip():
            by_rules = bool(requests) and all(each.kind not in ("other", "limit", "table") for each in requests)
            takes_model = not by_rules and not is_refusal(previous)
            reason = ALREADY_TEXT if text else NEEDS_MODEL_TEXT if takes_model else NOTHING_TO_CHANGE_TEXT
            reply = in_language(UNCHANGED_TEXT, turn.language) + in_language(reason, turn.language)
            return _streamed(turn, reply, Judgment(decision="converse", confidence=1.0, reason="not changed"))
        _, sources = last_answer_with_marks(turn)
        cited_text, hits = _add_citations(text, sources.hits)
        turn.report_hits(hits)
        decision: Decision = "partial" if text_at_start(text, UNSURE_TEXT, UNSURE_PART_TEXT) else "answer"
        judgment = _REVISION_JUDGMENT.model_copy(update={"decision": decision})
        return _streamed(turn, cited_text, judgment, hits)


def _streamed(turn: Turn, text: str, judgment: Judgment, hits: Sequence[Hit] = ()) -> Draft:
    """Return an answer as a draft, after reporting its judgment and streaming it."""
    assessment = Assessment(judgment)
    assessment.report(turn)
    turn.stream(text)
    # Lines of an answer that quotes the documents need no check, e.g. titles in a list of all documents.
    return Draft(text, assessment, tuple(hits), procedure_in(text), claims=None if turn.generator else "")


class RevisionByModel:
    """Revise step for a large model, which rewrites the complete answer from the sources of the answers so far.

    It is offered tools if the instruction asks for more than the answers have, or if a source was computed.
    """

    name = "answer"

    def __call__(self, turn: Turn, understood: UnderstoodMessage, /) -> Draft:
        _last_answer(turn)
        previous, sources = last_answer_with_marks(turn)
        add_earlier_sources(turn, understood, sources)
        if query := _query_for_more(turn, understood):
            sources.number(_search_for_more(turn, understood, query, previous, sources))
        turn.report_hits(sources.hits)
        parts = tuple(PartEvidence(**vars(part)) for part in understood.parts)
        evidence = Evidence(parts, tuple(sources.hits), computed=sources.computed, previous=previous)
        if turn.forms.get("retrieve") == "agent" and (query or sources.computed):
            evidence = replace(evidence, search_on=answer_with_tools)
        assessment = assess([_REVISION_JUDGMENT])
        assessment.report(turn)
        return AnswerByModel()(turn, understood, evidence, assessment)


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
        _, sources = last_answer_with_marks(turn)
        hits = sources.hits
        turn.report_hits(hits)
        assessment = Assessment(_REVISION_JUDGMENT)
        assessment.report(turn)
        text, cited = _add_citations(written.text, hits)
        hits = drop_repeats([*cited, *hits])
        return Draft(text, assessment, tuple(hits), procedure_in(text), reasoning=written.reasoning)


def _last_answer(turn: Turn) -> tuple[int | None, str]:
    """Return `last_answer` of a turn's history; raises RequestError if there is no answer."""
    question_at, previous = last_answer(turn.history)
    if not previous:
        raise RequestError(NO_ANSWER_YET_TEXT)
    return question_at, previous


def _query_for_more(turn: Turn, understood: UnderstoodMessage) -> Query | None:
    """Return the search for what an instruction asks to add, or None if it is only about what the answers say.

    A model that understood the instruction gives search phrases if it asks for more.
    """
    phrases = tuple(phrase for part in understood.parts for phrase in part.phrases)
    if not phrases and (understood.form == "llm" or edit_requests(turn.message)):
        return None
    return Query(text=turn.message, history=turn.history, variants=phrases)


def _search_for_more(
    turn: Turn, understood: UnderstoodMessage, query: Query, previous: str, sources: SourceList
) -> list[Hit]:
    """Return the sections that an instruction asks for, without those that repeat a source."""
    if turn.retriever is None:
        return []
    (hits,) = turn.retriever.search([query], turn.top_k)
    turn.searched(query, hits, "the instruction asks for more")
    found = read_sections(turn, understood.parts, hits, round(NEW_TOKENS_SHARE * turn.config.tokens), previous)
    return [hit for hit in found if not any(repeats(hit.passage, source.passage) for source in sources.hits)]


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
