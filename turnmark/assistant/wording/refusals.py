"""The detector of refusals in any reply.

A refusal says that the documents do not answer the question: "I don't know", "The passages do not mention the price".
The assistant's own refusals (`reply_texts`) and their translations are recognized by their wording, those of models by
rules for English and by the words in `refusal_clauses.toml` for other languages.

It reads a reply in two ways, because replies of our own turn cite their claims and those of other systems do not:

    is_refusal(reply)       whether the reply as a whole is a refusal: only what it cites counts as a claim
    refusal_extent(reply)   "yes", "partial" or "no": every sentence that claims something counts

The first is cautious, since an answer that is taken for a refusal loses its sources. A reply that it accepts never has
the extent "no".
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from turnmark.assistant.citations.marks import cited_numbers, spaced_sentences
from turnmark.assistant.wording.phrases import fold, phrases_in
from turnmark.assistant.wording.refusal_clauses import RefusalParts, refusal_parts
from turnmark.assistant.wording.reply_texts import NOT_FOUND_TEXT, UNKNOWN_TEXT, translations_of
from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.languages import ENGLISH
from turnmark.corpora.text.segmentation import (
    normalize_width,
    reading_words,
    strip_citations,
    strip_inline_markdown,
    words,
)

REFUSALS = (UNKNOWN_TEXT, NOT_FOUND_TEXT)
"""The texts that the detector recognizes by their wording, with their translations."""


def _pattern_of(text: str) -> str:
    """Return a regular expression for one of `REFUSALS`, with any question in it.

    A question may contain several sentences or be cut, so a line that only begins like the text matches as well, unless
    the text begins with the question.
    """
    before, slot, after = text.partition("{question}")
    before, after = (re.sub('["“”]', '["“”]', re.escape(part).replace("'", "['’]")) for part in (before, after))
    if not slot:
        return before
    cut = r"|[^\n]*$" if any(map(str.isalpha, before)) else ""
    return rf"{before}(?:[^\n]*?{after}(?!\S){cut})"


def _refusals_pattern(texts: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(rf"(?<!\S)(?:{_pattern_of(text)})" for text in texts), re.MULTILINE)


_REFUSALS = _refusals_pattern(REFUSALS)


@cache
def _translated_refusals() -> re.Pattern[str]:
    return _refusals_pattern(text for refusal in REFUSALS for text in translations_of(refusal))


_CLAUSE_ENDS = re.compile("[,，、;；:：]")
_PLAIN_REFUSAL = "I don't know."
"""Text that replaces one of `REFUSALS` before a reply is read, since the question in it might read like a claim."""

# --- the detector ----------------------------------------------------------------------------------------------------

RefusalExtent = Literal["yes", "partial", "no"]
SentenceKind = Literal["lack", "aside", "about", "claim"]

MAX_REFUSAL_SENTENCES = 3
"""Maximum sentences of a reply that is a refusal as a whole."""
MAX_CLAIMED_WORDS = 10
"""Maximum words of claims in a `yes`, calibrated with `python -m tests.benchmarks.judging idk`."""


@dataclass(frozen=True)
class RefusalWording:
    """Counts of a reply's sentences, on which its extent is based.

    Attributes:
        opens: whether the first sentence is a `lack`.
        lacks: number of sentences that are a `lack`.
        claimed: number of words in the sentences that are a `claim`.
        cites: whether a claim has a citation mark.
    """

    opens: bool
    lacks: int
    claimed: int
    cites: bool

    def extent(self, claimed_limit: float = MAX_CLAIMED_WORDS) -> RefusalExtent:
        """Return the extent of the refusal; a `yes` has claims of at most `claimed_limit` words."""
        if not self.lacks:
            return "no"
        return "yes" if self.opens and not self.cites and self.claimed <= claimed_limit else "partial"


_MISSING_APOSTROPHE = re.compile(r"\b((?:do|does|did|is|are|was|were|could|ca)n)t\b")


def _normalize_english(text: str) -> str:
    """Return a text on one line in lower case, with straight apostrophes, also those left out: "I dont know"."""
    return _MISSING_APOSTROPHE.sub(r"\1't", " ".join(text.split()).replace("’", "'").lower())


@dataclass(frozen=True)
class RefusalRules:
    """The wordings of refusals in one language, matched against sentences in lower case with straight apostrophes.

    Attributes:
        parts: words by which a `lack` is recognized in place of `opening`; the other patterns are then matched against
            text without punctuation, as `fold` returns it. None for English.
        opening: matches the beginning of a sentence that is certainly a refusal.
        kinds: patterns of the kinds of sentences, in the order in which they are tried. A `lack` says that something
            is missing, an `aside` advises or offers, an `about` says what the passages or the conversation are about.
            Every other sentence is a `claim`.
        contrast: matches a word such as "however", after which a refusal may claim something.
        questions: matches the beginning of a clause that says what is missing, such as "how it is done".
        characters: characters that are replaced before matching.
    """

    kinds: tuple[tuple[SentenceKind, re.Pattern[str]], ...]
    contrast: re.Pattern[str]
    opening: re.Pattern[str] = re.compile("(?!)")
    parts: RefusalParts | None = None
    questions: re.Pattern[str] = re.compile("(?!)")
    characters: Mapping[int, int] = field(default_factory=dict)

    def is_refusal(self, reply: str) -> bool:
        """Return whether a reply as a whole is a refusal; see the function `is_refusal`."""
        texts = [_normalize_english(text) for text in _sentences(reply)]
        texts = [text for text in texts if any(map(str.isalnum, strip_citations(text)))]
        if not texts or len(texts) > MAX_REFUSAL_SENTENCES:
            return False
        first, *others = texts
        opening_end = self._opening_end(first)
        if opening_end is None or self._answers_too(first, opening_end):
            return False
        return not any(cited_numbers(text) for text in others if self._opening_end(text) is None)

    def _answers_too(self, sentence: str, start: int = 0) -> bool:
        """Return whether a `lack` also cites a claim: after a contrast or, in other languages, in a clause of its own.

        Args:
            start: end of the opening; only used in English.
        """
        if self.parts is None:
            return self._cites_after_contrast(sentence, start)
        return self._cites_after_contrast(sentence) or any(
            cited_numbers(clause) and not self._is_lacking(clause) for clause in _CLAUSE_ENDS.split(sentence)
        )

    def _is_lacking(self, clause: str) -> bool:
        """Return whether a clause says that something is missing, or what is missing: "how it is done"."""
        assert self.parts is not None
        text = self._without_citations(clause)
        says_what = self.questions.match(fold(text)) is not None or self.parts.is_subordinate(text)
        return self._lacks(clause) or (says_what and not _wording("chinese_condition").search(fold(text)))

    def _without_citations(self, text: str) -> str:
        return strip_citations(text).translate(self.characters)

    def _lacks(self, sentence: str, opens: bool = False) -> bool:
        """Return whether a sentence is a `lack` by its parts, and not only a condition."""
        text = self._without_citations(sentence)
        is_condition = _wording("chinese_condition").search(fold(text)) is not None
        return self.parts is not None and not is_condition and self.parts.lacks(text, opens)

    def _opening_end(self, sentence: str) -> int | None:
        """Return the end of the opening of a refusal, or None if the sentence is none. It is only known in English."""
        if self.parts is not None:
            return 0 if self._lacks(sentence, opens=True) else None
        opening = self.opening.match(sentence)
        return opening.end() if opening else None

    def wording(self, reply: str) -> RefusalWording:
        """Count the sentences of a reply by their kinds."""
        texts = [text for text in _sentences(reply) if words(strip_citations(text))]
        kinds = [self._kind_of(text) for text in texts]
        claims = [text for text, kind in zip(texts, kinds, strict=True) if kind == "claim"]
        return RefusalWording(
            opens=bool(kinds) and kinds[0] == "lack",
            lacks=kinds.count("lack"),
            claimed=sum(reading_words(claim) for claim in claims),
            cites=any(map(self._cites_a_claim, texts, kinds)),
        )

    def _kind_of(self, sentence: str) -> SentenceKind:
        """Return the kind of a sentence, the first that fits. A quotation is a claim."""
        text = _normalize_english(strip_inline_markdown(strip_citations(sentence)))
        if text.startswith(('"', "“")):
            return "claim"
        if self.parts is not None:
            if self._lacks(text):
                return "lack"
            text = fold(self._without_citations(text))
        return next((kind for kind, pattern in self.kinds if pattern.search(text)), "claim")

    def _cites_a_claim(self, sentence: str, kind: SentenceKind) -> bool:
        """Return whether a sentence has a citation mark on a claim; an `aside` and an `about` claim nothing."""
        if kind == "lack":
            return self._answers_too(sentence.lower())
        return kind == "claim" and bool(cited_numbers(sentence))

    def _cites_after_contrast(self, sentence: str, start: int = 0) -> bool:
        contrast = self.contrast.search(sentence, start)
        return contrast is not None and bool(cited_numbers(sentence[contrast.end() :]))


def _sentences(reply: str) -> Sequence[str]:
    known = _REFUSALS if language_of(reply) == ENGLISH else _translated_refusals()
    return [sentence.text for sentence in spaced_sentences(known.sub(_PLAIN_REFUSAL, reply))]


# --- the wordings -----------------------------------------------------------------------------------------------------


@cache
def _table() -> Mapping[str, str | list[str]]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def _wording_text(name: str) -> str:
    """Return an entry of `refusals.toml`, in which "{name}" stands for another entry."""
    entry = _table()[name]
    text = entry if isinstance(entry, str) else "|".join(entry)
    return re.sub(r"\{([a-z_]+)\}", lambda match: _wording_text(match[1]), text)


@cache
def _wording(name: str) -> re.Pattern[str]:
    """Return the pattern of an entry of `refusals.toml`."""
    return re.compile(_wording_text(name))


@cache
def _english_rules() -> RefusalRules:
    return RefusalRules(
        opening=_wording("opening"),
        kinds=(("lack", _wording("lack")), ("aside", _wording("aside")), ("about", _wording("about"))),
        contrast=_wording("contrast"),
    )


@cache
def _rules_of(language: str) -> RefusalRules:
    """Return the rules of a language; those for English if the table has no words of it."""
    parts = refusal_parts().get(language)
    if parts is None:
        return _english_rules()
    phrases = phrases_in(language)
    return RefusalRules(
        parts=parts,
        kinds=(
            ("lack", re.compile(rf"^{fold(_PLAIN_REFUSAL)}$")),
            ("aside", _wording("foreign_aside")),
            ("about", _wording("foreign_about")),
        ),
        contrast=_wording("foreign_contrast"),
        questions=phrases.begins("questions") if phrases else re.compile("(?!)"),
        characters=str.maketrans(_wording_text("traditional"), _wording_text("simplified")) if language == "zh" else {},
    )


def _possible_rules(reply: str) -> Iterator[RefusalRules]:
    """Yield the rules of a reply's language, followed by those of other languages that it may be in.

    No function words tell Swedish from English, so the words of such languages are always tried.
    """
    language, folded = language_of(reply), fold(reply)
    yield _rules_of(language)
    for other, parts in refusal_parts().items():
        is_possible = other != language and (not language or phrases_in(other) is None)
        if is_possible and parts.may_refuse(folded):
            yield _rules_of(other)


@lru_cache(maxsize=1024)
def is_refusal(reply: str, terse: bool = False) -> bool:
    """Return whether a reply as a whole is a refusal. Cached, since every turn of a conversation asks.

    Such a reply is short, opens with a sentence like "I don't know", and cites no claim. A reply that gives a part of
    the answer and names what is missing is an answer, and so is "IPv6 is not available [1]".

    Args:
        terse: the model was told to write only "not stated" if it cannot answer, so a reply that begins so is a
            refusal, too.
    """
    reply = normalize_width(reply)
    if _english_rules().is_refusal(reply) or (terse and _wording("terse").match(reply.lower()) is not None):
        return True
    return any(rules.is_refusal(reply) for rules in _possible_rules(reply))


@lru_cache(maxsize=1024)
def refusal_wording(reply: str) -> RefusalWording:
    """Count the sentences of a reply by their kinds. Cached, since several metrics use the same reply."""
    reply = normalize_width(reply)
    wordings = [rules.wording(reply) for rules in (*_possible_rules(reply), _english_rules())]
    return next((wording for wording in wordings if wording.lacks), wordings[0])


def refusal_extent(reply: str) -> RefusalExtent:
    """Return whether a reply refuses the whole question (`yes`), a part of it (`partial`) or nothing (`no`).

    A reply without a `lack` is `no`. A reply that opens with a `lack` and claims next to nothing else is `yes`. All
    others are `partial`. The question is not read, and the result does not depend on whether the reply is right.
    docs/measured.md has the agreement with a language model.
    """
    return refusal_wording(reply).extent()
