"""The answer step without a language model: each part answered by sentences of its own evidence, cited as they stand.

What all forms of the step share stands here too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from turnmark.assistant.parts import Part
from turnmark.assistant.steps.answer_type import holds
from turnmark.assistant.steps.clarify import clarification
from turnmark.assistant.steps.procedure import by_document, procedure_of
from turnmark.assistant.steps.select import asked_type, picked, rated, trust, typed
from turnmark.assistant.steps.support import coverage
from turnmark.assistant.steps.understand import is_greeting
from turnmark.assistant.steps.units import MIN_WORDS, Unit, units_of, with_lists
from turnmark.assistant.turn import UNKNOWN_TEXT, Turn
from turnmark.assistant.types import GROUNDED, Checks, Draft, Judgement, Step, SubQuestion, Understanding
from turnmark.corpora.text import content_words, sentences, strip_citations, words
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

_AFTER_CITATION = re.compile(r"(?<=\])\s+(?!\[)")
_MARK = re.compile(r"\[(\d{1,3})\]")
UNSURE = "I am not sure; the nearest I found:"
"""Stands before an answer that may not be one."""
LONGEST_QUOTE = 120
"""Characters of a question that is quoted because it has no answer."""


class Courtesy:
    """The reply to a courtesy: nothing is searched for."""

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        judgement = Judgement(decision="converse", confidence=1.0, reason="a courtesy, not a question")
        turn.hits.extend(turn.evidence or ())
        turn.tell_hits()
        turn.tell("decide", f"converse: {judgement.reason}", confidence=1.0)
        greets = is_greeting(turn.message) or not words(turn.message)
        hello, welcome = "Hello! Ask me anything about your documents.", "You're welcome. Ask on whenever you like."
        draft = Draft(text=hello if greets else welcome)
        turn.stream(draft.whole)
        parts = [SubQuestion(text=text, answered=True) for text in turn.understanding.sub_questions]
        turn.settle(draft, judgement, Checks(), parts)


class Extractive:
    """The documents' own sentences."""

    name = "answer"

    def __call__(self, turn: Turn) -> None:
        turn.write(without_answer(turn) or extracted(turn.group, turn.embed, len(turn.parts), turn.draft.text))


def without_answer(turn: Turn) -> Draft | None:
    """The draft where it was decided not to answer: it is not known, or asked back; None where it was."""
    decision = turn.judgement.decision
    if decision == "unknown":
        return nothing(turn.group)
    if decision == "clarify":
        draft = clarification(turn.judgement, turn.message, turn.understanding.rewrite, turn.hits)
        return draft.model_copy(update={"answers": (draft.text,) * len(turn.group)})
    return None


def extracted(parts: Sequence[Part], embed: Embed | None, count: int = 1, earlier: str = "") -> Draft:
    """The extractive answer to each part that can be answered, as paragraphs; what cannot be is named in its place.

    A sentence that answers two parts is said once.

    Args:
        count: of the parts of the whole message, of which these may be some.
        earlier: what is said to the parts before these.
    """
    drafts = [_extract(part, embed, max(count, len(parts))) for part in parts]
    found = [_with_steps(draft) if draft else "" for draft in drafts]
    if not any(found):
        return nothing(parts)
    answers = tuple(own or _said(part.text, found) for own, part in zip(found, parts, strict=True))
    steps = tuple(step for draft in drafts if draft for step in draft.procedure)
    if len(parts) == 1 and drafts[0] and not earlier:
        text = "\n\n".join(filter(None, (drafts[0].text, _missing(parts[0]))))
        return Draft(text=text, procedure=steps, answers=answers)
    stated = {strip_citations(piece) for piece in _AFTER_CITATION.split(earlier)}
    paragraphs: list[str] = []
    for part, draft, answer in zip(parts, drafts, answers, strict=True):
        pieces = list(dict.fromkeys(_AFTER_CITATION.split(draft.text if draft else answer or not_found(part.text))))
        if draft and (missing := _missing(part)):
            pieces.append(missing)
        fresh = [piece for piece in pieces if strip_citations(piece) not in stated]
        stated.update(map(strip_citations, fresh))
        paragraphs.append(" ".join(fresh))
    return Draft(text="\n\n".join(filter(None, paragraphs)), procedure=steps, answers=answers)


def _said(question: str, answers: Sequence[str]) -> str:
    """The sentence in the answers to other parts that has the number or date that this one asks for; "" if none has."""
    expected = asked_type([question])
    topic = " ".join(word for word in content_words(question) if word not in _COUNTING)
    if not expected.stated or not topic:
        return ""
    pieces = (piece for answer in answers for piece in _AFTER_CITATION.split(answer))
    return next((piece for piece in pieces if coverage(topic, [piece]) == 1 and holds(expected, piece)), "")


_COUNTING = frozenset(("many", "much", "one", "ones"))


def nothing(parts: Sequence[Part]) -> Draft:
    """What is said where no part can be answered."""
    text = UNKNOWN_TEXT if len(parts) == 1 else "\n\n".join(not_found(part.text) for part in parts)
    return Draft(text=text, answers=("",) * len(parts))


def _with_steps(draft: Draft) -> str:
    """A draft as one text."""
    steps = (ended(step.step) + step.marks for step in draft.procedure)
    return " ".join(filter(None, (draft.text, *steps)))


def not_found(part: str) -> str:
    """What is said in the place of a part that the documents do not answer.

    It quotes the part's last sentence, the question, as one phrase: what stands in it is no claim.
    """
    bare = strip_citations(part)
    last = [" ".join(bare[start:end].split()) for start, end in sentences(bare)][-1:] or [""]
    phrase = last[0].rstrip(" .!?…。！？")
    short = phrase if len(phrase) <= LONGEST_QUOTE else phrase[:LONGEST_QUOTE].rstrip() + " …"
    return f"I don't know the answer to “{short}”: the documents do not say."


def _missing(part: Part) -> str:
    """A sentence on what of a part the documents do not say; "" where they say all of it."""
    judged = part.judgement
    if judged.decision != "partial" or not judged.missing:
        return ""
    return f"The documents do not say: {', '.join(strip_citations(term) for term in judged.missing)}."


def _extract(part: Part, embed: Embed | None, count: int) -> Draft | None:
    """The extractive answer to one part, its marks being the numbers of the reply's sources."""
    if part.judgement.decision not in GROUNDED:
        return None
    draft = extract(part.understanding, part.text, part.hits, embed, count)
    if draft and not part.judgement.sure:
        draft = draft.model_copy(update={"text": f"{UNSURE} {draft.text}"})
    if draft is None or part.numbers == tuple(range(1, len(part.numbers) + 1)):
        return draft
    renumbered = tuple(
        Step(step=step.step, citations=tuple(part.numbers[n - 1] for n in step.citations)) for step in draft.procedure
    )
    text = _MARK.sub(lambda mark: f"[{part.numbers[int(mark[1]) - 1]}]", draft.text)
    return Draft(text=text, procedure=renumbered)


def paragraphs_of(text: str, count: int) -> tuple[str, ...]:
    """A text's paragraphs, where it has as many as there are parts to answer; else none."""
    paragraphs = [paragraph.strip() for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]
    return tuple(paragraphs) if len(paragraphs) == count else ()


LENGTH, SENTENCES = 102, 12
"""Words and sentences of an answer; references of MTRAG have 99 words."""
FACT_LENGTH, FACT_SENTENCES = 60, 3
"""Of an answer to a question that wants one fact: the direct answer, and context."""
LEAD_LENGTH, LEAD_SENTENCES = 40, 1
"""Of what stands above a procedure."""
SHORTEST_PART = 40
LONGEST_ENTRY = 6
"""Words of a list item that is a thing; a longer one without a capital letter is the end of somebody's sentence."""
_NAMELESS = re.compile(r"^\W*(?:it|its|they|their|he|his|she|her)\b", re.IGNORECASE)
LONGEST_TITLE = 5
"""Words of a title that can stand before a sentence: it is a name, then."""
_PLAIN = frozenset("a an and are can do does for how i in is it of on the to what which with you your".split())
# Opens with a word that only what stands before it explains.
_LEANS = re.compile(
    r"^\W*(?:(?:but|and|so|then|however|also)\b\W*)?(?:it|its|they|their|them|he|his|him|she|her|this|these|those|that|"
    r"such|the (?:latter|former|same))\b",
    re.IGNORECASE,
)


def extract(
    understanding: Understanding, message: str, hits: Sequence[Hit], embed: Embed | None, parts: int = 1
) -> Draft | None:
    """The extractive answer, and the procedure when one is wanted and a document gives one; None when nothing fits.

    The sentence that answers most directly stands first, context after it in the order of the passages. Sentences are
    chosen for the message as it was typed and for its rewrite: with the rewrite alone every sentence that names the
    topic would look like an answer.

    Args:
        embed: embeds sentences (unit vectors); without it, shared words decide.
        parts: of the reply, of which this is one: each is the shorter for it.
    """
    questions = (message, understanding.rewrite)
    procedure = procedure_of(questions, hits, embed) if understanding.wants_procedure else None
    steps = procedure.steps if procedure else ()
    pool = units_of(hits)
    if procedure:
        used = {(unit.document, unit.at) for unit in steps}
        near = {unit.document for unit in steps}
        pool = [u for u in pool if u.document in near and not u.item and (u.document, u.at) not in used]
        length, sentence_limit = LEAD_LENGTH, LEAD_SENTENCES
    else:
        pool = with_lists(pool)
        fact = wants_fact(questions)
        length, sentence_limit = (FACT_LENGTH, FACT_SENTENCES) if fact else (LENGTH, SENTENCES)
    length = max(SHORTEST_PART, round(length / parts**0.5)) if parts > 1 else length
    lead = procedure.lead if procedure and procedure.lead and procedure.lead.complete else None
    selection = [lead] if lead else _chosen(questions, pool, embed, length, sentence_limit, hits)
    text = " ".join(_cited(unit) for unit in _explained(selection, hits))
    text = " ".join(filter(None, (text, by_document(steps, hits))))
    if steps and not text:
        text = f"These are the steps. [{steps[0].citation}]"
    procedure_steps = tuple(Step(step=unit.text, citations=(unit.citation,)) for unit in steps)
    return Draft(text=text, procedure=procedure_steps) if text else None


def wants_fact(questions: Sequence[str]) -> bool:
    """Whether a question asks for one fact: who, when, where, how many, yes or no … A second question in it wants
    more."""
    return asked_type(questions).kind not in ("other", "reason") and len(re.findall(r"[?？]", questions[0])) < 2


def choose(questions: Sequence[str], pool: Sequence[Unit], embed: Embed | None, sentence_limit: int) -> list[Unit]:
    """Up to `sentence_limit` units that fit the questions best and differ; in the order of their passages."""
    usable = _usable(pool, questions)
    if not usable:
        return []
    measured = rated(questions, usable, embed)
    return [
        measured.units[place] for place in sorted(picked(measured, measured.scores(), LENGTH, sentence_limit, leans))
    ]


def _chosen(
    questions: Sequence[str],
    pool: Sequence[Unit],
    embed: Embed | None,
    length: int,
    sentence_limit: int,
    hits: Sequence[Hit],
) -> list[Unit]:
    """The units of an answer: the most direct one first, with what it leans on, the others in reading order."""
    usable = _usable(pool, questions)
    if not usable:
        return []
    titles = [" ".join(filter(None, (hit.passage.title, hit.passage.section))) for hit in hits]
    measured = rated(questions, usable, embed, titles)
    trusted = trust(hits)
    added = [trusted[unit.citation - 1] for unit in measured.units]
    scores = measured.direct() + added
    if length >= LENGTH:  # no one fact is asked for: what stands first in the documents is said first
        first = picked(measured, scores, 1, 1, leans)
        places = picked(measured, measured.scores() + added, length, sentence_limit, leans, first)
        return [measured.units[place] for place in places]
    places = picked(measured, scores, length, sentence_limit, leans)
    holding = typed(measured)
    if holding and not set(holding) & set(places):  # what is asked for is said, however long the rest is
        places = picked(
            measured, scores, length, sentence_limit, leans, [max(holding, key=lambda place: scores[place])]
        )
    direct = max(places, key=lambda place: scores[place])
    preceding = [direct - 1] if direct - 1 in places and leans(measured.units[direct].text) else []
    leading = [*preceding, direct]
    return [measured.units[place] for place in [*leading, *(place for place in places if place not in leading)]]


def _usable(pool: Sequence[Unit], questions: Sequence[str]) -> list[Unit]:
    """The units that may be said; all of them where none may.

    "30 g of salt" may where its list, or a fact that it names, is asked for.
    """
    question_words = {word for question in questions for word in words(question)} - _PLAIN
    expected = asked_type(questions)
    factual = expected.quantity or expected.kind == "yes_no"
    named = {word for question in questions for word in content_words(question)} if factual else set()

    def may_be_said(unit: Unit) -> bool:
        size = len(words(unit.text))
        if not unit.item or (size >= MIN_WORDS and not unit.text[:1].islower()):
            return True
        listed = size <= LONGEST_ENTRY and question_words & set(words(unit.heading))
        return bool(named & set(words(unit.text)) or listed)

    return [unit for unit in pool if unit.complete and may_be_said(unit)] or list(pool)


def leans(text: str) -> bool:
    """Whether a sentence opens with a word ("It", "This") that only what stands before it explains."""
    return bool(_LEANS.search(text))


def _explained(units: Sequence[Unit], hits: Sequence[Hit]) -> list[Unit]:
    """The units, the title put before those that lean on what is not there: only words of their own passage."""
    explained: list[Unit] = []
    for unit in units:
        passage = hits[unit.citation - 1].passage
        alone = not explained or explained[-1].citation != unit.citation
        name = words(passage.title)
        fits = 0 < len(name) <= LONGEST_TITLE and set(name) <= set(words(passage.text))
        titled = alone and fits and _NAMELESS.search(unit.text)
        explained.append(replace(unit, text=f"{passage.title}: {unit.text}") if titled else unit)
    return explained


def _cited(unit: Unit) -> str:
    """The unit with its citation after each of its sentences: every sentence cites."""
    parts = [unit.text[start:end] for start, end in sentences(unit.text)]
    return " ".join(f"{ended(part)} [{unit.citation}]" for part in parts)


def ended(text: str) -> str:
    """The text with a full stop where it ends without any mark."""
    return text if text[-1:] in ".!?…。！？" else text.rstrip(" ,;:") + "."
