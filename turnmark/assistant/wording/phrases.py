"""The phrases by which messages and their kinds are understood, from the table `phrases.toml`.

All languages share one implementation, which reads the same fields for each of them. For the split of a message into
questions, English has its own rules.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

from turnmark.corpora.text.function_words import content_words, language_of
from turnmark.corpora.text.languages import ENGLISH, UNSPACED_LANGUAGES
from turnmark.corpora.text.segmentation import fold_letters

_SPLIT_MARKS = r"[,;:，；、。.:]"


@lru_cache(maxsize=1024)
def fold(text: str) -> str:
    """Return a text in lower case with its letters, marks and digits only, and single spaces between words."""
    text = fold_letters(text)
    kept = (char if unicodedata.category(char)[0] in "LMN" else " " for char in text)
    return " ".join("".join(kept).split())


def is_same_wording(text: str, other: str) -> bool:
    """Return whether two texts differ only in capitals, punctuation and white space."""
    return fold(text) == fold(other)


@dataclass(frozen=True, eq=False)
class Phrases:
    """The phrases of one language, as regular expressions for folded text.

    The fields of a row are:

        thanks, greetings, fillers     courtesies, and words that may accompany them
        questions                      words that begin a question
        conjunctions, openers          words between two questions (not "or"), and words that continue a conversation
        pronouns                       words that refer back; not folded
        definitions                    questions of what something is, "{what}"
        copulas, definers              "is", and the words behind it with which a definition begins, "a"; not folded
        copulas_attached               "is" in scripts without spaces
        auxiliaries … introductions    parts of compound questions; not folded
        asks_steps                     words that ask for steps
        clauses, frames                only in some rows: words that begin a clause (otherwise the conjunctions), and
                                       content words that frame a question and say nothing about its topic
        shorter, list, table, order, steps      changes of the last answer that rules can make
        limit                          "in one sentence", "in at most {n} words"; the group `option` marks words
        other                          changes that need a language model
        only, without, first, last, ordinals, units, numbers     words of "only the first two points", "without step 3"
        articles, topics               what precedes the subject in "only the prices", "without the part about prices"
        polite                         words that may accompany such a request
        asks                           "can you": a question mark behind it does not make the request a question
        edits, text_parts              verbs of an instruction, and words that name a part of the answer
        mentions                       questions of which documents mention some words, "{what}"; not folded
    """

    language: str
    row: Mapping[str, str]

    @property
    def spaced(self) -> bool:
        """Whether words are separated by spaces."""
        return self.language not in UNSPACED_LANGUAGES

    def _bounded(self, alternatives: str) -> str:
        return rf"(?:^|(?<= ))(?:{alternatives})(?= |$)" if self.spaced else f"(?:{alternatives})"

    @cache  # noqa: B019 - there is one object per language, which lives as long as the process
    def find(self, field: str) -> re.Pattern[str]:
        """Return a pattern that finds a phrase of a field anywhere in a folded text."""
        return re.compile(self._bounded(self.row[field]) if self.row[field] else "(?!)")

    @cache  # noqa: B019
    def begins(self, field: str) -> re.Pattern[str]:
        """Return a pattern that matches a phrase of a field at the beginning of a folded text."""
        return re.compile(rf"(?:{self.row[field] or '(?!)'})" + ("(?= |$)" if self.spaced else ""))

    @cache  # noqa: B019
    def raw(self, field: str) -> re.Pattern[str]:
        """Return the pattern of a field for text that is not folded; "{name}" in it stands for another field."""
        pattern = self.row.get(field, "(?!)")
        while name := re.search(r"\{([a-z_]+)\}", pattern):
            pattern = pattern.replace(name[0], self.row[name[1]])
        return re.compile(pattern, re.IGNORECASE)

    @cached_property
    def pronouns(self) -> re.Pattern[str]:
        """A pattern for words in a message that refer back."""
        pattern = self.row["pronouns"]
        return re.compile(rf"(?<!\w)(?:{pattern})(?!\w)" if self.spaced else pattern, re.IGNORECASE)

    @cached_property
    def clause_joint(self) -> re.Pattern[str]:
        """A pattern for what separates two clauses of a message."""
        words = self.row.get("clauses") or self.row["conjunctions"]
        return re.compile(rf"[,.;:?!，。；：？！、]|(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)

    def defines(self, folded: str) -> bool:
        """Return whether a folded text asks what something is whose name is one word."""
        return self._defined(r"\w+" if self.spaced else ".+").fullmatch(folded) is not None

    def defined_in(self, folded: str) -> str:
        """Return the subject of a folded text that asks what something is; "" for any other text."""
        match = self._defined(r"\w+(?: \w+){0,3}?" if self.spaced else ".{1,20}?").fullmatch(folded)
        return next(filter(None, match.groups()), "").strip() if match else ""

    @cache  # noqa: B019
    def _defined(self, what: str) -> re.Pattern[str]:
        return re.compile((self.row.get("definitions") or "(?!)").replace("{what}", f"({what})"))

    @cached_property
    def frames(self) -> frozenset[str]:
        """The words of the field `frames`."""
        return frozenset(self.row.get("frames", "").split("|"))

    @cached_property
    def courtesy(self) -> re.Pattern[str]:
        """A pattern that matches a folded text completely if it is only courtesies and fillers."""
        end = "(?: |$)" if self.spaced else " ?"
        return re.compile(rf"(?:(?:{self.row['thanks']}|{self.row['greetings']}|{self.row['fillers']}){end})+")

    @cache  # noqa: B019
    def request(self, field: str) -> re.Pattern[str]:
        """Return a pattern that matches a folded text completely if it is a request of a field, with polite words."""
        number = rf"(?P<count>\d{{1,3}}|{self.row['numbers']})"
        return self._politely(self.row.get(field, "(?!)").replace("{n}", number))

    @cache  # noqa: B019
    def counted(self, field: str) -> re.Pattern[str]:
        """Return a pattern for "only the first two" (field `only`) or "without the last point" (field `without`)."""
        row, gap = self.row, " " if self.spaced else " ?"
        article = r"(?:\w{1,3} )?" if self.spaced else ""
        unit = rf"(?:{gap}(?:{row['units']}))?"
        number = rf"(?:{gap}(?P<count>\d{{1,2}}|{row['numbers']}))?"
        places = (
            rf"(?P<ordinal>{row.get('ordinals', '(?!)')}){unit}",
            rf"(?:(?P<first>{row['first']})|(?P<last>{row['last']})){number}{unit}",
            rf"(?:{row['units']}){gap}(?P<at>\d{{1,2}})",
        )
        # "Only" stands before or behind: "only the first two", "the first two only".
        return self._politely(
            rf"(?P<before>(?:{row[field]}){gap})?{article}(?:{'|'.join(places)})(?(before)|{gap}(?:{row[field]}))"
        )

    @cache  # noqa: B019
    def subject(self, field: str) -> re.Pattern[str]:
        """Return a pattern for "only the prices" (field `only`) or "without the part about prices" (`without`)."""
        verb, topics = self.row[field], self.row.get("topics", "(?!)")
        if self.spaced:
            before = f"{topics}|{self.row.get('articles', '(?!)')}" if field == "only" else topics
            return self._politely(rf"(?:{verb}) (?:{before}) (?P<what>.{{2,80}}?)(?: (?:{self.row['units']}))?")
        named = "" if field == "only" else f"(?=.*(?:{topics}))"
        return self._politely(
            rf"{named}(?P<before>{verb})?(?:{topics})?(?P<what>.{{1,40}}?)(?:{topics})?(?(before)|(?:{verb}))"
        )

    def _politely(self, core: str) -> re.Pattern[str]:
        polite, gap = self.row["polite"], " " if self.spaced else " ?"
        return re.compile(rf"(?:(?:{polite}){gap})*(?:{core})(?:{gap}(?:{polite}))*")

    @cached_property
    def instruction(self) -> re.Pattern[str]:
        """A pattern for the beginning of an instruction: polite words, and a verb that changes a text."""
        return re.compile(rf"(?:(?:{self.row['polite']}) )*(?:{self.row['edits']})(?= |$)")

    @cached_property
    def conjunction_at_start(self) -> re.Pattern[str]:
        """A pattern for a conjunction at the beginning of a text that is not folded."""
        gap = r",?\s+" if self.spaced else r"\s*"
        return re.compile(rf"\A\W*(?:{self.row['conjunctions']}){gap}", re.IGNORECASE)

    @cached_property
    def mentions(self) -> re.Pattern[str]:
        """A pattern for a question about which documents mention some words; one of its groups contains the words."""
        pattern = self.row["mentions"].replace(" ", r"\s+").replace("{what}", "(?P<what{}>.+?)")
        for number in range(pattern.count("<what{}>")):
            pattern = pattern.replace("<what{}>", f"<what{number}>", 1)
        return re.compile(rf"(?:{pattern})\s*[?.!？。！؟]*", re.IGNORECASE)

    @cached_property
    def request_joint(self) -> re.Pattern[str]:
        """A pattern for what is between two requests: punctuation, a conjunction, or both."""
        words = self.row["conjunctions"]
        return re.compile(rf"\s*{_SPLIT_MARKS}\s*(?:(?:{words})\s+)?|\s+(?:{words})\s+", re.IGNORECASE)


@cache
def _rows() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(Path(__file__).with_name("phrases.toml").read_text("utf-8"))


@cache
def all_words(field: str) -> str:
    """Return the words of a field in all languages, as alternatives of a regular expression."""
    return "|".join(row[field] for row in _rows().values() if row.get(field))


@cache
def phrases_in(language: str) -> Phrases | None:
    """Return the phrases of a language; None for languages that the table does not have."""
    row = _rows().get(language)
    return None if row is None else Phrases(language, row)


def phrases_of(message: str, likely: tuple[str, ...] = ()) -> Phrases:
    """Return the phrases of a message's language, or the English ones if the table does not have it.

    Args:
        likely: languages of the conversation and of the documents.
    """
    language = language_of(message, likely) or next(iter(likely), ENGLISH)
    return phrases_in(language) or english_phrases()


def english_phrases() -> Phrases:
    """Return the phrases of English."""
    phrases = phrases_in(ENGLISH)
    assert phrases is not None
    return phrases


def possible_phrases(message: str) -> Iterator[Phrases]:
    """Yield the phrases of each language that a courtesy or another set phrase may be in: English, then the others.

    The language of the message comes first, if it tells one. "Merci" and "kürzer" contain no function word, and the
    "en" of "en liste" is a word of several languages.
    """
    yield english_phrases()
    codes = [code for code in _rows() if code != ENGLISH]
    language = language_of(message, tuple(codes))
    if language != ENGLISH:
        yield from filter(None, map(phrases_in, sorted(codes, key=lambda code: code != language)))


@lru_cache(maxsize=256)
def defined_subject(message: str, languages: tuple[str, ...] = ()) -> str:
    """Return what a message asks the definition of, folded; "" if it asks something else.

    Args:
        languages: languages that an undecided message may be in.
    """
    phrases = phrases_of(message, languages)
    # "What is the Net Loft?" names its subject; "what is the limit?" does not.
    subject = phrases.defined_in(fold(re.sub(r"(?<= )the (?=[A-Z])", "", message)))
    return subject if subject and content_words(subject.split()[0], phrases.language) else ""


def wants_procedure(message: str, languages: tuple[str, ...] = ()) -> bool:
    """Return whether a message asks how something is done, so that steps are wanted."""
    asks_steps = phrases_of(message, languages).find("asks_steps").search(fold(message))
    return asks_steps is not None and not defined_subject(message, languages)
