"""What a message asks for, by rules: a courtesy, a request to revise, or questions, which may lean on earlier turns.

A question that leans is rewritten by carrying over the topic: the terms of the last question, and behind them what
that one carried over itself, if it leaned. Whether it leans is decided by what is found with the topic and without it,
unless it refers back by its words: so a new topic takes over as soon as it is found. This is historical
query expansion (HQE, TREC CAsT) in its smallest form; the raw message is always searched too, so a wrong guess can
add passages but never lose the ones the message itself finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from turnmark.assistant.steps.courtesy import is_conversational
from turnmark.assistant.steps.marks import says_unknown
from turnmark.assistant.steps.requests import edit_request, is_instruction
from turnmark.assistant.steps.split import split_questions
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Understanding
from turnmark.corpora.text import content_words, words
from turnmark.corpora.types import Message

MAX_TOPIC_TERMS, LONGEST_NAME = 6, 3
"""Terms of a topic; and of one that can take the place of a pronoun."""

_PROCEDURE = re.compile(
    r"\bhow (do|can|should|would|could|might) (i|we|you|one|they|people|somebody|someone)\b|\bhow to\b"
    r"|\bhow (is|are) .{3,60} (made|done|prepared|built|cooked|installed|set up)\b"
    r"|\b(steps?|instructions?|procedure|walk me through|guide me|recipe|show me how)\b"
    r"|\bwhat (do|should|must) (i|we|you) (need to )?do\b|\bwhat('s| is) the (best |right |proper )?way to\b",
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

# Refers back whatever else the message says; "this week" and "that time" do not.
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

# Words that frame a request and say nothing of its topic.
_FRAME = frozenset(
    """make makes making made do does doing did get gets getting go going use used using want need needs know think mean
    means work works take takes find look give help explain describe list show happen happens difference different
    differ way ways thing things kind type types best good better example examples information detail details much many
    long often""".split()
)


MOST_PARTS = 8

Nearest = Callable[[Sequence[str]], Sequence[float]]
"""Texts -> the cosine of each with the passage nearest to it; empty: that is not known."""


def not_known(texts: Sequence[str]) -> Sequence[float]:  # noqa: ARG001
    """A `Nearest` where nothing can be searched by cosine."""
    return ()


class UnderstandByRules:
    """What a message asks for, by rules."""

    name = "understand"

    def __call__(self, turn: Turn) -> None:
        turn.understood(understand(turn.history, turn.message, turn.nearest), "rules")


def understand(history: Sequence[Message], message: str, nearest: Nearest = not_known) -> Understanding:
    """The understand step by rules.

    Args:
        history: the turns before, oldest first.
        message: what the user says now.
        nearest: how near the passages are; where that is not known, a message of few words leans.
    """
    message = message.strip()
    if is_conversational(message):
        return Understanding(kind="conversational", rewrite=message, sub_questions=(message,))
    if is_instruction(history, message):
        return Understanding(kind="revision", rewrite=message, sub_questions=(message,))
    carried, rewrite = with_topic(history, message, nearest)
    parts = _at_most(split_questions(message))
    complete = _complete(parts, history if carried else (), nearest) if len(parts) > 1 else (rewrite,)
    return Understanding(
        standalone=not carried,
        rewrite=rewrite,
        sub_questions=complete,
        asked=parts if len(parts) > 1 else (),
        wants_procedure=wants_procedure(message),
        topic=carried,
    )


def _at_most(parts: Sequence[str]) -> tuple[str, ...]:
    """Parts beyond the eighth stay with it: what was asked is not lost."""
    return (*parts[: MOST_PARTS - 1], " ".join(parts[MOST_PARTS - 1 :])) if len(parts) > MOST_PARTS else tuple(parts)


def _complete(parts: Sequence[str], history: Sequence[Message], nearest: Nearest) -> tuple[str, ...]:
    """The parts of a message, each that leans on what was said before it with that carried over."""
    complete: list[str] = []
    context = list(history)
    for part in parts:
        carried, rewrite = with_topic(context, part, nearest)
        complete.append(rewrite)
        if not carried:
            context.append(Message(role="user", content=part))
    return tuple(complete)


def with_topic(history: Sequence[Message], message: str, nearest: Nearest = not_known) -> tuple[tuple[str, ...], str]:
    """The terms of the conversation's topic that a message leans on and does not name itself, and the message with
    them; none, and the message as it is, if it leans on nothing."""
    return _with(topic_terms(history, nearest), history, message, nearest)


def _with(
    topic: Sequence[str], history: Sequence[Message], message: str, nearest: Nearest
) -> tuple[tuple[str, ...], str]:
    own_words = set(words(message))
    terms = tuple(term for term in topic if term.lower() not in own_words)
    if not terms or not leans(message, topic, nearest):
        return (), message
    return terms, carry_over(message, terms, history)


def wants_procedure(message: str) -> bool:
    """Whether a message asks how something is done, so that steps are wanted."""
    if _SURELY_PROCEDURE.search(message):
        return True
    return bool(_PROCEDURE.search(message)) and not _NO_PROCEDURE.search(message)


def stands_alone(history: Sequence[Message], message: str, nearest: Nearest = not_known) -> bool:
    """Whether a message can be understood without the turns before it; see `leans`."""
    return not with_topic(history, message, nearest)[0]


BETTER, ENOUGH, TERM = 0.15, 0.75, 0.07
"""A message for which more is found behind the topic leans on it if the cosine is more by the first, or if it says and
finds too little by itself: its own cosine, and for each of its terms the third, come to less than the second. Chosen on
labels for MTRAG's later turns, MTRAG's retrieval and the tuning halves of the conversations (docs/measured.md)."""
LITTLE = 3
"""Terms from which a message can be understood alone, where no cosine is known."""


def leans(message: str, topic: Sequence[str], nearest: Nearest = not_known) -> bool:
    """Whether a message leans on the topic of what was said before it.

    It does if it refers back. Else it is looked for as it is and behind the topic, and the better found wins.
    """
    if refers_back(message):
        return True
    terms = len(_terms(message))
    cosines = nearest([message, f"{' '.join(topic)} {message}"])
    if not cosines:
        return terms < LITTLE
    alone, behind_topic = cosines
    too_little = alone + TERM * terms < ENOUGH
    return behind_topic > alone and (too_little or behind_topic > alone + BETTER)


# "Is it safe to …", "how long does it take to …": the pronoun means nothing.
_EXPLETIVE = re.compile(
    r"\b(?:is|was|isn't|would|will|does|can|has|be|make|makes|takes?) it (?:\w+ ){0,3}(?:to|that|for)\b"
    r"|\bit(?:'s| is| was) (?:\w+ ){1,3}(?:to|that)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,.;:?!]|\b(?:and|as|so|if|because|that|when)\b")
OWN_TERMS = 4
"""Content words of a message before a pronoun, or behind "and …", from which it names itself what it speaks of."""


def refers_back(message: str) -> bool:
    """Whether a message points at something that was said before it, by a pronoun or as its continuation.

    A pronoun that means nothing ("is it safe to …"), or for what the message names before it, does not.
    """
    text = _EXPLETIVE.sub(" ", message)
    if _CONTINUES.search(text) and len(_terms(text)) < OWN_TERMS:
        return True
    return any(not _names_its_own(text[: match.start()]) for match in _ANAPHOR.finditer(text))


def _names_its_own(preceding: str) -> bool:
    """Whether the part of a message before a pronoun names what the pronoun may mean."""
    earlier = any(len(_terms(clause)) > 1 for clause in _CLAUSE.split(preceding)[:-1])
    return earlier or len(_terms(preceding)) >= OWN_TERMS


_ASKS = re.compile(
    r"^\W*(?:(?:and|but|so|ok(?:ay)?|by the way)\b\W*)?(?:what|which|who|whose|when|where|why|how|is|are|was|were"
    r"|do|does|did|can|could"
    r"|should|must|may|will|would|has|have|tell me|explain|describe|show me|give me|list)\b",
    re.IGNORECASE,
)


def may_stand(message: str) -> bool:
    """Whether a message that says little may be complete, about two things at least: "How old is the
    moon?" """
    return not refers_back(message) and bool(_ASKS.match(message)) and len(_terms(message)) > 1


def topic_terms(history: Sequence[Message], nearest: Nearest = not_known) -> tuple[str, ...]:
    """What the last exchange was about: the terms of its question, as it spells them, and if that leaned on what was
    said before it, the terms carried over to it.

    Courtesies, revisions, and questions that were answered by "I don't know", give no topic while there are others.
    """
    asked = [at for at, turn in enumerate(history) if turn.role == "user"]
    topic: tuple[str, ...] = ()
    for at in [at for at in asked if _gives_topic(history, at)] or asked:
        question = history[at].content
        carried, _ = _with(topic, history[:at], question, nearest)
        terms = (*_terms(question), *carried)
        topic = terms[:MAX_TOPIC_TERMS] or topic
    return topic


def _gives_topic(history: Sequence[Message], at: int) -> bool:
    """Whether a message asked something that was answered."""
    question = history[at].content
    reply = history[at + 1] if at + 1 < len(history) else None
    unknown = reply is not None and reply.role == "assistant" and says_unknown(reply.content)
    return not (unknown or is_conversational(question) or edit_request(question))


def carry_over(message: str, topic: Sequence[str], history: Sequence[Message]) -> str:
    """The message with the topic put in: for its first pronoun if the topic is a short name, else in parentheses.

    Args:
        history: where words of a name stand one behind the other.

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
    """Whether a phrase is a word, or words that somebody put one behind the other."""
    return " " not in phrase or any(phrase.lower() in " ".join(turn.content.lower().split()) for turn in history)


def _terms(text: str) -> list[str]:
    """Content words of a text that say what it is about, spelt as in the text, in order."""
    terms = {word for word in content_words(text) if word not in _FRAME}
    spelt: dict[str, str] = {}
    for match in re.finditer(r"[\w'’.-]*\w", text):
        for word in words(match.group()):
            if word in terms:
                spelt.setdefault(word, match.group())
    return list(dict.fromkeys(spelt.values()))
