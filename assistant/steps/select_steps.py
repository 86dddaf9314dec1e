"""The procedure that the documents give: which of their lists, or which of their sentences, are its steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from assistant.steps.support import coverage
from assistant.steps.units import Unit, units_of
from corpora.text import words
from retrieval.types import Hit

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
    r"start by|to (?:begin|start)|once)\b[,:]?\s*",
    re.IGNORECASE,
)
_VERBS = frozenset(
    """add adjust allow apply arrange ask attach bake beat begin blend boil book bring brush build call carry
    change check chill choose chop clean clear click close coat collect combine connect cook cool copy cover
    create cut delete dig dip disconnect divide download drag drain draw drill drop dry empty enter fasten feed
    fetch fill find fit fix flip fold follow freeze fry gather get give glue go grate grease grill hang heat
    hold insert install join keep knead lay leave lift light line load locate lock log loosen lower make mark
    mash measure melt mix move note open order pack paint peel pick place plug pour preheat prepare press print
    pull pump push put raise read record reduce reheat remove repeat replace reserve reset restart rinse roast
    roll rub run sand save scrub season seal select send serve set shake shape shut sign simmer sit slice slide
    soak sort sow spread spray sprinkle squeeze stand start steam stir store strain strip submit switch take tap
    test tie tighten tip top toss transfer trim turn type unplug unscrew use wait walk warm wash water whisk
    wipe wrap write""".split()
)
MOST_WORDS = 60
"""Of a step that is told in several sentences."""
FEW = 3
"""A document with fewer steps is completed from another."""
REPEATED = 0.8
"""A step with so many of another's words repeats it."""


def steps_of(hits: Sequence[Hit]) -> list[Unit]:
    """The steps that the documents give, in the order of the document; empty where none has any.

    They are those of the first document that has some. Where these are fewer than `FEW`, those of the next one follow
    that say something else.
    """
    units = units_of(hits)
    ranked = list(dict.fromkeys(hit.passage.document for hit in hits))
    found: list[Unit] = []
    for document in ranked:
        own = _of_document(sorted((unit for unit in units if unit.document == document), key=lambda unit: unit.at))
        found += [unit for unit in own if not _repeats(unit, found)]
        if len(found) >= FEW:
            break
    return found if len(found) >= 2 else []


def said_apart(steps: Sequence[Unit], hits: Sequence[Hit]) -> str:
    """One sentence that says which steps are of which document; "" where all are of one."""
    titles = {hit.passage.document: hit.passage.title or hit.passage.document for hit in hits}
    runs = [(document, list(run)) for document, run in groupby(steps, key=lambda unit: unit.document)]
    if len(runs) < 2:
        return ""
    parts, done = [], 0
    for document, run in runs:
        first, last = done + 1, done + len(run)
        which = f"step {first} is" if first == last else f"steps {first} to {last} are"
        parts.append(f"{which} of “{titles[document]}” [{run[0].citation}]")
        done = last
    sentence = ", ".join(parts[:-1]) + " and " + parts[-1]
    return f"{sentence[0].upper()}{sentence[1:]}."


def _repeats(unit: Unit, others: Sequence[Unit]) -> bool:
    return any(coverage(unit.text, [other.text]) >= REPEATED for other in others)


def _of_document(units: Sequence[Unit]) -> list[Unit]:
    """The steps of one document: a list, else paragraphs with bold openings, else instructions told as prose."""
    listed = _listed([unit for unit in units if unit.item])
    if listed:
        return _different(listed)
    prose = [unit for unit in units if not unit.item and not _MATERIAL_HEADING.search(unit.heading)]
    return _different(_led(prose) or _told([unit for unit in prose if unit.whole]))


def _listed(items: Sequence[Unit]) -> list[Unit]:
    """Items under a heading such as "Directions", else the numbered ones that stand under no heading of materials."""
    under = [unit for unit in items if _PROCEDURE_HEADING.search(unit.heading)]
    numbered = [unit for unit in items if unit.number is not None and not _MATERIAL_HEADING.search(unit.heading)]
    named = [unit for unit in under if unit.number is not None] or under
    best = named if len(named) >= 2 else numbered
    return best if len(best) >= 2 else []


def _led(units: Sequence[Unit]) -> list[Unit]:
    """Steps that open in bold, each with the sentences up to the next."""
    made: list[Unit] = []
    for unit in units:
        if unit.bold:
            made.append(unit)
        elif made and unit.whole and made[-1].heading == unit.heading and made[-1].citation == unit.citation:
            joined = f"{made[-1].text} {unit.text}"
            if len(words(joined)) <= MOST_WORDS:
                made[-1] = replace(made[-1], text=joined)
    return made if len(made) >= FEW and any(_instructs(unit) for unit in made) else []


def _told(units: Sequence[Unit]) -> list[Unit]:
    """The longest stretch of instructions in prose; what stands between two of them goes with the first."""
    runs = [list(run) for _, run in groupby(units, key=lambda unit: unit.heading)]
    best = max((list(_stretch(run)) for run in runs), key=len, default=[])
    return best if len(best) >= FEW else []


def _stretch(units: Sequence[Unit]) -> Iterator[Unit]:
    step: Unit | None = None
    for unit in units:
        if _instructs(unit):
            if step:
                yield step
            step = unit
        elif step and step.citation == unit.citation and len(words(f"{step.text} {unit.text}")) <= MOST_WORDS:
            step = replace(step, text=f"{step.text} {unit.text}")
    if step:
        yield step


def _instructs(unit: Unit) -> bool:
    """Whether a sentence tells somebody to do something, as far as its first words show."""
    opening = _ORDER.match(unit.text)
    rest = words(unit.text[opening.end() :] if opening else unit.text)[:1]
    return bool(rest) and (rest[0] in _VERBS or (opening is not None and rest[0] == "you"))


def _different(steps: Sequence[Unit]) -> list[Unit]:
    """The steps without what is there twice."""
    first: dict[str, Unit] = {}
    for step in steps:
        first.setdefault(" ".join(words(step.text)), step)
    return list(first.values())
