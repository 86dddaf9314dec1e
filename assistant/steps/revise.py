"""The revise step: the last reply changed as the user instructs, by code where it can do just that, else by a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from turnmark.assistant.generators.base import Generator
from turnmark.assistant.steps.edit_reply import edited
from turnmark.assistant.steps.edit_requests import EditRequest, edit_request, is_instruction
from turnmark.assistant.steps.instructions import classify, typed
from turnmark.assistant.steps.marks import says_unknown
from turnmark.assistant.steps.operations import pieces_of
from turnmark.assistant.steps.outline import Outline, outline_of, same_words
from turnmark.assistant.steps.retrieve import conversation_query
from turnmark.assistant.steps.revise_llm import changed_answer
from turnmark.assistant.steps.revise_rules import PASSAGES, Material, by_rules
from turnmark.assistant.steps.support import Sources, claims_of
from turnmark.assistant.steps.understand import is_conversational, understand
from turnmark.assistant.steps.verify import cite, verify
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Checks, Draft, Judgement, RevisedAnswer, SubQuestion, Understanding, Usage
from turnmark.corpora.errors import RequestError
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message
from turnmark.retrieval.types import Hit, Query

NO_ANSWER_YET = "there is no answer yet to revise; ask something first"
UNKNOWN = "it says that I don't know, so there is nothing in it to change. Ask again in other words"
UNCHANGED = "I left the last reply as it is: "
"""Begins the reply to an instruction that could not be followed."""
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


class Revise:
    """The last reply as the message wants it, cited anew; a message that is better taken for a question becomes one.

    A conversation is kept without citation marks. What the reply rests on is therefore searched for once more with its
    question, then with those of its sentences that no passage supports yet; the marks move with the sentences.

    An instruction by name is never a question: where nothing comes of it the reply is the answer as it was, with a note
    that says why.

    Raises:
        RequestError: there is no answer yet.
        GeneratorError: the language model gave no reply, or the answer does not fit into its context.
    """

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        place, previous = last_reply(turn.history)
        if not previous:
            raise RequestError(NO_ANSWER_YET)
        if says_unknown(previous):
            if turn.by_name:
                raise RequestError("the last reply says that it does not know: there is nothing in it to revise")
            _unchanged(turn, UNKNOWN)
            return
        question = turn.history[place].content if place is not None else ""
        with turn.timed("retrieve"):
            if place is not None:
                turn.look(conversation_query(turn.history[:place], question), "what the answer rests on", PASSAGES)
            marked = _marked(turn, outline_of(previous))

        def search(query: str) -> Sequence[Hit]:
            with turn.timed("retrieve"):
                return turn.look(Query(text=query, history=turn.history), "the instruction asks for more", PASSAGES)

        material = Material(
            question, marked.text, turn.message, search, tuple(turn.hits), turn.embed, turn.prompts,
            removed=taken_out(turn.history, place, previous),
        )  # fmt: skip
        change = _changed(turn, material, marked)
        draft = change.draft
        if draft is not None and same_words(draft.whole, previous) and not _layout_only(draft, previous):
            reason = change.reason or "nothing in it had to be changed"
            change = replace(change, draft=None, reason=reason, question=False)
        if change.draft is not None:
            turn.hits[:] = change.hits or tuple(turn.hits)
            _revised(turn, change.draft, change.added)
        elif turn.by_name:
            turn.use("revise", Usage(), f"the answer was left as it is: {change.reason}")
            _revised(turn, _draft(marked, marked.numbered))
        elif change.question:
            turn.hits.clear()
            turn.searches.clear()
            turn.understanding = understand(turn.history, turn.message)
        else:
            turn.hits.clear()
            turn.searches.clear()
            _unchanged(turn, change.reason)


def _changed(turn: Turn, material: Material, marked: Outline) -> Change:
    """The last reply changed: by rules where they can do just what is asked, else by a model if there is one."""
    request = edit_request(material.instruction)
    generator: Generator | None = turn.generator if turn.forms["revise"] == "llm" else None
    followed: Change | None = None
    if request is not None:
        followed = _by_request(material, request)
        if followed.question or (followed.draft and not (generator and request.kind in BY_MODEL)):
            return followed
    elif generator is None or classify(material.instruction) in BY_RULES:
        followed = _by_instruction(turn, material, marked)
        if followed.draft or generator is None:
            return followed
    if generator is None:
        return followed or Change(reason="no rule understands the instruction")
    adds = request is None and typed(material.instruction).coarse == "information-seeking"
    changed = changed_answer(generator, material, request, adds)
    reason = f"the model's change could not be used: {changed.problem}" if changed.problem else ""
    turn.use("revise", changed.usage, reason)
    if reason:
        return followed if followed and followed.draft else Change(reason=reason, question=True)
    draft = _draft(outline_of(changed.text), bool(marked.numbered and marked.items))
    return Change(draft, hits=changed.hits, added=adds)


def _by_request(material: Material, request: EditRequest) -> Change:
    edit = edited(material.previous, request, material.question, material.embed)
    if edit.outline is None:
        return Change(reason=edit.reason, question=edit.elsewhere)
    outline = outline_of(material.previous)
    return Change(_draft(edit.outline, bool(outline.numbered and outline.items)))


def _by_instruction(turn: Turn, material: Material, marked: Outline) -> Change:
    """An instruction in a sentence of its own, by the rules that KIWI's instructions are followed by."""
    revision = by_rules(material)
    if revision.text == material.previous:
        notes = (note.removeprefix("the answer was left as it is: ") for note in revision.notes)
        return Change(reason="; ".join(notes))
    turn.use("revise", revision.usage, *revision.notes)
    draft = _draft(outline_of(revision.text), bool(marked.numbered and marked.items))
    return Change(draft, hits=revision.hits)


def _draft(outline: Outline, procedure: bool) -> Draft:
    """A reply as a draft: where it was a procedure, its list is one still."""
    return outline.draft if procedure and outline.items else Draft(text=outline.text)


def _layout_only(draft: Draft, previous: str) -> bool:
    """Whether a draft of the same words is laid out in another way."""
    old_shape, new_shape = (
        (len(outline.items), outline.numbered, len(outline.paragraphs), len(outline.sentences))
        for outline in (outline_of(previous), outline_of(draft.whole))
    )
    return old_shape != new_shape


def _marked(turn: Turn, outline: Outline) -> Outline:
    """The last reply with marks: each sentence and item cites the passage that supports it, where one is found."""
    draft = outline.draft
    sources = Sources([hit.passage.indexed_text for hit in turn.hits], turn.embed)
    unsupported = [claim.text for claim in claims_of(draft) if sources.supporter(claim.text, ()) is None]
    for text in unsupported[:SEARCHES]:
        turn.look(Query(text=text), "what a sentence of the answer rests on", 1)
    draft = cite(draft, turn.hits, turn.embed)
    steps = (f"{step.step} {''.join(f'[{n}]' for n in step.citations)}".rstrip() for step in draft.procedure)
    marked = outline_of(draft.text)
    end = len(outline.before)
    return marked.model_copy(
        update={
            "before": marked.paragraphs[:end],
            "after": marked.paragraphs[end:],
            "items": tuple(steps),
            "numbered": outline.numbered,
        }
    )


def _revised(turn: Turn, draft: Draft, added: bool = False) -> None:
    """Settle the reply as a change of the last one, checked."""
    turn.understanding = Understanding(kind="revision", rewrite=turn.message, sub_questions=(turn.message,))
    turn.forms["decide"] = "extractive"
    kind = typed(turn.message)
    turn.tell_hits()
    judgement = Judgement(decision="answer", confidence=1.0, reason=f"a revision: {kind.coarse}, {kind.fine}")
    turn.tell("decide", f"answer: {judgement.reason}", confidence=1.0)
    turn.stream(draft.whole)
    with turn.timed("verify"):
        draft, checks, _ = verify(draft, "answer", turn.understanding, turn.hits, embed=turn.embed, written=added)
    checks = checks.model_copy(update={"parts_answered": 1.0, "repaired": False})
    turn.tell("verify", "", **checks.model_dump())
    turn.settle(draft, judgement, checks, [SubQuestion(text=turn.message, answered=True)])


def _unchanged(turn: Turn, reason: str) -> None:
    """Settle the reply that says why the last one was left as it is. The next instruction is about that one again."""
    turn.understanding = Understanding(kind="conversational", rewrite=turn.message, sub_questions=(turn.message,))
    turn.forms["decide"] = "extractive"
    judgement = Judgement(decision="converse", confidence=1.0, reason=f"the last reply was not changed: {reason}")
    turn.tell("decide", f"converse: {judgement.reason}", confidence=1.0)
    draft = Draft(text=f"{UNCHANGED}{reason.rstrip('.')}.")
    turn.stream(draft.whole)
    turn.settle(draft, judgement, Checks(), [SubQuestion(text=turn.message, answered=False)])


def last_reply(history: Sequence[Message]) -> tuple[int | None, str]:
    """The last reply that is about something, without marks, and the place of its question.

    Replies to courtesies, and those that say why the reply before them was left as it is, are passed over. The question
    is the last user message before it that was no instruction or courtesy; None where there is none.
    """
    replies = [at for at, turn in enumerate(history) if turn.role == "assistant" and turn.content.strip()]
    about = [at for at in replies if not _beside(history, at)]
    if not about:
        return None, ""
    users = ((at, turn.content) for at, turn in enumerate(history[: about[-1]]) if turn.role == "user")
    questions = [at for at, text in users if not is_conversational(text) and not is_instruction(history[:at], text)]
    return (questions[-1] if questions else None), strip_citations(history[about[-1]].content)


def _beside(history: Sequence[Message], at: int) -> bool:
    """Whether a reply is about nothing: it answers a courtesy, or says that nothing was changed."""
    previous = history[at - 1] if at else None
    courtesy = previous is not None and previous.role == "user" and is_conversational(previous.content)
    return courtesy or history[at].content.startswith(UNCHANGED)


def taken_out(history: Sequence[Message], place: int | None, previous: str) -> tuple[str, ...]:
    """The sentences that earlier versions of the last answer had and it has no more: they were not wanted.

    Args:
        place: of its question among the messages.
        previous: the last answer, without marks.
    """
    since = [turn for turn in history[0 if place is None else place :] if turn.role == "assistant"]
    earlier = [turn.content for turn in since]
    earlier += [text for turn in since if isinstance(turn, RevisedAnswer) for text in turn.before]
    present = {piece.text for piece in pieces_of(previous)}
    candidates = (piece.text for text in earlier for piece in pieces_of(strip_citations(text)))
    return tuple(dict.fromkeys(text for text in candidates if text not in present and any(map(str.isalnum, text))))
