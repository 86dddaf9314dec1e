"""Changing the last reply as a short request asks, by code: sentences and items are chosen, ordered and laid out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.assistant.steps.edit_requests import EditRequest
from turnmark.assistant.steps.marks import says_unknown
from turnmark.assistant.steps.outline import (
    NAMES,
    SAYS_LITTLE,
    Outline,
    about,
    clipped,
    importance,
    joined,
    length,
    outline_of,
    unmarked,
)
from turnmark.assistant.steps.support import coverage
from turnmark.corpora.text import content_words, strip_citations, words
from turnmark.corpora.types import Record
from turnmark.retrieval.task_passages import Embed

ONE_SENTENCE = 40
"""Words up to which several sentences are put together as one."""
_SHORT_ENOUGH = 0.8
_ANNOUNCES = re.compile(
    r"^\W*(?:these|here|the following|below) (?:are|is) (?:the |some )?(?:steps?|instructions?)\b.*$|:\s*$", re.I
)


class Edited(Record):
    """What came of a request. `outline` None: it could not be followed, `reason` says why."""

    outline: Outline | None = None
    reason: str = ""
    elsewhere: bool = False
    """It speaks of something that the reply does not: it may be a question about the documents."""


def edited(reply: str, request: EditRequest, question: str = "", embed: Embed | None = None) -> Edited:
    """Change a reply as requested.

    Args:
        reply: may carry citation marks; they stay with their sentences.
        question: what the reply answers; what says most to it is kept.
        embed: embeds sentences (unit vectors); without it shared words decide.
    """
    try:
        return Edited(outline=_Edit(outline_of(reply), request, question, embed).outline_after())
    except _NotPossible as error:
        return Edited(reason=str(error), elsewhere=error.elsewhere)


def units_named(reply: str, request: EditRequest, embed: Embed | None = None) -> list[str]:
    """The sentences, items or paragraphs of a reply that a request is about, by its places or its topic."""
    outline = outline_of(reply)
    if request.topic:
        groups = (outline.sentences, outline.items)
        return [texts[at] for texts in groups for at in about(request.topic, texts, embed)]
    edit = _Edit(outline, request, "", embed)
    units, kind = edit.units()
    try:
        return [units[at] for at in edit.places(len(units), kind)]
    except _NotPossible:
        return []


class _NotPossible(Exception):
    def __init__(self, reason: str, elsewhere: bool = False) -> None:
        super().__init__(reason)
        self.elsewhere = elsewhere


class _Edit:
    def __init__(self, outline: Outline, request: EditRequest, question: str, embed: Embed | None) -> None:
        self.outline, self.request, self.question, self.embed = outline, request, question, embed

    def outline_after(self) -> Outline:
        steps = {
            "list": self.listed, "text": self.as_text, "shorter": self.shorter, "sentences": self.in_sentences,
            "words": self.in_words, "only": self.only, "without": self.without, "remove": self.remove,
            "keep": self.keep, "reverse": self.reverse, "move": self.move,
        }  # fmt: skip
        if self.request.kind not in steps:
            raise _NotPossible("other words take a language model")
        return steps[self.request.kind]()

    # -- what is counted

    def units(self) -> tuple[tuple[str, ...], str]:
        """What a request counts, and what that is called."""
        outline = self.outline
        if self.request.unit == "paragraph":
            return tuple(" ".join(paragraph) for paragraph in outline.paragraphs), "paragraph"
        if outline.items and self.request.unit != "sentence":
            return outline.items, "item"
        return outline.sentences or outline.items, "sentence"

    def of_units(self, units: Sequence[str], kind: str) -> Outline:
        """The reply with these units in place of those it has."""
        outline = self.outline
        if kind == "item" or not outline.sentences:
            return outline.model_copy(update={"items": tuple(units)})
        if kind == "paragraph":
            return outline.model_copy(update={"before": tuple((unit,) for unit in units), "after": ()})
        remaining = list(units)
        leading = tuple(tuple(s for s in paragraph if s in remaining) for paragraph in outline.before)
        trailing = tuple(tuple(s for s in paragraph if s in remaining) for paragraph in outline.after)
        flat = [sentence for paragraph in (*leading, *trailing) for sentence in paragraph]
        if flat != remaining:  # another order, or parts of sentences
            leading, trailing = (tuple(remaining),), ()
        return outline.model_copy(
            update={"before": tuple(filter(None, leading)), "after": tuple(filter(None, trailing))}
        )

    def places(self, count: int, kind: str) -> list[int]:
        """The places that a request names."""
        if self.request.topic:
            return about(self.request.topic, self.units()[0], self.embed)
        places = [at if at >= 0 else count + at for at in self.request.places]
        present = [at for at in places if 0 <= at < count]
        if not present or (len(places) == 1 and places != present):
            raise _NotPossible(f"the last reply has {_number(count, kind)}")
        return present

    # -- choosing

    def only(self) -> Outline:
        units, kind = self.units()
        places = self.places(len(units), kind)
        if len(places) == len(units):
            raise _NotPossible(f"the last reply has {_number(len(units), kind)}")
        selected = [units[at] for at in places]
        if kind == "item":
            return self.outline.model_copy(update={"before": (), "after": (), "items": tuple(selected)})
        changed = self.of_units(selected, kind)
        return changed.model_copy(update={"items": ()}) if changed.sentences else changed

    def without(self) -> Outline:
        units, kind = self.units()
        places = self.places(len(units), kind)
        remaining = [unit for at, unit in enumerate(units) if at not in places]
        if not remaining:
            raise _NotPossible("nothing would be left of the reply")
        return self.of_units(remaining, kind)

    def remove(self) -> Outline:
        outline = self.outline
        matching = [set(about(self.request.topic, texts, self.embed)) for texts in (outline.sentences, outline.items)]
        if not any(matching):
            raise _NotPossible(f"the last reply says nothing about {self.request.topic}", elsewhere=True)
        sentences = [text for at, text in enumerate(outline.sentences) if at not in matching[0]]
        items = tuple(text for at, text in enumerate(outline.items) if at not in matching[1])
        if not sentences and not items:
            raise _NotPossible("nothing would be left of the reply")
        changed = self.of_units(sentences, "sentence") if outline.sentences else outline
        return changed.model_copy(update={"items": items})

    def keep(self) -> Outline:
        outline, topic = self.outline, self.request.topic
        items = [outline.items[at] for at in about(topic, outline.items, self.embed)]
        sentences = [outline.sentences[at] for at in about(topic, outline.sentences, self.embed)]
        if not items and not sentences:
            raise _NotPossible(f"the last reply says nothing about {topic}", elsewhere=True)
        items, sentences = _with_words(topic, items), _with_words(topic, sentences)
        if items:
            return outline.model_copy(update={"before": (), "after": (), "items": tuple(items)})
        return Outline(before=(tuple(_clauses(topic, sentence) for sentence in sentences),))

    # -- order and layout

    def reverse(self) -> Outline:
        outline = self.outline
        if len(outline.items) > 1:
            return outline.model_copy(update={"items": outline.items[::-1]})
        if len(outline.paragraphs) > 1:
            return outline.model_copy(update={"before": outline.paragraphs[::-1], "after": ()})
        if len(outline.sentences) > 1:
            return outline.model_copy(update={"before": (outline.sentences[::-1],), "after": ()})
        raise _NotPossible("the last reply has nothing to put in another order")

    def move(self) -> Outline:
        units, kind = self.units()
        places = self.places(len(units), kind)
        moved = [units[at] for at in places]
        unmoved = [unit for at, unit in enumerate(units) if at not in places]
        if not moved or not unmoved:
            raise _NotPossible("no sentence was found that is to be moved, or no place for it")
        to_end = self.request.to_end
        if kind != "sentence" or not self.outline.sentences:
            return self.of_units([*unmoved, *moved] if to_end else [*moved, *unmoved], kind)
        changed = self.of_units(unmoved, kind)
        before, after = ([list(paragraph) for paragraph in part] for part in (changed.before, changed.after))
        paragraphs = before + after
        paragraphs[-1 if to_end else 0] = [*paragraphs[-1], *moved] if to_end else [*moved, *paragraphs[0]]
        before, after = paragraphs[: len(before)], paragraphs[len(before) :]
        return changed.model_copy(update={"before": tuple(map(tuple, before)), "after": tuple(map(tuple, after))})

    def listed(self) -> Outline:
        outline = self.outline
        if outline.items:
            numbered = outline.numbered or self.request.numbered
            lead = "\n".join(f"- {s}" for s in outline.sentences if not _ANNOUNCES.search(strip_citations(s)))
            return Outline(before=((lead,),) if lead else (), items=outline.items, numbered=numbered)
        sentences = outline.sentences
        if len(sentences) == 1 and len(parts := strip_citations(sentences[0]).split("; ")) > 1:
            marks = sentences[0][len(strip_citations(sentences[0])) :].strip()
            sentences = tuple(f"{part.rstrip('.')}. {marks}".strip() for part in parts)
        return Outline(items=sentences, numbered=self.request.numbered)

    def as_text(self) -> Outline:
        outline = self.outline
        texts = [s for p in outline.before for s in p] + [_ended(item) for item in outline.items]
        texts += [s for p in outline.after for s in p]
        size = -(-len(texts) // max(1, self.request.count))
        paragraphs = (tuple(texts[at : at + size]) for at in range(0, len(texts), max(1, size)))
        return Outline(before=tuple(paragraphs))

    # -- shortening

    def shorter(self) -> Outline:
        outline = self.outline
        if outline.items:
            return self.shorter_list()
        total = length(outline.text)
        selection = self.within(self.request.share * total, len(outline.sentences))
        changed = self.of_units(selection, "sentence")
        if length(changed.text) >= total:
            changed = Outline(before=tuple(tuple(map(clipped, paragraph)) for paragraph in outline.paragraphs))
        if length(changed.text) >= total and len(selection) > 1:
            changed = Outline(before=((self.ranked()[0],),))
        if length(changed.text) >= total:
            raise _NotPossible("the last reply is one short sentence; shorter than that takes a language model")
        return changed

    def shorter_list(self) -> Outline:
        """A list is shortened by what stands around it and by the ends of its items: no step is lost."""
        outline = self.outline
        total = length(outline.text)
        items = tuple(clipped(_first_sentence(item)) if length(item) > 8 else item for item in outline.items)
        items = items if any(len(a) < len(b) for a, b in zip(items, outline.items, strict=True)) else outline.items
        lead = [s for s in self.ranked()[:1] if outline.sentences and not _ANNOUNCES.search(strip_citations(s))]
        bare = Outline(items=items, numbered=outline.numbered)
        led = bare.model_copy(update={"before": (tuple(lead),)}) if lead else bare
        changed = led if length(led.text) <= _SHORT_ENOUGH * total else bare
        if length(changed.text) < total:
            return changed
        raise _NotPossible("the last reply is a list of short items; ask for the first few, or for one sentence")

    def in_sentences(self) -> Outline:
        outline, count = self.outline, self.request.count
        if count == 1:
            return Outline(before=((self.one_sentence(),),))
        if outline.items:
            steps = [_ended(item) for item in outline.items]
            size = -(-len(steps) // count)
            return Outline(before=(tuple(joined(steps[at : at + size]) for at in range(0, len(steps), size)),))
        if len(outline.sentences) <= count:
            raise _NotPossible(f"it has {_number(len(outline.sentences), 'sentence')} already")
        return self.of_units(self.best(count), "sentence")

    def one_sentence(self) -> str:
        """The reply in one sentence: as many of its sentences or steps as go into one, those that say most."""
        outline = self.outline
        if outline.items:
            steps = [_first_sentence(item) for item in outline.items]
            if length(" ".join(steps)) > ONE_SENTENCE:
                steps = [clipped(step) for step in steps]
            fits = len(steps)
            while fits > 1 and length(" ".join(steps[:fits])) > ONE_SENTENCE:
                fits -= 1
            remaining = len(steps) - fits
            return joined(steps[:fits] + ([f"and {_number(remaining, 'more step')}"] if remaining else []))
        selection = self.within(ONE_SENTENCE, len(outline.sentences))
        sentence = joined(selection)
        return clipped(sentence) if len(selection) == 1 and length(sentence) > ONE_SENTENCE else sentence

    def in_words(self) -> Outline:
        if self.outline.items:
            listed = [_ended(item) for item in self.outline.items]
            before, after = self.outline.before, self.outline.after
            self.outline = Outline(before=(*before, tuple(listed), *after))
        selection = self.within(self.request.count, len(self.outline.sentences))
        texts = selection if length(" ".join(selection)) <= self.request.count else [clipped(self.ranked()[0])]
        if length(" ".join(texts)) > self.request.count:
            raise _NotPossible("each sentence of the last reply is longer than that")
        return self.of_units(texts, "sentence")

    def within(self, most_words: float, limit: int) -> list[str]:
        """The sentences that say most, within so many words, in their order; the best of each paragraph comes first.

        At least one, however long it is.
        """
        order = self.ranked()
        best = [next(s for s in order if s in paragraph) for paragraph in self.outline.paragraphs]
        best = [s for s in best if not says_unknown(s)] or best
        best.sort(key=order.index)
        selection: list[str] = []
        for sentence in dict.fromkeys((*best, *order)):
            room = not selection or sum(map(length, selection)) + length(sentence) <= most_words
            little = says_unknown(sentence) or SAYS_LITTLE.search(strip_citations(sentence))
            if room and len(selection) < limit and not (selection and little):
                selection.append(sentence)
        return [s for s in self.outline.sentences if s in selection]

    def best(self, limit: int) -> list[str]:
        selection = self.ranked()[:limit]
        return [s for s in self.outline.sentences if s in selection]

    def ranked(self) -> list[str]:
        """The sentences, the one that says most to the question and of the whole first."""
        texts = self.outline.sentences or self.outline.items
        scores = importance(self.question, [strip_citations(text) for text in texts], self.embed)
        return [texts[at] for at in sorted(range(len(texts)), key=lambda at: (-scores[at], at))]


def _with_words(topic: str, texts: list[str]) -> list[str]:
    """The texts that have the very words of a topic, where any has: "options" are not "optional"."""
    exact = [text for text in texts if set(content_words(topic)) <= set(words(text))]
    return exact or texts


def _clauses(topic: str, sentence: str) -> str:
    """Of a sentence with semicolons the clauses about the topic; else the sentence."""
    bare = strip_citations(sentence)
    marks = " ".join(re.findall(r"\[\d{1,3}\]", sentence))
    clauses = _with_words(topic, [c for c in bare.rstrip(" .").split("; ") if coverage(topic, [c]) >= NAMES])
    if not clauses or len(clauses) == len(bare.split("; ")):
        return sentence
    text = "; ".join(clauses)
    return f"{text[0].upper()}{text[1:]}. {marks}".rstrip()


def _first_sentence(item: str) -> str:
    sentences = outline_of(item).sentences
    if len(sentences) < 2:
        return item
    body, marks = unmarked(sentences[0])
    return f"{body}. {marks or unmarked(item)[1]}".rstrip()


def _ended(text: str) -> str:
    bare = strip_citations(text).rstrip()
    return text if bare[-1:] in ".!?:…" else f"{text.rstrip()}."


def _number(count: int, kind: str) -> str:
    return f"{count} {kind}{'s' * (count != 1)}"
