"""Recognize courtesies (greetings, thanks, acknowledgments, goodbyes) and reply to them."""

from __future__ import annotations

import re

from turnmark.assistant.steps.step_results import Assessment, CheckedDraft, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.types import Judgment, SubQuestion
from turnmark.assistant.wording.phrases import Phrases, fold, possible_phrases
from turnmark.assistant.wording.reply_texts import HELLO_TEXT, WELCOME_TEXT, in_language
from turnmark.corpora.text.segmentation import ends_with_question_mark, words

MAX_COURTESY_WORDS = 16
"""Maximum words of a courtesy; a longer message contains something else, too."""

_GOOD = (
    r"(?:great|cool|nice|perfect|good|fine|awesome|wonderful|brilliant|excellent|amazing|fantastic|lovely|super"
    r"|interesting|helpful|useful|clear|right|fair|enough|alright|all right|sweet|neat)"
)
_FOR = (
    r"for (?:(?!how\b|what\b|where\b|when\b|which\b|who\b|why\b)(?:the|your|all|this|that|explaining|clearing|helping"
    r"|looking|up|it|me|out|into|help|explanation|answers?|info|information|details?|clarification|tips?|advice|time"
    r"|quick"
    r"|reply|response|now|everything)\b ?){1,6}"
)
_THANKS = (
    rf"(?:(?:many|thousand|so many|a thousand) )?(?:thanks|thank you|thankyou|thank u|thx|tx|ty|tysm|cheers)"
    rf"(?: (?:a lot|so much|very much|a bunch|a million|a ton|again|anyway|everyone|guys|there|all the same|indeed"
    rf"|{_FOR}))*"
)
_IT = r"(?:that|this|it|which|everything|all that)"
_NEED_CLAUSE = r"(?:(?:just|exactly|precisely|all) )*(?:what )?i (?:needed|wanted|was looking for)(?: to know)?"
_SUCCESS_CLAUSE = (
    r"(?:helps|helped|works|worked|(?:did|does) (?:it|the trick)|did help|makes sense|made sense"
    r"|answer(?:s|ed) (?:it|that|my questions?|everything)"
    rf"|(?:is|was|will be|has been) (?:{_NEED_CLAUSE}|(?:all|it|everything)(?: for (?:now|today))?"
    rf"|(?:(?:a|very|so|really|just|all|quite|pretty) )*(?:{_GOOD}|ok|okay)))"
)
# A complete phrase of courtesy; short forms ("that's") are written out.
_SIGN = (
    rf"(?:{_THANKS}|hi|hello|hey|hiya|good (?:morning|afternoon|evening|day|night)|how are you(?: doing)?(?: today)?"
    rf"|bye"
    r"|goodbye|bye bye|ciao|see (?:you|ya)(?: later| soon)?|(?:talk|speak) to you (?:later|soon)"
    r"|have a (?:nice|good|great|lovely) (?:day|evening|weekend|one|night|morning|afternoon)|take care"
    r"|ok|okay|k|kk|done|omg|lol|haha|wow|gotcha|noted|understood|roger|will do|(?:sounds|looks) (?:good|great)"
    r"|fair enough|good enough|never ?mind|no (?:worries|problem|probs|thanks)|not now|do not worry(?: about it)?"
    r"|(?:i )?got (?:it|that)|i (?:see|understand|understood|get it|know)(?: now)?|i appreciate (?:it|that|(?:the"
    r"|your) help)"
    r"|(?:much |greatly )?appreciated?|(?:good|great) to know"
    rf"|{_IT} (?:(?:really|just|all|now|certainly|already|also) )*{_SUCCESS_CLAUSE}(?: now)?"
    rf"|makes (?:(?:perfect|total|a lot of) )?sense(?: now)?|helps|helped|{_NEED_CLAUSE}"
    r"|all (?:good|set|clear|done)|(?:nothing|no questions?) (?:else|more)|i am (?:all )?(?:good|set|fine|done)"
    r"|(?:i will|let me|i am going to|going to) (?:(?:just|definitely) )?"
    r"(?:try (?:that|it|this)(?: out)?|give (?:it|that|this) a (?:try|go|shot)|do (?:that|so|it)|(?:have|take) a look"
    r"|check (?:it|that)(?: out)?|look into (?:it|that))"
    rf"|you (?:are|have been) (?:(?:a|an|the|very|so|really|super|most) )*(?:lifesaver|life saver|star|best|legend"
    rf"|{_GOOD})"
    rf"|(?:(?:very|so|really|super|most|quite|pretty) )+{_GOOD}"
    rf"|{_GOOD} (?:answer|job|work|one|explanation|stuff|info)|well done|my (?:mistake|bad|fault)"
    r"|i (?:have|had) (?:a|some|another) questions?|welcome back"
    r"|great|cool|nice|perfect|awesome|wonderful|brilliant|excellent|amazing|fantastic|lovely|super|interesting"
    r"|sweet|neat|alright|all right)"
)
# Words that may accompany such a phrase.
_FILLER = (
    r"(?:a lot|so much|very much|a bunch|please|sorry|yes|no|yeah|yep|yup|nope|sure|right|exactly|indeed|oh|ah|aha"
    r"|hm+|well"
    r"|so|and|but|then|there|everyone|all|now|today|again|anyway|for (?:now|today|the moment|all your help)|later"
    r"|you|too"
    r"|very|really|just|once more|one more|much|mate|fine|good|ya|me|it is)"
)
_COURTESY = re.compile(rf"[\s,]*(?:(?:{_SIGN}|{_FILLER})\b[\s,]*)+", re.IGNORECASE)
_SIGNS = re.compile(rf"\b{_SIGN}\b", re.IGNORECASE)
_SHORT_FORMS = tuple(
    (re.compile(short, re.IGNORECASE), long)
    for short, long in (
        (r"\b(that|it|this)'?s\b", r"\1 is"),
        (r"\bi'm\b", "i am"),
        (r"\byou're\b", "you are"),
        (r"\byou've\b", "you have"),
        (r"\bi'll\b", "i will"),
        (r"\bdon't\b", "do not"),
    )
)
_HOW_ARE_YOU = re.compile(r"how are you(?: doing)?(?: today)?\s*\?", re.IGNORECASE)
_GREETING = re.compile(r"\b(hi|hello|hey|hiya|good (morning|afternoon|evening|day))\b", re.IGNORECASE)


def is_conversational(message: str) -> bool:
    """Return whether a message is only a courtesy: all of its phrases are courtesies, and it asks nothing.

    "Thanks, and the oven?" is a question, not a courtesy. A bare "yes" or "no" may answer a question of the assistant.
    """
    length = len(words(message))
    if not length:
        return True
    if length > MAX_COURTESY_WORDS:
        return False
    return _is_english_courtesy(message) or any(
        _is_courtesy_in(phrases, message) for phrases in possible_phrases(message)
    )


def _is_courtesy_in(phrases: Phrases, message: str) -> bool:
    text = fold(message)
    if ends_with_question_mark(message):  # "How are you?" is a greeting.
        return bool(phrases.request("greetings").fullmatch(text))
    has_sign = phrases.find("thanks").search(text) or phrases.find("greetings").search(text)
    return bool(has_sign and phrases.courtesy.fullmatch(text))


def _is_english_courtesy(message: str) -> bool:
    text = _HOW_ARE_YOU.sub("how are you", message.replace("’", "'"))
    if re.search(r"[?？]", text):
        return False
    plain = " ".join(re.sub(r"[^\w\s']+", " , ", text).split())
    for short, long in _SHORT_FORMS:
        plain = short.sub(long, plain)
    return bool(_COURTESY.fullmatch(plain) and _SIGNS.search(plain))


def _greets(message: str) -> bool:
    if _GREETING.search(message) or not words(message):
        return True
    return any(phrases.find("greetings").search(fold(message)) for phrases in possible_phrases(message))


class Courtesy:
    """Answer step that replies to a courtesy, without a search or a check."""

    name = "answer"

    def __call__(self, turn: Turn, understood: UnderstoodMessage, /) -> CheckedDraft:
        hits = tuple(turn.evidence or ())
        turn.report_hits(hits)
        assessment = Assessment(Judgment(decision="converse", confidence=1.0, reason="a courtesy, not a question"))
        assessment.report(turn)
        text = in_language(HELLO_TEXT if _greets(turn.message) else WELCOME_TEXT, turn.language)
        turn.stream(text)
        questions = understood.understanding.sub_questions
        parts = tuple(SubQuestion(text=question, answered=True) for question in questions)
        return CheckedDraft(text, assessment, hits, sub_questions=parts)
