"""The understand step by rules: is a message a courtesy, a request to revise, or questions, and do these need context?

A message depends on earlier messages if it cannot be understood without them. It is then rewritten with the topic, the
terms of the last question, followed by those that were carried over to that question. A message depends on them if its
words refer back, or if the search finds clearly more with the topic than without. A new topic therefore takes over as
soon as its passages are found. This is a minimal historical query expansion (HQE, TREC CAsT). The raw message is always
searched, too, so a wrong guess may add passages but never lose those that the message finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from turnmark.assistant.steps.step_results import UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.understand.collection_questions import collection_question
from turnmark.assistant.steps.understand.compound_questions import split_questions
from turnmark.assistant.steps.understand.courtesy import is_conversational
from turnmark.assistant.steps.understand.edit_requests import edit_requests, is_instruction
from turnmark.assistant.steps.understand.long_message import question_in
from turnmark.assistant.types import Understanding
from turnmark.assistant.wording.phrases import Phrases, fold, phrases_for
from turnmark.assistant.wording.refusals import is_refusal
from turnmark.corpora.text.function_words import content_words, language_of
from turnmark.corpora.text.languages import ENGLISH, without_elision
from turnmark.corpora.text.segmentation import (
    UNSPACED_LETTER,
    ends_with_question_mark,
    reading_words,
    words,
    words_with_spans,
)
from turnmark.corpora.types import Message

MAX_TOPIC_TERMS, MAX_NAME_TERMS = 6, 3
"""Maximum terms of a topic, and of a topic that may replace a pronoun."""

_PROCEDURE = re.compile(
    r"\bhow (do|can|should|would|could|might) (i|we|you|one|he|she|it|they|people|somebody|someone)\b|\bhow to\b"
    r"|\bhow (is|are) .{3,60} (made|done|prepared|built|cooked|installed|set up)\b"
    r"|\b(steps?|instructions?|procedure|walk me through|guide me|recipe|show me how)\b"
    r"|\bwhat (do|should|must) (i|we|you) do\b|\bwhat (do|does) (i|we|you|one|he|she|they) (have|need) to\b"
    r"|\bwhat('s| is) the (best |right |proper )?way to\b",
    re.IGNORECASE,
)
_SURELY_PROCEDURE = re.compile(
    r"\bwhat (?:do|must|should) (?:i|we|you) (?:have|need) to do\b|\bwhat (?:needs|has|is) to be done\b"
    r"|\b(?:in|into) (?:what|which) order\b|\b(?:tell|show|explain)(?: to)? (?:me|us) how (?:i|we|you|one|to)\b"
    r"|\bhow do (?:i|we) tell (?!if|whether|when|what|which|how|that|them apart|the difference)"
    r"|\bhow does (?:the|a|an|this|that|our|my) .{3,60} (?:go|proceed)\b"
    r"|\bwie (?:mache|baue|koche|backe|kann|mach(?:t|en)) (?:ich|man|wir)\b"
    r"|\bcomment (?:faire|puis-je|dois-je|fait-on)\b|\bcómo (?:hago|puedo|debo|se hace)\b"
    r"|怎么做|如何做|怎样做|步骤|作り方|手順",
    re.IGNORECASE,
)
_NO_PROCEDURE = re.compile(
    r"\bhow (do|can|should|would|could) (i|we|you|one|they) (know|tell|feel|differ|compare)\b"
    r"|\bhow (much|many|long|often|old|far|big|large|hot|high|tall|wide)\b",
    re.IGNORECASE,
)

# Words that refer back; "this week" and "that time" do not.
_ANAPHOR = re.compile(
    r"\b(it|its|they|them|their|theirs|he|him|his|she|her|hers|former|latter|(this|that|these|those)(?! (week|month|"
    r"year|time|day|morning|evening|season|summer|winter|spring|autumn|century|decade)\b))\b",
    re.IGNORECASE,
)
PRONOUN = re.compile(r"\b(it|its|they|them|their|he|him|his|she|her)\b", re.IGNORECASE)
_POSSESSIVE_PRONOUNS = frozenset(("its", "their", "his", "her"))
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
        likely = likely_languages(turn.history, turn.languages)
        asked = question_in(turn.message, lambda question: refers_back(question, likely), likely)
        is_question = not is_conversational(asked) and not is_instruction(turn.history, asked)
        if is_question and turn.retriever is not None and turn.evidence is None:
            asked = turn.retriever.respell(asked)
        understanding = understand(turn.history, asked, turn.nearest, turn.languages, turn.word_shares)
        return UnderstoodMessage(understanding, asked, "rules")


def understand(
    history: Sequence[Message],
    message: str,
    nearest: NearestCosines = no_cosines,
    languages: tuple[str, ...] = (),
    shares: NearestCosines = no_cosines,
) -> Understanding:
    """Understand a message by rules.

    Args:
        history: the messages before, oldest first.
        nearest: finds the cosines with the nearest passages; without them a message of few words needs the topic.
        languages: languages of the documents, the most frequent first.
        shares: finds how much of the words of texts the best passage has; used where there are no cosines.
    """
    message = message.strip()
    if is_conversational(message):
        return Understanding(kind="conversational", rewrite=message, sub_questions=(message,))
    if collection_question(message, history):
        return Understanding(rewrite=message, sub_questions=(message,))
    if is_instruction(history, message):
        return Understanding(kind="revision", rewrite=message, sub_questions=(message,))
    likely = likely_languages(history, languages)
    carried, rewrite = with_topic(history, message, nearest, likely, shares)
    parts = _limit_parts(split_questions(message, likely))
    is_compound = len(parts) > 1
    return Understanding(
        standalone=not carried,
        rewrite=rewrite,
        sub_questions=_complete_parts(parts, history if carried else (), nearest, likely, shares)
        if is_compound
        else (rewrite,),
        asked=parts if is_compound else (),
        wants_procedure=wants_procedure(message, likely),
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
    likely: tuple[str, ...],
    shares: NearestCosines,
) -> tuple[str, ...]:
    """Return the parts of a message. A part that depends on earlier messages or parts gets their topic."""
    complete: list[str] = []
    context = list(history)
    for part in parts:
        carried, rewrite = with_topic(context, part, nearest, likely, shares)
        complete.append(rewrite)
        if not carried:
            context.append(Message(role="user", content=part))
    return tuple(complete)


def likely_languages(history: Sequence[Message], languages: Sequence[str]) -> tuple[str, ...]:
    """Return the languages that an undecided message may be in: those of the conversation, the most recent first.

    Then those of the documents. A conversation in English has no language of the documents before English.
    """
    questions = [message.content for message in history if message.role == "user"]
    of_messages = [language_of(question, tuple(languages)) for question in reversed(questions)]
    return tuple(dict.fromkeys(filter(None, (*of_messages, *languages))))


def with_topic(
    history: Sequence[Message],
    message: str,
    nearest: NearestCosines = no_cosines,
    likely: tuple[str, ...] = (),
    shares: NearestCosines = no_cosines,
) -> tuple[tuple[str, ...], str]:
    """Return the terms of the topic that are carried over to a message, and the message with them.

    If the message does not need the topic, or names all its terms, it is returned unchanged and without terms.

    Args:
        likely: languages of the conversation and of the documents.
    """
    return _carry_topic(topic_terms(history, nearest, likely, shares), history, message, nearest, likely, shares)


def _carry_topic(
    topic: Sequence[str],
    history: Sequence[Message],
    message: str,
    nearest: NearestCosines,
    likely: tuple[str, ...],
    shares: NearestCosines,
) -> tuple[tuple[str, ...], str]:
    message_words = {*words(message), *content_words(message)}
    terms = tuple(term for term in topic if term.lower() not in message_words)
    if not terms or not needs_topic(message, topic, nearest, likely, shares):
        return (), message
    return terms, insert_topic(message, terms, history)


def wants_procedure(message: str, likely: tuple[str, ...] = ()) -> bool:
    """Return whether a message asks how something is done, so that steps are wanted."""
    if _SURELY_PROCEDURE.search(message):
        return True
    phrases = phrases_for(message, likely)
    if phrases is not None:
        return bool(phrases.find("steps").search(fold(message)))
    return bool(_PROCEDURE.search(message)) and not _NO_PROCEDURE.search(message)


MIN_COSINE_GAIN, MIN_OWN_COSINE, COSINE_PER_TERM = 0.15, 0.75, 0.07
"""A message needs the topic if the cosine of its nearest passage is higher with the topic in front than without it: by
more than `MIN_COSINE_GAIN`, or at all if the message alone finds little. It finds little if its own cosine plus
`COSINE_PER_TERM` for each of its terms is below `MIN_OWN_COSINE`. The values were chosen on labels for MTRAG's later
turns, MTRAG's retrieval and the tuning halves of the conversations (docs/measured.md)."""
MIN_STANDALONE_TERMS = 3
"""Minimum terms of a message that does not depend on earlier ones, if there are no cosines."""


def needs_topic(
    message: str,
    topic: Sequence[str],
    nearest: NearestCosines = no_cosines,
    likely: tuple[str, ...] = (),
    shares: NearestCosines = no_cosines,
) -> bool:
    """Return whether a message needs the topic of the conversation to be understood.

    It does if its words refer back, or if the search finds more with the topic (see `MIN_COSINE_GAIN`).
    """
    if refers_back(message, likely):
        return True
    term_count = _count_terms(terms_of(message, likely))
    texts = [message, f"{' '.join(topic)} {message}"]
    cosines = nearest(texts)
    if not cosines and phrases_for(message, likely) is not None:
        return _share_a_passage(shares([*texts, " ".join(topic)]), term_count, len(topic))
    if not cosines:
        return term_count < MIN_STANDALONE_TERMS
    alone, with_topic_terms = cosines
    too_little = alone + COSINE_PER_TERM * term_count < MIN_OWN_COSINE
    return with_topic_terms > alone and (too_little or with_topic_terms > alone + MIN_COSINE_GAIN)


def _share_a_passage(shares: Sequence[float], term_count: int, topic_count: int) -> bool:
    """Return whether one passage has the words of a message and of the topic, as far as any passage has them.

    Args:
        shares: of the message, of the topic with the message, and of the topic.
        term_count, topic_count: number of terms of the message and of the topic.
    """
    if not any(shares):
        return term_count < MIN_STANDALONE_TERMS
    alone, together, of_topic = shares
    apart = (alone * term_count + of_topic * topic_count) / max(term_count + topic_count, 1)
    return together >= MIN_SHARE_TOGETHER * apart


MIN_SHARE_TOGETHER = 0.9
"""Minimum share of words that one passage has of topic and message, relative to what two passages have of them."""

# An expletive "it", which refers to nothing: "is it safe to …", "how long does it take to …".
_EXPLETIVE_PRONOUN = re.compile(
    r"\b(?:is|was|isn't|would|will|does|can|has|be|make|makes|takes?) it (?:\w+ ){0,3}(?:to|that|for)\b"
    r"|\bit(?:'s| is| was) (?:\w+ ){1,3}(?:to|that)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,.;:?!]|\b(?:and|as|so|if|because|that|when)\b")
MIN_OWN_TERMS = 4
"""Minimum content words before a pronoun, or after "and …", with which a message names its own topic."""


def refers_back(message: str, likely: tuple[str, ...] = ()) -> bool:
    """Return whether a message refers to earlier messages, by a pronoun or as their continuation ("and how …").

    An expletive pronoun ("is it safe to …"), or one that refers to words before it in the message, does not count.
    """
    phrases = phrases_for(message, likely)
    if phrases is not None:
        return _refers_back_in(phrases, message)
    text = _EXPLETIVE_PRONOUN.sub(" ", message)
    if _CONTINUATION.search(text) and len(terms_of(text)) < MIN_OWN_TERMS:
        return True
    return any(not _names_own_referent(text[: match.start()]) for match in _ANAPHOR.finditer(text))


def _refers_back_in(phrases: Phrases, message: str) -> bool:
    """Return whether a message in another language than English refers to earlier messages.

    It does if it has no content word, if it begins as a continuation and has few of them, or if a word refers back and
    nothing before it in the message can be meant.
    """
    folded = fold(message)
    language = phrases.language
    terms = _terms_in(phrases, message)
    if not terms:
        return True
    few_terms = _count_terms(terms) < MIN_OWN_TERMS
    if phrases.begins("openers").match(folded) and few_terms:
        return True
    enough = 2 if phrases.spaced else 1
    before = (content_words(folded[: match.start()], language) for match in phrases.find("anaphora").finditer(folded))
    return any(len(named) < enough for named in before)


def _names_own_referent(preceding: str) -> bool:
    """Return whether the text of a message before a pronoun names what the pronoun may refer to."""
    earlier_clauses = _CLAUSE.split(preceding)[:-1]
    if any(len(terms_of(clause)) > 1 for clause in earlier_clauses):
        return True
    return len(terms_of(preceding)) >= MIN_OWN_TERMS


_ASKS = re.compile(
    r"^\W*(?:(?:and|but|so|ok(?:ay)?|by the way)\b\W*)?(?:what|which|who|whose|when|where|why|how|is|are|was|were"
    r"|do|does|did|can|could"
    r"|should|must|may|will|would|has|have|tell me|explain|describe|show me|give me|list)\b",
    re.IGNORECASE,
)


def may_be_standalone(message: str, likely: tuple[str, ...] = ()) -> bool:
    """Return whether a short question may be complete in itself: it has at least two terms ("How old is the moon?").

    A long stretch of a script without spaces is enough.
    """
    terms = terms_of(message, likely)
    if refers_back(message, likely) or (len(terms) < 2 and _count_terms(terms) < MIN_STANDALONE_TERMS):
        return False
    phrases = phrases_for(message, likely)
    if phrases is not None:
        return bool(phrases.find("questions").search(fold(message))) or ends_with_question_mark(message)
    return bool(_ASKS.match(message))


def topic_terms(
    history: Sequence[Message],
    nearest: NearestCosines = no_cosines,
    likely: tuple[str, ...] = (),
    shares: NearestCosines = no_cosines,
) -> tuple[str, ...]:
    """Return the topic of the last question: its terms as spelled there, then the terms that were carried over to it.

    Courtesies, revisions, questions about the collection and those that were answered by "I don't know" are skipped if
    there are other questions.
    """
    user_positions = [position for position, message in enumerate(history) if message.role == "user"]
    answered = [position for position in user_positions if _gives_topic(history, position)]
    topic: tuple[str, ...] = ()
    for position in answered or user_positions:
        question = history[position].content
        carried, _ = _carry_topic(topic, history[:position], question, nearest, likely, shares)
        terms = (*terms_of(question, likely), *carried)
        topic = terms[:MAX_TOPIC_TERMS] or topic
    return topic


def _gives_topic(history: Sequence[Message], position: int) -> bool:
    """Return whether a message is a question, and was not answered by "I don't know"."""
    question = history[position].content
    if position + 1 < len(history):
        reply = history[position + 1]
        if reply.role == "assistant" and is_refusal(reply.content):
            return False
    return not (is_conversational(question) or edit_requests(question) or collection_question(question))


def insert_topic(message: str, topic: Sequence[str], history: Sequence[Message]) -> str:
    """Insert a topic into a message, in place of its first pronoun if the topic is a short name, else in parentheses.

    Args:
        topic: its terms.
        history: the conversation, in which the terms of a name follow each other.

    >>> insert_topic("And how much cheese does it take?", ["Älplermagronen"], ())
    'And how much cheese does Älplermagronen take?'
    >>> insert_topic("Can I leave out the bacon?", ["Älplermagronen"], ())
    'Can I leave out the bacon (Älplermagronen)?'
    """
    phrase = " ".join(topic)
    pronoun = PRONOUN.search(message) if language_of(message) in (ENGLISH, "") else None
    if pronoun and len(topic) <= MAX_NAME_TERMS and _is_name(phrase, history):
        replacement = f"{phrase}'s" if pronoun.group().lower() in _POSSESSIVE_PRONOUNS else phrase
        return message[: pronoun.start()] + replacement + message[pronoun.end() :]
    body = message.rstrip()
    text = body.rstrip("?!. ？！。؟")
    mark = body[len(text) :].strip()
    return f"{text} ({phrase}){mark}"


def _is_name(phrase: str, history: Sequence[Message]) -> bool:
    """Return whether a phrase is a single word, or occurs word for word in the conversation."""
    if " " not in phrase:
        return True
    return any(phrase.lower() in " ".join(message.content.lower().split()) for message in history)


def terms_of(text: str, likely: tuple[str, ...] = ()) -> list[str]:
    """Return the content words of a text that say what it is about, spelled as in the text, in order."""
    phrases = phrases_for(text, likely)
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
    frames = phrases.find("frames")
    terms = [term for term in content_words(text, phrases.language) if not frames.fullmatch(fold(term))]
    if not phrases.spaced:
        return terms
    spellings: dict[str, str] = {}
    for word, start, end in words_with_spans(text):
        term = without_elision(word, phrases.language)
        spellings.setdefault(term, text[start if term == word else end - len(term) : end])
    return [spellings[term] for term in terms]
