"""The answer step in one call: all parts from whole passages and the conversation; looked ahead where that is chosen.

Looking ahead is after FLARE (Jiang et al., "Active Retrieval Augmented Generation", EMNLP 2023, section 3.2): where a
token of a sentence is less likely than a threshold, the sentence without such tokens is searched for, and written again
with what is found. Here a whole draft is looked through at once, its first unsure sentences are searched for, and the
answer is written again once. An endpoint that gives no probabilities of tokens leaves the turn as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from turnmark.assistant.budget import Fitted, fit
from turnmark.assistant.generators.base import GeneratorError, TokenLogprob
from turnmark.assistant.steps import llm
from turnmark.assistant.steps.answer import nothing, paragraphs_of
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Draft, Usage
from turnmark.corpora.text import sentences, strip_citations
from turnmark.corpora.types import Message
from turnmark.retrieval.types import Query

UNSURE = 0.4
"""A sentence with a token less likely than this is searched for; such tokens are left out of the query."""
MOST_SEARCHES = 2


class Whole:
    """A language model's answer from all that was found so far."""

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        if turn.judgement.decision == "unknown":
            turn.write(nothing(turn.group))
            return
        parts = [part.understanding.rewrite for part in turn.group] if len(turn.parts) > 1 else []
        procedure = any(part.understanding.wants_procedure for part in turn.group)
        added = [part.history[len(turn.history) :] for part in turn.group]
        exchanges = dict.fromkeys(pair for turns in added for pair in zip(turns[::2], turns[1::2], strict=True))
        history = [*turn.history, *(message for pair in exchanges for message in pair)]
        if turn.streamed:
            turn.stream("\n\n")
        clarifies = turn.judgement.decision == "clarify"
        answer: llm.AnswerResult | None = None
        if turn.forms["retrieve"] == "look-ahead" and not clarifies:
            answer = _looked_ahead(turn, history, parts, procedure)
        if answer is None:
            fitted = _fitted(turn, history)
            if clarifies:
                readings = turn.judgement.readings
                answer = llm.clarify(turn.model, turn.message, readings, fitted.hits, turn.stream, turn.prompts)
            else:
                answer = llm.answer(
                    turn.model, turn.message, fitted.history, fitted.hits, procedure, turn.stream, turn.prompts, parts
                )
            turn.use("answer", answer.usage, *fitted.notes, *answer.notes)
        draft = answer.draft.with_lead()
        paragraphs = () if answer.unknown else paragraphs_of(draft.text, len(turn.group))
        answers = paragraphs or ("" if answer.unknown else draft.text,) * len(turn.group)
        turn.write(draft.model_copy(update={"answers": answers, "apart": bool(paragraphs), "at_once": True}))


def _fitted(turn: Turn, history: Sequence[Message]) -> Fitted:
    """What of the conversation and the evidence fits into the model's context.

    Raises:
        GeneratorError: not even one passage does.
    """
    fitted = fit(history, turn.hits, turn.message, turn.model.context_tokens - turn.model.reply_tokens)
    if turn.hits and not fitted.hits:
        raise GeneratorError("bad_request", f"the question does not fit into the context of {turn.system}")
    return fitted


def _looked_ahead(
    turn: Turn, history: Sequence[Message], parts: Sequence[str], procedure: bool
) -> llm.AnswerResult | None:
    """A draft that the model is sure of, as the answer; else None, once what it is unsure of was searched for."""
    fitted = _fitted(turn, history)
    prompt = llm.answer_prompt(turn.message, fitted.history, fitted.hits, procedure, turn.prompts, parts)
    completion = llm.written(turn.model, prompt, logprobs=True)
    turn.use("look-ahead", completion.usage)
    queries = unsure(completion.text, completion.logprobs or ())
    if completion.logprobs is None:
        turn.use("look-ahead", Usage(), "not looked ahead: the endpoint gives no probabilities of tokens")
    hits_before = len(turn.hits)
    with turn.timed("retrieve"):
        for query in queries:
            turn.look(Query(text=query, history=tuple(history)), "the model is unsure of this")
    if len(turn.hits) > hits_before:
        turn.tell_hits()
        return None
    turn.stream(completion.text)
    answer = llm.read_answer(completion, procedure)
    turn.use("answer", Usage(), *fitted.notes, *answer.notes)
    return answer


def completed(turn: Turn, draft: Draft, original: Draft, omitted: Sequence[int]) -> Draft | None:
    """A draft with the parts that it left out, asked for in one more call; None where nothing came of that.

    What is added stands in its place where the draft has a paragraph for each part, else at the end.

    Args:
        draft: as it was checked.
        original: as the model wrote it.
        omitted: the places of these parts.
    """
    fitted = _fitted(turn, turn.history)
    parts = [turn.parts[place].understanding.rewrite for place in omitted]
    try:
        addition = llm.answer(
            turn.model, turn.message, fitted.history, fitted.hits, False, lambda _: None, turn.prompts, parts
        )
    except GeneratorError as error:
        turn.use("verify", error.usage, f"a part was left out, and asking for it again failed: {error}")
        return None
    turn.use("verify", addition.usage, *fitted.notes, *addition.notes)
    if addition.unknown:
        return None
    steps = (*draft.procedure, *addition.draft.procedure)
    paragraphs = paragraphs_of(addition.draft.text, len(omitted))
    if paragraphs and original.apart:
        answers = list(original.answers)
        for place, text in zip(omitted, paragraphs, strict=True):
            answers[place] = text
        return Draft(text="\n\n".join(answers), procedure=steps, answers=tuple(answers))
    text = f"{draft.text}\n\n{addition.draft.text}"
    return Draft(text=text, procedure=steps, answers=(text,) * len(turn.parts), apart=False)


def unsure(text: str, tokens: Sequence[TokenLogprob]) -> list[str]:
    """Queries from the sentences that hold an unlikely token, in their order, at most `MOST_SEARCHES`.

    Marks and spaces are never unlikely: where a sentence ends says nothing about what it claims.

    Args:
        tokens: of the text, in order. Where they do not spell it there is no query.
    """
    spelt = "".join(token.token for token in tokens)
    begin = spelt.find(text)
    if begin < 0:
        return []
    places: list[tuple[int, int, int, float]] = []
    at = -begin
    for token in tokens:
        blank = len(token.token) - len(token.token.lstrip())  # tokens carry the space before them
        places.append((at, at + blank, at + len(token.token), exp(token.logprob)))
        at += len(token.token)
    queries: list[str] = []
    for start, end in sentences(text):
        doubtful = [
            (max(token_start, start), last)
            for token_start, first, last, likely in places
            if start <= first and last <= end + 1 and likely < UNSURE and any(map(str.isalnum, text[first:last]))
        ]
        if doubtful:
            queries.append(_without(text, start, end, doubtful))
    return [query for query in dict.fromkeys(queries) if query][:MOST_SEARCHES]


def _without(text: str, start: int, end: int, gaps: Sequence[tuple[int, int]]) -> str:
    """A sentence without some stretches of it; as it stands where nothing would be left."""
    pieces, at = [], start
    for first, last in gaps:
        pieces.append(text[at:first])
        at = last
    pieces.append(text[at:end])
    query = " ".join(strip_citations("".join(pieces)).split())
    return query if any(map(str.isalnum, query)) else " ".join(strip_citations(text[start:end]).split())
