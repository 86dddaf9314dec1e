"""Whether a reply of the turn says that it does not know.

Cautious, since a cited answer that is taken for "I don't know" loses its sources: "IPv6 is not available [1]" answers.
Replies of other systems, which cite nothing, are read by `turnmark.evaluation.metrics.idk`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from turnmark.assistant.steps.marks import cited_numbers
from turnmark.corpora.text import sentences, strip_citations

_LONGEST_UNKNOWN = 3  # sentences
_SOURCES = "(?:passages?|documents?|sources?|texts?|context|material|excerpts?|information)"
_THE_SOURCES = rf"(?:the|these|those|your) (?:(?:provided|given|available|numbered|retrieved|supplied) )*{_SOURCES}"
_FACTS = "(?:(?:any|enough|sufficient|the|specific|that|an) )*(?:information|answers?|data|details?|knowledge|mention)"
_TELL = (
    "(?:(?:actually|explicitly|directly|specifically) )?(?:say|state|mention|contain|include|provide|hold|give|specify|"
    f"cover|address|answer|discuss|describe|explain|tell|indicate|(?:have|offer) {_FACTS})s?"
)
_IS_GIVEN = "(?:mentioned|stated|specified|provided|given|covered|found|answered|determined|available)"
_OPENING = (
    "(?:(?:i'm|i am) (?:sorry|afraid),?(?: but| that)? |(?:sorry|unfortunately|apologies),?(?: but)? |"
    "(?:based on|according to|from|in) [^,.]{1,60}, )*"
)
_CLAIMS = (
    "(?:i|we) (?:do not|don't|did not|didn't) (?:actually |currently |really )?know(?! of)",
    f"(?:i|we) (?:do not|don't) (?:currently )?have {_FACTS}",
    "(?:i|we) (?:cannot|can't|could not|couldn't|did not|didn't|am unable to|was unable to) "
    "(?:find|answer|say|tell|determine)",
    rf"{_THE_SOURCES} (?:i was given |provided |available |above )?"
    rf"(?:do not|does not|don't|doesn't|did not|didn't) {_TELL}",
    rf"none of {_THE_SOURCES} {_TELL}",
    r"(?:there is|there's) (?:no|not enough|insufficient) (?:specific )?(?:information|mention|answer)"
    r"(?= (?:in|about|on|regarding|of|for|to|that|as to|available|provided|given)\b|[.,;]|$)",
    rf"no (?:specific )?(?:information|answer|mention) (?:\w+ ){{0,6}}?(?:is|was|can be|could be) {_IS_GIVEN}",
    rf"(?:this|that|it|the answer) (?:is not|isn't|cannot be|can't be) {_IS_GIVEN}"
    rf"(?= (?:in|by|from) {_THE_SOURCES}|[.]?$)",
)
_UNKNOWN = re.compile(rf"{_OPENING}(?:{'|'.join(_CLAIMS)})(?!\w)")
_HOWEVER = re.compile(r"\b(?:but|however|although|though|yet)\b|;")


@lru_cache(maxsize=1024)
def says_unknown(text: str) -> bool:
    """Whether an English reply says, all in all, that it does not know. Kept: a conversation asks it at every turn.

    Short, opening with a sentence to that effect, and claiming nothing else from the passages: a reply that gives
    a part of the answer and names what is missing is an answer.
    """
    parts = [" ".join(text[start:end].split()).replace("’", "'").lower() for start, end in sentences(text)]
    parts = [part for part in parts if any(char.isalnum() for char in strip_citations(part))]
    opening = _UNKNOWN.match(parts[0]) if parts else None
    if opening is None or len(parts) > _LONGEST_UNKNOWN:
        return False
    turn = _HOWEVER.search(parts[0], opening.end())
    if turn and cited_numbers(parts[0][turn.end() :]):
        return False
    return not any(cited_numbers(part) for part in parts[1:] if not _UNKNOWN.match(part))
