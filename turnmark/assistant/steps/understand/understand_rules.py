"""The understand step by rules: is a message a courtesy, a request to revise, or questions, and do these need context?

A message depends on earlier messages if its words refer back, or if it finds little in the documents and more with the
topic. It is then rewritten with the topic: the terms of the last question, followed by those that were carried over to
that question. This is a minimal historical query expansion (HQE, TREC CAsT). The raw message is always searched, too,
so a wrong guess may add passages but never lose those that the message finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from turnmark.assistant.steps.step_results import UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.understand.collection_questions import collection_question
from turnmark.assistant.steps.understand.compound_questions import split_questions
from turnmark.assistant.steps.understand.courtesy import is_conversational
from turnmark.assistant.steps.understand.edit_requests import is_instruction
from turnmark.assistant.steps.understand.long_message import question_in
from turnmark.assistant.types import Understanding
from turnmark.assistant.wording.phrases import Phrases, fold, phrases_for
from turnmark.corpora.text.function_words import content_words
from turnmark.corpora.text.languages import without_elision
from turnmark.corpora.text.segmentation import (
    UNSPACED_LETTER,
    ends_with_question_mark,
    reading_words,
    words,
    words_with_spans,
)
from turnmark.corpora.types import Message

MAX_TOPIC_TERMS = 6
"""Maximum terms of a topic."""

_PROCEDURE = re.compile(
    r"\bhow (do|can|should|would|could|might) (i|we|you|one|he|she|it|they|people|somebody|someone)\b|\bhow to\b"
    r"|\bhow (is|are) .{3,60} (made|done|prepared|built|cooked|installed|set up)\b"
    r"|\b(steps?|instructions?|procedure|walk me through|guide me|recipe|show me how)\b"
    r"|\bwhat (do|should|must) (i|we|you) do\b|\bwhat (do|does) (i|we|you|one|he|she|they) (have|need) to\b"
    r"|\bwhat('s| is) the (best |right |proper )?way to\b",
    re.IGNORECASE,
)
# Words that refer back; "this week" and "that time" do not.
_ANAPHOR = re.compile(
    r"\b(it|its|they|them|their|theirs|he|him|his|she|her|hers|former|latter|(this|that|these|those)(?! (week|month|"
    r"year|time|day|morning|evening|season|summer|winter|spring|autumn|century|decade)\b))\b",
    re.IGNORECASE,
)
_CONTINUATION = re.compile(
    r"^\W*(and|but|or|so|then|what about|how about|what if|why not|really)\b"
    r"|^\W*(why|how|when|where|who|which)\W*$",
    re.IGNORECASE,
)

# Words that frame a request and say nothing about its topic.
_FRAME_WORDS = frozenset(
    """make makes making made do does doing did get gets getting go going use used using want need needs know think mean
    means work works take takes find look give help explain describe list show happen happens difference different
    differ way ways thing things kind type types best good better example examples information detail details much many
    long often""".split()
)


MAX_PARTS = 8
"""Maximum parts of a message; further ones are joined to the last."""

NearestCosines = Callable[[Sequence[str]], Sequence[float]]
"""A function from texts to the cosine of each with its nearest passage; its result is empty if there are no cosines."""


def no_cosines(texts: Sequence[str]) -> Sequence[float]:  # noqa: ARG001
    """Return no cosines; for callers without an index."""
    return ()


class UnderstandingByRules:
    """Understand step without a model."""

    name = "understand"

    def __call__(self, turn: Turn, /) -> UnderstoodMessage:
        languages = turn.languages
        asked = question_in(turn.message, lambda question: refers_back(question, languages), languages)
        is_question = not is_conversational(asked) and not is_instruction(turn.history, asked)
        if is_question and turn.retriever is not None and turn.evidence is None:
            asked = turn.retriever.respell(asked)
        understanding = understand(turn.history, asked, turn.nearest, languages)
        return UnderstoodMessage(understanding, asked, "rules")


def understand(
    history: Sequence[Message],
    message: str,
    nearest: NearestCosines = no_cosines,
    languages: tuple[str, ...] = (),
) -> Understanding:
    """Understand a message by rules.

    Args:
        history: the messages before, oldest first.
        nearest: finds the cosines with the nearest passages; without them a message of few words needs the topic.
        languages: languages of the documents, the most frequent first.
    """
    message = message.strip()
    if is_conversational(message):
        return Understanding(kind="conversational", rewrite=message, sub_questions=(message,))
    if collection_question(message, history):
        return Understanding(rewrite=message, sub_questions=(message,))
    if is_instruction(history, message):
        return Understanding(kind="revision", rewrite=message, sub_questions=(message,))
    carried, rewrite = with_topic(history, message, nearest, languages)
    parts = _limit_parts(split_questions(message, languages))
    is_compound = len(parts) > 1
    return Understanding(
        standalone=not carried,
        rewrite=rewrite,
        sub_questions=_complete_parts(parts, history if carried else (), nearest, languages)
        if is_compound
        else (rewrite,),
        asked=parts if is_compound else (),
        wants_procedure=wants_procedure(message),
        topic=carried,
    )


def _limit_parts(parts: Sequence[str]) -> tuple[str, ...]:
    """Join the parts beyond `MAX_PARTS` to the last one, so that no question is lost."""
    if len(parts) <= MAX_PARTS:
        return tuple(parts)
    return (*parts[: MAX_PARTS - 1], " ".join(parts[MAX_PARTS - 1 :]))


def _complete_parts(
    parts: Sequence[str],
    history: Sequence[Message],
    nearest: NearestCosines,
    languages: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the parts of a message. A part that depends on earlier messages or parts gets their topic."""
    complete: list[str] = []
    context = list(history)
    for part in parts:
        carried, rewrite = with_topic(context, part, nearest, languages)
        complete.append(rewrite)
        if not carried:
            context.append(Message(role="user", content=part))
    return tuple(complete)


def with_topic(
    history: Sequence[Message],
    message: str,
    nearest: NearestCosines = no_cosines,
    languages: tuple[str, ...] = (),
) -> tuple[tuple[str, ...], str]:
    """Return the terms of the topic that are carried over to a message, and the message with them.

    If the message does not need the topic, or names all its terms, it is returned unchanged and without terms.

    Args:
        languages: languages that an undecided message may be in.
    """
    return _carry_topic(topic_terms(history, nearest, languages), message, nearest, languages)


def _carry_topic(
    topic: Sequence[str], message: str, nearest: NearestCosines, languages: tuple[str, ...]
) -> tuple[tuple[str, ...], str]:
    message_words = {*words(message), *content_words(message)}
    terms = tuple(term for term in topic if term.lower() not in message_words)
    if not terms or not needs_topic(message, topic, nearest, languages):
        return (), message
    return terms, insert_topic(message, terms)


def wants_procedure(message: str) -> bool:
    """Return whether an English message asks how something is done, so that steps are wanted."""
    return bool(_PROCEDURE.search(message))


MIN_OWN_COSINE, COSINE_PER_TERM = 0.75, 0.07
"""A message alone finds little if the cosine of its nearest passage plus `COSINE_PER_TERM` for each of its terms is
below `MIN_OWN_COSINE`. The values were chosen on labels for MTRAG's later turns, MTRAG's retrieval and the tuning
halves of the conversations (docs/measured.md)."""
MIN_STANDALONE_TERMS = 3
"""Minimum terms of a message that does not depend on earlier ones, if there are no cosines."""


def needs_topic(
    message: str,
    topic: Sequence[str],
    nearest: NearestCosines = no_cosines,
    languages: tuple[str, ...] = (),
) -> bool:
    """Return whether a message needs the topic of the conversation to be understood.

    It does if its words refer back, or if it finds little and a passage is nearer with the topic in front.
    """
    if refers_back(message, languages):
        return True
    term_count = _count_terms(terms_of(message, languages))
    cosines = nearest([message, f"{' '.join(topic)} {message}"])
    if not cosines:
        return term_count < MIN_STANDALONE_TERMS
    alone, with_topic_terms = cosines
    return with_topic_terms > alone and alone + COSINE_PER_TERM * term_count < MIN_OWN_COSINE


_CLAUSE = re.compile(r"[,.;:?!]|\b(?:and|as|so|if|because|that|when)\b")
MIN_OWN_TERMS = 4
"""Minimum content words after "and …" with which a message names its own topic."""


def refers_back(message: str, languages: tuple[str, ...] = ()) -> bool:
    """Return whether a message refers to earlier messages, by a pronoun or as their continuation ("and how …").

    A pronoun that may refer to an earlier clause of the message does not count. In other languages than English only
    a continuation counts.
    """
    phrases = phrases_for(message, languages)
    if phrases is not None:
        few_terms = _count_terms(_terms_in(phrases, message)) < MIN_OWN_TERMS
        return few_terms and phrases.begins("openers").match(fold(message)) is not None
    if _CONTINUATION.search(message) and len(terms_of(message)) < MIN_OWN_TERMS:
        return True
    return any(not _names_own_referent(message[: match.start()]) for match in _ANAPHOR.finditer(message))


def _names_own_referent(preceding: str) -> bool:
    """Return whether a clause before a pronoun names what the pronoun may refer to."""
    return any(len(terms_of(clause)) > 1 for clause in _CLAUSE.split(preceding)[:-1])


_ASKS = re.compile(
    r"^\W*(?:(?:and|but|so|ok(?:ay)?|by the way)\b\W*)?(?:what|which|who|whose|when|where|why|how|is|are|was|were"
    r"|do|does|did|can|could"
    r"|should|must|may|will|would|has|have|tell me|explain|describe|show me|give me|list)\b",
    re.IGNORECASE,
)


def may_be_standalone(message: str, languages: tuple[str, ...] = ()) -> bool:
    """Return whether a short question may be complete in itself: it has at least two terms ("How old is the moon?").

    A long stretch of a script without spaces is enough.
    """
    terms = terms_of(message, languages)
    if refers_back(message, languages) or (len(terms) < 2 and _count_terms(terms) < MIN_STANDALONE_TERMS):
        return False
    phrases = phrases_for(message, languages)
    if phrases is not None:
        return bool(phrases.find("questions").search(fold(message))) or ends_with_question_mark(message)
    return bool(_ASKS.match(message))


def topic_terms(
    history: Sequence[Message],
    nearest: NearestCosines = no_cosines,
    languages: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Return the topic of the last question: its terms as spelled there, then the terms that were carried over to
    it."""
    topic: tuple[str, ...] = ()
    for message in history:
        if message.role == "user":
            carried, _ = _carry_topic(topic, message.content, nearest, languages)
            terms = (*terms_of(message.content, languages), *carried)
            topic = terms[:MAX_TOPIC_TERMS] or topic
    return topic


def insert_topic(message: str, topic: Sequence[str]) -> str:
    """Insert the terms of a topic into a message, in parentheses.

    >>> insert_topic("Can I leave out the bacon?", ["Älplermagronen"])
    'Can I leave out the bacon (Älplermagronen)?'
    """
    body = message.rstrip()
    text = body.rstrip("?!. ？！。؟")
    mark = body[len(text) :].strip()
    return f"{text} ({' '.join(topic)}){mark}"


def terms_of(text: str, languages: tuple[str, ...] = ()) -> list[str]:
    """Return the content words of a text that say what it is about, spelled as in the text, in order."""
    phrases = phrases_for(text, languages)
    if phrases is not None:
        return _terms_in(phrases, text)
    terms = {word for word in content_words(text) if word not in _FRAME_WORDS}
    spellings: dict[str, str] = {}
    for match in re.finditer(r"[\w'’.-]*\w", text):
        for word in words(match.group()):
            if word in terms:
                spellings.setdefault(word, match.group())
    return list(dict.fromkeys(spellings.values()))


def _count_terms(terms: Sequence[str]) -> int:
    """Return the number of terms; a stretch of a script without spaces counts as its words."""
    return sum(max(1, reading_words(term)) if UNSPACED_LETTER.search(term) else 1 for term in terms)


def _terms_in(phrases: Phrases, text: str) -> list[str]:
    terms = content_words(text, phrases.language)
    if not phrases.spaced:
        return terms
    spellings: dict[str, str] = {}
    for word, start, end in words_with_spans(text):
        term = without_elision(word, phrases.language)
        spellings.setdefault(term, text[start if term == word else end - len(term) : end])
    return [spellings[term] for term in terms]
