"""The turn, on one screen: understand, retrieve, decide, answer, verify; and the turn that revises an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.assistant.forms import Forms, forms_for
from turnmark.assistant.revising import revise_turn
from turnmark.assistant.steps.answer import Embed, converse
from turnmark.assistant.steps.compose import Composed, after, settled
from turnmark.assistant.steps.decompose import runs
from turnmark.assistant.steps.judge import together
from turnmark.assistant.steps.retrieve import Evidence, Gathering, query_of
from turnmark.assistant.steps.verify import verify
from turnmark.assistant.turn import Turn
from turnmark.assistant.turn_parts import asked_parts
from turnmark.assistant.types import Event, Judgement, Reply, Understanding
from turnmark.corpora.types import Message
from turnmark.retrieval.types import Hit, Retriever

if TYPE_CHECKING:
    from turnmark.assistant.generators import Generator

PASSAGES = 3
MOST_PASSAGES = 12


class Assistant:
    """Answers messages from passages. Holds no conversation: the state is the message list that is handed in.

    Args:
        retriever: finds the passages; None: every turn is given its evidence.
        generator: writes rewrites and answers; None: the embedded forms, which need no language model.
        embed: embeds sentences for the embedded forms; None: shared words decide.
        passages: how many passages a question, or a part of one, is answered from.
        prompts: folder with prompts of one's own.
        forms: the form of each step; None: as there is a generator or not.
        most: how many passages a turn looks at for all its parts, neighbours of a procedure aside.
    """

    def __init__(
        self,
        retriever: Retriever | None,
        generator: Generator | None = None,
        embed: Embed | None = None,
        passages: int = PASSAGES,
        prompts: Path | None = None,
        forms: Forms | None = None,
        most: int = MOST_PASSAGES,
    ) -> None:
        self.retriever, self.generator, self.embed, self.passages = retriever, generator, embed, passages
        self.prompts, self.most = prompts, most
        self.forms = forms or forms_for(model=generator is not None)
        self.name = generator.name if generator else "extractive"

    def span(self, step: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """What stands around a step of a turn: nothing, or a span where turns are traced
        (`turnmark.assistant.tracing`).
        """
        return nullcontext()

    def reply(
        self,
        history: Sequence[Message],
        message: str,
        on_event: Callable[[Event], None] = lambda _: None,
        evidence: Sequence[Hit] | None = None,
        trusted: bool = False,
    ) -> Reply:
        """One turn.

        Args:
            history: the turns before, oldest first.
            on_event: told of every step as it happens; the answer's text arrives in pieces (`delta`).
            evidence: passages to answer from, best first; nothing is searched then, and no model asked for a rewrite.
            trusted: the evidence is known to be about the question, however little it looks like it.

        Raises:
            GeneratorError: the language model could not be reached or gave nothing usable.
        """
        turn = Turn(self, history, message, on_event)
        understood = turn.understand(searching=evidence is None)
        if understood.kind == "conversational":
            return self._conversed(turn, understood, evidence)
        if understood.kind == "revision" and evidence is None:
            if reply := revise_turn(turn, message):
                return reply
            understood = turn.as_question()
        gathering = turn.gathering(trusted)
        found, composed, judged = self._answered(turn, understood, gathering, evidence)
        judged, draft = settled(judged, composed)
        turn.drafted(draft)
        made = turn.verified(draft, judged, understood, gathering, composed, found)
        judged, (draft, checks, parts) = turn.stands(judged, made, understood, gathering, found)
        turn.tell("verify", "", **checks.model_dump())
        return turn.reply(understood, judged, draft, gathering, checks, parts, found)

    def revise(
        self, history: Sequence[Message], instruction: str, on_event: Callable[[Event], None] = lambda _: None
    ) -> Reply:
        """Revise the last answer as the user instructs; see `turnmark.assistant.steps.revise`.

        Raises:
            RequestError: there is no answer yet.
            GeneratorError: as `reply`.
        """
        reply = revise_turn(Turn(self, history, instruction, on_event), instruction, by_name=True)
        assert reply is not None, "an instruction by name is never a question"
        return reply

    def _answered(
        self, turn: Turn, understood: Understanding, gathering: Gathering, given: Sequence[Hit] | None
    ) -> tuple[list[Evidence], Composed, Judgement]:
        """Search, judge and answer, run by run: what builds on an earlier part comes when that is answered."""
        parts = asked_parts(understood, turn.history, turn.message)
        apart = understood.needs and not understood.readings  # what must be asked back is asked once
        groups = runs(understood.needs) if apart else [range(len(parts))]
        found: list[Evidence] = []
        composed: Composed | None = None
        judged = Judgement(decision="unknown", confidence=0.0, reason="nothing was asked")
        for group in groups:
            asked = [turn.knowing(parts[at], understood, at, found, composed) for at in group]
            with turn.step("retrieve"):
                if given is not None:
                    new = gathering.given(asked, turn.rated(asked, given))
                else:
                    several = len(parts) > 1
                    whole = query_of(understood, turn.history, turn.message) if several and not found else None
                    new = gathering.find(asked, whole, list(group) if several else None, len(parts))
            turn.tell_hits(gathering)
            found += new
            with turn.step("decide"):
                judged = together(asked, [one.judgement for one in new], understood)
            turn.tell("decide", f"{judged.decision}: {judged.reason}", confidence=judged.confidence)
            with turn.step("answer"):
                composed = after(composed, turn.answered(understood, judged, new, gathering))
        assert composed is not None, "there is always a part"
        if len(groups) > 1:
            judged = together([one.asked for one in found], [one.judgement for one in found], understood)
            turn.tell("decide", f"{judged.decision}: {judged.reason}", confidence=judged.confidence)
        return found, composed, judged

    def _conversed(self, turn: Turn, understood: Understanding, given: Sequence[Hit] | None) -> Reply:
        """The reply to a courtesy: nothing is searched for."""
        gathering = turn.gathering(trusted=False)
        gathering.hits.extend(given or ())
        judged = Judgement(decision="converse", confidence=1.0, reason="a courtesy, not a question")
        turn.tell_hits(gathering)
        turn.tell("decide", f"converse: {judged.reason}", confidence=1.0)
        with turn.step("answer"):
            draft = converse(turn.message)
        turn.stream(draft.text)
        draft, checks, parts = verify(draft, "converse", understood, gathering.hits)
        return turn.reply(understood, judged, draft, gathering, checks, parts, [])
