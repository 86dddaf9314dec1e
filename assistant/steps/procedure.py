"""The procedure that the documents give for a question: the list, or the run of sentences, that tells how it is done.

Candidates are lists. A long page has many; the one that is about the question is taken. Where a single sentence is
closer to the question than every list, the procedure is told in running text: the sentences around that one, if several
of them tell somebody to do something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from turnmark.assistant.steps.support import coverage
from turnmark.assistant.steps.units import Unit, units_of
from turnmark.corpora.text import words
from turnmark.retrieval.task_passages import Embed
from turnmark.retrieval.types import Hit

_PROCEDURE_HEADING = re.compile(
    r"\b(steps?|directions?|instructions?|method|procedure|preparation|how to|making|process|guide|checklist|"
    r"zubereitung|anleitung|schritte|vorgehen|étapes|préparation|pasos|preparación|instrucciones|passi|preparazione)\b"
    r"|步骤|做法|方法|作り方|手順",
    re.IGNORECASE,
)
_MATERIAL_HEADING = re.compile(
    r"\b(ingredients?|what you need|you('ll| will) need|needs?|tools?|equipment|materials?|supplies|shopping|"
    r"variations?|notes?|mistakes?|see also|links?|contributors?|zutaten|ingrédients|ingredientes|ingredienti)\b"
    r"|材料|用料",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"^(?:first(?:ly)?|second(?:ly)?|third(?:ly)?|then|next|after (?:that|this)|afterwards|finally|lastly|now|begin by|"
    r"start by|to (?:begin|start)|once|please)\b[,:]?\s*",
    re.IGNORECASE,
)
_VERBS = frozenset(
    """add adjust allow apply arrange ask attach bake beat begin blend boil book bring brush build call carry change
    check chill choose chop clean clear click close coat collect combine connect contact cook cool copy cover create
    cut delete describe dig dip disconnect divide download drag drain draw drill drop dry edit email empty enter
    fasten feed fetch file fill find fit fix flip fold follow freeze fry gather get give glue go grate grease grill
    hang heat hold include insert install join keep knead lay leave let lift light line load locate lock log loosen
    lower make mark mash measure melt mix move note notify open order orphan pack paint peel pick place plug pour
    preheat prepare press print pull pump push put raise read record reduce reheat remove repeat replace request
    reserve reset restart review rinse roast roll rub run sand save schedule scrub seal search season select send
    serve set shake shape share shut sign simmer sit slice slide soak sort sow spray spread sprinkle squeeze stand
    start steam stir stop store strain strip submit switch take talk tap tell test tie tighten tip top toss transfer
    trim turn type unplug unscrew update upload use verify visit wait walk warm wash water whisk wipe work wrap
    write""".split()
)
_TELLS_WHAT_TO_DO = re.compile(
    r"\byou(?:'ll| will)? (?:also )?(?:should|must|can|could|may|need to|have to|ought to|want to|then)\b"
    r"|\b(?:should|must|needs? to|ha(?:s|ve) to) (?:first |then |also |be )?(?!not\b)\w+",
    re.IGNORECASE,
)
MOST_WORDS = 60
"""Of a step that is told in several sentences."""
FEW = 3
"""Fewer steps than these are completed from another document."""
MOST_STEPS = 20
LEAST_WORDS, LEAST_WORDS_NUMBERED = 3, 5
"""Of an item, in the mean, in a list that may be of steps, and in a numbered one: shorter ones name things."""
_THING = re.compile(r"(?:the|an?)\s")
_ENGLISH = re.compile(r"\b(?:the|of|to|and|is|are|for|with|that)\b", re.IGNORECASE)
MOST_PROSE, MOST_WORDS_TOLD, LEAST_TOLD = 8, 150, 2
"""Sentences and words of a procedure in running text, and how many of them must tell somebody to do something."""
GAP = 400
"""Characters between two units beyond which they are not of one run: something between them was not retrieved."""
REPEATED = 0.8
"""A step with so many of another's words repeats it."""
NEAR_ENOUGH = 0.75
"""A run is taken if it is so near to the question, as a share of the nearest single sentence."""
LISTED, NAMED, LATER = 0.1, 0.15, 0.05
"""What a list, and a heading such as "Directions", add to a run's nearness; what a rank of its document takes off."""


@dataclass(frozen=True)
class Procedure:
    """Steps in their order, and the sentence that introduces them where there is one."""

    steps: tuple[Unit, ...]
    lead: Unit | None = None


def procedure_of(questions: Sequence[str], hits: Sequence[Hit], embed: Embed | None) -> Procedure | None:
    """The procedure that the documents give; None where no run of them is about the question.

    Args:
        questions: the message first, its rewrite last.
        embed: unit vectors of texts; None: shared words decide.
    """
    units = units_of(hits)
    runs = [run for run in _runs(units, hits) if len(run.steps) > 1]
    titles = {hit.passage.document: hit.passage.title for hit in hits}
    texts = [_text(run, titles) for run in runs]
    distinct_questions = list(dict.fromkeys((questions[0], questions[-1])))
    prose = [unit for unit in units if unit.complete and not unit.item]
    sentences = [unit.text for unit in prose]
    near = _nearness(distinct_questions, [*texts, *sentences], embed)
    # Shared words do not tell a list from a sentence: without an embedder the first document with a list has it.
    enough, later = (NEAR_ENOUGH * max(near[len(runs) :], default=0.0), LATER) if embed else (0.0, 1.0)
    ranks = {document: at for at, document in enumerate(titles)}
    rated = [
        value
        + (LISTED if run.steps[0].item else 0)
        + (NAMED if _PROCEDURE_HEADING.search(run.steps[0].heading) else 0)
        - later * ranks[run.steps[0].document]
        for value, run in zip(near, runs, strict=False)
    ]
    best = max(range(len(runs)), key=lambda at: (rated[at], -at), default=None)
    if best is not None and (embed is None or rated[best] >= enough):
        order = sorted(range(len(runs)), key=lambda at: -rated[at])
        near_runs = [runs[at] for at in order if embed is None or rated[at] >= NEAR_ENOUGH * rated[best]]
        return _completed(runs[best], near_runs)
    return _told_around(prose, near[len(runs) :])


def _told_around(units: Sequence[Unit], near: Sequence[float]) -> Procedure | None:
    """The sentences around the nearest one, in reading order, if several of them tell somebody to do something."""
    ranked = sorted(range(len(units)), key=lambda at: -near[at])
    if not ranked:
        return None
    center = units[ranked[0]]
    order = sorted((at for at, unit in enumerate(units) if unit.document == center.document and unit.complete),
                   key=lambda at: units[at].at)  # fmt: skip
    window = [order.index(ranked[0])] * 2
    size = len(words(center.text))
    while window[1] - window[0] < MOST_PROSE - 1:
        neighbours = [(near[order[place]], place) for place in (window[0] - 1, window[1] + 1)
                  if 0 <= place < len(order) and _adjoins(units, order, place, window)]  # fmt: skip
        if not neighbours:
            break
        _, place = max(neighbours)
        size += len(words(units[order[place]].text))
        if size > MOST_WORDS_TOLD:
            break
        window = [min(window[0], place), max(window[1], place)]
    steps = [units[at] for at in order[window[0] : window[1] + 1]]
    while steps and not _tells(steps[-1]) and steps[-1] is not center:
        steps.pop()
    if sum(_tells(unit) for unit in steps) < LEAST_TOLD:
        return None
    lead = steps[0] if len(steps) > LEAST_TOLD and not _instructs(steps[0]) else None
    return Procedure(tuple(_different(steps[1:] if lead else steps)), lead)


def _adjoins(units: Sequence[Unit], order: Sequence[int], place: int, window: Sequence[int]) -> bool:
    """Whether the unit at a place goes on the text at the window's edge: same heading, no gap."""
    edge = units[order[window[0] if place < window[0] else window[1]]]
    unit = units[order[place]]
    first, second = (unit, edge) if unit.at < edge.at else (edge, unit)
    return unit.heading == edge.heading and second.at - _end(first) <= GAP


def _tells(unit: Unit) -> bool:
    """Whether a sentence says that somebody does, should do or can do something."""
    return _instructs(unit) or bool(_TELLS_WHAT_TO_DO.search(unit.text)) or "`" in unit.text


def _completed(best: Procedure, runs: Sequence[Procedure]) -> Procedure:
    """A procedure of few steps with those of other documents that say something else."""
    steps = list(best.steps)
    for run in runs:
        if len(steps) >= FEW:
            break
        if run.steps[0].document not in {step.document for step in steps}:
            steps += [step for step in run.steps if not any(_repeats(step, step_present) for step_present in steps)]
    return replace(best, steps=tuple(steps))


def by_document(steps: Sequence[Unit], hits: Sequence[Hit]) -> str:
    """One sentence that says which steps are of which document; "" where all are of one."""
    titles = {hit.passage.document: hit.passage.title or hit.passage.document for hit in hits}
    groups = [(document, list(group)) for document, group in groupby(steps, key=lambda unit: unit.document)]
    if len(groups) < 2:
        return ""
    parts, passed = [], 0
    for document, group in groups:
        first, last = passed + 1, passed + len(group)
        phrase = f"step {first} is" if first == last else f"steps {first} to {last} are"
        parts.append(f"{phrase} of “{titles[document]}” [{group[0].citation}]")
        passed = last
    sentence = ", ".join(parts[:-1]) + " and " + parts[-1]
    return f"{sentence[0].upper()}{sentence[1:]}."


def _nearness(questions: Sequence[str], texts: Sequence[str], embed: Embed | None) -> list[float]:
    """For each text its mean cosine with the questions; without an embedder the share of their words."""
    if embed is None:
        return [sum(coverage(question, [text]) for question in questions) / len(questions) for text in texts]
    vectors = embed([*questions, *texts])
    return [float(value) for value in (vectors[len(questions) :] @ vectors[: len(questions)].T).mean(axis=1)]


def _text(run: Procedure, titles: dict[str, str]) -> str:
    """A run as it is compared with the question: title, heading, lead and steps; embedders read its beginning."""
    first = run.steps[0]
    parts = [titles.get(first.document, ""), first.heading, run.lead.text if run.lead else ""]
    return " ".join([*filter(None, parts), *(unit.text for unit in run.steps)])


def _runs(units: Sequence[Unit], hits: Sequence[Hit]) -> Iterator[Procedure]:
    """The candidates of every document, in the order in which documents were retrieved."""
    for document in dict.fromkeys(hit.passage.document for hit in hits):
        document_units = sorted((unit for unit in units if unit.document == document), key=lambda unit: unit.at)
        for section in _sections(document_units):
            if not _MATERIAL_HEADING.search(section[0].heading):
                yield from filter(_is_procedure, _of_section(section))


def _is_procedure(run: Procedure) -> bool:
    """Whether the items of a list may be steps: numbered, under such a heading, or not a mere list of things or facts.

    Names ("Hour", "Day of the month", files) are no steps, whatever their numbers. What is not written in English is
    taken for steps.
    """
    steps, text = run.steps, " ".join(step.text for step in run.steps)
    tells, english = any(map(_tells, steps)), bool(_ENGLISH.search(text))
    if not tells and (text.isascii() and not any(" " in step.text for step in steps)):
        return False
    if not tells and english and len(words(text)) < LEAST_WORDS_NUMBERED * len(steps):
        return False
    if steps[0].number is not None or _PROCEDURE_HEADING.search(steps[0].heading):
        return True
    if 2 * sum(bool(_THING.match(step.text)) for step in steps) > len(steps):
        return False
    return tells or (len(words(text)) >= LEAST_WORDS * len(steps) and not english)


def _sections(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Stretches under one heading without a gap."""
    section: list[Unit] = []
    for unit in units:
        if section and (unit.heading != section[-1].heading or unit.at - _end(section[-1]) > GAP):
            yield section
            section = []
        section.append(unit)
    if section:
        yield section


def _end(unit: Unit) -> int:
    return unit.at + len(unit.text)


def _of_section(section: Sequence[Unit]) -> Iterator[Procedure]:
    """The lists of a section, each with the sentence before it; and its paragraphs that open in bold, as a list."""
    lead: Unit | None = None
    for item, group in groupby(section, key=lambda unit: unit.item):
        members = list(group)
        if item:
            yield Procedure(tuple(_different(members)[:MOST_STEPS]), lead)
        lead = members[-1]
    steps = _led([unit for unit in section if not unit.item])
    if len(steps) > 1:
        yield Procedure(tuple(_different(steps)[:MOST_STEPS]))


def _led(units: Sequence[Unit]) -> list[Unit]:
    """Steps that open in bold, each with the sentences up to the next."""
    steps: list[Unit] = []
    for unit in units:
        if unit.bold:
            steps.append(unit)
        elif steps and unit.complete and steps[-1].citation == unit.citation:
            joined = f"{steps[-1].text} {unit.text}"
            if len(words(joined)) <= MOST_WORDS:
                steps[-1] = replace(steps[-1], text=joined)
    return steps if len(steps) > 2 and any(_instructs(unit) for unit in steps) else []


def _instructs(unit: Unit) -> bool:
    """Whether a sentence tells somebody to do something, as far as its first words show."""
    opening = _ORDER.match(unit.text)
    following = words(unit.text[opening.end() :] if opening else unit.text)[:1]
    return bool(following) and (following[0] in _VERBS or (opening is not None and following[0] == "you"))


def _different(steps: Sequence[Unit]) -> list[Unit]:
    """The steps without those that repeat another."""
    distinct: list[Unit] = []
    for step in steps:
        if not any(_repeats(step, earlier) and _repeats(earlier, step) for earlier in distinct):
            distinct.append(step)
    return distinct


def _repeats(step: Unit, reference: Unit) -> bool:
    return coverage(step.text, [reference.text]) >= REPEATED
