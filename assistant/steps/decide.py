"""The decide step: answer, ask back, or say that the documents do not hold the answer; by scores and words, or by one
structured call of a language model for all parts of a round.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import combinations
from math import exp, sqrt
from statistics import fmean
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from turnmark.assistant.budget import INSTRUCTIONS, fit
from turnmark.assistant.generators.schema import at_most, bounded
from turnmark.assistant.parts import Part
from turnmark.assistant.prompts import fence_tag, load_prompt
from turnmark.assistant.steps.answer_type import COUNTS_SOMETHING_ELSE, holds
from turnmark.assistant.steps.clarify import unclear
from turnmark.assistant.steps.llm import numbered, one_a_line, passage_texts, turns
from turnmark.assistant.steps.select import asked_type
from turnmark.assistant.steps.support import coverage, missing_names, missing_numbers, stems
from turnmark.assistant.steps.units import Unit, units_of
from turnmark.assistant.structured import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Decision, Judgement, Understanding
from turnmark.corpora.text import content_words
from turnmark.corpora.types import Message, Record
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

UNSURE = 0.135
"""How far below `Form.least` a confidence may lie for the nearest to be given, and said to be unsure; .6 with all
signals. Shared words alone (no cosines) tell too little for that."""
ABOUT = 0.3
"""The confidence below which the documents are about something else, and asking back would help nobody."""
SURE = 0.85
"""The confidence from which a name that no hit has is of no account: it is spelt otherwise, or none of the question."""


class Extractive:
    """Judges the evidence of each part by its scores and words."""

    name = "decide"

    def __call__(self, turn: Turn) -> None:
        if turn.trusted:
            turn.forms["decide"] = "extractive"
        for part in turn.pending:
            part.judgement = decide(
                part.understanding, part.text, part.hits, turn.trusted, history=part.history, embed=turn.embed
            )
            thin = turn.round < turn.last_round and part.judgement.decision in ("unknown", "partial")
            part.narrower = narrower(part) if thin else ""


def narrower(part: Part) -> str:
    """The words of a part that its evidence lacks, before its other words of content; "" where it lacks none, or all.

    Where it lacks all, the documents are about something else, and so would be whatever is found next.
    """
    terms = content_words(part.understanding.rewrite)
    present = {stem for hit in part.hits for stem in stems(hit.passage.indexed_text)}
    lacking_terms = [word for word in terms if stems(word) and not stems(word) <= present]
    if not lacking_terms or len(lacking_terms) == len(terms):
        return ""
    return " ".join(dict.fromkeys([*lacking_terms, *terms]))


def decide(
    understanding: Understanding,
    message: str,
    hits: Sequence[Hit],
    trusted: bool = False,
    *,
    history: Sequence[Message] = (),
    embed: Embed | None = None,
) -> Judgement:
    """`converse`, `unknown`, `clarify`, `partial` or `answer`.

    The confidence is how likely the documents answer the question, were 12% of such questions unanswerable: calibrated
    on MTRAG and MTRAG-UN (docs/measured.md). `partial` where that is less than sure: what is nearest is given as such;
    and where the message has a name or a number that no hit has: these are `missing`. A question for a number or a date
    (how many, how long, when did) is not answered by passages without one.

    Args:
        trusted: passages are enough to try, whatever the confidence.
        history: the turns before, oldest first.
        embed: unit vectors of texts; without it sentences are not compared, and the confidence is a little worse.
    """
    if understanding.kind == "conversational":
        return Judgement(decision="converse", confidence=1.0, reason="a courtesy, not a question")
    if not hits:
        return Judgement(decision="unknown", confidence=0.0, reason="nothing was found")
    questions = list(dict.fromkeys((message, understanding.rewrite)))
    signals = signals_of(questions, hits, embed)
    form = calibration().form(signals)
    confidence = confidence_of(form, signals)
    figures = ", ".join(f"{name} {value:.2f}" for name, value in signals.items())
    if trusted:
        return Judgement(decision="answer", confidence=confidence, reason=f"given passages; {figures}")
    open_ = unclear(message, history, hits, embed) if confidence >= ABOUT else None
    if open_:
        reason = f"nothing says which {open_.phrase}"
        return Judgement(decision="clarify", confidence=confidence, reason=reason, readings=open_.readings)
    sure = confidence >= form.least
    missing = lacking(message, history, hits) if confidence < SURE else ()
    if not sure and (missing or COSINE not in signals or confidence < form.least - UNSURE):
        reason = f"confidence {confidence:.2f} is below {form.least:.2f} ({figures})"
        return Judgement(decision="unknown", confidence=confidence, reason=reason)
    if lacks_type(questions, hits):
        reason = "a number or date is asked for, and no sentence found has one for it"
        return Judgement(decision="unknown", confidence=min(confidence, form.least - UNSURE), reason=reason)
    return Judgement(
        decision="answer" if sure and not missing else "partial",
        confidence=confidence,
        reason=f"confidence {confidence:.2f} {'reaches' if sure else 'is below'} {form.least:.2f} ({figures})",
        missing=missing,
        sure=sure,
    )


def lacks_type(questions: Sequence[str], hits: Sequence[Hit]) -> bool:
    """Whether a number or date is asked for that no sentence of the hits has."""
    expected = asked_type(questions)
    if not expected.stated:
        return False
    return not any(holds(expected, unit.text) > COUNTS_SOMETHING_ELSE for unit in units_of(hits))


def lacking(message: str, history: Sequence[Message], hits: Sequence[Hit]) -> tuple[str, ...]:
    """The names and numbers of a message, as it spells them, that neither the hits nor the turns before have.

    Two letters (US, VS, PC) are no such name: documents have them in too many other forms.
    """
    texts = [*(hit.passage.indexed_text for hit in hits), *(turn.content for turn in history)]
    names = missing_names(message, texts)
    spelt = [word for word in re.findall(r"[\w'’-]{3,}", message) if stems(word) and stems(word) <= names]
    return tuple(dict.fromkeys([*spelt, *sorted(missing_numbers(message, texts))]))


MOST_READINGS = 12
CONFIDENCE = {"yes": 5 / 6, "partly": 0.5, "no": 1 / 6}
"""The confidence of a verdict by a model: the middle of each third."""
DECIDED: dict[str, Decision] = {"yes": "answer", "partly": "partial", "no": "unknown"}


class PartVerdict(BaseModel):
    """How far the passages cover a part."""

    part: int
    covered: Literal["yes", "partly", "no"]
    missing: str = ""
    query: str = ""


class DecideReply(BaseModel):
    """What the prompt `decide` asks for."""

    parts: list[PartVerdict]
    readings: Annotated[list[str], at_most(MOST_READINGS)] = Field(default_factory=list)


class Judging:
    """Judges by a model; as `Extractive` does where nothing usable comes, or the evidence is trusted."""

    name = "decide"

    def __call__(self, turn: Turn) -> None:
        parts = turn.pending
        hits = list({hit.passage.id: hit for part in parts for hit in part.hits}.values())
        if turn.trusted or not hits:
            return Extractive()(turn)
        questions = [part.understanding.rewrite for part in parts]
        room = turn.model.context_tokens - INSTRUCTIONS - 3 * STRUCTURED_TOKENS
        fitted = fit(parts[0].history, hits, "\n".join(questions), room)
        texts = passage_texts(fitted.hits)
        tag = fence_tag(*questions, *texts, *(message.content for message in fitted.history))
        prompt = load_prompt("decide", turn.prompts).render(
            tag=tag,
            passages=numbered(texts, tag),
            history=turns(fitted.history, tag),
            parts=one_a_line(questions),
        )
        reply, usage = ask(turn.model, prompt, bounded(DecideReply, len(parts)))
        if isinstance(reply, Failure) or sorted(row.part for row in reply.parts) != list(range(1, len(parts) + 1)):
            reason = (
                f"{reply.kind}: {reply.reason}" if isinstance(reply, Failure) else "it did not judge every part once"
            )
            turn.use("decide", usage, f"decided without the model: it gave nothing usable ({reason})")
            turn.forms["decide"] = "extractive"
            return Extractive()(turn)
        turn.use("decide", usage)
        readings = tuple(dict.fromkeys(text.strip() for text in reply.readings if text.strip()))[:MOST_READINGS]
        for part, verdict in zip(parts, sorted(reply.parts, key=lambda row: row.part), strict=True):
            _judge(part, verdict, readings)
        return None


def _judge(part: Part, verdict: PartVerdict, readings: tuple[str, ...]) -> None:
    missing = " ".join(verdict.missing.split())
    decision = DECIDED[verdict.covered]
    if len(readings) > 1 and decision != "unknown":
        decision = "clarify"
    part.judgement = Judgement(
        decision=decision,
        confidence=CONFIDENCE[verdict.covered],
        reason=f"the model: {verdict.covered}{f', missing {missing}' if missing else ''}",
        missing=(missing,) if missing and decision == "partial" else (),
        readings=readings if decision == "clarify" else (),
    )
    part.narrower = " ".join(verdict.query.split()) if decision in ("partial", "unknown") else ""


# --- how well evidence covers a question: signals, and one calibrated confidence ---


LOOKED_AT = 3
"""Hits that are looked at: what a turn of a chat shows. Five tell no more."""
BEST_SENTENCES = 3
MOST = 1.0
"""Deviations above the mean beyond which a signal counts no more: the passages of a small index are all alike."""
AHEAD = 2.0
"""Deviations that a signal may be ahead of the principal one: where hits are about something else, it says nothing that
they agree."""

COSINE, SENTENCES, AGREEMENT, WORDS = "cosine", "sentences", "agreement", "words"
PRINCIPAL = (COSINE, WORDS)
"""The signals of which a form has one, and that say alone what evidence is about."""


class Scale(Record):
    """A signal on questions that the documents answer or nearly answer."""

    mean: float
    deviation: float = Field(gt=0)


class Form(Record):
    """How the signals that can be had become a confidence: 1 / (1 + exp(-(intercept + slope * mean of their z)))."""

    scales: Mapping[str, Scale]
    slope: float
    intercept: float = Field(description="at the prior")
    least: float = Field(description="the confidence from which a question is answered")


class Calibration(Record):
    """What `tests/benchmarks/decide.py --write` found."""

    prior: float = Field(description="the share of unanswerable questions at which a confidence is a probability")
    forms: tuple[Form, ...]

    def form(self, signals: Mapping[str, float]) -> Form:
        """The form with the most signals of those there are; the first where none has any."""
        fitting = [form for form in self.forms if form.scales.keys() <= signals.keys()]
        partly = [form for form in self.forms if form.scales.keys() & signals.keys() & set(PRINCIPAL)]
        return max(fitting or partly or self.forms, key=lambda form: len(form.scales.keys() & signals.keys()))


@lru_cache(maxsize=1)
def calibration() -> Calibration:
    """The calibration that ships with Turnmark."""
    raw = files("turnmark.assistant.steps").joinpath("decide.json").read_bytes()
    return Calibration.model_validate_json(raw)


def signals_of(questions: Sequence[str], hits: Sequence[Hit], embed: Embed | None) -> dict[str, float]:
    """What the first hits say of a question; a signal that cannot be had is left out. None grows with the index.

    - `cosine`: of the first hit, with the message or its rewrite, whichever is nearer.
    - `sentences`: the mean of the three best cosines of a sentence of the hits with the message or its rewrite.
    - `agreement`: how many stemmed words two hits share, divided by the geometric mean of how many each has; the mean
      over pairs. Where nothing fits, the hits are about many things.
    - `words`: only where there are no cosines: the best share of the message's content words in one hit.

    Args:
        questions: the message, and its rewrite where that is another text.
        hits: best first.
        embed: unit vectors of texts; sentences are embedded as `turnmark.assistant.steps.answer` does, so that a memory
            helps.
    """
    looked = hits[:LOOKED_AT]
    signals: dict[str, float] = {}
    cosines = [hit.similarity for hit in looked if hit.similarity is not None]
    if cosines:
        signals[COSINE] = cosines[0]
        if embed and (units := list(dict.fromkeys(unit_text(unit) for unit in units_of(looked)))):
            vectors = embed([*questions, *units])
            best = (vectors[len(questions) :] @ vectors[: len(questions)].T).max(axis=1)
            signals[SENTENCES] = fmean(sorted(map(float, best))[-BEST_SENTENCES:])
    elif looked:
        signals[WORDS] = max(coverage(questions[0], [hit.passage.indexed_text]) for hit in looked)
    if len(looked) > 1:
        words = [stems(hit.passage.indexed_text) for hit in looked]
        signals[AGREEMENT] = fmean(
            len(first & second) / sqrt(max(1, len(first) * len(second))) for first, second in combinations(words, 2)
        )
    return signals


def unit_text(unit: Unit) -> str:
    """What is embedded of a sentence or list item, here and where an answer is chosen, so that it is embedded once."""
    return f"{unit.heading}: {unit.text}" if unit.heading and unit.item else unit.text


def mean_z(form: Form, signals: Mapping[str, float]) -> float:
    """The mean over the signals of a form of how many deviations each lies above its mean, where a missing one lies.

    None counts more than `MOST`, nor much more than the principal signal (`AHEAD`).
    """
    values = {
        name: (signals.get(name, scale.mean) - scale.mean) / scale.deviation for name, scale in form.scales.items()
    }
    ceiling = min([MOST, *(values[name] + AHEAD for name in PRINCIPAL if name in values)])
    return fmean(min(ceiling, value) for value in values.values())


def confidence_of(form: Form, signals: Mapping[str, float]) -> float:
    """How likely the documents answer the question, 0..1, were `Calibration.prior` of such questions unanswerable."""
    level = form.intercept + form.slope * mean_z(form, signals)
    return 1 / (1 + exp(-max(-30.0, min(30.0, level))))
