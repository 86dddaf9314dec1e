"""The turn that revises the last answer: what is to be revised, and the revision as a reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assistant.steps.instructions import is_instruction
from assistant.steps.operations import pieces_of
from assistant.steps.retrieve import conversation_query
from assistant.steps.revise import PASSAGES, revised
from assistant.steps.courtesy import is_conversational
from assistant.steps.unknown import says_unknown
from assistant.steps.verify import verify
from assistant.types import Draft, Judgement, Reply, RevisedAnswer, SubQuestion, Understanding
from corpora.errors import RequestError
from corpora.text import strip_citations
from corpora.types import Message
from retrieval.types import Hit, Query

if TYPE_CHECKING:
    from assistant.turn import Turn


def last_exchange(history: Sequence[Message]) -> tuple[int | None, str]:
    """The last answer, and the place of the question that it answers: the last that was no instruction or courtesy.

    Raises:
        RequestError: there is no answer yet, or the last one does not know.
    """
    places = [at for at, turn in enumerate(history) if turn.role == "assistant" and turn.content.strip()]
    if not places:
        raise RequestError("there is no answer yet to revise; ask something first")
    previous = history[places[-1]].content
    if says_unknown(previous):
        raise RequestError("the last reply says that it does not know: there is nothing in it to revise")
    asked = ((at, turn.content) for at, turn in enumerate(history[: places[-1]]) if turn.role == "user")
    questions = [at for at, said in asked if not is_conversational(said) and not is_instruction(history[:at], said)]
    return (questions[-1] if questions else None), strip_citations(previous)


def taken_out(history: Sequence[Message], place: int | None, previous: str) -> tuple[str, ...]:
    """The sentences that earlier versions of the last answer had and it has no more: they were not wanted.

    Args:
        place: of its question among the messages.
        previous: the last answer, without marks.
    """
    since = [turn for turn in history[0 if place is None else place :] if turn.role == "assistant"]
    earlier = [turn.content for turn in since]
    earlier += [text for turn in since if isinstance(turn, RevisedAnswer) for text in turn.before]
    there = {piece.text for piece in pieces_of(previous)}
    found = (piece.text for text in earlier for piece in pieces_of(strip_citations(text)))
    return tuple(dict.fromkeys(text for text in found if text not in there and any(map(str.isalnum, text))))


def revise_turn(turn: Turn, instruction: str) -> Reply:
    """The last answer as the instruction wants it, cited anew.

    A conversation is kept without citation marks. What the answer rests on is therefore searched for once more with its
    question, and verifying points each sentence to the passage that supports it.

    Raises:
        RequestError: there is no answer yet, or the last one does not know.
        GeneratorError: the language model gave no reply, or the answer does not fit into its context.
    """
    place, previous = last_exchange(turn.history)
    question = turn.history[place].content if place is not None else ""
    understood = Understanding(kind="revision", rewrite=instruction, sub_questions=(instruction,))
    gathering = turn.gathering(trusted=True)
    with turn.step("retrieve"):
        if place is not None:
            gathering.look(conversation_query(turn.history[:place], question), "what the answer rests on", PASSAGES)
    known = tuple(gathering.hits)

    def search(query: str) -> Sequence[Hit]:
        with turn.step("retrieve"):
            return gathering.look(Query(text=query, history=turn.history), "the instruction asks for more", PASSAGES)

    generator = turn.of.generator if turn.of.forms.revise == "llm" else None
    with turn.step("answer"):
        made = revised(
            generator, question, previous, instruction, search, turn.embed, turn.of.prompts, turn.stream, known=known,
            gone=taken_out(turn.history, place, previous),
        )  # fmt: skip
    turn.use("revise", made.usage, made.notes)
    gathering.hits[:] = made.hits or known
    turn.tell_hits(gathering)
    judged = Judgement(decision="answer", confidence=1.0, reason=f"a revision: {made.coarse}, {made.kind}")
    turn.tell("decide", f"answer: {judged.reason}", confidence=1.0)
    with turn.step("verify"):
        draft, checks, _ = verify(
            Draft(text=made.text), "answer", understood, gathering.hits, embed=turn.embed, written=False
        )
    answered = draft.text != previous
    checks = checks.model_copy(update={"parts_answered": float(answered), "repaired": False})
    turn.tell("verify", "", **checks.model_dump())
    parts = (SubQuestion(text=instruction, answered=answered),)
    return turn.reply(understood, judged, draft, gathering, checks, parts, [])
