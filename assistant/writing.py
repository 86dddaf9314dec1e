"""A language model's answer in a turn: written from all that was found, looked ahead where that was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from turnmark.assistant.budget import Fitted, fit
from turnmark.assistant.generators.base import GeneratorError
from turnmark.assistant.steps import llm
from turnmark.assistant.steps.compose import Composed, paragraphs_of, with_lead
from turnmark.assistant.steps.look_ahead import unsure
from turnmark.assistant.steps.retrieve import Evidence, Gathering
from turnmark.assistant.types import Draft, Judgement, Understanding, Usage
from turnmark.corpora.types import Message
from turnmark.retrieval.types import Query

if TYPE_CHECKING:
    from turnmark.assistant.turn import Turn


def write(
    turn: Turn, understood: Understanding, judged: Judgement, evidence: Sequence[Evidence], gathering: Gathering
) -> Composed:
    """A language model's answer from all that was found so far."""
    generator = turn.of.generator
    assert generator is not None, "checked when the forms were chosen"
    several = len(understood.sub_questions) > 1
    parts = [one.asked.understanding.rewrite for one in evidence] if several else []
    procedure = any(one.asked.understanding.wants_procedure for one in evidence)
    more = [one.asked.history[len(turn.history) :] for one in evidence]
    told = dict.fromkeys(pair for some in more for pair in zip(some[::2], some[1::2], strict=True))
    before = [*turn.history, *(message for pair in told for message in pair)]
    if turn.streamed:
        turn.stream("\n\n")
    said: llm.AnswerResult | None = None
    if turn.of.forms.retrieve == "look-ahead" and judged.decision != "clarify":
        said = _looked_ahead(turn, before, parts, procedure, gathering)
    if said is None:
        fitted = _fitted(turn, before, gathering)
        if judged.decision == "clarify":
            said = llm.clarify(generator, turn.message, judged.readings, fitted.hits, turn.stream, turn.of.prompts)
        else:
            said = llm.answer(
                generator,
                turn.message,
                fitted.history,
                fitted.hits,
                procedure,
                turn.stream,
                turn.of.prompts,
                parts,
            )
        turn.use("answer", said.usage, [*fitted.notes, *said.notes])
    draft = with_lead(said.draft)
    found = () if said.unknown else paragraphs_of(draft.text, len(evidence))
    text = "" if said.unknown else draft.text
    return Composed(draft=draft, answers=found or (text,) * len(evidence), apart=bool(found))


def _fitted(turn: Turn, history: Sequence[Message], gathering: Gathering) -> Fitted:
    """What of the conversation and the evidence fits into the model's context.

    Raises:
        GeneratorError: not even one passage does.
    """
    generator = turn.of.generator
    assert generator is not None, "asked for only with one"
    room = generator.context_tokens - generator.reply_tokens
    fitted = fit(history, gathering.hits, turn.message, room)
    if gathering.hits and not fitted.hits:
        raise GeneratorError("bad_request", f"the question does not fit into the context of {turn.of.name}")
    return fitted


def _looked_ahead(
    turn: Turn, history: Sequence[Message], parts: Sequence[str], procedure: bool, gathering: Gathering
) -> llm.AnswerResult | None:
    """A draft that the model is sure of, as the answer; else None, once what it is unsure of was searched for."""
    generator = turn.of.generator
    assert generator is not None, "checked when the forms were chosen"
    fitted = _fitted(turn, history, gathering)
    prompt = llm.answer_prompt(turn.message, fitted.history, fitted.hits, procedure, turn.of.prompts, parts)
    said = llm.written(generator, prompt, logprobs=True)
    turn.use("look-ahead", said.usage)
    queries = unsure(said.text, said.logprobs or ())
    if said.logprobs is None:
        turn.use("look-ahead", Usage(), ["not looked ahead: the endpoint gives no probabilities of tokens"])
    known = len(gathering.hits)
    with turn.step("retrieve"):
        for query in queries:
            gathering.look(Query(text=query, history=tuple(history)), "the model is unsure of this")
    if len(gathering.hits) > known:
        turn.tell_hits(gathering)
        return None
    turn.stream(said.text)
    read = llm.read_answer(said, procedure)
    turn.use("answer", Usage(), [*fitted.notes, *read.notes])
    return read


def completed(
    turn: Turn,
    draft: Draft,
    composed: Composed,
    omitted: Sequence[int],
    evidence: Sequence[Evidence],
    gathering: Gathering,
) -> Composed | None:
    """A draft with the parts that it left out, asked for in one more call; None where nothing came of that.

    What is added stands in its place where the draft has a paragraph for each part, else at the end.

    Args:
        omitted: the places of these parts.
    """
    generator = turn.of.generator
    assert generator is not None, "a draft that a model wrote"
    fitted = _fitted(turn, turn.history, gathering)
    parts = [evidence[at].asked.understanding.rewrite for at in omitted]
    try:
        said = llm.answer(
            generator, turn.message, fitted.history, fitted.hits, False, lambda _: None, turn.of.prompts, parts
        )
    except GeneratorError as error:
        turn.use("verify", error.usage, [f"a part was left out, and asking for it again failed: {error}"])
        return None
    turn.use("verify", said.usage, [*fitted.notes, *said.notes])
    if said.unknown:
        return None
    steps = (*draft.procedure, *said.draft.procedure)
    added = paragraphs_of(said.draft.text, len(omitted))
    if added and composed.apart:
        answers = list(composed.answers)
        for at, text in zip(omitted, added, strict=True):
            answers[at] = text
        return Composed(draft=Draft(text="\n\n".join(answers), procedure=steps), answers=tuple(answers))
    text = f"{draft.text}\n\n{said.draft.text}"
    return Composed(draft=Draft(text=text, procedure=steps), answers=(text,) * len(evidence), apart=False)
