"""The revise step: the last answer changed as the message wants it.

Without a model a few changes of layout and length, which leave the documents' words as they are; with one the complete
answer anew in one call: it is shown the conversation, the sections that its answers rest on, the last answer first, and
those that the instruction asks for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from turnmark.assistant.asking import WrittenText, write_text
from turnmark.assistant.generators.base import Generator, OnText
from turnmark.assistant.prompts import load_prompt
from turnmark.assistant.steps.courtesy import is_conversational
from turnmark.assistant.steps.history import asked_back
from turnmark.assistant.steps.marks import ITEM, escape_marks, pieces_of, says_unknown, without_item_mark
from turnmark.assistant.steps.quote import UNSURE
from turnmark.assistant.steps.read import answer_prompt, decision_of, draft_of
from turnmark.assistant.steps.requests import EditRequest, edit_request, is_instruction
from turnmark.assistant.steps.retrieve import conversation_query, drop_repeats, in_turns, read_sections
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Decision, Judgement, Understanding
from turnmark.core.errors import RequestError
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Message
from turnmark.retrieval.types import Hit, Query

NO_ANSWER_YET = "there is no answer yet to revise; ask something first"
UNCHANGED = "I left the last answer as it is: "
"""Begins the reply to an instruction that could not be followed."""
TAKES_A_MODEL = (
    "without a language model I can put it as a list, shorten it, keep or drop its first or last items, and show only "
    "its steps; anything else takes a model (--generator)."
)
NOTHING_TO_CHANGE = "there is nothing of the kind in it."
_REVISED = Judgement(decision="answer", confidence=1.0, reason="a revision")
EARLIER_ANSWERS = 3
"""Answers before the last one of which a model is shown what they rest on: "put both in one list"."""
PIECES, EARLIER_PIECES = 8, 4
"""Searches for what the last answer rests on, and an earlier one, at most."""
OF_PIECE, OF_EARLIER_PIECE, OF_QUESTION = 2, 1, 3
"""Passages that a model is shown of what each finds; and of what the question of the last answer finds."""


class Revise:
    """Changes of layout and length by rules."""

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        at, previous = _last(turn)
        request = edit_request(turn.message)
        unknown = says_unknown(previous)
        text = apply_request(previous, request) if request and not unknown else ""
        if not text or text.strip() == previous.strip():
            known = request is not None and request.kind != "other"
            reason = "it is that already." if text else NOTHING_TO_CHANGE if unknown or known else TAKES_A_MODEL
            _settle(turn, f"{UNCHANGED}{reason}", Judgement(decision="converse", confidence=1.0, reason="not changed"))
            return
        hits = _rests_on(turn, at, previous)
        turn.number(hits)
        turn.report_hits()
        turn.understanding = _as_revision(turn)
        decision: Decision = "partial" if previous.startswith(UNSURE) else "answer"
        _settle(turn, _cited(text, turn.hits), _REVISED.model_copy(update={"decision": decision}))


class ReviseByModel:
    """The complete answer anew, in one call."""

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        at, previous = _last(turn)
        read_sections(turn, _to_read(turn, at, previous), turn.config.tokens, previous)
        turn.report_hits()
        turn.decide(_REVISED)
        before = turn.history[: answers_in(turn.history)[-1]]
        reply, notes = revise_by_model(turn.model, before, previous, turn.message, turn.hits, turn.prompts, turn.stream)
        turn.use("revise", reply.usage, *notes, reply.note)
        turn.understanding = _as_revision(turn)
        turn.draft = draft_of(reply.text)
        if (decision := decision_of(reply.text, 1)) != "answer":
            turn.decide(turn.judgement.model_copy(update={"decision": decision}))


class ReviseBriefly(Revise):
    """Rules if they can; else a small model writes the answer anew from itself alone."""

    def __call__(self, turn: Turn) -> None:
        at, previous = _last(turn)
        request = edit_request(turn.message)
        if (request and apply_request(previous, request)) or says_unknown(previous):
            super().__call__(turn)
            return
        unquoted = "\n".join(line for line in previous.splitlines() if not line.startswith(">")).strip()
        template = load_prompt("revise-small", turn.prompts)
        prompt = template.render(
            question=turn.history[at].content if at is not None else "(not known)",
            previous=template.quote(escape_marks((unquoted or previous).replace("**", ""))),
            message=turn.message,
        )
        reply = write_text(turn.model, prompt, turn.stream)
        turn.use("revise", reply.usage, reply.note)
        turn.number(_rests_on(turn, at, previous))
        turn.report_hits()
        turn.decide(_REVISED)
        turn.draft = draft_of(_cited(reply.text, turn.hits))


def revise_by_model(
    generator: Generator,
    history: Sequence[Message],
    previous: str,
    instruction: str,
    hits: Sequence[Hit],
    prompts: Path | None = None,
    on_text: OnText | None = None,
) -> tuple[WrittenText, list[str]]:
    """An answer as a model changes it, and notes on what had to be left out.

    Args:
        history: the turns before that answer, the question that it answers last.
    """
    about = Understanding(kind="revision", rewrite=instruction, sub_questions=(instruction,))
    prompt, notes = answer_prompt(generator, about, instruction, history, hits, prompts, previous)
    return write_text(generator, prompt, on_text), notes


def _as_revision(turn: Turn) -> Understanding:
    return Understanding(kind="revision", rewrite=turn.message, sub_questions=(turn.message,))


def _settle(turn: Turn, text: str, judgement: Judgement) -> None:
    turn.decide(judgement)
    turn.draft = draft_of(text)
    turn.stream(text)


def _last(turn: Turn) -> tuple[int | None, str]:
    at, previous = last_answer(turn.history)
    if not previous:
        raise RequestError(NO_ANSWER_YET)
    return at, previous


def last_answer(history: Sequence[Message]) -> tuple[int | None, str]:
    """The position of the last question in the conversation, and the last answer to it, without marks."""
    answers = answers_in(history)
    if not answers:
        return None, ""
    questions = [
        at
        for at, turn in enumerate(history[: answers[-1]])
        if turn.role == "user"
        and not is_conversational(turn.content)
        and not is_instruction(history[:at], turn.content)
    ]
    return (questions[-1] if questions else None), strip_citations(history[answers[-1]].content)


def answers_in(history: Sequence[Message]) -> list[int]:
    """The positions of the answers in a conversation.

    Replies to courtesies, and those that say why an answer was left as it is, are passed over.
    """

    def is_answer(at: int) -> bool:
        turn, before = history[at], history[:at]
        courteous = bool(before) and before[-1].role == "user" and is_conversational(before[-1].content)
        courtesy = courteous and not asked_back(before[:-1])
        answers = turn.role == "assistant" and bool(turn.content.strip())
        return answers and not courtesy and not turn.content.startswith(UNCHANGED)

    return [at for at in range(len(history)) if is_answer(at)]


class Lookup(NamedTuple):
    """A search for a revision: why, and how many of its hits a model reads."""

    query: Query
    why: str
    most: int


def _rests_on(turn: Turn, at: int | None, previous: str) -> list[Hit]:
    """The passages that the last answer rests on, then all others that its sentences and its question find."""
    found = _found(turn, [*_by_pieces(previous), *_by_question(turn, at)])
    return drop_repeats([*(hits[0] for hits in found if hits), *(hit for hits in found[::-1] for hit in hits)])


def _to_read(turn: Turn, at: int | None, previous: str) -> list[Hit]:
    """What a model reads: the passages that the last answer rests on, those that the instruction asks for, those that
    earlier answers rest on, and some that the question found.
    """
    earlier = [turn.history[n].content for n in answers_in(turn.history)[-2::-1][:EARLIER_ANSWERS]]
    groups = [
        _by_pieces(previous),
        _by_instruction(turn),
        [
            Lookup(lookup.query, "what an earlier answer rests on", OF_EARLIER_PIECE)
            for answer in earlier
            for lookup in _by_pieces(answer, EARLIER_PIECES)
        ],
        _by_question(turn, at),
    ]
    found = iter(_found(turn, [lookup for group in groups for lookup in group]))
    lists = [[next(found)[: lookup.most] for lookup in group] for group in groups]
    return drop_repeats(hit for group in lists for hit in in_turns(group))


def _by_pieces(answer: str, most: int = PIECES) -> list[Lookup]:
    """A conversation is kept without citation marks, so what an answer rests on is searched for once more: sentence by
    sentence, some together in a long one.
    """
    texts = [strip_citations(piece.text) for piece in pieces_of(answer)]
    texts = [text for text in texts if len(words(text)) > 3]
    count = min(len(texts), most)
    bounds = [len(texts) * n // count for n in range(count + 1)] if texts else []
    pieces = [" ".join(texts[start:end]) for start, end in pairwise(bounds)]
    return [Lookup(Query(text=piece), "what the answer rests on", OF_PIECE) for piece in pieces]


def _by_question(turn: Turn, at: int | None) -> list[Lookup]:
    if at is None:
        return []
    query = conversation_query(turn.history[:at], turn.history[at].content, turn.nearest)
    return [Lookup(query, "the question of the answer", OF_QUESTION)]


def _by_instruction(turn: Turn) -> list[Lookup]:
    """For what the last answer lacks: as the model that understood it says, else unless it is plainly about layout."""
    phrases = tuple(phrase for part in turn.parts for phrase in part.phrases)
    if not phrases and (turn.forms.get("understand") == "llm" or edit_request(turn.message)):
        return []
    query = Query(text=turn.message, history=turn.history, variants=phrases)
    return [Lookup(query, "the instruction asks for more", turn.passages)]


def _found(turn: Turn, lookups: Sequence[Lookup]) -> list[list[Hit]]:
    """The hits of each search."""
    if turn.retriever is None:
        return [[] for _ in lookups]
    found = turn.retriever.search([lookup.query for lookup in lookups], turn.passages)
    for lookup, hits in zip(lookups, found, strict=True):
        turn.searched(lookup.query, hits, lookup.why)
    return found


# --- by rules ---


def _titled(block: str) -> bool:
    """Whether a paragraph is a quotation: it begins with a line that is a heading path."""
    first, _, rest = block.strip().partition("\n")
    named = " › " in first or first.endswith("  ") or not (ITEM.match(first) or first[-1:] in ".!?:;…|")
    return bool(rest.strip()) and named


def _body(block: str) -> str:
    return block.strip().partition("\n")[2] if _titled(block) else block.strip()


_FENCED = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)


def _lines_of_code(match: re.Match[str]) -> str:
    """A block of code as lines that can be items."""
    return "\n\n".join(f"`{line.strip()}`" for line in match[1].splitlines() if line.strip()) + "\n\n"


def apply_request(previous: str, request: EditRequest) -> str:
    """An answer without marks, with a change made; "" if rules cannot make it. A doubt about it stays above it."""
    if previous.startswith(UNSURE):
        text = apply_request(previous.removeprefix(UNSURE), request)
        return text and f"{UNSURE}\n\n{text}"
    blocks = [block for block in re.split(r"\n\s*\n", previous) if block.strip()]
    bodies = [_FENCED.sub(_lines_of_code, _body(block)) for block in blocks]
    if request.kind == "steps":
        return "\n".join(_items(bodies))
    if request.kind == "list":
        return "\n".join(f"- {unit}" for unit in _sentences(bodies) if unit[-1] not in ":：")
    if request.kind in ("only", "without"):
        items = _items(bodies) or _rows(bodies)
        units = items or _sentences(bodies)
        cut = units[-request.count :] if request.last else units[: request.count]
        rest = units[: -request.count] if request.last else units[request.count :]
        remaining = cut if request.kind == "only" else rest
        return ("\n" if items else " ").join(remaining) if len(units) > request.count else ""
    if request.kind == "shorter":
        return _shorter(blocks)
    return ""


def _shorter(blocks: Sequence[str]) -> str:
    """The first quotation of several; of one its best sentence, else the first half of it."""
    starts = [at for at, block in enumerate(blocks) if _titled(block)]
    if len(starts) > 1:
        return "\n\n".join(blocks[: starts[1]])
    bodies = [_body(block) for block in blocks]
    items = _items(bodies) or _rows(bodies)
    quotation = next((block for block in blocks if _titled(block)), "" if items else "\n\n".join(blocks))
    if best := re.search(r"\*\*(?P<best>[^*\n]{10,})\*\*", quotation):
        return best["best"]
    units = items or _sentences(bodies)
    return ("\n" if items else " ").join(units[: max(1, len(units) // 2)])


def _items(bodies: Sequence[str]) -> list[str]:
    return [line.strip() for body in bodies for line in body.splitlines() if ITEM.match(line.strip())]


_TABLE = re.compile(r"((?:^[ \t]*\|[^\n]*(?:\n|\Z))+)", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")


def _rows(bodies: Sequence[str]) -> list[str]:
    """The rows of the tables as items."""
    return [f"- {row}" for body in bodies for table in _TABLE.findall(body) for row in _rows_of(table)]


def _rows_of(table: str) -> list[str]:
    """Each row on a line of plain text, without the one that heads them and the rule below it."""
    rows = [" – ".join(filter(None, map(str.strip, _CELL.split(line)))) for line in table.splitlines()]
    headed = len(rows) > 1 and not any(map(str.isalnum, rows[1]))
    return [row for row in rows[headed:] if any(map(str.isalnum, row))]


def _sentences(bodies: Sequence[str]) -> list[str]:
    """The sentences, items and table rows of an answer without its headings."""
    texts: list[str] = []
    for body in bodies:
        for at, part in enumerate(_TABLE.split(body)):
            texts += _rows_of(part) if at % 2 else [" ".join(piece.text.split()) for piece in pieces_of(part)]
    return [without_item_mark(text.replace("**", "")) for text in texts if any(map(str.isalnum, text))]


def _cited(text: str, hits: Sequence[Hit]) -> str:
    """A text of the documents' words, each line with the mark of the passage it is from."""
    sources = [" ".join(words(hit.passage.text)) for hit in hits]
    lines = []
    for line in text.split("\n"):
        bare = " ".join(words(without_item_mark(line.strip()).replace("*", "")))
        at = next((at for at, source in enumerate(sources, 1) if bare and bare in source), None)
        lines.append(f"{line} [{at}]" if at and len(bare.split()) > 2 else line)
    return "\n".join(lines)
