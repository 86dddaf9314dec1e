"""The understand step by rules: is a message a courtesy, a request to revise, or questions, and do these need context?

A message leans on earlier messages if it cannot be understood without them. It is then rewritten with the topic: the
terms of the last question, and after them those that were carried over to that question. A message leans if its words
refer back, or if the search finds clearly more with the topic than without; so a new topic takes over as soon as its
passages are found. This is a minimal historical query expansion (HQE, TREC CAsT). The raw message is always searched
too, so a wrong guess may add passages but never lose those that the message finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from turnmark.assistant.refusal import is_refusal
from turnmark.assistant.steps.courtesy import is_conversational
from turnmark.assistant.steps.requests import edit_requests, is_instruction
from turnmark.assistant.steps.split import split_questions
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Understanding
from turnmark.corpora.text import content_words, words
from turnmark.corpora.types import Message

MAX_TOPIC_TERMS, LONGEST_NAME = 6, 3
"""Most terms of a topic, and of a topic that may replace a pronoun."""

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
_POSSESSIVE = frozenset(("its", "their", "his", "her"))
_CONTINUES = re.compile(
    r"^\W*(and|but|or|so|then|what about|how about|what if|why not|really)\b"
    r"|^\W*(why|how|when|where|who|which)\W*$",
    re.IGNORECASE,
)

# Words that frame a request and say nothing about its topic.
_FRAME = frozenset(
    """make makes making made do does doing did get gets getting go going use used using want need needs know think mean
    means work works take takes find look give help explain describe list show happen happens difference different
    differ way ways thing things kind type types best good better example examples information detail details much many
    long often""".split()
)


MOST_PARTS = 8
"""Most parts of a message; further ones are joined to the last."""

Nearest = Callable[[Sequence[str]], Sequence[float]]
"""A function from texts to the cosine of each with its nearest passage; its result is empty if there are no cosines."""


def not_known(texts: Sequence[str]) -> Sequence[float]:  # noqa: ARG001
    """A `Nearest` without cosines."""
    return ()


class UnderstandByRules:
    """Understand step without a model."""

    name = "understand"

    def __call__(self, turn: Turn) -> None:
        turn.understood(understand(turn.history, turn.message, turn.nearest), "rules")


def understand(history: Sequence[Message], message: str, nearest: Nearest = not_known) -> Understanding:
    """Understand a message by rules.

    Args:
        history: the messages before, oldest first.
        nearest: cosines with the nearest passages; without them a message of few words leans.
    """
    message = message.strip()
    if is_conversational(message):
        return Understanding(kind="conversational", rewrite=message, sub_questions=(message,))
    if is_instruction(history, message):
        return Understanding(kind="revision", rewrite=message, sub_questions=(message,))
    carried, rewrite = with_topic(history, message, nearest)
    parts = _at_most(split_questions(message))
    is_compound = len(parts) > 1
    return Understanding(
        standalone=not carried,
        rewrite=rewrite,
        sub_questions=_complete(parts, history if carried else (), nearest) if is_compound else (rewrite,),
        asked=parts if is_compound else (),
        wants_procedure=wants_procedure(message),
        topic=carried,
    )


def _at_most(parts: Sequence[str]) -> tuple[str, ...]:
    """Join the parts beyond `MOST_PARTS` to the last one, so that no question is lost."""
    if len(parts) <= MOST_PARTS:
        return tuple(parts)
    return (*parts[: MOST_PARTS - 1], " ".join(parts[MOST_PARTS - 1 :]))


def _complete(parts: Sequence[str], history: Sequence[Message], nearest: Nearest) -> tuple[str, ...]:
    """Return the parts of a message; one that leans on earlier messages or parts gets their topic."""
    complete: list[str] = []
    context = list(history)
    for part in parts:
        carried, rewrite = with_topic(context, part, nearest)
        complete.append(rewrite)
        if not carried:
            context.append(Message(role="user", content=part))
    return tuple(complete)


def with_topic(history: Sequence[Message], message: str, nearest: Nearest = not_known) -> tuple[tuple[str, ...], str]:
    """Return the terms of the topic that are carried over to a message, and the message with them.

    Without terms and unchanged if the message does not lean, or names all terms itself.
    """
    return _with(topic_terms(history, nearest), history, message, nearest)


def _with(
    topic: Sequence[str], history: Sequence[Message], message: str, nearest: Nearest
) -> tuple[tuple[str, ...], str]:
    message_words = set(words(message))
    terms = tuple(term for term in topic if term.lower() not in message_words)
    if not terms or not leans(message, topic, nearest):
        return (), message
    return terms, carry_over(message, terms, history)


def wants_procedure(message: str) -> bool:
    """Return whether a message asks how something is done, so that steps are wanted."""
    if _SURELY_PROCEDURE.search(message):
        return True
    return bool(_PROCEDURE.search(message)) and not _NO_PROCEDURE.search(message)


BETTER, ENOUGH, TERM = 0.15, 0.75, 0.07
"""When a message leans, by the cosines of its nearest passage with the topic in front and without it. The first must be
higher: by more than `BETTER`, or at all if the cosine without the topic plus `TERM` for each of the message's terms is
below `ENOUGH`. Chosen on labels for MTRAG's later turns, MTRAG's retrieval and the tuning halves of the conversations
(docs/measured.md)."""
LITTLE = 3
"""Without cosines, least number of terms of a message that does not lean."""


def leans(message: str, topic: Sequence[str], nearest: Nearest = not_known) -> bool:
    """Return whether a message needs the topic of the conversation to be understood.

    It does if its words refer back, or if the search finds more with the topic (see `BETTER`).
    """
    if refers_back(message):
        return True
    term_count = len(_terms(message))
    cosines = nearest([message, f"{' '.join(topic)} {message}"])
    if not cosines:
        return term_count < LITTLE
    alone, with_topic_terms = cosines
    too_little = alone + TERM * term_count < ENOUGH
    return with_topic_terms > alone and (too_little or with_topic_terms > alone + BETTER)


# An expletive "it", which refers to nothing: "is it safe to …", "how long does it take to …".
_EXPLETIVE = re.compile(
    r"\b(?:is|was|isn't|would|will|does|can|has|be|make|makes|takes?) it (?:\w+ ){0,3}(?:to|that|for)\b"
    r"|\bit(?:'s| is| was) (?:\w+ ){1,3}(?:to|that)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,.;:?!]|\b(?:and|as|so|if|because|that|when)\b")
OWN_TERMS = 4
"""Least content words before a pronoun, or after "and …", with which a message names its own topic."""


def refers_back(message: str) -> bool:
    """Return whether a message refers to earlier messages, by a pronoun or as their continuation ("and how …").

    An expletive pronoun ("is it safe to …"), or one that refers to words before it in the message, does not count.
    """
    text = _EXPLETIVE.sub(" ", message)
    if _CONTINUES.search(text) and len(_terms(text)) < OWN_TERMS:
        return True
    return any(not _names_its_own(text[: match.start()]) for match in _ANAPHOR.finditer(text))


def _names_its_own(preceding: str) -> bool:
    """Return whether the text of a message before a pronoun names what the pronoun may refer to."""
    earlier_clauses = _CLAUSE.split(preceding)[:-1]
    if any(len(_terms(clause)) > 1 for clause in earlier_clauses):
        return True
    return len(_terms(preceding)) >= OWN_TERMS


_ASKS = re.compile(
    r"^\W*(?:(?:and|but|so|ok(?:ay)?|by the way)\b\W*)?(?:what|which|who|whose|when|where|why|how|is|are|was|were"
    r"|do|does|did|can|could"
    r"|should|must|may|will|would|has|have|tell me|explain|describe|show me|give me|list)\b",
    re.IGNORECASE,
)


def may_stand(message: str) -> bool:
    """Return whether a short question may be complete in itself: it has at least two terms ("How old is the moon?")."""
    return not refers_back(message) and bool(_ASKS.match(message)) and len(_terms(message)) > 1


def topic_terms(history: Sequence[Message], nearest: Nearest = not_known) -> tuple[str, ...]:
    """Return the topic of the last question: its terms, as it spells them, then the terms carried over to it.

    Courtesies, revisions, and questions that were answered by "I don't know" are skipped if there are other questions.
    """
    user_positions = [position for position, message in enumerate(history) if message.role == "user"]
    answered = [position for position in user_positions if _gives_topic(history, position)]
    topic: tuple[str, ...] = ()
    for position in answered or user_positions:
        question = history[position].content
        carried, _ = _with(topic, history[:position], question, nearest)
        terms = (*_terms(question), *carried)
        topic = terms[:MAX_TOPIC_TERMS] or topic
    return topic


def _gives_topic(history: Sequence[Message], position: int) -> bool:
    """Return whether a message is a question, and was not answered by "I don't know"."""
    question = history[position].content
    if position + 1 < len(history):
        reply = history[position + 1]
        if reply.role == "assistant" and is_refusal(reply.content):
            return False
    return not is_conversational(question) and not edit_requests(question)


def carry_over(message: str, topic: Sequence[str], history: Sequence[Message]) -> str:
    """Insert a topic into a message: in place of its first pronoun if the topic is a short name, else in parentheses.

    Args:
        topic: its terms.
        history: shows whether the terms are a name: words that follow each other.

    >>> carry_over("And how much cheese does it take?", ["Älplermagronen"], ())
    'And how much cheese does Älplermagronen take?'
    >>> carry_over("Can I leave out the bacon?", ["Älplermagronen"], ())
    'Can I leave out the bacon (Älplermagronen)?'
    """
    phrase = " ".join(topic)
    pronoun = PRONOUN.search(message)
    if pronoun and len(topic) <= LONGEST_NAME and _is_name(phrase, history):
        replacement = f"{phrase}'s" if pronoun.group().lower() in _POSSESSIVE else phrase
        return message[: pronoun.start()] + replacement + message[pronoun.end() :]
    body = message.rstrip()
    mark = body[len(body.rstrip("?!. ")) :].strip()
    return f"{body.rstrip('?!. ')} ({phrase}){mark}"


def _is_name(phrase: str, history: Sequence[Message]) -> bool:
    """Return whether a phrase is a single word, or occurs word for word in the conversation."""
    if " " not in phrase:
        return True
    return any(phrase.lower() in " ".join(message.content.lower().split()) for message in history)


def _terms(text: str) -> list[str]:
    """Return the content words of a text that say what it is about, spelt as in the text, in order."""
    terms = {word for word in content_words(text) if word not in _FRAME}
    spelt: dict[str, str] = {}
    for match in re.finditer(r"[\w'’.-]*\w", text):
        for word in words(match.group()):
            if word in terms:
                spelt.setdefault(word, match.group())
    return list(dict.fromkeys(spelt.values()))
