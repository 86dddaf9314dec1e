"""The turn that changes the last reply: what is to be changed, how, and the change as a reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from turnmark.assistant.steps.claims import Sources, claims_of
from turnmark.assistant.steps.edit_reply import edited
from turnmark.assistant.steps.edit_requests import EditRequest, edit_request
from turnmark.assistant.steps.instructions import classify, typed
from turnmark.assistant.steps.last_reply import UNCHANGED, last_reply, same_words, taken_out
from turnmark.assistant.steps.outline import Outline, outline_of
from turnmark.assistant.steps.retrieve import Gathering, conversation_query
from turnmark.assistant.steps.revise import PASSAGES, revised
from turnmark.assistant.steps.revise_chat_llm import changed_answer
from turnmark.assistant.steps.revise_material import Material
from turnmark.assistant.steps.unknown import says_unknown
from turnmark.assistant.steps.verify import cite, verify
from turnmark.assistant.types import Draft, Judgement, Reply, SubQuestion, Understanding, Usage
from turnmark.corpora.errors import RequestError
from turnmark.retrieval.types import Hit, Query

if TYPE_CHECKING:
    from turnmark.assistant.turn import Turn

NO_ANSWER_YET = "there is no answer yet to revise; ask something first"
UNKNOWN = "it says that I don't know, so there is nothing in it to change. Ask again in other words"
BY_MODEL = frozenset(("sentences", "words", "reword"))
"""Requests that want other words: with a language model it is asked first."""
BY_RULES = frozenset(("edit", "remove", "reorganize"))
"""Kinds of other instructions that rules follow to the letter."""
SEARCHES = 6
"""Sentences of the last reply that are searched for, at most, where its question does not bring their passage."""


@dataclass(frozen=True)
class Change:
    """What came of an instruction. `draft` None: nothing, `reason` says why.

    Attributes:
        question: the message speaks of what the reply does not, or a model made nothing of it: it may be a question.
        hits: what the marks of the draft count.
        added: a model put something new in: what no passage supports is taken out.
    """

    draft: Draft | None = None
    reason: str = ""
    question: bool = False
    hits: tuple[Hit, ...] = ()
    added: bool = False


def revise_turn(turn: Turn, instruction: str, by_name: bool = False) -> Reply | None:
    """The last reply as the instruction wants it, cited anew; None where the message is better taken for a question.

    A conversation is kept without citation marks. What the reply rests on is therefore searched for once more with its
    question, then with those of its sentences that no passage supports yet; the marks move with the sentences.

    Args:
        by_name: the person said that it is an instruction. Where nothing comes of it the reply is the answer as it
            was, with a note that says why.

    Raises:
        RequestError: there is no answer yet.
        GeneratorError: the language model gave no reply, or the answer does not fit into its context.
    """
    place, previous = last_reply(turn.history)
    if not previous:
        raise RequestError(NO_ANSWER_YET)
    if says_unknown(previous):
        if by_name:
            raise RequestError("the last reply says that it does not know: there is nothing in it to revise")
        return _unchanged(turn, instruction, UNKNOWN)
    question = turn.history[place].content if place is not None else ""
    gathering = turn.gathering(trusted=True)
    with turn.step("retrieve"):
        if place is not None:
            gathering.look(conversation_query(turn.history[:place], question), "what the answer rests on", PASSAGES)
        marked = _marked(turn, outline_of(previous), gathering)

    def search(query: str) -> Sequence[Hit]:
        with turn.step("retrieve"):
            return gathering.look(Query(text=query, history=turn.history), "the instruction asks for more", PASSAGES)

    material = Material(
        question, marked.text, instruction, search, tuple(gathering.hits), turn.embed, turn.of.prompts,
        gone=taken_out(turn.history, place, previous),
    )  # fmt: skip
    with turn.step("answer"):
        change = _changed(turn, material, marked)
    if (
        change.draft is not None
        and same_words(_whole(change.draft), previous)
        and not _layout_only(change.draft, previous)
    ):
        change = replace(change, draft=None, reason=change.reason or "nothing in it had to be changed", question=False)
    if change.draft is None:
        if by_name:
            return _left(turn, instruction, _draft(marked, marked.numbered), change.reason, gathering)
        return None if change.question else _unchanged(turn, instruction, change.reason)
    gathering.hits[:] = change.hits or tuple(gathering.hits)
    return _revised(turn, instruction, change.draft, gathering, change.added)


def _changed(turn: Turn, material: Material, marked: Outline) -> Change:
    """The last reply changed: by rules where they can do just what is asked, else by a model if there is one."""
    request = edit_request(material.instruction)
    generator = turn.of.generator if turn.of.forms.revise == "llm" else None
    by_rules: Change | None = None
    if request is not None:
        by_rules = _by_request(material, request)
        if by_rules.question or (by_rules.draft and not (generator and request.kind in BY_MODEL)):
            return by_rules
    elif generator is None or classify(material.instruction) in BY_RULES:
        by_rules = _by_instruction(turn, material, marked)
        if by_rules.draft or generator is None:
            return by_rules
    if generator is None:
        return by_rules or Change(reason="no rule understands the instruction")
    adds = request is None and typed(material.instruction).coarse == "information-seeking"
    made = changed_answer(generator, material, request, adds)
    turn.use("revise", made.usage, [f"the model's change could not be used: {made.problem}"] if made.problem else [])
    if made.problem:
        rules = by_rules if by_rules and by_rules.draft else None
        return rules or Change(reason=f"the model's change could not be used: {made.problem}", question=True)
    return Change(_draft(outline_of(made.text), bool(marked.numbered and marked.items)), hits=made.hits, added=adds)


def _by_request(material: Material, request: EditRequest) -> Change:
    made = edited(material.previous, request, material.question, material.embed)
    if made.outline is None:
        return Change(reason=made.reason, question=made.elsewhere)
    before = outline_of(material.previous)
    return Change(_draft(made.outline, bool(before.numbered and before.items)))


def _by_instruction(turn: Turn, material: Material, marked: Outline) -> Change:
    """An instruction in a sentence of its own, by the rules that KIWI's instructions are followed by."""
    made = revised(
        None, material.question, material.previous, material.instruction, material.search, material.embed,
        known=material.known, gone=material.gone,
    )  # fmt: skip
    if made.text == material.previous:
        return Change(reason="; ".join(note.removeprefix("the answer was left as it is: ") for note in made.notes))
    turn.use("revise", made.usage, made.notes)
    return Change(_draft(outline_of(made.text), bool(marked.numbered and marked.items)), hits=made.hits)


def _draft(outline: Outline, procedure: bool) -> Draft:
    """A reply as a draft: where it was a procedure, its list is one still."""
    return outline.draft if procedure and outline.items else Draft(text=outline.text)


def _whole(draft: Draft) -> str:
    return "\n".join([draft.text, *(f"{n}. {step.step}" for n, step in enumerate(draft.procedure, 1))])


def _layout_only(draft: Draft, previous: str) -> bool:
    """Whether a draft of the same words is laid out in another way."""
    before, after = (
        (len(outline.items), outline.numbered, len(outline.paragraphs), len(outline.sentences))
        for outline in (outline_of(previous), outline_of(_whole(draft)))
    )
    return before != after


def _marked(turn: Turn, outline: Outline, gathering: Gathering) -> Outline:
    """The last reply with marks: each sentence and item cites the passage that supports it, where one is found."""
    draft = outline.draft
    sources = Sources([hit.passage.indexed_text for hit in gathering.hits], turn.embed)
    missing = [claim.text for claim in claims_of(draft) if sources.supporter(claim.text, ()) is None]
    for text in missing[:SEARCHES]:
        gathering.look(Query(text=text), "what a sentence of the answer rests on", 1)
    draft = cite(draft, gathering.hits, turn.embed)
    steps = (f"{step.step} {''.join(f'[{n}]' for n in step.citations)}".rstrip() for step in draft.procedure)
    marked = outline_of(draft.text)
    at = len(outline.before)
    return marked.model_copy(
        update={
            "before": marked.paragraphs[:at],
            "after": marked.paragraphs[at:],
            "items": tuple(steps),
            "numbered": outline.numbered,
        }
    )


def _revised(turn: Turn, instruction: str, draft: Draft, gathering: Gathering, added: bool = False) -> Reply:
    """The reply of a change, checked."""
    understood = Understanding(kind="revision", rewrite=instruction, sub_questions=(instruction,))
    kind = typed(instruction)
    turn.tell_hits(gathering)
    judged = Judgement(decision="answer", confidence=1.0, reason=f"a revision: {kind.coarse}, {kind.fine}")
    turn.tell("decide", f"answer: {judged.reason}", confidence=1.0)
    turn.drafted(draft)
    with turn.step("verify"):
        draft, checks, _ = verify(draft, "answer", understood, gathering.hits, embed=turn.embed, written=added)
    checks = checks.model_copy(update={"parts_answered": 1.0, "repaired": False})
    turn.tell("verify", "", **checks.model_dump())
    return turn.reply(understood, judged, draft, gathering, checks, (SubQuestion(text=instruction, answered=True),), [])


def _left(turn: Turn, instruction: str, draft: Draft, reason: str, gathering: Gathering) -> Reply:
    """The last reply as it was, with a note that says why: a revision asked for by name, which the person may rate."""
    turn.use("revise", Usage(), [f"the answer was left as it is: {reason}"])
    return _revised(turn, instruction, draft, gathering)


def _unchanged(turn: Turn, instruction: str, reason: str) -> Reply:
    """The reply that says why the last one was left as it is. The next instruction is about that one again."""
    understood = Understanding(kind="conversational", rewrite=instruction, sub_questions=(instruction,))
    judged = Judgement(decision="converse", confidence=1.0, reason=f"the last reply was not changed: {reason}")
    gathering = turn.gathering(trusted=True)
    turn.tell("decide", f"converse: {judged.reason}", confidence=1.0)
    draft = Draft(text=f"{UNCHANGED}{reason.rstrip('.')}.")
    turn.drafted(draft)
    draft, checks, _ = verify(draft, "converse", understood, ())
    parts = (SubQuestion(text=instruction, answered=False),)
    return turn.reply(understood, judged, draft, gathering, checks, parts, [])
