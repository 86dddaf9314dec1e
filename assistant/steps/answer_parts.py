"""The answer step with a model: part by part, each read from excerpts beside what documents say; or all parts at once.

Either form alone is right less often than one or the other is. So a reply gives the model's short answer, and after it
the sentence of the documents that says more; the reader can check one by the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from turnmark.assistant.budget import Fitted, fit
from turnmark.assistant.generators.base import GeneratorError, traits_of
from turnmark.assistant.parts import Part
from turnmark.assistant.steps import llm, reading
from turnmark.assistant.steps.answer import extracted, not_found, nothing, paragraphs_of, without_answer
from turnmark.assistant.steps.answer_type import holds
from turnmark.assistant.steps.reading import Excerpt, excerpts_of
from turnmark.assistant.steps.select import asked_type
from turnmark.assistant.steps.support import Sources, claims_of, coverage, fits, missing_numbers
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import GROUNDED, Draft, Usage
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Message
from turnmark.retrieval.task_passages import Embed

LEAST_STATED = 0.55
"""The probability from which a question is answered; docs/measured.md has what it tells apart."""
PASSAGES = 3
"""Passages that a question is read from; all parts of a message together have one more."""
_AFTER_MARK = re.compile(r"(?<=\])\s+(?!\[)")
ALREADY_SAID = 0.7
"""A sentence of which so many content words stand in the model's answer says nothing new."""
LEAST_FIT, TYPE_WEIGHT = 0.2, 0.2
"""The cosine with the question from which a sentence is added, and what holding the kind of answer counts beside it."""
LENGTH, SENTENCES = 75, 3
"""Words and sentences that are added at most; the first sentence may be longer."""


class ByParts:
    """Each part with one question to the model; what cannot be answered is named in its place.

    Evidence that was handed in is read whole.
    """

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        if turn.evidence is not None:
            Whole()(turn)
        else:
            turn.write(without_answer(turn) or self._draft(turn))

    def _draft(self, turn: Turn) -> Draft:
        excerpts = excerpts_for(turn.group, turn.embed)
        drafts: list[Draft] = []
        answers: list[str] = []
        for part in turn.group:
            if answers:
                turn.stream("\n\n")
            covered = part.judgement.decision in GROUNDED
            draft = answer_part(turn, part, excerpts, [earlier.text for earlier in drafts]) if covered else None
            answers.append(" ".join((draft.text, *(step.step for step in draft.procedure))) if draft else "")
            if draft is None and part.compound:
                draft = Draft(text=not_found(part.text))
                turn.stream(draft.text)
            drafts.append(draft or Draft(text=""))
        if not any(answers):
            return nothing(turn.group)
        text = "\n\n".join(draft.text for draft in drafts if draft.text)
        steps = tuple(step for draft in drafts for step in draft.procedure)
        return Draft(text=text, procedure=steps, answers=tuple(answers)).with_lead()


def excerpts_for(parts: Sequence[Part], embed: Embed | None) -> list[Excerpt]:
    """What the model reads for all parts: the best passages of each in turns, trimmed to the questions."""
    ranked = [list(zip(part.hits, part.numbers, strict=True)) for part in parts]
    mixed = {number: hit for rank in zip_longest(*ranked) for pair in rank if pair for hit, number in (pair,)}
    numbers = list(mixed)[: PASSAGES + (len(parts) > 1)]
    questions = [(part.text, part.understanding.rewrite) for part in parts]
    return excerpts_of(questions, [mixed[n] for n in numbers], numbers, embed)


def answer_part(turn: Turn, part: Part, excerpts: Sequence[Excerpt], earlier: Sequence[str]) -> Draft | None:
    """The model's answer to a part and what the documents say beside it; None where it is not known.

    Steps that stand in the documents are preferred to the model's, which then writes the sentence above them.

    Args:
        excerpts: what the model reads for every part.
        earlier: what is said to the parts before this one.

    Raises:
        GeneratorError: no reply was to be had.
    """
    extract = _extract(turn, part)
    listed = extract.procedure if extract else ()
    question = part.understanding.rewrite
    stated = _stated(turn, question, excerpts)
    if stated is not None and stated < LEAST_STATED:
        return None
    streamed = reading.BeforeList(turn.stream) if listed else None
    reply = reading.read(
        turn.model,
        question,
        excerpts,
        steps=part.understanding.wants_procedure and not listed,
        history=(*_shown(turn), *part.history[len(turn.history) :]),
        on_text=streamed or turn.stream,
        prompts=turn.prompts,
    )
    if streamed:
        streamed.finish()
    turn.use("answer", reply.usage)
    if reply.unknown:  # it denies in words what it holds to be likely: then the documents speak for themselves
        return extract if stated is not None else None
    if extract and (problem := _problem(turn, question, reply.draft, extract, earlier)):
        turn.use("answer", Usage(), f"the documents' own sentences stand instead of the model's: {problem}")
        return extract
    text, steps = reply.draft.text, listed or reply.draft.procedure
    addition = beside((part.text, question), text, extract.text, turn.embed) if extract and not steps else ""
    if addition:
        turn.stream(f" {addition}")
    for number, step in enumerate(listed, 1):  # a streamed answer ends with its steps
        turn.stream(f"\n{number}. {step.step}{step.marks}")
    return Draft(text=" ".join(filter(None, (text, addition))), procedure=steps)


def _shown(turn: Turn) -> Sequence[Message]:
    """The conversation, where the message leans on it by the rules alone; else it is a question of its own."""
    leans = not turn.understanding.standalone and turn.forms["understand"] == "rules"
    return turn.history if leans else ()


def _stated(turn: Turn, question: str, excerpts: Sequence[Excerpt]) -> float | None:
    """How likely the model holds the answer to stand in the excerpts; None where it was not asked.

    Asked only where that costs little: elsewhere the excerpts would be paid for twice.
    """
    if not traits_of(turn.model).caches_prefixes:
        return None
    probability, usage = reading.stated(turn.model, question, excerpts, turn.prompts)
    if usage.calls:
        turn.use("decide", usage)
    if probability is not None:
        turn.tell("decide", f"stated in the excerpts with probability {probability:.2f}: {question}")
    return probability


def _problem(turn: Turn, question: str, draft: Draft, extract: Draft, earlier: Sequence[str]) -> str:
    """Why a model's answer is not to be shown; "" where it is."""
    texts = [hit.passage.indexed_text for hit in turn.hits]
    if not supported(draft, Sources(texts, turn.embed, question)):
        return "its answer is not in the passages"
    if contradicted(question, draft.text, extract.text, turn.embed):
        return "it says yes, and they say no"
    return "it says the same to two parts" if any(begins_with(text, draft.text) for text in earlier) else ""


def _extract(turn: Turn, part: Part) -> Draft | None:
    """The documents' own sentences for a part, without what is said of terms they lack."""
    draft = extracted([part], turn.embed, 2 if part.compound else 1)
    return None if draft.unknown else draft.model_copy(update={"text": draft.text.partition("\n\n")[0]})


def supported(draft: Draft, sources: Sources) -> bool:
    """Whether any claim of a model's draft is supported by the passages it cites, or by any where it cites none."""
    numbers = list(range(1, len(sources.texts) + 1))
    return any(
        sources.support(claim.text, claim.numbers) or any(sources.support(claim.text, [n]) for n in numbers)
        for claim in claims_of(draft)
    )


def beside(questions: Sequence[str], answer: str, extract: str, embed: Embed | None) -> str:
    """The sentences of an extract, marks included, that tell a reader more than a model's answer; "" where none does.

    Its first sentence, the most direct one, does even where it is half as near as others must be. The others are about
    the question, those that hold the kind of answer that is asked for (a number, a person) before those that do not.

    Args:
        questions: the question as it was typed, and its rewrite.
    """
    pieces = [(piece, strip_citations(piece)) for piece in _AFTER_MARK.split(extract)]
    additions = [(piece, bare) for piece, bare in pieces if words(bare) and not says(answer, bare)]
    if not additions:
        return ""
    rows = fits(questions, [bare for _, bare in additions], embed)
    expected = asked_type(questions)
    scores = [
        max(near) + TYPE_WEIGHT * holds(expected, bare)
        for near, (_, bare) in zip(zip(*rows, strict=True), additions, strict=True)
    ]
    direct = 0 if additions[0] == pieces[0] and scores[0] >= LEAST_FIT / 2 else None
    places: list[int] = []
    length = 0
    for at in sorted(range(len(additions)), key=lambda at: (at != direct, -scores[at])):
        size = len(words(additions[at][1]))
        if (at != direct and scores[at] < LEAST_FIT) or len(places) >= SENTENCES:
            break
        if not places or length + size <= LENGTH:
            places.append(at)
            length += size
    return " ".join(additions[at][0] for at in sorted(places))


def contradicted(question: str, answer: str, extract: str, embed: Embed | None) -> bool:
    """Whether an answer says yes where the sentence of an extract that is nearest to the question says no.

    Small models say yes to nearly everything.
    """
    bare = [strip_citations(piece) for piece in _AFTER_MARK.split(extract)]
    if not _YES.match(answer) or _NOT.search(answer) or not bare:
        return False
    [row] = fits([question], bare, embed)
    return bool(_NOT.search(bare[row.index(max(row))]))


def says(answer: str, sentence: str) -> bool:
    """Whether an answer says what a sentence does: its words and all its numbers."""
    return coverage(sentence, [answer]) >= ALREADY_SAID and not missing_numbers(sentence, [answer])


_YES = re.compile(r"\W*yes\b", re.IGNORECASE)
_NOT = re.compile(r"\b(?:no|not|never|cannot|without|nor|neither)\b|n['’]t\b", re.IGNORECASE)


def begins_with(text: str, opening: str) -> bool:
    """Whether a text opens with the words of another, marks aside."""
    first = words(strip_citations(opening))
    return bool(first) and words(strip_citations(text))[: len(first)] == first


# --- all parts in one call, from whole passages and the conversation ---


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
        fitted = _fitted(turn, history)
        if turn.judgement.decision == "clarify":
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
