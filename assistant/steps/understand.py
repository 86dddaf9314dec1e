"""What a message asks for, by rules: a courtesy, a request to revise, or questions, which may lean on earlier turns.

A later question is rewritten by carrying over what the conversation is about: the terms of the last question that
stood alone. This is historical query expansion (HQE, TREC CAsT) in its smallest form; the raw message is always
searched too, so a wrong guess can add passages but never lose the ones the message itself finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from turnmark.assistant.steps.courtesy import is_conversational
from turnmark.assistant.steps.marks import says_unknown
from turnmark.assistant.steps.requests import edit_request, is_instruction
from turnmark.assistant.steps.split import split_questions
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Understanding
from turnmark.corpora.text import content_words, words
from turnmark.corpora.types import Message

MAX_TOPIC_TERMS = 6

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
# Refers back when the message names nothing itself.
_WEAK_ANAPHOR = re.compile(
    r"\b(there|such|one|ones|other|others|another|else|instead|same|both|either|more|also|too|again|above|the)\b",
    re.IGNORECASE,
)
PRONOUN = re.compile(r"\b(it|its|they|them|their|he|him|his|she|her)\b", re.IGNORECASE)
_POSSESSIVE = frozenset(("its", "their", "his", "her"))
_CONTINUES = re.compile(
    r"^\W*(and|but|or|so|then|what about|how about|what if|why not|really)\b"
    r"|^\W*(why|how|when|where|who|which)\W*$",
    re.IGNORECASE,
)
# A word in capitals or a number, not at the head of the sentence.
_NAME = re.compile(r"(?<=[\w,;:'’)-]\s)(?!I\b)[A-Z\d][\w.'’-]*|\b\d[\d.,]*\b")

# Words that frame a request and say nothing of its topic.
_FRAME = frozenset(
    """make makes making made do does doing did get gets getting go going use used using want need needs know think mean
    means work works take takes find look give help explain describe list show happen happens difference different
    differ way ways thing things kind type types best good better example examples information detail details much many
    long often""".split()
)


MOST_PARTS = 8


class UnderstandByRules:
    """What a message asks for, by rules."""

    name = "understand"

    def __call__(self, turn: Turn) -> None:
        turn.understood(understand(turn.history, turn.message), "rules")


def understand(history: Sequence[Message], message: str) -> Understanding:
    """The understand step by rules.

    Args:
        history: the turns before, oldest first.
        message: what the user says now.
    """
    message = message.strip()
    if is_conversational(message):
        return Understanding(kind="conversational", rewrite=message, sub_questions=(message,))
    if is_instruction(history, message):
        return Understanding(kind="revision", rewrite=message, sub_questions=(message,))
    carried = () if stands_alone(history, message) else carried_terms(history, message)
    rewrite = carry_over(message, carried, one_name(history, carried)) if carried else message
    parts = _at_most(split_questions(message))
    complete = _complete(parts, history if carried else ()) if len(parts) > 1 else (rewrite,)
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


def _complete(parts: Sequence[str], history: Sequence[Message]) -> tuple[str, ...]:
    """The parts of a message, each that leans on what was said before it with that carried over."""
    complete: list[str] = []
    context = list(history)
    for part in parts:
        # A short part after another is complete, unless it refers back ("any other").
        empty = len(_terms(part)) < 2 and bool(_THEN.search(part))
        lean = (
            refers_back(part) or empty or bool(says_little(part) and _OF_OTHERS.search(part))
            if complete
            else leans(part)
        )
        carried = carried_terms(context, part) if context and lean else ()
        complete.append(carry_over(part, carried, one_name(context, carried)) if carried else part)
        context.append(Message(role="user", content=part))
    return tuple(complete)


_THEN = re.compile(r"\b(?:then|after that|afterwards|first|before)\b", re.IGNORECASE)
_OF_OTHERS = re.compile(r"\b(?:any other|others?|another)\b", re.IGNORECASE)


def carried_terms(history: Sequence[Message], message: str) -> tuple[str, ...]:
    """The terms of the conversation's topic that a message does not name itself."""
    own_words = set(words(message))
    return tuple(term for term in topic_terms(history) if term.lower() not in own_words)


def wants_procedure(message: str) -> bool:
    """Whether a message asks how something is done, so that steps are wanted."""
    if _SURELY_PROCEDURE.search(message):
        return True
    return bool(_PROCEDURE.search(message)) and not _NO_PROCEDURE.search(message)


def stands_alone(history: Sequence[Message], message: str) -> bool:
    """Whether a message can be understood without the turns before it.

    It cannot when it refers back (pronouns), continues ("and …", "what about …"), or is too thin: without its own name
    or number it needs three content words, and four if it also refers back weakly ("another", "the", "more").
    """
    return not any(turn.role == "user" for turn in history) or not leans(message)


# "The way the Bakehouse does it": the pronoun is what the message itself names.
_BOUND = re.compile(r"\bthe way(?: [\w'’-]+){1,6} (?:do|does|did|makes?|made) (?:it|this|that|them)\b", re.IGNORECASE)
# "Is it safe to …", "how long does it take to …": the pronoun means nothing.
_EXPLETIVE = re.compile(
    r"\b(?:is|was|isn't|would|will|does|can|has|be|make|makes|takes?) it (?:\w+ ){0,2}?(?:\w+ly )?(?:been "
    r"|be )?(?:\w+ ){0,2}"
    r"(?:to|that|for \w+ to)\b|\bit(?:'s| is| was) (?:\w+ ){1,3}(?:to|that)\b"
    r"|\bhow (?:long|much|many \w+) does it take\b(?= to\b)",
    re.IGNORECASE,
)
# Comments on the answer before the question begins.
_COMMENT = re.compile(
    r"^\W*(?:that(?:'s| is| was| sounds?| really)?\b[^.,?!]{0,40}[.,!]\s*|i see[,.]?\s*|you are right[,.]?\s*)",
    re.IGNORECASE,
)
# Answers or corrects what the assistant said.
_REPLY = re.compile(
    r"^\W*(?:no|nope|yes|yeah|because|what\?|i (?:just )?mean(?:t)?\b|i see\b|i think\b|you (?:said|mean"
    r"|are saying)|do you mean|are you"
    r" saying|that(?:'s| is| was) (?:not|too|so|very|really|interesting)\b)",
    re.IGNORECASE,
)
_TOPIC_NAMED = re.compile(r"^\W*(?:speaking|talking) (?:about|of)\b", re.IGNORECASE)
_CLAUSE = re.compile(r"[,.;:?!]|\b(?:and|as|so|if|because|that|when)\b")
OWN_TERMS = 4
"""Content words of a message before a pronoun, or behind "and …", from which it names itself what it speaks of."""


def refers_back(message: str) -> bool:
    """Whether a message points at something that was said before it, by a pronoun or as its continuation.

    A pronoun that means nothing ("is it safe to …"), or for what the message names before it, does not.
    """
    text = _COMMENT.sub("", _EXPLETIVE.sub(" ", _BOUND.sub(" ", message)))
    if _REPLY.search(message) and len(_terms(message)) < 2 * OWN_TERMS:
        return True
    if _CONTINUES.search(text) and (len(_terms(text)) < OWN_TERMS or _ABOUT.search(text)):
        return True
    return any(not _names_its_own(text[: match.start()]) for match in _ANAPHOR.finditer(text))


_ABOUT = re.compile(r"^\W*(?:(?:and|but|so)\W+)?(?:what|how) about\b", re.IGNORECASE)


def _names_its_own(preceding: str) -> bool:
    """Whether the part of a message before a pronoun names what the pronoun may mean."""
    clauses = _CLAUSE.split(preceding)
    earlier = any(len(_terms(clause)) > 1 for clause in clauses[:-1])
    return earlier or bool(_TOPIC_NAMED.match(preceding)) or len(_terms(preceding)) >= OWN_TERMS


def says_little(message: str) -> bool:
    """Whether a message names too little to be understood alone, as far as its words show: evidence may say otherwise.

    Without its own name or number it needs three content words, and four if it refers back weakly ("the", "more").
    """
    return not _NAME.search(message) and len(_terms(message)) < (4 if _WEAK_ANAPHOR.search(message) else 3)


# "What is a transition?" asks for a thing that it names, whatever was said before.
_DEFINITION = re.compile(
    r"^\W*(?:what|who) (?:is|are) (?!the\b|this\b|that\b|these\b|those\b|his\b|her\b|its\b"
    r"|their\b)(?!considered\b)[\w\"'“-]+(?: [\w\"'”-]+){0,3}\W*$"
    r"|^\W*what (?:does|do) (?!the\b|this\b|that\b|these\b|those\b)[\w\"'“ -]{1,60}\b(?:mean|stand for)\W*$",
    re.IGNORECASE,
)


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


def may_lean(message: str) -> bool:
    """Whether a message may lean on what was said before it: it has a pronoun, or continues, or says little."""
    return bool(_CONTINUES.search(message) or _ANAPHOR.search(message)) or says_little(message)


def rewrite_by_rules(history: Sequence[Message], message: str) -> str:
    """The message with the topic of the conversation carried over; itself if it names that already."""
    carried = carried_terms(history, message)
    return carry_over(message, carried, one_name(history, carried)) if carried else message


def leans(message: str) -> bool:
    """Whether a message leans on something that was said before it: it refers back, or says too little by itself."""
    return refers_back(message) or (says_little(message) and not _DEFINITION.match(message))


# What is asked of a thing is not the thing: "How high is the Lum?" is about the Lum.
_DEGREE = re.compile(
    r"\bhow (?:high|tall|long|wide|deep|heavy|fast|quick|big|large|small|hot|cold|warm|far|old|young|strong|thick|safe"
    r"|likely|soon|hard|difficult|easy|expensive|cheap)\b",
    re.IGNORECASE,
)


def topic_terms(history: Sequence[Message]) -> tuple[str, ...]:
    """What the conversation is about: the terms of the last user question that stood alone, as it spells them.

    Courtesies, and questions that were answered by "I don't know", give no topic while there are others.
    """
    questions = [
        text
        for text, reply in _exchanges(history)
        if not is_conversational(text) and not says_unknown(reply) and edit_request(text) is None
    ]
    questions = questions or [turn.content for turn in history if turn.role == "user"]
    for first, text in reversed(list(enumerate(questions))):
        if (first == 0 or not leans(text)) and (terms := _terms(_DEGREE.sub(" ", text)) or _terms(text)):
            return tuple(terms[:MAX_TOPIC_TERMS])
    return ()


def _exchanges(history: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Each user turn with the reply to it, else ""."""
    for turn, reply in zip_longest(history, history[1:]):
        if turn.role == "user":
            yield turn.content, reply.content if reply and reply.role == "assistant" else ""


def one_name(history: Sequence[Message], terms: Sequence[str]) -> bool:
    """Whether terms are a word, or words that somebody put one behind the other: they can replace a pronoun."""
    phrase = " ".join(terms).lower()
    return len(terms) == 1 or any(phrase in " ".join(turn.content.lower().split()) for turn in history)


def carry_over(message: str, topic: Sequence[str], for_pronoun: bool = True) -> str:
    """The message with the topic put in: for its first pronoun when the topic is short, else in parentheses.

    Args:
        for_pronoun: False: its pronouns mean something else, such as an answer that is not there yet, or the topic
            is no name (see `one_name`).

    >>> carry_over("And how much cheese does it take?", ["Älplermagronen"])
    'And how much cheese does Älplermagronen take?'
    >>> carry_over("Can I leave out the bacon?", ["Älplermagronen"])
    'Can I leave out the bacon (Älplermagronen)?'
    """
    phrase = " ".join(topic)
    pronoun = PRONOUN.search(message)
    if for_pronoun and pronoun and len(topic) <= 3:
        replacement = f"{phrase}'s" if pronoun.group().lower() in _POSSESSIVE else phrase
        return message[: pronoun.start()] + replacement + message[pronoun.end() :]
    body = message.rstrip()
    mark = body[len(body.rstrip("?!. ")) :].strip()
    return f"{body.rstrip('?!. ')} ({phrase}){mark}"


def _terms(text: str) -> list[str]:
    """Content words of a text that say what it is about, spelt as in the text, in order."""
    terms = {word for word in content_words(text) if word not in _FRAME}
    spelt: dict[str, str] = {}
    for match in re.finditer(r"[\w'’.-]*\w", text):
        for word in words(match.group()):
            if word in terms:
                spelt.setdefault(word, match.group())
    return list(dict.fromkeys(spelt.values()))
